//! Judgement of acts by the policies in force, and what becomes of the requests that they are asked for by.
//!
//! An act comes here once its caller is known to have the right to it. It is done, refused with what is missing, or
//! kept as a request; one with its last approval is carried out in the same entry, by the rights that its requester has
//! then. Whatever the draft is by that time, what is released is the copy that was approved.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::catalog::access::Holder;
use crate::catalog::authorization::Principal;
use crate::catalog::change::{ChangeSet, Entity, HeldBack, Outcome};
use crate::catalog::ctx::Ctx;
use crate::catalog::policies::{Demands, Subject};
use crate::model::approval::{
    Act, ApprovalRequest, GivenApproval, Payload, Plea, RequestDraft, RequestOp, RequestState, Snapshot,
};
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigFile, ConfigReleaseDraft};
use crate::model::grant::Verb;
use crate::model::limits;
use crate::model::policy::{Gate, PolicyKind};
use crate::model::release::ReleaseOp;
use crate::model::rollout::RolloutAction;
use crate::model::time::Timestamp;
use crate::model::webhook::HookEvent;
use crate::model::wire::Words;

/// Requests that expire with one entry.
const EXPIRED_AT_ONCE: usize = 100;

impl Catalog {
    /// Does an act, or asks for it, as the policies in force say.
    pub(in crate::catalog) fn do_act(
        &mut self,
        ctx: &Ctx,
        principal: &Principal,
        act: Act,
        changes: &mut ChangeSet,
    ) -> Outcome {
        let Principal::Holder(holder) = principal else { return self.carry_out(ctx, act, None, changes) };
        if self.policies.is_empty() {
            return self.carry_out(ctx, act, None, changes);
        }
        let Some((gate, subject)) = self.gate_of(&act) else { return self.carry_out(ctx, act, None, changes) };
        let demands = self.policies.demands(gate, &subject, ctx.time);
        if demands == Demands::default() {
            return self.carry_out(ctx, act, None, changes);
        }
        let Plea { request, emergency, .. } = act.plea();
        if let Some(reason) = emergency {
            let reason = reason.to_owned();
            return self.do_in_emergency(ctx, holder, act, (&subject, &reason), changes);
        }
        let is_asked_for = request.is_some() && demands.approvals > 0;
        if let Some(refused) = refused_in_freeze(&demands).filter(|_| !is_asked_for) {
            return refused;
        }
        match request {
            Some(comment) => {
                let comment = comment.to_owned();
                self.ask_for(ctx, act, (gate, &subject), comment, changes)
            }
            None => refused_without_approval(&demands),
        }
    }

    /// Gate and thing of an act; `None` for one that no policy is about. The deletion of a thing of which nothing is in
    /// force is none, nor is an act on nothing.
    fn gate_of(&self, act: &Act) -> Option<(Gate, Subject)> {
        let gate = self.gate_of_advance(act).or_else(|| act.gate())?;
        let target = self.target_of_act(act);
        if gate == Gate::Delete && target.takes.is_none() || target.name.is_empty() {
            return None;
        }
        let places = [(target.namespace, target.name)]
            .into_iter()
            .chain(self.thing_of(act).and_then(|thing| self.released_as(thing)));
        Some((gate, Subject { kind: act.kind(), places: places.collect() }))
    }

    fn gate_of_advance(&self, act: &Act) -> Option<Gate> {
        match act {
            Act::RuleRelease(family, ReleaseOp::Rollout, draft) if draft.action == Some(RolloutAction::Advance) => {
                let release = self.release_named_by(*family, draft).ok()??;
                Some(Catalog::gate_of_next_step(&*release))
            }
            Act::FileRelease(ReleaseOp::Rollout, draft) if draft.action == Some(RolloutAction::Advance) => {
                Some(Catalog::gate_of_next_step(&*self.named_release(draft)?))
            }
            _ => None,
        }
    }

    fn do_in_emergency(
        &mut self,
        ctx: &Ctx,
        holder: &Holder,
        act: Act,
        (subject, reason): (&Subject, &str),
        changes: &mut ChangeSet,
    ) -> Outcome {
        let may = |verb: Verb| {
            let mut places = subject.places.iter();
            places.all(|(namespace, name)| holder.grants.may(verb, namespace, scope_name(subject.kind, name)))
        };
        if !may(Verb::Release) || !may(Verb::Approve) {
            return refused("an emergency needs release and approve");
        }
        let acting = ctx.approved(&ctx.by);
        let outcome = self.carry_out(&acting, act, None, changes);
        ctx.draw_after(&acting);
        if outcome.code == Code::ExecuteSuccess
            && let Some((namespace, name)) = subject.places.first()
        {
            self.tell_of_emergency(ctx, (subject.kind, namespace, name), reason, changes);
            changes.did_in_emergency(namespace, name, reason);
        }
        outcome
    }

    /// Keeps a request for an act that would succeed now.
    fn ask_for(
        &mut self,
        ctx: &Ctx,
        act: Act,
        (gate, subject): (Gate, &Subject),
        comment: String,
        changes: &mut ChangeSet,
    ) -> Outcome {
        if self.approvals.pending_count() >= limits::REQUESTS_PENDING_MAX {
            let most = limits::REQUESTS_PENDING_MAX;
            return changes.too_many("requests for approval that wait", most, Code::TooMany).into();
        }
        let mut unkept = ChangeSet::at(changes.level());
        let tried = self.view().carry_out(&ctx.apart(), act.clone(), None, &mut unkept);
        if tried.code != Code::ExecuteSuccess {
            if unkept.is_left_out() {
                changes.leave_out();
            }
            return tried;
        }
        let (hold, publish_at) = (act.plea().hold, act.publish_at());
        let base_version = self.thing_of(&act).map_or(0, |thing| self.version_of(&thing));
        let payload = self.payload_of(ctx, act, &tried, changes);
        let (namespace, name) = subject.places.first().cloned().unwrap_or_default();
        let request = ApprovalRequest {
            id: ctx.draw_id(),
            state: RequestState::Open,
            kind: subject.kind,
            namespace,
            name,
            act: gate,
            comment,
            hash: payload.hash(),
            base_version,
            publish_at,
            hold,
            approvals: Vec::new(),
            refused_by: String::new(),
            reason: String::new(),
            created: ctx.stamp(),
            modified: ctx.stamp(),
            payload: Some(Box::new(payload)),
        };
        self.tell_of_request(ctx, HookEvent::Requested, &request, changes);
        let request = self.approvals.put(request, changes);
        Outcome { entity: Entity::Request(request), ..Code::RequestAccepted.into() }
    }

    /// The act with the copy of what it would release. Names become ids, so that another thing of the same name is not
    /// meant later.
    fn payload_of(&mut self, ctx: &Ctx, act: Act, tried: &Outcome, changes: &mut ChangeSet) -> Payload {
        match act {
            Act::PublishRule(family, mut draft) => {
                let rule = self.rule_to_publish(family, &draft).ok();
                draft.rule_id = rule.as_ref().map(|rule| rule.id.clone());
                draft.id = None;
                Payload { act: Act::PublishRule(family, draft), snapshot: rule.map(Snapshot::Rule) }
            }
            Act::PublishFile(draft) => {
                let file = self.configs.file(&draft.key()).map(|file| (**file).clone());
                self.payload_of_file(draft, file, changes)
            }
            Act::WriteAndPublishFile(publish) => {
                let file = self.file_to_publish(&ctx.apart(), &publish);
                self.payload_of_file(publish.release, Some(file), changes)
            }
            Act::RuleRelease(family, op, mut draft) => {
                // A promotion makes another release than the one that it names.
                if let Ok(Some(release)) = self.release_named_by(family, &draft) {
                    draft.rule_id = Some(release.rule.id.clone());
                    draft.release_name = Some(release.name.clone());
                    draft.id = None;
                }
                Payload { act: Act::RuleRelease(family, op, draft), snapshot: None }
            }
            Act::DeleteRule(mut draft) => {
                if let Entity::Rule(rule) = &tried.entity {
                    draft.head.id = Some(rule.id.clone());
                }
                Payload { act: Act::DeleteRule(draft), snapshot: None }
            }
            act @ (Act::FileRelease(..) | Act::DeleteFile(_)) => Payload { act, snapshot: None },
        }
    }

    fn payload_of_file(
        &mut self,
        draft: ConfigReleaseDraft,
        file: Option<ConfigFile>,
        changes: &mut ChangeSet,
    ) -> Payload {
        let snapshot = file.map(|file| {
            let content = self.configs.keep_content(&file.content, changes);
            Snapshot::File(Box::new(ConfigFile { content, ..file }))
        });
        Payload { act: Act::PublishFile(draft), snapshot }
    }

    /// Approves, refuses, withdraws or runs a request.
    pub(in crate::catalog) fn change_request(
        &mut self,
        ctx: &Ctx,
        principal: &Principal,
        op: RequestOp,
        draft: &RequestDraft,
        changes: &mut ChangeSet,
    ) -> Outcome {
        let Some(request) = self.approvals.get(&draft.id).cloned() else { return no_such_request() };
        let Principal::Holder(holder) = principal else { return Code::NotAllowedAccess.into() };
        let may = |verb: Verb| holder.grants.may(verb, &request.namespace, request.scope_name());
        let is_own = self.person(&holder.name) == self.person(&request.created.by);
        if op == RequestOp::Withdraw && !is_own && !may(Verb::Manage) {
            return if may(Verb::Read) {
                refused("only the requester withdraws it, or manage")
            } else {
                no_such_request()
            };
        }
        if op == RequestOp::Run && !self.may_do(holder, &request) {
            return if may(Verb::Read) { refused("this needs the right to the act itself") } else { no_such_request() };
        }
        if !request.state.is_pending() {
            let why = format!("the request is {}", request.state.word());
            return Outcome { entity: Entity::Request(request), ..Refusal::new(Code::DataConflict, why).into() };
        }
        let comment = draft.comment.clone().unwrap_or_default();
        let mut changed = ApprovalRequest { modified: ctx.stamp(), ..ApprovalRequest::clone(&request) };
        match op {
            RequestOp::Withdraw => {
                (changed.state, changed.reason) = (RequestState::Withdrawn, comment);
                self.close_request(changed, changes)
            }
            RequestOp::Refuse if is_own => refused("the requester does not refuse it, withdraw it"),
            RequestOp::Refuse => {
                (changed.state, changed.reason) = (RequestState::Refused, comment);
                changed.refused_by.clone_from(&holder.name);
                self.tell_of_request(ctx, HookEvent::Refused, &changed, changes);
                self.close_request(changed, changes)
            }
            RequestOp::Approve if is_own => refused("the requester does not approve it"),
            RequestOp::Approve => {
                if changed.approvals.iter().any(|given| self.person(&given.user) == self.person(&holder.name)) {
                    return Outcome::unchanged(Entity::Request(request));
                }
                changed.approvals.push(GivenApproval { user: holder.name.clone(), time: ctx.time, comment });
                self.tell_of_request(ctx, HookEvent::Approved, &changed, changes);
                self.advance_request(ctx, changed, false, changes)
            }
            RequestOp::Run if request.state == RequestState::Open => {
                let why = "the request is not approved yet";
                Outcome { entity: Entity::Request(request), ..Refusal::new(Code::DataConflict, why).into() }
            }
            RequestOp::Run => self.advance_request(ctx, changed, true, changes),
        }
    }

    /// Carries a request out if enough have approved it, and nothing holds it back.
    fn advance_request(
        &mut self,
        ctx: &Ctx,
        mut request: ApprovalRequest,
        is_run: bool,
        changes: &mut ChangeSet,
    ) -> Outcome {
        let demands = self.policies.demands(request.act, &self.subject_of(&request), ctx.time);
        let valid = request.approvals.iter().filter(|given| self.still_approves(ctx, given, &request)).count();
        if valid < usize::from(demands.approvals) {
            request.state = RequestState::Open;
            return self.keep_request(request, changes);
        }
        if let Some(refused) = refused_in_freeze(&demands) {
            request.state = RequestState::Approved;
            let kept = self.keep_request(request, changes);
            return if is_run { Outcome { entity: refused.entity.clone(), ..refused } } else { kept };
        }
        if request.hold && !is_run {
            request.state = RequestState::Approved;
            return self.keep_request(request, changes);
        }
        self.run_request(ctx, request, changes)
    }

    /// Does what was asked for, by the rights that the requester has now.
    fn run_request(&mut self, ctx: &Ctx, mut request: ApprovalRequest, changes: &mut ChangeSet) -> Outcome {
        let Some(payload) = request.payload.clone() else { return no_such_request() };
        let Payload { act, snapshot } = *payload;
        let thing = self.thing_of(&act);
        if thing.as_ref().map_or(0, |thing| self.version_of(thing)) != request.base_version {
            request.state = RequestState::Stale;
            "something else is in force than when it was asked for".clone_into(&mut request.reason);
            return self.close_request(request, changes);
        }
        let target = self.target_of_request(&act, snapshot.as_ref());
        let requester = request.created.by.clone();
        let refused = match self.access.grants_of(&requester, ctx.time) {
            Some(grants) => self.refuse_act(&grants, &act, &target),
            None => Some(refused("its requester may not any more")),
        };
        let outcome = match refused {
            Some(refused) => refused,
            None => {
                let acting = ctx.approved(&requester);
                let outcome = self.carry_out(&acting, act, snapshot, changes);
                ctx.draw_after(&acting);
                outcome
            }
        };
        changes.did(target, &outcome);
        if outcome.code.is_success() {
            request.state = RequestState::Done;
        } else {
            request.state = RequestState::Failed;
            request.reason = outcome.info();
        }
        self.close_request(request, changes)
    }

    /// True if the holder may do what a request asks for.
    fn may_do(&self, holder: &Holder, request: &ApprovalRequest) -> bool {
        let Some(payload) = &request.payload else {
            return holder.grants.may(Verb::Release, &request.namespace, request.scope_name());
        };
        let target = self.target_of_request(&payload.act, payload.snapshot.as_ref());
        self.refuse_act(&holder.grants, &payload.act, &target).is_none()
    }

    fn still_approves(&self, ctx: &Ctx, given: &GivenApproval, request: &ApprovalRequest) -> bool {
        let grants = self.access.grants_of(&given.user, ctx.time);
        grants.is_some_and(|grants| grants.may(Verb::Approve, &request.namespace, request.scope_name()))
    }

    /// The user behind a name: a service token counts as the user who made it.
    fn person(&self, name: &str) -> String {
        let mut name = name.to_owned();
        // Tokens that tokens have made lead to a user in as many steps as there are tokens, or to none.
        for _ in 0..limits::ACCOUNTS_MAX {
            match self.access.maker_of(&name) {
                Some(maker) => name = maker,
                None => break,
            }
        }
        name
    }

    fn keep_request(&mut self, request: ApprovalRequest, changes: &mut ChangeSet) -> Outcome {
        Outcome::done(Entity::Request(self.approvals.put(request, changes)))
    }

    /// Keeps a request of which nothing comes any more, without what it would have released.
    fn close_request(&mut self, mut request: ApprovalRequest, changes: &mut ChangeSet) -> Outcome {
        if let Some(Payload { snapshot: Some(Snapshot::File(file)), .. }) = request.payload.take().as_deref() {
            self.configs.let_content_go(&file.content, changes);
        }
        self.keep_request(request, changes)
    }

    /// Ends requests that have waited for too long.
    pub(in crate::catalog) fn expire_requests(&mut self, ctx: &Ctx, changes: &mut ChangeSet) -> Outcome {
        let before = Timestamp(ctx.time.0.saturating_sub(self.settings.requests_expire_s.saturating_mul(1000)));
        let expired = self.approvals.pending_before(before, EXPIRED_AT_ONCE);
        if expired.is_empty() {
            return Code::NoNeedUpdate.into();
        }
        for request in expired {
            let request = ApprovalRequest {
                state: RequestState::Expired,
                modified: ctx.stamp(),
                ..ApprovalRequest::clone(&request)
            };
            self.close_request(request, changes);
        }
        Outcome::default()
    }
}

/// The part of a name that grants are about.
fn scope_name(kind: PolicyKind, name: &str) -> &str {
    match kind {
        PolicyKind::ConfigFile => name.split_once('/').map_or(name, |(group, _)| group),
        PolicyKind::Rule(_) => name,
    }
}

fn refused(why: &str) -> Outcome {
    Refusal::new(Code::NotAllowedAccess, why).into()
}

fn no_such_request() -> Outcome {
    Refusal::new(Code::NotFoundResource, "no such request").into()
}

fn refused_in_freeze(demands: &Demands) -> Option<Outcome> {
    let until = demands.frozen_until?;
    let comment = if demands.comment.is_empty() { String::new() } else { format!(": {}", demands.comment) };
    let why = format!("by {} until {}{comment}", demands.frozen_by.join(", "), until.rfc3339());
    let held = HeldBack { policies: demands.frozen_by.clone(), until: Some(until) };
    Some(Outcome { entity: Entity::HeldBack(Arc::new(held)), ..Refusal::new(Code::Frozen, why).into() })
}

fn refused_without_approval(demands: &Demands) -> Outcome {
    let (policies, count) = (demands.approved_by.join(", "), demands.approvals);
    let why = match count {
        1 => format!("{policies} asks for 1 approval, send a request"),
        _ => format!("{policies} asks for {count} approvals, send a request"),
    };
    let held = HeldBack { policies: demands.approved_by.clone(), until: None };
    Outcome { entity: Entity::HeldBack(Arc::new(held)), ..Refusal::new(Code::ApprovalRequired, why).into() }
}
