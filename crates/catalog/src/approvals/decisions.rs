//! Decisions on approval requests.
//!
//! Requests of one set are decided together. Approving the head approves each member that the approver has the right to
//! approve. Once every member has its approvals, and none is frozen or on hold, the whole set is carried out in one
//! entry; if one member fails, none is. A single request is a set of one.

use std::sync::Arc;

use super::changes::{refused, refused_in_freeze, refused_without_approval};
use crate::catalog::Catalog;
use crate::catalog::access::{AccountAt, Holder};
use crate::catalog::authorization::{Principal, SEEING};
use crate::catalog::change::{Entity, Outcome};
use crate::catalog::ctx::{Apply, Ctx};
use crate::catalog::policies::Requirements;
use crate::model::approval::{ApprovalRequest, GivenApproval, RequestDraft, RequestOp, RequestState};
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grants, ReadScope, Verb};
use crate::model::time::{Present, Timestamp};
use crate::model::webhook::HookEvent;
use crate::model::wire::Words;

/// Limit for the requests that expire in one entry.
const EXPIRED_AT_ONCE: usize = 100;
/// Largest number of ids that one action draws.
const DRAWS_OF_AN_ACT: usize = 6;
/// Number of ids that an action counts for, even if it draws none.
const DRAWS_COUNTED: usize = 1;
// Texts that become part of hashed rows.
pub(super) const STALE: &str = "something else is in force than when it was asked for";
const UNDONE: &str = "another act that was asked for with it could not be done";

/// Final state of a request.
#[derive(Clone, Copy)]
pub(super) struct Resolution<'a> {
    pub(super) state: RequestState,
    pub(super) refused_by: &'a str,
    pub(super) reason: &'a str,
    /// Id of the request that caused the reason, if others are closed with it.
    pub(super) cause: Option<&'a str>,
}

/// Action that could not be carried out, with the id of its request.
pub struct FailedAction {
    pub id: String,
    pub why: String,
}

impl Catalog {
    /// Refuses a caller that may not decide on a set; to one that may not see it, it does not exist.
    fn refuse_decision(
        &self,
        ctx: &Ctx,
        holder: &Holder,
        (op, is_own): (RequestOp, bool),
        request: &Arc<ApprovalRequest>,
        set: &[Arc<ApprovalRequest>],
    ) -> Option<Outcome> {
        let may = |verb: Verb, one: &ApprovalRequest| holder.grants.may(verb, &one.namespace, one.scope_name());
        let mut all = [request].into_iter().chain(set);
        let why = match op {
            RequestOp::Approve | RequestOp::Refuse if !self.may_approve(ctx.present(), &holder.grants, request) => {
                "this needs approve"
            }
            RequestOp::Withdraw if !is_own && !all.all(|one| may(Verb::Manage, one)) => {
                "only the requester withdraws it, or manage"
            }
            RequestOp::Run if !all.all(|one| self.may_do(holder, one)) => "this needs the right to the act itself",
            _ => return None,
        };
        let is_seen = request.is_seen_by(&ReadScope::new(&holder.grants, SEEING));
        Some(if is_seen { refused(why) } else { no_such_request() })
    }

    /// Reports whether these grants permit approval, at the place of the request or for a policy that requires
    /// approval.
    pub fn may_approve(&self, now: impl Into<Present>, grants: &Grants, request: &ApprovalRequest) -> bool {
        grants.may(Verb::Approve, &request.namespace, request.scope_name())
            || self.demands_of(now, request).may_approve(grants)
    }

    /// Returns the present requirements for the action of a request.
    pub(super) fn demands_of(&self, now: impl Into<Present>, request: &ApprovalRequest) -> Requirements {
        let gates = match &request.payload {
            Some(payload) => Catalog::gates_of(&payload.act, request.act),
            None => request.act.into(),
        };
        self.policies.demands(gates, &self.subject_of(request), now)
    }

    /// Returns a refusal with the present state of the request.
    pub(super) fn refused_again(&self, id: &str, refused: Outcome) -> Outcome {
        let entity = self.approvals.get(id).map_or(Entity::None, |request| Entity::Request(request.clone()));
        Outcome { entity, ..refused }
    }

    /// Returns the grants of the approver, if the approval is still valid.
    pub(super) fn still_approves(
        &self,
        now: Present,
        given: &GivenApproval,
        request: &ApprovalRequest,
    ) -> Option<Grants> {
        let account =
            AccountAt { name: &given.user, time: given.time, person: &given.person, author: given.author.as_deref() };
        let grants = self.access.grants_of(account, now.sure);
        grants.filter(|grants| self.may_approve(now, grants, request))
    }

    /// Returns the id of the requesting user. Requests from before ids were stored have only the name.
    fn person_who_asked(&self, request: &ApprovalRequest) -> String {
        if request.person.is_empty() { self.access.person_named(&request.created.by) } else { request.person.clone() }
    }

    /// Returns the id of the approving user, in the same way.
    pub(super) fn person_who_approved(&self, given: &GivenApproval) -> String {
        if given.person.is_empty() { self.access.person_named(&given.user) } else { given.person.clone() }
    }

    pub(super) fn outcome_of(&self, id: &str) -> Outcome {
        self.approvals.get(id).map_or_else(no_such_request, |request| Outcome::done(Entity::Request(request.clone())))
    }

    /// Returns the latest creation time of requests that have expired at `now`.
    pub fn requests_expire_before(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_sub(self.settings.requests_expire_s.saturating_mul(1000)))
    }
}

impl Apply<'_> {
    /// Approves, refuses, withdraws or runs a request.
    pub(crate) fn change_request(&mut self, principal: &Principal, op: RequestOp, draft: &RequestDraft) -> Outcome {
        let Some(request) = self.catalog.approvals.get(&draft.id).cloned() else { return no_such_request() };
        let Principal::Holder(holder) = principal else { return Code::NotAllowedAccess.into() };
        let is_own = holder.person == self.catalog.person_who_asked(&request);
        let set = self.catalog.approvals.set_of(&request);
        if let Some(refused) = self.catalog.refuse_decision(self.ctx, holder, (op, is_own), &request, &set) {
            return refused;
        }
        let conflict = |why: String| Outcome {
            entity: Entity::Request(request.clone()),
            ..Refusal::new(Code::DataConflict, why).into()
        };
        if !request.state.is_pending() {
            return conflict(format!("the request is {}", request.state.word()));
        }
        let comment = draft.comment.as_deref().unwrap_or_default();
        if set.len() > 1 {
            // The sets of one entry are limited to the work of a batch.
            if !self.ctx.has_room_for(set.len() * (DRAWS_OF_AN_ACT + DRAWS_COUNTED)) {
                let why = "too many acts for one call, decide on a request of several acts by itself";
                return Refusal::new(Code::InvalidParameter, why).into();
            }
            self.ctx.skip(set.len() * DRAWS_COUNTED);
        }
        match op {
            RequestOp::Withdraw => {
                let end = Resolution { state: RequestState::Withdrawn, refused_by: "", reason: comment, cause: None };
                self.close_set(set, &request.id, end)
            }
            RequestOp::Refuse if is_own => refused("the requester does not refuse it, withdraw it"),
            RequestOp::Refuse => {
                let end =
                    Resolution { state: RequestState::Refused, refused_by: &holder.name, reason: comment, cause: None };
                let ids: Vec<_> = set.iter().map(|one| one.id.clone()).collect();
                let outcome = self.close_set(set, &request.id, end);
                let closed: Vec<_> = ids.iter().filter_map(|id| self.catalog.approvals.get(id).cloned()).collect();
                self.emit_set(HookEvent::Refused, closed.iter().map(|one| &**one), &request);
                outcome
            }
            RequestOp::Approve if is_own => refused("the requester does not approve it"),
            // Actions added after the approver read the set must not be approved unseen.
            RequestOp::Approve if draft.parts.unwrap_or_default() != request.parts => {
                conflict(format!("the request has {} further acts, and `parts` has to say so", request.parts))
            }
            RequestOp::Approve => self.approve(holder, &request, (set, comment)),
            RequestOp::Run if set.iter().any(|one| one.state == RequestState::Open) => {
                conflict("the request is not approved yet".to_owned())
            }
            RequestOp::Run => {
                let set = set.iter().map(|one| ApprovalRequest::clone(one)).collect();
                self.advance_set(set, (&request.id, true))
            }
        }
    }

    /// Approves one member of a set, or through the head all members that the holder may approve.
    fn approve(
        &mut self,
        holder: &Holder,
        request: &Arc<ApprovalRequest>,
        (set, comment): (Vec<Arc<ApprovalRequest>>, &str),
    ) -> Outcome {
        let is_theirs = |given: &GivenApproval| self.catalog.person_who_approved(given) == holder.person;
        // An approval that is no longer valid is replaced.
        let is_new = |one: &ApprovalRequest| {
            (request.part_of.is_empty() || one.id == request.id)
                && self.catalog.may_approve(self.ctx.present(), &holder.grants, one)
                && !one.approvals.iter().any(|given| {
                    is_theirs(given) && self.catalog.still_approves(self.ctx.present(), given, one).is_some()
                })
        };
        let mut set: Vec<_> = set.iter().map(|one| (is_new(one), ApprovalRequest::clone(one))).collect();
        if !set.iter().any(|(is_new, _)| *is_new) {
            return Outcome::unchanged(Entity::Request(request.clone()));
        }
        for (_, one) in set.iter_mut().filter(|(is_new, _)| *is_new) {
            one.approvals.retain(|given| !is_theirs(given));
            one.approvals.push(GivenApproval {
                user: holder.name.clone(),
                time: self.ctx.time,
                comment: comment.to_owned(),
                person: holder.person.clone(),
                author: holder.author.clone(),
            });
            one.modified = self.ctx.stamp();
        }
        let approved = set.iter().filter(|(is_new, _)| *is_new).map(|(_, one)| one);
        self.emit_set(HookEvent::Approved, approved, request);
        let set = set.into_iter().map(|(_, one)| one).collect();
        self.advance_set(set, (&request.id, false))
    }

    /// Carries out a set if each member has enough approvals and nothing blocks it.
    fn advance_set(&mut self, mut set: Vec<ApprovalRequest>, (id, is_run): (&str, bool)) -> Outcome {
        let is_whole = self.catalog.approvals.is_whole(&set);
        let (mut waits, mut frozen, mut lacking) = (!is_whole, None, None);
        for one in &mut set {
            let demands = self.catalog.demands_of(self.ctx.present(), one);
            let is_approved = self.catalog.has_approvals(self.ctx.present(), one);
            one.state = if is_approved { RequestState::Approved } else { RequestState::Open };
            if is_approved {
                frozen = frozen.or_else(|| refused_in_freeze(&demands));
            } else {
                lacking = lacking.or(Some(demands));
            }
            waits |= !is_approved || frozen.is_some() || (one.hold && !is_run);
        }
        if !waits {
            return self.run_set(set, id);
        }
        let is_one = set.len() == 1;
        for one in set {
            let there = self.catalog.approvals.get(&one.id);
            let is_same = there.is_some_and(|there| there.state == one.state && there.approvals == one.approvals);
            if is_same && !is_one {
                continue;
            }
            self.catalog.approvals.put(ApprovalRequest { modified: self.ctx.stamp(), ..one }, self.changes);
        }
        // To run means to carry out: a set that is approved but not carried out is not a success.
        let refused = frozen.or_else(|| {
            let refused = match lacking {
                Some(demands) if demands.approvals > 0 => refused_without_approval(&demands),
                Some(_) => Refusal::new(Code::ApprovalRequired, "whoever approved it may not any more").into(),
                None if is_whole => return None,
                None => Refusal::new(Code::DataConflict, "acts that are decided with it are not there any more").into(),
            };
            Some(self.catalog.refused_again(id, refused))
        });
        match refused {
            Some(refused) if is_run => refused,
            _ => self.catalog.outcome_of(id),
        }
    }

    /// Notifies webhooks of a decision on the named request, and of members in other namespaces, so that a webhook for
    /// one namespace gets one event per set.
    fn emit_set<'a>(
        &mut self,
        event: HookEvent,
        set: impl Iterator<Item = &'a ApprovalRequest>,
        named: &ApprovalRequest,
    ) {
        for one in set.filter(|one| one.id == named.id || one.namespace != named.namespace) {
            self.emit_request(event, one);
        }
    }

    /// Closes all requests of a set with the same result.
    pub(super) fn close_set(&mut self, set: Vec<Arc<ApprovalRequest>>, id: &str, end: Resolution<'_>) -> Outcome {
        for one in set {
            let mut closed = ApprovalRequest { modified: self.ctx.stamp(), ..Arc::unwrap_or_clone(one) };
            closed.state = end.state;
            end.refused_by.clone_into(&mut closed.refused_by);
            let is_cause = end.cause.is_none_or(|id| id == closed.id);
            closed.reason = if is_cause { end.reason } else { UNDONE }.to_owned();
            self.close_request(closed);
        }
        self.catalog.outcome_of(id)
    }

    /// Stores a closed request without the content that it would have released.
    pub(super) fn close_request(&mut self, mut request: ApprovalRequest) {
        let payload = request.payload.take();
        if let Some(file) = payload.as_ref().and_then(|payload| payload.snapshot.as_ref()?.file()) {
            self.catalog.configs.let_content_go(&file.content, self.changes);
        }
        self.catalog.approvals.put(request, self.changes);
    }

    /// Closes requests that have expired.
    pub(crate) fn expire_requests(&mut self) -> Outcome {
        let before = self.catalog.requests_expire_before(self.ctx.sure());
        let expired = self.catalog.approvals.pending_before(before, EXPIRED_AT_ONCE);
        if expired.is_empty() {
            return Code::NoNeedUpdate.into();
        }
        let mut count = 0;
        for request in expired {
            // Members may have been closed with an earlier one.
            for one in self.catalog.approvals.set_of(&request) {
                let expired = RequestState::Expired;
                let closed =
                    ApprovalRequest { state: expired, modified: self.ctx.stamp(), ..ApprovalRequest::clone(&one) };
                self.close_request(closed);
                count += 1;
            }
            if count >= EXPIRED_AT_ONCE {
                break;
            }
        }
        Outcome::default()
    }
}

pub(super) fn no_such_request() -> Outcome {
    Refusal::new(Code::NotFoundResource, "no such request").into()
}
