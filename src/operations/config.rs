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
    /// With what keeps each from being published as it is.
    pub async fn config_files(
        &self,
        caller: &Caller,
        op: Op,
        items: Items<ConfigFileDraft>,
    ) -> Result<WithWarnings, Refusal> {
        let (items, faults) = match op {
            Op::Delete => (checked(items, ConfigFileDraft::check_deletion), Vec::new()),
            Op::Create => {
                // What is given, then what comes of it.
                let items = self.fill_files(self.checked_files(items)).await?;
                self.judged_files(caller, items).await?
            }
            Op::Update => self.judged_files(caller, checked(items, refuse_template)).await?,
        };
        Ok((self.write(caller, items, |items| Command::ConfigFiles(op, items)).await?, faults))
    }

    /// Drafts as they are proposed, and what keeps each from being published: told of while they are clear, sealed
    /// then where they are kept so.
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

    /// Publishes files as they stand, if they are well-formed by their format; by `force` also if they are not. No
    /// force gets around a contract that refuses. With the contracts that each breaks all the same.
    pub async fn publish_files(
        &self,
        caller: &Caller,
        items: Items<ConfigReleaseDraft>,
        force: bool,
    ) -> Result<WithWarnings, Refusal> {
        self.publish(caller, checked(items, ConfigReleaseDraft::check), force, Command::ConfigPublish).await
    }

    /// Writes files and publishes them: both or neither.
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

    /// Has something become of releases that are there.
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
