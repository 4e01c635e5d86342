//! Change that a request would make: the release in force now, and the one that would be in force then.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::model::approval::{ApprovalRequest, GatedAction, Payload, Snapshot};
use crate::model::config_file::{ConfigFile, ConfigKey, ConfigRelease};
use crate::model::release::ReleaseOp;
use crate::model::rollout::RolloutAction;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{Family, Rule};

/// Both sides of a pending request; `None` where clients have no release.
pub enum Pending {
    Rule { now: Option<Box<ReleasedRule>>, then: Option<Box<ReleasedRule>> },
    File { key: ConfigKey, now: Option<Box<ReleasedFile>>, then: Option<Box<ReleasedFile>> },
}

/// A rule as it is or would be released; before the release, the name is empty and the version 0.
#[derive(Clone)]
pub struct ReleasedRule {
    pub release_name: String,
    pub version: u64,
    pub rule: Arc<Rule>,
}

/// A config file as it is or would be released.
#[derive(Clone)]
pub struct ReleasedFile {
    pub release_name: String,
    pub version: u64,
    pub file: ConfigFile,
}

impl From<&RuleRelease> for ReleasedRule {
    fn from(release: &RuleRelease) -> Self {
        let RuleRelease { name, version, rule, .. } = release;
        ReleasedRule { release_name: name.clone(), version: *version, rule: rule.clone() }
    }
}

impl From<&ConfigRelease> for ReleasedFile {
    fn from(release: &ConfigRelease) -> Self {
        let file = ConfigFile {
            key: release.key.clone(),
            content: release.content.clone(),
            format: release.format,
            encrypted: release.encrypted,
            ..ConfigFile::default()
        };
        ReleasedFile { release_name: release.name.clone(), version: release.version, file }
    }
}

impl Catalog {
    /// Returns the change that a request would make; `None` if it would make none any more.
    pub fn pending(&self, request: &ApprovalRequest) -> Option<Pending> {
        let payload = request.payload.as_deref()?;
        // The present thing is not the one that the request is about.
        if !self.means_the_same(payload) {
            return None;
        }
        let Payload { act, snapshot, .. } = payload;
        let unreleased = String::new;
        match (act, snapshot) {
            (GatedAction::PublishRule(family, _), Some(Snapshot::Rule(rule))) => {
                let then = ReleasedRule { release_name: unreleased(), version: 0, rule: rule.clone() };
                Some(Pending::Rule { now: self.rule_now(*family, &rule.id), then: Some(Box::new(then)) })
            }
            (GatedAction::PublishFile(_), Some(Snapshot::File(_))) => {
                let file = snapshot.as_ref().and_then(Snapshot::file)?;
                let then = ReleasedFile { release_name: unreleased(), version: 0, file: ConfigFile::clone(file) };
                Some(Pending::File { key: file.key.clone(), now: self.file_now(&file.key), then: Some(Box::new(then)) })
            }
            (GatedAction::RuleRelease(family, op, draft), _) => {
                let release = self.release_named_by(*family, draft).ok()??;
                let now = self.rule_now(*family, &release.rule.id);
                let (now, then) =
                    sides((*op, draft.action), draft.to_previous, now, Box::new((&*release).into()), || {
                        self.earlier_normal(&*release).map(|earlier| Box::new((&*earlier).into()))
                    });
                Some(Pending::Rule { now, then })
            }
            (GatedAction::FileRelease(op, draft), _) => {
                let (key, release) = (draft.key(), self.named_release(draft)?);
                let (now, then) = sides(
                    (*op, draft.action),
                    draft.to_previous,
                    self.file_now(&key),
                    Box::new((&*release).into()),
                    || self.earlier_normal(&*release).map(|earlier| Box::new((&*earlier).into())),
                );
                Some(Pending::File { key, now, then })
            }
            (GatedAction::DeleteRule(draft), _) => {
                let id = draft.head.given_id()?;
                Some(Pending::Rule { now: self.rule_now(draft.body.family(), id), then: None })
            }
            (GatedAction::DeleteFile(draft), _) => {
                let key = draft.key();
                Some(Pending::File { now: self.file_now(&key), key, then: None })
            }
            (GatedAction::PublishRule(..) | GatedAction::PublishFile(_) | GatedAction::WriteAndPublishFile(_), _) => {
                None
            }
        }
    }

    fn rule_now(&self, family: Family, id: &str) -> Option<Box<ReleasedRule>> {
        self.rules.of(family).active().normal(id).map(|release| Box::new((&**release).into()))
    }

    fn file_now(&self, key: &ConfigKey) -> Option<Box<ReleasedFile>> {
        self.configs.active_release(key).map(|release| Box::new((&**release).into()))
    }
}

/// Returns both sides of an operation on a release. Clients of a stopped gray release get what the others have.
fn sides<T>(
    op: (ReleaseOp, Option<RolloutAction>),
    to_previous: Option<bool>,
    now: Option<Box<T>>,
    release: Box<T>,
    earlier: impl FnOnce() -> Option<Box<T>>,
) -> (Option<Box<T>>, Option<Box<T>>) {
    match op {
        (ReleaseOp::StopGray, _) | (ReleaseOp::Rollout, Some(RolloutAction::Stop)) => (Some(release), now),
        (ReleaseOp::Rollback | ReleaseOp::Promote | ReleaseOp::Rollout | ReleaseOp::Signal, _) => (now, Some(release)),
        (ReleaseOp::Withdraw, _) if to_previous == Some(true) => (now, earlier()),
        (ReleaseOp::Withdraw | ReleaseOp::Delete, _) => (now, None),
    }
}
