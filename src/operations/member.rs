//! A node of a cluster as operations and surfaces use it beyond its applied state: members, health, backups, clients.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;

use crate::catalog::Credential;
use crate::catalog::audit::{AuditEvent, Filter};
use crate::catalog::calls::ListHolder;
use crate::catalog::history::Thing;
use crate::catalog::page::{Listed, Page};
use crate::controllers::credential_watch::Guard;
use crate::controllers::fleet::{self, Fleet};
use crate::controllers::subscribers::{ClusterSubscribers, gather, gather_lists};
use crate::controllers::{Controllers, audit_reader, gauges};
use crate::format::types::NodeId;
use crate::metrics::Metrics;
use crate::model::code::Refusal;
use crate::model::content::Content;
use crate::raft::alarms::Alarm;
use crate::raft::backup::Backup;
use crate::raft::node::{Node, NodeError};
use crate::raft::state::State;
use crate::raft::status::{ChangeError, Check, ClusterStatus};
use crate::raft::{ClockSurvey, MembershipChange};
use crate::subscribers::Subscribers;
use crate::subscribers::client_list::{ClientSearch, PresentClients};
use crate::subscribers::lists::Without;

/// A node with its controllers; cheap to clone.
#[derive(Clone)]
pub struct LocalMember {
    node: Node,
    controllers: Arc<Controllers>,
}

impl LocalMember {
    pub fn new(node: Node, controllers: Arc<Controllers>) -> Self {
        LocalMember { node, controllers }
    }

    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    pub fn id(&self) -> NodeId {
        self.node.id()
    }

    pub fn state(&self) -> &Arc<State> {
        self.node.state()
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        self.node.metrics()
    }

    pub fn controllers(&self) -> &Arc<Controllers> {
        &self.controllers
    }

    /// Clients of this node and the releases that they have.
    pub fn subscribers(&self) -> &Arc<Subscribers> {
        &self.controllers.subscribers
    }

    /// Registers a request that is to be held, see [`crate::controllers::credential_watch`].
    pub fn guard(&self, credential: &Credential) -> Guard {
        self.controllers.credentials.guard(self.state(), credential)
    }

    /// Reports to the leader that instances are alive.
    pub async fn beat(&self, ids: impl IntoIterator<Item = String>) -> Result<(), NodeError> {
        self.controllers.heartbeats.beat(&self.node, ids).await
    }

    /// Brings the gauges of this node up to date.
    pub async fn record_gauges(&self) {
        gauges::record(&self.node, &self.controllers).await;
    }

    /// Returns the checks of readiness.
    pub async fn readiness(&self) -> Vec<Check> {
        self.node.readiness().await
    }

    /// Returns the alarms of the last second.
    pub fn noted_alarms(&self) -> Vec<Alarm> {
        self.node.noted_alarms()
    }

    pub fn is_stopping(&self) -> bool {
        self.node.is_stopping()
    }

    /// Returns the reason why this node serves nothing, if there is one.
    pub fn out_of_service(&self) -> Option<&str> {
        self.node.out_of_service()
    }

    /// Reports whether this node was removed from its cluster.
    pub fn is_removed(&self) -> bool {
        self.node.removed().is_some()
    }

    /// Returns the cluster as this node sees it, with the progress of the members that answer at once.
    pub async fn cluster_survey(&self) -> ClusterStatus {
        self.node.cluster_survey().await
    }

    /// Returns the announced addresses of the members' management API.
    pub fn api_addresses(&self) -> Vec<String> {
        self.node.cluster_status().members.into_iter().map(|member| member.api).collect()
    }

    pub async fn change_membership(&self, change: MembershipChange) -> Result<(), ChangeError> {
        self.node.change_membership(change).await
    }

    /// Writes a snapshot now.
    pub async fn snapshot(&self) -> Result<bool, NodeError> {
        self.node.snapshot().await
    }

    /// Starts a backup of what this node has applied.
    pub async fn backup(&self) -> Result<Backup<impl Stream<Item = io::Result<Bytes>> + Send + use<>>, Refusal> {
        self.node.backup().await
    }

    /// Compares the time of the cluster with the clocks that the members showed a moment ago.
    pub fn survey_clocks(&self) -> ClockSurvey {
        self.node.survey_clocks()
    }

    /// Compares the time of the cluster with the clocks of the members that answer now.
    pub async fn ask_clocks(&self) -> ClockSurvey {
        self.node.ask_clocks().await
    }

    /// Returns a content with its text, which blocks if the text is on disk; `None` if the content was deleted.
    pub fn whole(&self, content: &Content) -> io::Result<Option<Content>> {
        self.node.whole(content)
    }

    /// Returns a page of the audit trail, see [`audit_reader::page_of`]. Blocks.
    pub fn audit_page(&self, filter: &Filter, page: Page) -> io::Result<Option<Listed<AuditEvent>>> {
        audit_reader::page_of(&self.node, filter, page)
    }

    /// Waits until this node has applied everything that any node had before the call; false if that cannot be said
    /// within the limit.
    pub async fn await_horizon(&self, limit: Duration) -> bool {
        self.node.await_horizon(limit).await
    }

    /// Asks all members for the clients that have a release of `thing`.
    pub async fn clients_with(&self, thing: &Thing) -> ClusterSubscribers {
        gather(&self.node, self.subscribers(), thing).await
    }

    /// Asks all members for the clients that have the list of instances of a service.
    pub async fn clients_with_list(
        &self,
        namespace: &str,
        service: &str,
        without: Option<Without>,
    ) -> ClusterSubscribers {
        gather_lists(&self.node, self.subscribers(), (namespace, service), without).await
    }

    /// Asks all members for the clients that have any list of instances; with the members that did not answer.
    pub async fn callers(&self) -> (BTreeSet<ListHolder>, Vec<NodeId>) {
        fleet::callers(&self.node, self.subscribers()).await
    }

    /// Asks all members for their present clients; with the members that did not answer.
    pub async fn present_clients(&self, search: &ClientSearch) -> (PresentClients, Vec<NodeId>) {
        fleet::present(&self.node, self.subscribers(), search).await
    }

    /// Asks all members for their clients of xDS.
    pub async fn xds_clients(&self) -> Fleet {
        fleet::clients(&self.node, self.subscribers()).await
    }

    /// Asks all members for the resources of the clients of xDS with this identity.
    pub async fn xds_resources(&self, node_id: &str) -> Fleet {
        fleet::resources(&self.node, self.subscribers(), node_id).await
    }
}
