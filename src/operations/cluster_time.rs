//! The cluster's time: a report that includes the members' clocks, and its confirmation by an administrator.

use serde::Deserialize;

use super::{Caller, Operations};
use crate::catalog::Command;
use crate::catalog::time::{Doubt, HeldUp, TimeChange};
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::model::time::Present;
use crate::raft::clock::survey::ahead_ms;
use crate::raft::{ClockSurvey, ClockVerdict};

/// The time that an administrator confirms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RightTime {
    /// The present time of the cluster.
    Present,
    /// The time of the clocks of most members.
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
        let node = self.node.member();
        let (survey, view) = (node.survey_clocks(), node.state().view());
        let held_up = view.held_up(Present { stamped: survey.time, sure: survey.sure });
        TimeReport { survey, doubt: view.time.doubt().copied(), held_up }
    }

    /// Ends the doubt about the time, or sets the time to that of most members' clocks. Requires manage on everything.
    pub async fn confirm_time(&self, caller: &Caller, right: RightTime) -> Result<Code, Refusal> {
        caller.check_everywhere(Verb::Manage)?;
        // The clocks are read again: an administrator may have corrected them a moment ago.
        let ClockSurvey { time, verdict, .. } = self.node.member().ask_clocks().await;
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
        tracing::info!(?change, by = caller.name, "cluster time confirmation requested");
        self.ask_one(&caller.name, caller.asks(Command::Time(change))).await
    }
}
