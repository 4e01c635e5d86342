//! Replicated settings.

use super::{Caller, Operations};
use crate::catalog::Command;
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::model::settings::SettingsChange;

impl Operations {
    /// Changes the settings that are given. The retention of the audit trail requires manage on everything, even while
    /// the cluster would accept the change from an operator.
    pub async fn change_settings(&self, caller: &Caller, change: SettingsChange) -> Result<Code, Refusal> {
        if change.is_of_judgement() {
            caller.check_everywhere(Verb::Manage)?;
        }
        self.ask_one(&caller.name, caller.asks(Command::Settings(change))).await
    }
}
