//! Gated actions on what clients see: the authorization target of each, and its execution with the present draft or
//! with the copy that was approved.

use std::sync::Arc;

use super::authorization::{AuthCheck, judge, missing};
use super::change::Outcome;
use super::command::Op;
use super::ctx::Apply;
use super::releases::Releasable;
use super::scope::{AuthTarget, ResourceScope};
use crate::catalog::Catalog;
use crate::catalog::authorization::Principal;
use crate::catalog::history::Thing;
use crate::model::approval::{ApprovalRequest, GatedAction, MeantRelease, Payload, Snapshot};
use crate::model::config_file::ConfigFile;
use crate::model::grant::{Grants, Verb};
use crate::model::release::ReleaseOp;
use crate::model::rollout::RolloutAction;
use crate::model::rule::Rule;

const WRITE_AND_PUBLISH: &[Verb] = &[Verb::Edit, Verb::Release];

impl Catalog {
    pub(crate) fn target_of_act(&self, act: &GatedAction) -> AuthTarget {
        match act {
            GatedAction::PublishRule(family, draft) => self.target_of_rule_publication(*family, draft),
            GatedAction::PublishFile(draft) | GatedAction::FileRelease(_, draft) => {
                self.target_of_config_release(draft)
            }
            GatedAction::WriteAndPublishFile(publish) => self.target_of_publication(publish),
            GatedAction::RuleRelease(family, _, draft) => self.target_of_rule_release(*family, draft),
            GatedAction::DeleteRule(draft) => self.target_of_rule(Op::Delete, draft),
            GatedAction::DeleteFile(draft) => self.target_of_file(Op::Delete, draft),
        }
    }

    /// Returns the target of a requested action. The effects and scope of a rule are those of the approved copy. A
    /// thing that does not exist is authorized at the scope for which it was requested.
    pub(crate) fn target_of_request(&self, request: &ApprovalRequest, payload: &Payload) -> AuthTarget {
        let mut target = self.target_of_act(&payload.act);
        if let Some(Snapshot::Rule(rule)) = &payload.snapshot {
            target.effects = self.effects([&**rule].into_iter().chain(self.rule_in_force(rule)));
            target = target.to(ResourceScope::of_rule(rule));
        }
        if target.has_no_place() {
            target = target.to(ResourceScope::thing(&request.namespace, request.scope_name()));
        }
        target
    }

    /// Returns the refusal of a requested action for a caller with these grants; `None` if it is permitted.
    pub(crate) fn refuse_payload(&self, grants: &Grants, payload: &Payload, target: &AuthTarget) -> Option<Outcome> {
        let copy = payload.snapshot.as_ref().and_then(Snapshot::file);
        let comes_to_be = copy.is_some_and(|copy| self.configs.file(&copy.key).is_none());
        let verbs = if payload.writes || comes_to_be { WRITE_AND_PUBLISH } else { payload.act.verbs() };
        let check = AuthCheck { principal: &Principal::Cluster, verbs, missing: missing(Op::Update) };
        judge(grants, &check, target)
    }

    /// Returns the releases that an action changes: the one it names, and the one it brings back; for a deletion all
    /// releases that are in force or planned.
    pub(crate) fn releases_meant(&self, act: &GatedAction) -> Vec<MeantRelease> {
        match act {
            GatedAction::RuleRelease(family, op, draft) => {
                let release = self.release_named_by(*family, draft).ok().flatten();
                self.meant(release, draft.to_previous, (*op, draft.action))
            }
            GatedAction::FileRelease(op, draft) => {
                self.meant(self.named_release(draft), draft.to_previous, (*op, draft.action))
            }
            GatedAction::DeleteRule(draft) => {
                let Some(rule) = self.rule_named_by(Op::Delete, draft) else { return Vec::new() };
                taken(self.rules.of(rule.family()).releases_of(&rule.id))
            }
            GatedAction::DeleteFile(draft) => taken(self.configs.releases_of(&draft.key())),
            GatedAction::PublishRule(..) | GatedAction::PublishFile(_) | GatedAction::WriteAndPublishFile(_) => {
                Vec::new()
            }
        }
    }

    fn meant<R: Releasable>(
        &self,
        release: Option<Arc<R>>,
        to_previous: Option<bool>,
        op: (ReleaseOp, Option<RolloutAction>),
    ) -> Vec<MeantRelease> {
        let Some(release) = release else { return Vec::new() };
        let takes_step = op == (ReleaseOp::Rollout, Some(RolloutAction::Advance));
        let earlier = to_previous.unwrap_or_default().then(|| self.earlier_normal(&*release)).flatten();
        let step = release.rollout().filter(|_| takes_step).map_or(0, |rollout| rollout.step);
        let first = MeantRelease { step, ..release.meant() };
        [first].into_iter().chain(earlier.map(|earlier| earlier.meant())).collect()
    }

    /// Returns the thing whose releases an action changes, if it exists.
    pub(crate) fn thing_of(&self, act: &GatedAction) -> Option<Thing> {
        Some(match act {
            GatedAction::PublishFile(draft) | GatedAction::FileRelease(_, draft) => Thing::File(draft.key()),
            GatedAction::WriteAndPublishFile(publish) => Thing::File(publish.file.key()),
            GatedAction::DeleteFile(draft) => Thing::File(draft.key()),
            GatedAction::PublishRule(family, draft) => {
                Thing::Rule(*family, self.rule_to_publish(*family, draft).ok()?.id.clone())
            }
            GatedAction::RuleRelease(family, _, draft) => {
                Thing::Rule(*family, self.release_named_by(*family, draft).ok()??.rule.id.clone())
            }
            GatedAction::DeleteRule(draft) => {
                Thing::Rule(draft.body.family(), self.rule_named_by(Op::Delete, draft)?.id.clone())
            }
        })
    }
}

impl Apply<'_> {
    /// Carries out an action. With a snapshot, it releases the snapshot instead of the present draft.
    pub(crate) fn carry_out(&mut self, act: GatedAction, snapshot: Option<Snapshot>) -> Outcome {
        match (act, snapshot) {
            (GatedAction::PublishRule(family, draft), Some(Snapshot::Rule(rule))) => {
                self.publish_rule_copy(rule, family, &draft)
            }
            (GatedAction::PublishFile(draft), Some(Snapshot::File(copy))) => {
                self.publish_config_copy((copy.file, copy.md5), &draft)
            }
            (GatedAction::PublishRule(family, draft), _) => self.publish_rule(family, &draft),
            (GatedAction::PublishFile(draft), _) => self.publish_config(&draft),
            (GatedAction::WriteAndPublishFile(publish), _) => self.create_and_publish_config(&publish),
            (GatedAction::RuleRelease(family, op, draft), _) => self.change_release(family, op, &draft),
            (GatedAction::FileRelease(op, draft), _) => self.change_config_release(op, &draft),
            (GatedAction::DeleteRule(draft), _) => self.write::<Rule>(Op::Delete, &draft),
            (GatedAction::DeleteFile(draft), _) => self.write::<ConfigFile>(Op::Delete, &draft),
        }
    }
}

/// Returns the releases that clients lose when their thing is deleted.
fn taken<'a, R: Releasable + 'a>(releases: impl Iterator<Item = &'a Arc<R>>) -> Vec<MeantRelease> {
    releases.filter(|release| release.state().is_in_force_or_planned()).map(|release| release.meant()).collect()
}
