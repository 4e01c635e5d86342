//! The node as operations see it: its applied state, the way of commands into the log, and checks of freshness.
//! [`LocalMember`] is the real one. Tests and fuzzing use a catalog in memory to call the same operations and handlers
//! without a cluster.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::member::LocalMember;
use crate::catalog::audit::AuditNote;
use crate::catalog::{AuthorizedCommand, Outcome};
use crate::controllers::{Controllers, RateClass};
use crate::keyring::Keyring;
use crate::metrics::Metrics;
use crate::model::code::Code;
use crate::model::time::Timestamp;
use crate::raft::node::NodeError;
use crate::raft::state::State;

/// A node or a substitute for it. See the methods of the node of the same names.
pub trait Replica: Send + Sync {
    /// Returns the node itself, for members, backups, health and held requests. Panics for a substitute.
    fn member(&self) -> &LocalMember;

    /// Returns the controllers of the node. Panics for a substitute.
    fn controllers(&self) -> &Arc<Controllers> {
        self.member().controllers()
    }

    fn state(&self) -> &Arc<State> {
        self.member().state()
    }

    fn metrics(&self) -> &Arc<Metrics> {
        self.member().metrics()
    }

    fn keyring(&self) -> &Keyring {
        &self.controllers().keyring
    }

    /// Returns the time of the cluster.
    fn now(&self) -> Timestamp {
        self.state().now()
    }

    /// Returns the part of the time that is beyond doubt.
    fn sure_now(&self) -> Timestamp {
        self.state().sure_now()
    }

    /// Carries out a command for a caller, and returns one outcome per item. Refusals are recorded in the audit trail,
    /// up to a limit per caller.
    fn ask<'a>(&'a self, by: &'a str, asked: AuthorizedCommand) -> BoxFuture<'a, Result<Vec<Outcome>, NodeError>> {
        let node = self.member().node();
        async move {
            let audit = &self.controllers().audit_buffer;
            let is_told = audit.may_record_refusals_of(by);
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
        self.member().node().await_linearizable().boxed()
    }

    fn await_news(&self) -> BoxFuture<'_, Result<(), NodeError>> {
        self.member().node().await_news().boxed()
    }

    fn trusts_tokens(&self, limit: Duration) -> bool {
        self.member().node().trusts_tokens(limit)
    }

    fn note(&self, class: RateClass, note: AuditNote) {
        self.controllers().audit_buffer.note(self.member().node(), class, note);
    }
}

impl Replica for LocalMember {
    fn member(&self) -> &LocalMember {
        self
    }
}
