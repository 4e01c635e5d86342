//! The node as operations see it: its applied state, the way of commands into the log, and checks of freshness.
//! [`NodeReplica`] is the real one. Tests and fuzzing use a catalog in memory to call the same operations and handlers
//! without a cluster.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::catalog::audit::AuditNote;
use crate::catalog::{AuthorizedCommand, Outcome};
use crate::controllers::{Controllers, RateClass};
use crate::keyring::Keyring;
use crate::metrics::Metrics;
use crate::model::code::Code;
use crate::model::time::Timestamp;
use crate::raft::node::{Node, NodeError};
use crate::raft::state::State;

/// A node or a substitute for it. See the methods of [`Node`] of the same names.
pub trait Replica: Send + Sync {
    /// Returns the node itself, for members, backups, health and held requests. Panics for a substitute.
    fn as_node(&self) -> &Node;
    /// Returns the controllers of the node. Panics for a substitute.
    fn controllers(&self) -> &Arc<Controllers>;

    fn state(&self) -> &Arc<State> {
        self.as_node().state()
    }

    fn metrics(&self) -> &Arc<Metrics> {
        self.as_node().metrics()
    }

    fn keyring(&self) -> &Keyring {
        self.as_node().keyring()
    }

    /// Returns the time of the cluster.
    fn now(&self) -> Timestamp {
        self.as_node().now()
    }

    /// Returns the part of the time that is beyond doubt.
    fn sure_now(&self) -> Timestamp {
        self.as_node().sure_now()
    }

    /// Carries out a command for a caller, and returns one outcome per item. Refusals are recorded in the audit trail,
    /// up to a limit per caller.
    fn ask<'a>(&'a self, by: &'a str, asked: AuthorizedCommand) -> BoxFuture<'a, Result<Vec<Outcome>, NodeError>> {
        let node = self.as_node();
        async move {
            let audit = &self.controllers().audit_buffer;
            let is_told = audit.tells_refusals_of(by);
            let outcomes = node.ask(by, AuthorizedCommand { mutes_refusals: !is_told, ..asked }).await?;
            let refused = outcomes.iter().filter(|outcome| outcome.code == Code::NotAllowedAccess).count();
            if refused > 0 {
                audit.count_refusals(node, by, refused as u64, is_told);
            }
            Ok(outcomes)
        }
        .boxed()
    }

    fn await_linearizable(&self) -> BoxFuture<'_, Result<(), NodeError>> {
        self.as_node().await_linearizable().boxed()
    }

    fn await_news(&self) -> BoxFuture<'_, Result<(), NodeError>> {
        self.as_node().await_news().boxed()
    }

    fn trusts_tokens(&self, limit: Duration) -> bool {
        self.as_node().trusts_tokens(limit)
    }

    fn note(&self, class: RateClass, note: AuditNote) {
        self.controllers().audit_buffer.note(self.as_node(), class, note);
    }
}

/// A node with its controllers.
pub(super) struct NodeReplica {
    pub(super) node: Node,
    pub(super) controllers: Arc<Controllers>,
}

impl Replica for NodeReplica {
    fn as_node(&self) -> &Node {
        &self.node
    }

    fn controllers(&self) -> &Arc<Controllers> {
        &self.controllers
    }
}
