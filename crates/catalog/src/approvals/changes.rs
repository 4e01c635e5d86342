//! Evaluation of actions by the policies in force.
//!
//! An action is evaluated once its caller is authorized. It is carried out, refused with what is missing, or stored as
//! a request. With the last approval it is carried out in the same entry ([`super::decisions`]), by the present rights
//! of its requester. What is released is the approved copy, even if the draft has changed since.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::catalog::access::Holder;
use crate::catalog::authorization::Principal;
use crate::catalog::change::{ChangeSet, Entity, Outcome, PolicyBlock, too_many};
use crate::catalog::configs::md5_of;
use crate::catalog::ctx::Apply;
use crate::catalog::policies::{Requirements, Subject};
use crate::model::approval::{
    ApprovalOptions, ApprovalRequest, FileCopy, GatedAction, Payload, RequestState, Snapshot,
};
use crate::model::code::{Code, Refusal};
use crate::model::config_file::ConfigFile;
use crate::model::grant::Verb;
use crate::model::limits;
use crate::model::policy::{Gate, Place};
use crate::model::release::ReleaseOp;
use crate::model::rollout::RolloutAction;
use crate::model::webhook::HookEvent;

impl Catalog {
    /// Returns the gate and subject of an action; `None` if no policy applies. Policies apply neither to the deletion
    /// of a thing without releases in force, nor to actions on nothing.
    fn gate_of(&self, act: &GatedAction) -> Option<(Gate, Subject)> {
        let gate = self.gate_of_advance(act).or_else(|| act.gate())?;
        if gate == Gate::Delete && self.target_of_act(act).removed_effects.is_none() {
            return None;
        }
        Some((gate, self.subject_of_act(act)?))
    }

    /// Reports whether the set already has an action on the same thing.
    fn is_acted_on(&self, head: &ApprovalRequest, act: &GatedAction) -> bool {
        let Some(thing) = self.thing_of(act) else { return false };
        let set = self.approvals.set_of(head);
        let acts = set.iter().filter_map(|one| one.payload.as_ref().map(|payload| &payload.act));
        acts.filter_map(|act| self.thing_of(act)).any(|other| other == thing)
    }

    pub(super) fn gate_of_advance(&self, act: &GatedAction) -> Option<Gate> {
        match act {
            GatedAction::RuleRelease(family, ReleaseOp::Rollout, draft)
                if draft.action == Some(RolloutAction::Advance) =>
            {
                let release = self.release_named_by(*family, draft).ok()??;
                Some(Catalog::gate_of_next_step(&*release))
            }
            GatedAction::FileRelease(ReleaseOp::Rollout, draft) if draft.action == Some(RolloutAction::Advance) => {
                Some(Catalog::gate_of_next_step(&*self.named_release(draft)?))
            }
            _ => None,
        }
    }
}

impl Apply<'_> {
    /// Carries out an action, or stores a request for it, as the policies in force require.
    pub(crate) fn do_act(&mut self, principal: &Principal, act: GatedAction) -> Outcome {
        let Principal::Holder(holder) = principal else { return self.carry_out(act, None) };
        if self.catalog.policies.is_empty() {
            return self.carry_out(act, None);
        }
        let Some((gate, subject)) = self.catalog.gate_of(&act) else { return self.carry_out(act, None) };
        let demands = self.catalog.policies.demands(Catalog::gates_of(&act, gate), &subject, self.ctx.present());
        if demands == Requirements::default() {
            return self.carry_out(act, None);
        }
        let ApprovalOptions { request, emergency, .. } = act.approval_options();
        if let Some(reason) = emergency {
            let reason = reason.to_owned();
            return self.do_in_emergency(holder, act, (&subject, &demands, &reason));
        }
        let is_asked_for = request.is_some() && demands.approvals > 0;
        if let Some(refused) = refused_in_freeze(&demands).filter(|_| !is_asked_for) {
            return refused;
        }
        match request {
            Some(comment) => {
                let comment = comment.to_owned();
                self.ask_for(holder, act, (gate, &subject, comment))
            }
            None => refused_without_approval(&demands),
        }
    }

    fn do_in_emergency(
        &mut self,
        holder: &Holder,
        act: GatedAction,
        (subject, demands, reason): (&Subject, &Requirements, &str),
    ) -> Outcome {
        let may = |verb: Verb| {
            // The right to release at the services of a rule has been checked already.
            let mut named = subject.places.iter().filter(|place| !matches!(place, Place::End(_))).map(Place::scope);
            named.all(|(namespace, name)| holder.grants.may(verb, namespace, name))
        };
        if !may(Verb::Release) || !may(Verb::Approve) || !demands.may_approve_all(&holder.grants) {
            return refused("an emergency needs release and approve");
        }
        let acting = self.ctx.approved(&self.ctx.by, self.ctx.author.clone());
        let outcome = self.under(&acting).carry_out(act, None);
        self.ctx.draw_after(&acting);
        if outcome.code == Code::ExecuteSuccess
            && let Some(place) = subject.places.first()
        {
            self.emit_emergency(subject.kind, place, reason);
            self.changes.did_in_emergency(place.scope().0, &place.name(), reason);
        }
        outcome
    }

    /// Stores a request for an action that would succeed now.
    fn ask_for(
        &mut self,
        holder: &Holder,
        act: GatedAction,
        (gate, subject, comment): (Gate, &Subject, String),
    ) -> Outcome {
        if let Err(refusal) = self.catalog.approvals.shares.admit(&holder.person) {
            return refusal.into();
        }
        let set = act.approval_options().set.unwrap_or_default().to_owned();
        let head = self.catalog.approvals.waiting_head(holder, &set).cloned();
        if head.as_ref().is_some_and(|head| head.parts as usize + 1 >= limits::REQUEST_SET_ACTS_MAX) {
            return too_many("acts of one request", limits::REQUEST_SET_ACTS_MAX).into();
        }
        // Each action is shown compared with the release in force, so a set can have only one per thing.
        if head.as_ref().is_some_and(|head| self.catalog.is_acted_on(head, &act)) {
            return Refusal::new(Code::DataConflict, "the request has an act on this already").into();
        }
        let mut unkept = ChangeSet::default();
        let tried = Apply { catalog: &mut self.catalog.view(), ctx: &self.ctx.apart(), changes: &mut unkept }
            .carry_out(act.clone(), None);
        if tried.code != Code::ExecuteSuccess {
            if unkept.is_left_out() {
                self.changes.leave_out();
            }
            return tried;
        }
        let (hold, publish_at) = (act.approval_options().hold, act.publish_at());
        let base_version = self.catalog.thing_of(&act).map_or(0, |thing| self.catalog.version_of(&thing));
        let payload = self.payload_of(act, &tried);
        let (mut namespace, mut group, mut name) = <(String, String, String)>::default();
        if let Some(place) = subject.places.first() {
            (namespace, name) = (place.scope().0.to_owned(), place.name());
            group = place.group().to_owned();
        }
        let ends = subject.places.iter().filter_map(|place| match place {
            Place::End(end) => Some(end.clone()),
            Place::File(_) | Place::Rule { .. } => None,
        });
        let request = ApprovalRequest {
            id: self.ctx.draw_id(),
            state: RequestState::Open,
            kind: subject.kind,
            namespace,
            name,
            group,
            ends: ends.collect(),
            act: gate,
            comment,
            hash: payload.hash(),
            base_version,
            publish_at,
            hold,
            approvals: Vec::new(),
            refused_by: String::new(),
            reason: String::new(),
            created: self.ctx.stamp(),
            person: holder.person.clone(),
            author: holder.author.clone(),
            modified: self.ctx.stamp(),
            payload: Some(Box::new(payload)),
            part_of: head.as_ref().map(|head| head.id.clone()).unwrap_or_default(),
            set: if head.is_none() { set } else { String::new() },
            parts: 0,
        };
        match head {
            Some(head) => {
                // Webhooks of the head's own namespace are notified once per set.
                if head.namespace != request.namespace {
                    self.emit_request(HookEvent::Requested, &request);
                }
                let parts = head.parts + 1;
                self.catalog.approvals.put(ApprovalRequest { parts, ..ApprovalRequest::clone(&head) }, self.changes);
            }
            None => self.emit_request(HookEvent::Requested, &request),
        }
        let request = self.catalog.approvals.put(request, self.changes);
        Outcome { entity: Entity::Request(request), ..Code::RequestAccepted.into() }
    }

    /// Returns the action with the copy to be released, or with the releases that it is about. Names are replaced by
    /// ids, so that the request cannot apply to another thing of the same name later.
    fn payload_of(&mut self, act: GatedAction, tried: &Outcome) -> Payload {
        let releases = self.catalog.releases_meant(&act);
        let payload = |act, snapshot| Payload { act, snapshot, writes: false, releases };
        match act {
            GatedAction::PublishRule(family, mut draft) => {
                let rule = self.catalog.rule_to_publish(family, &draft).ok();
                // If the draft names a rule, `id` is the id of the new release.
                draft.id = draft.id.take().filter(|_| draft.names_rule());
                draft.rule_id = rule.as_ref().map(|rule| rule.id.clone());
                (draft.rule_name, draft.namespace) = (None, None);
                payload(GatedAction::PublishRule(family, draft), rule.map(Snapshot::Rule))
            }
            GatedAction::PublishFile(draft) => {
                let file = self.catalog.configs.file(&draft.key()).map(|file| (**file).clone());
                payload(GatedAction::PublishFile(draft), file.map(|file| self.copy_of_file(file)))
            }
            GatedAction::WriteAndPublishFile(publish) => {
                let copy = self.copy_of_file(self.catalog.file_to_publish(&self.ctx.apart(), &publish));
                Payload { writes: true, ..payload(GatedAction::PublishFile(publish.release), Some(copy)) }
            }
            GatedAction::RuleRelease(family, op, mut draft) => {
                if let Ok(Some(release)) = self.catalog.release_named_by(family, &draft) {
                    draft.id = Some(release.id.clone());
                    draft.rule_id = Some(release.rule.id.clone());
                    draft.release_name = Some(release.name.clone());
                    (draft.rule_name, draft.namespace) = (None, None);
                }
                payload(GatedAction::RuleRelease(family, op, draft), None)
            }
            GatedAction::FileRelease(op, mut draft) => {
                if let Some(release) = self.catalog.named_release(&draft) {
                    (draft.id, draft.name) = (Some(release.id), Some(release.name.clone()));
                }
                payload(GatedAction::FileRelease(op, draft), None)
            }
            GatedAction::DeleteRule(mut draft) => {
                if let Entity::Rule(rule) = &tried.entity {
                    draft.head.id = Some(rule.id.clone());
                    (draft.head.name, draft.head.namespace) = (None, None);
                }
                payload(GatedAction::DeleteRule(draft), None)
            }
            act @ GatedAction::DeleteFile(_) => payload(act, None),
        }
    }

    /// Copies a file, with the MD5 and the size of its text.
    fn copy_of_file(&mut self, file: ConfigFile) -> Snapshot {
        let (md5, bytes) = (md5_of(&file.content), file.content.len() as u64);
        let content = self.catalog.configs.keep_content(&file.content, self.changes);
        let file = ConfigFile { content, ..file };
        Snapshot::File(Box::new(FileCopy { file, md5, bytes }))
    }
}

pub(super) fn refused(why: &str) -> Outcome {
    Refusal::new(Code::NotAllowedAccess, why).into()
}

pub(super) fn refused_in_freeze(demands: &Requirements) -> Option<Outcome> {
    if demands.frozen_by.is_empty() {
        return None;
    }
    let comment = if demands.comment.is_empty() { String::new() } else { format!(": {}", demands.comment) };
    let until = demands.frozen_until.map_or_else(
        || ", and no time is known at which none holds".to_owned(),
        |until| format!(" until {}", until.rfc3339()),
    );
    let why = format!("by {}{until}{comment}", demands.frozen_by.join(", "));
    let held = PolicyBlock { policies: demands.frozen_by.clone(), until: demands.frozen_until };
    Some(Outcome { entity: Entity::PolicyBlock(Arc::new(held)), ..Refusal::new(Code::Frozen, why).into() })
}

pub(super) fn refused_without_approval(demands: &Requirements) -> Outcome {
    let (policies, count) = (demands.approved_by.join(", "), demands.approvals);
    let why = match count {
        1 => format!("{policies} asks for 1 approval, send a request"),
        _ => format!("{policies} asks for {count} approvals, send a request"),
    };
    let held = PolicyBlock { policies: demands.approved_by.clone(), until: None };
    Outcome { entity: Entity::PolicyBlock(Arc::new(held)), ..Refusal::new(Code::ApprovalRequired, why).into() }
}
