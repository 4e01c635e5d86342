//! The time of the cluster: a report of it with the members' clocks, and its confirmation by an administrator.

use serde::Deserialize;

use super::{Caller, Operations};
use crate::catalog::Command;
use crate::catalog::time::{Doubt, HeldUp, TimeChange};
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::model::time::Present;
use crate::raft::clock::survey::ahead_ms;
use crate::raft::{ClockSurvey, ClockVerdict};

/// Time that an administrator declares right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RightTime {
    /// The cluster's own.
    Present,
    /// The time of most members' clocks.
    Clocks,
}

/// The time of the cluster as this node sees it.
pub struct TimeReport {
    pub survey: ClockSurvey,
    pub doubt: Option<Doubt>,
    pub held_up: HeldUp,
}

impl Operations {
    pub fn cluster_time(&self) -> TimeReport {
        let node = self.node.as_node();
        let (survey, view) = (node.survey_clocks(), node.state().view());
        let held_up = view.held_up(Present { stamped: survey.time, sure: survey.sure });
        TimeReport { survey, doubt: view.time.doubt().copied(), held_up }
    }

    /// Ends a doubt of the time, or sets it to that of most members' clocks. For who manages everything.
    pub async fn confirm_time(&self, caller: &Caller, right: RightTime) -> Result<Code, Refusal> {
        caller.check_everywhere(Verb::Manage)?;
        // An administrator has put clocks right the moment before: what they showed then must not become the time.
        let ClockSurvey { time, verdict, .. } = self.node.as_node().ask_clocks().await;
        let (doubt, epoch) = {
            let catalog = self.node.state().catalog();
            (catalog.time.doubt().copied(), catalog.time.epoch())
        };
        let change = match (right, verdict, doubt) {
            (RightTime::Clocks, ClockVerdict::Unclear, _) => {
                let text = "most members' clocks do not show one time, or are not known: set them right first";
                return Err(Refusal::new(Code::BadRequest, text));
            }
            (RightTime::Clocks, ClockVerdict::Elsewhere(shown), _) => {
                TimeChange::Set { shift_ms: ahead_ms(shown, time), epoch }
            }
            (RightTime::Present, _, Some(doubt)) | (RightTime::Clocks, ClockVerdict::Agree, Some(doubt)) => {
                TimeChange::Confirm { doubt: doubt.index }
            }
            (RightTime::Present, _, None) | (RightTime::Clocks, ClockVerdict::Agree, None) => {
                return Ok(Code::NoNeedUpdate);
            }
        };
        tracing::info!(?change, by = caller.name, "the time of the cluster is confirmed");
        self.ask_one(&caller.name, caller.asks(Command::Time(change))).await
    }
}
