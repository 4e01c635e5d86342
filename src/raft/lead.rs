//! Leadership as the leader's own duties need it: a proof that this node leads in a term, and proposals made in that
//! term.

use std::time::Duration;

use parking_lot::RwLockReadGuard;
use tokio::time::timeout;

use super::leading::{self, ProposeOutcome};
use super::node::Node;
use crate::catalog::{Catalog, Command};
use crate::model::code::Refusal;

/// Time limit of a leader's own proposal before it is left to the next look.
const COMMIT_WITHIN: Duration = Duration::from_secs(5);

/// Proof that this node led in a term. Another node may lead by now; then nothing of this one is appended any more.
#[derive(Clone)]
pub struct Lead {
    node: Node,
    term: u64,
}

/// Reason why a proposal is not known to be committed; it is logged already.
#[derive(Debug)]
pub enum NotCommitted {
    Refused(Refusal),
    Failed,
}

impl Node {
    /// The lead of this node; `None` if another node may lead.
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

    /// True if no other node can lead at this moment.
    pub fn holds(&self) -> bool {
        self.node.leading_term() == Some(self.term)
    }

    pub fn catalog(&self) -> RwLockReadGuard<'_, Catalog> {
        self.node.state().catalog()
    }

    /// Proposes in this term, or not at all. `subject` names the change in the log.
    pub async fn propose(&self, subject: &str, command: Command) -> Result<(), NotCommitted> {
        match timeout(COMMIT_WITHIN, leading::propose_in_term(&self.node, self.term, command)).await {
            Ok(ProposeOutcome::Done { .. }) => return Ok(()),
            // Left to the next leader.
            Ok(ProposeOutcome::NotLeader) => {}
            // For want of room: that is logged elsewhere, and this would be logged again and again.
            Ok(ProposeOutcome::Refused(refusal)) => {
                tracing::debug!(subject, ?refusal, "a proposal of the leader is refused");
                return Err(NotCommitted::Refused(refusal));
            }
            Ok(other) => tracing::warn!(subject, ?other, "a proposal of the leader failed"),
            Err(_) => tracing::warn!(subject, "a proposal of the leader was not committed within {COMMIT_WITHIN:?}"),
        }
        Err(NotCommitted::Failed)
    }
}
