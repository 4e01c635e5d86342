//! Leadership as a capability of the leader's controllers: proof that this node leads in a term, and proposals in that
//! term.

use std::time::Duration;

use parking_lot::RwLockReadGuard;
use tokio::time::timeout;

use super::leading::{self, ProposeOutcome};
use super::node::Node;
use crate::catalog::{Catalog, Command};
use crate::model::code::Refusal;

/// Time limit of the leader's own proposals; the controller retries at its next run.
const COMMIT_WITHIN: Duration = Duration::from_secs(5);

/// Proof that this node led in a term. If another node leads by now, proposals through it are not appended.
#[derive(Clone)]
pub struct Lead {
    node: Node,
    term: u64,
}

/// Reason why a proposal is not known to be committed. It has been logged.
#[derive(Debug)]
pub enum NotCommitted {
    Refused(Refusal),
    Failed,
}

impl Node {
    /// Returns the lead of this node; `None` if another node may lead.
    pub fn lead(&self) -> Option<Lead> {
        self.leading_term().map(|term| Lead { node: self.clone(), term })
    }
}

impl Lead {
    pub fn node(&self) -> &Node {
        &self.node
    }

    pub fn term(&self) -> u64 {
        self.term
    }

    /// Reports whether no other node can lead at this moment.
    pub fn holds(&self) -> bool {
        self.node.leading_term() == Some(self.term)
    }

    pub fn catalog(&self) -> RwLockReadGuard<'_, Catalog> {
        self.node.state().catalog()
    }

    /// Proposes in this term or not at all. `subject` names the change in log lines.
    pub async fn propose(&self, subject: &str, command: Command) -> Result<(), NotCommitted> {
        match timeout(COMMIT_WITHIN, leading::propose_in_term(&self.node, self.term, command)).await {
            Ok(ProposeOutcome::Done { .. }) => return Ok(()),
            // The next leader does it.
            Ok(ProposeOutcome::NotLeader) => {}
            // For lack of room, which is logged elsewhere; here it would be logged repeatedly.
            Ok(ProposeOutcome::Refused(refusal)) => {
                tracing::debug!(subject, ?refusal, "a change by the leader is refused");
                return Err(NotCommitted::Refused(refusal));
            }
            Ok(other) => tracing::warn!(subject, ?other, "a change by the leader failed"),
            Err(_) => tracing::warn!(subject, "a change by the leader was not committed within {COMMIT_WITHIN:?}"),
        }
        Err(NotCommitted::Failed)
    }
}
