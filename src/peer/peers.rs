//! The peers of this node: one [`Link`] each, shared by consensus, forwarding and queries.
//!
//! A link lives as long as it is referenced: by the membership ([`Peers::set_members`]) or by a client that openraft
//! holds, which knows a new member before the membership is applied here.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::CallError;
use super::credentials::Credentials;
use super::dedicated::DedicatedConnection;
use super::handshake::{IntroduceError, Purpose, dial_as};
use super::hello::{Build, Introductions, Welcome};
use super::limits::CALL_BYTES_SHARED_MAX;
use super::link::Link;
use super::messages::{ExtensionCall, ForwardAnswer, Kind, PeerProgress, ReadIndexAnswer};
use super::transfers::Transfers;
use crate::format::codec;
use crate::format::types::NodeId;
use crate::metrics::Metrics;

/// Properties of this node that every dialled connection needs.
pub(super) struct Local {
    pub(super) node_id: NodeId,
    pub(super) credentials: Credentials,
    pub(super) introductions: Arc<dyn Introductions>,
    pub(super) metrics: Arc<Metrics>,
}

/// The links to all peers. Cheap to clone.
#[derive(Clone)]
pub struct Peers {
    pub(super) local: Arc<Local>,
    pub(super) transfers: Transfers,
    alone: DedicatedConnection,
    links: Arc<Mutex<Links>>,
}

#[derive(Default)]
struct Links {
    /// Links of the members.
    members: BTreeMap<NodeId, Arc<Link>>,
    /// All live links.
    known: BTreeMap<NodeId, Weak<Link>>,
}

impl Peers {
    pub fn new(
        node_id: NodeId,
        credentials: Credentials,
        introductions: Arc<dyn Introductions>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let local = Arc::new(Local { node_id, credentials, introductions, metrics });
        Peers { local, transfers: Transfers::default(), alone: DedicatedConnection::default(), links: Arc::default() }
    }

    /// Maintains a link to each of `members` except this node, and to no other. A changed address is dialled at once.
    /// Must be called within the async runtime.
    pub fn set_members(&self, members: &BTreeMap<NodeId, String>) {
        let others = members.iter().filter(|(id, _)| **id != self.local.node_id);
        let wanted: BTreeMap<_, _> = others.map(|(id, address)| (*id, self.link(*id, address))).collect();
        let mut links = self.links.lock();
        for gone in links.members.keys().filter(|id| !wanted.contains_key(id)) {
            let label = [&*gone.to_string()];
            // Fails only for a series that does not exist yet.
            let _ = self.local.metrics.peer_reachable.remove_label_values(&label);
            let _ = self.local.metrics.peer_round_trip.remove_label_values(&label);
            let _ = self.local.metrics.peer_append_failures.remove_label_values(&label);
        }
        links.members = wanted;
        links.known.retain(|_, link| link.strong_count() > 0);
    }

    /// Updates the gauge of reachable peers, before it is read.
    pub(crate) fn record_reachability(&self) {
        self.links.lock().members.values().for_each(|link| link.publish(&self.local));
    }

    /// Returns the link to `target`, which is started if necessary, and moves it to `address`. There is one link per
    /// peer, so this affects all its users.
    pub(super) fn link(&self, target: NodeId, address: &str) -> Arc<Link> {
        let mut links = self.links.lock();
        if let Some(link) = links.known.get(&target).and_then(Weak::upgrade) {
            link.move_to(address);
            return link;
        }
        let link = Arc::new(Link::start(self.local.clone(), target, address.into()));
        links.known.insert(target, Arc::downgrade(&link));
        link
    }

    fn find(&self, target: NodeId) -> Result<Arc<Link>, CallError> {
        let link = self.links.lock().known.get(&target).and_then(Weak::upgrade);
        link.ok_or_else(|| CallError::NotSent(format!("node {target} is not a member")))
    }

    /// Reports whether a pong came from `target` within [`super::REACHABLE_WITHIN`].
    pub fn reachable(&self, target: NodeId) -> bool {
        self.find(target).is_ok_and(|link| link.is_reachable())
    }

    /// Returns the reason why `target` is not reached; `None` while it answers.
    pub fn problem(&self, target: NodeId) -> Option<String> {
        self.find(target).ok()?.problem()
    }

    /// Returns the build of `target`, as reported on the open connection.
    pub fn build(&self, target: NodeId) -> Option<Build> {
        self.find(target).ok()?.build()
    }

    /// Reports whether this node is sending a snapshot to a peer, or did within the last `period`.
    pub fn sent_snapshot_within(&self, period: Duration) -> bool {
        self.transfers.were_within(period)
    }

    /// Forwards `command` to `leader`, which proposes it. One attempt and one hop: the receiver proposes it or returns
    /// the leader, and never forwards it again. After [`CallError::Unknown`] or [`ForwardAnswer::Unknown`] the caller
    /// decides whether to repeat, since it knows whether a repetition is recognised.
    pub async fn forward(&self, leader: NodeId, command: Bytes, within: Duration) -> Result<ForwardAnswer, CallError> {
        let link = self.find(leader)?;
        self.local.metrics.forwards.inc();
        if command.len() <= CALL_BYTES_SHARED_MAX {
            return read(&link.call(Kind::Forward, command, within).await?);
        }
        // Boxed: it is rare, and would make the future of every forward as large otherwise.
        read(&Box::pin(self.alone.call(self.local.clone(), &link, command, within)).await?)
    }

    /// Returns the round trip to `target` by its last pings.
    pub fn round_trip(&self, target: NodeId) -> Option<Duration> {
        self.find(target).ok()?.round_trip()
    }

    /// Ends the append session to `target`.
    pub fn cut_appends(&self, target: NodeId) {
        if let Ok(link) = self.find(target) {
            link.cut_appends();
        }
    }

    /// Reports whether a snapshot is being sent to `target`.
    pub fn is_sent_snapshot(&self, target: NodeId) -> bool {
        self.transfers.is_under_way_to(target)
    }

    /// Asks `leader` for the index that a linearizable read has to wait for.
    pub async fn read_index(&self, leader: NodeId, within: Duration) -> Result<ReadIndexAnswer, CallError> {
        read(&self.find(leader)?.call(Kind::ReadIndex, Bytes::new(), within).await?)
    }

    /// Performs one handshake with `target` at `address` and closes; each of the two decides on the other by its rules.
    pub async fn meet(&self, target: NodeId, address: &str) -> Result<Welcome, IntroduceError> {
        let Local { introductions, credentials, .. } = &*self.local;
        let met = dial_as(&**introductions, credentials, address, target, Purpose::Control).await;
        met.map(|(_, welcome)| welcome)
    }

    /// Asks `target` for its progress.
    pub async fn progress(&self, target: NodeId, within: Duration) -> Result<PeerProgress, CallError> {
        read(&self.find(target)?.call(Kind::Progress, Bytes::new(), within).await?)
    }

    /// Asks `target` whether it has the row of the level that exists in tests.
    #[cfg(feature = "next-level")]
    pub async fn has_next_level(&self, target: NodeId, within: Duration) -> Result<bool, CallError> {
        read(&self.find(target)?.call(Kind::NextLevel, Bytes::new(), within).await?)
    }

    /// Asks the room above consensus on `target`. A node of a version that does not know the question refuses it.
    pub async fn extension<Q: Serialize + ?Sized, A: DeserializeOwned>(
        &self,
        target: NodeId,
        call: ExtensionCall,
        question: &Q,
        within: Duration,
    ) -> Result<A, CallError> {
        read(&self.find(target)?.call(call.kind(), codec::to_bytes(question).into(), within).await?)
    }
}

fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<T, CallError> {
    codec::from_bytes(answer).map_err(|error| CallError::Unknown(format!("an answer that cannot be read: {error}")))
}
