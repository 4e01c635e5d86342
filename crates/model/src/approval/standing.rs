//! Situation of a request for approval: its approvals, and everything that it waits for.

use super::RequestState;
use crate::model::time::Timestamp;

/// Situation of a request together with the acts that are decided with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestStanding {
    pub state: RequestState,
    /// Valid approvals of the request; after its end those that it had.
    pub given: usize,
    /// Approvals that it needs; after its end those that it had.
    pub needed: usize,
    /// Everything that has to happen before it is carried out; empty if it may be carried out now, or has ended.
    pub obstacles: Vec<Obstacle>,
    /// Time of a publication that was carried out as a plan.
    pub planned: Option<Timestamp>,
    /// User who refused it, and the reason of the refusal or failure.
    pub refused_by: String,
    pub reason: String,
}

/// A thing that a pending request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Further approvals; the policies ask for them.
    Approvals { missing: usize, policies: Vec<String> },
    /// Approval by people who may approve for each of the policies.
    Rights { policies: Vec<String> },
    /// Approval of another act that is decided with it.
    OtherAct { act: String },
    /// Acts of its set that were removed.
    Parts,
    /// The end of a freeze, if known.
    Freeze { policies: Vec<String>, until: Option<Timestamp> },
    /// A person who carries it out.
    Hold,
}
