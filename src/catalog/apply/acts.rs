//! Acts on what clients see, one by one: the target of each, and how it is carried out, of what stands now or of the
//! copy that was approved.

use super::authorization::{AuthCheck, judge, missing};
use super::change::{ChangeSet, Outcome};
use super::command::Op;
use super::ctx::Ctx;
use super::scope::AuthTarget;
use crate::catalog::Catalog;
use crate::catalog::authorization::Principal;
use crate::catalog::history::Thing;
use crate::model::approval::{Act, Snapshot};
use crate::model::code::{Code, Refusal};
use crate::model::grant::Grants;

impl Catalog {
    pub(in crate::catalog) fn target_of_act(&self, act: &Act) -> AuthTarget {
        match act {
            Act::PublishRule(family, draft) => self.target_of_rule_publication(*family, draft),
            Act::PublishFile(draft) | Act::FileRelease(_, draft) => self.target_of_config_release(draft),
            Act::WriteAndPublishFile(publish) => self.target_of_publication(publish),
            Act::RuleRelease(family, _, draft) => self.target_of_rule_release(*family, draft),
            Act::DeleteRule(draft) => self.target_of_rule(Op::Delete, draft),
            Act::DeleteFile(draft) => self.target_of_file(Op::Delete, draft),
        }
    }

    /// The same of an act that was asked for: what a rule acts on is judged by the copy.
    pub(in crate::catalog) fn target_of_request(&self, act: &Act, snapshot: Option<&Snapshot>) -> AuthTarget {
        let target = self.target_of_act(act);
        match snapshot {
            Some(Snapshot::Rule(rule)) => {
                let acts = self.effects([&**rule].into_iter().chain(self.rule_in_force(rule)));
                AuthTarget { acts, ..target }
            }
            _ => target,
        }
    }

    /// The reason why somebody with these grants may not do an act.
    pub(in crate::catalog) fn refuse_act(&self, grants: &Grants, act: &Act, target: &AuthTarget) -> Option<Outcome> {
        let check = AuthCheck { principal: &Principal::Cluster, verbs: act.verbs(), missing: missing(Op::Update) };
        judge(grants, &check, target)
    }

    /// The thing whose releases an act is about, if there is one.
    pub(in crate::catalog) fn thing_of(&self, act: &Act) -> Option<Thing> {
        Some(match act {
            Act::PublishFile(draft) | Act::FileRelease(_, draft) => Thing::File(draft.key()),
            Act::WriteAndPublishFile(publish) => Thing::File(publish.file.key()),
            Act::DeleteFile(draft) => Thing::File(draft.key()),
            Act::PublishRule(family, draft) => {
                Thing::Rule(*family, self.rule_to_publish(*family, draft).ok()?.id.clone())
            }
            Act::RuleRelease(family, _, draft) => {
                Thing::Rule(*family, self.release_named_by(*family, draft).ok()??.rule.id.clone())
            }
            Act::DeleteRule(draft) => {
                Thing::Rule(draft.body.family(), self.rule_named_by(Op::Delete, draft)?.id.clone())
            }
        })
    }

    /// Does an act. With a copy of what it releases it is that which is released, whatever the draft is.
    pub(in crate::catalog) fn carry_out(
        &mut self,
        ctx: &Ctx,
        act: Act,
        snapshot: Option<Snapshot>,
        changes: &mut ChangeSet,
    ) -> Outcome {
        match (act, snapshot) {
            (Act::PublishRule(family, draft), Some(Snapshot::Rule(rule))) => {
                self.publish_rule_copy(ctx, rule, family, &draft, changes)
            }
            (Act::PublishFile(draft), Some(Snapshot::FileCopy(copy))) => {
                self.publish_config_copy(ctx, (copy.file, copy.md5), &draft, changes)
            }
            (Act::PublishFile(_), Some(Snapshot::File(_))) => {
                Refusal::new(Code::DataConflict, "the MD5 of what was approved is not known, ask again").into()
            }
            (Act::PublishRule(family, draft), _) => self.publish_rule(ctx, family, &draft, changes),
            (Act::PublishFile(draft), _) => self.publish_config(ctx, &draft, changes),
            (Act::WriteAndPublishFile(publish), _) => self.create_and_publish_config(ctx, &publish, changes),
            (Act::RuleRelease(family, op, draft), _) => self.change_release(ctx, family, op, &draft, changes),
            (Act::FileRelease(op, draft), _) => self.change_config_release(ctx, op, &draft, changes),
            (Act::DeleteRule(draft), _) => self.write_rule(ctx, Op::Delete, &draft, changes),
            (Act::DeleteFile(draft), _) => self.write_config_file(ctx, Op::Delete, &draft, changes),
        }
    }
}
