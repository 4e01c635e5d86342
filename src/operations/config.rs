//! Config files and their releases.

use super::sealing::refuse_template;
use super::write::checked;
use super::{Caller, Items, Operations, WithWarnings};
use crate::catalog::{Command, Op, Outcome};
use crate::model::act_words::SentFor;
use crate::model::code::Refusal;
use crate::model::config_file::{ConfigFileDraft, ConfigPublish, ConfigReleaseDraft};
use crate::model::release::ReleaseOp;

impl Operations {
    /// Writes config files. Returns for each the faults that would prevent its publication.
    pub async fn config_files(
        &self,
        caller: &Caller,
        op: Op,
        items: Items<ConfigFileDraft>,
    ) -> Result<WithWarnings, Refusal> {
        let (items, faults) = match op {
            Op::Delete => (checked(items, ConfigFileDraft::check_deletion), Vec::new()),
            Op::Create => {
                // Check what is given first, then fill in templates and check the result.
                let items = self.fill_files(self.checked_files(items)).await?;
                self.judged_files(caller, items).await?
            }
            Op::Update => self.judged_files(caller, checked(items, refuse_template)).await?,
        };
        Ok((self.write(caller, items, |items| Command::ConfigFiles(op, items)).await?, faults))
    }

    /// Validates drafts and then seals those to be encrypted. Returns the drafts to propose, and the faults of each.
    pub async fn judged_files(
        &self,
        caller: &Caller,
        items: Items<ConfigFileDraft>,
    ) -> Result<(Items<ConfigFileDraft>, Vec<Vec<String>>), Refusal> {
        let (items, faults) = self.faults(caller, self.checked_files(items)).await?;
        Ok((self.seal_files(caller, items).await?, faults))
    }

    fn checked_files(&self, items: Items<ConfigFileDraft>) -> Items<ConfigFileDraft> {
        checked(items, |draft| {
            SentFor::Save.check(draft)?;
            draft.check(self.bounds.config_content_chars_max)
        })
    }

    /// Publishes the drafts of files that are well-formed; with `force`, also those that are not. A contract in mode
    /// refuse cannot be overridden. Returns the warnings of contracts for each file.
    pub async fn publish_files(
        &self,
        caller: &Caller,
        items: Items<ConfigReleaseDraft>,
        force: bool,
    ) -> Result<WithWarnings, Refusal> {
        self.publish(caller, checked(items, ConfigReleaseDraft::check), force, Command::ConfigPublish).await
    }

    /// Writes and publishes files. Each item is done as a whole or not at all.
    pub async fn create_and_publish_files(
        &self,
        caller: &Caller,
        items: Items<ConfigPublish>,
        force: bool,
    ) -> Result<WithWarnings, Refusal> {
        let chars_max = self.bounds.config_content_chars_max;
        let check = |publish: &ConfigPublish| publish.file.check(chars_max).and_then(|()| publish.release.check());
        self.publish(caller, checked(items, check), force, Command::ConfigCreateAndPublish).await
    }

    /// Promotes, stops, rolls back or deletes existing releases, or changes their rollouts.
    pub async fn change_config_releases(
        &self,
        caller: &Caller,
        op: ReleaseOp,
        items: Items<ConfigReleaseDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let items = checked(items, |draft| draft.check_named(op));
        if matches!(op, ReleaseOp::Promote | ReleaseOp::Rollout) {
            return self.promote_kept_files(caller, op, items).await;
        }
        let command = |items| match op {
            ReleaseOp::StopGray => Command::ConfigStopGray(items),
            ReleaseOp::Rollback => Command::ConfigRollback(items),
            ReleaseOp::Delete => Command::ConfigDeleteReleases(items),
            op => Command::ConfigReleases(op, items),
        };
        self.write(caller, items, command).await
    }
}
