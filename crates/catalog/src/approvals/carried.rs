//! Execution of approved requests: the check that a request is not stale, and authorization by its requester's rights.

use std::sync::Arc;

use super::changes::refused;
use super::decisions::{FailedAction, Resolution, STALE, no_such_request};
use crate::catalog::Catalog;
use crate::catalog::access::{AccountAt, Holder};
use crate::catalog::change::{ChangeSet, Outcome};
use crate::catalog::ctx::{Apply, Ctx, RequestId};
use crate::model::approval::{ApprovalRequest, Payload, RequestState, Snapshot};
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::model::time::Timestamp;
use crate::model::wire::Words;

impl Catalog {
    /// Returns the closed request. An approval or run that did not carry it out is not a success.
    fn outcome_of_run(&self, id: &str) -> Outcome {
        match self.approvals.get(id) {
            Some(request) if request.state != RequestState::Done => {
                let why = format!("the request is {}: {}", request.state.word(), request.reason);
                self.refused_again(id, Refusal::new(Code::DataConflict, why).into())
            }
            _ => self.outcome_of(id),
        }
    }

    /// Reports whether another release is in force than when the request was made, whether it is about another thing or
    /// release by now, or whether its action has become another one.
    fn is_stale(&self, request: &ApprovalRequest) -> bool {
        let Some(payload) = &request.payload else { return true };
        let version = self.thing_of(&payload.act).map_or(0, |thing| self.version_of(&thing));
        let gate = self.gate_of_advance(&payload.act);
        version != request.base_version || gate.is_some_and(|gate| gate != request.act) || !self.means_the_same(payload)
    }

    /// Reports whether the releases and the rule are still those that the action was requested for.
    pub(super) fn means_the_same(&self, payload: &Payload) -> bool {
        let releases = self.releases_meant(&payload.act);
        let are_same = releases.len() == payload.releases.len()
            && releases.iter().zip(&payload.releases).all(|(now, then)| now.is(then));
        let is_same = match &payload.snapshot {
            Some(Snapshot::Rule(copy)) => {
                let there = self.rules.of(copy.family()).get(&copy.id);
                there.is_some_and(|there| there.created == copy.created)
            }
            _ => true,
        };
        are_same && is_same
    }

    /// Returns the catalog that would result from carrying out a waiting request, with its set, at a given time.
    pub fn with_request(&self, request: &ApprovalRequest, now: Timestamp) -> Result<Catalog, FailedAction> {
        let set: Vec<_> = self.approvals.set_of(request).into_iter().map(Arc::unwrap_or_clone).collect();
        let by = request.created.by.as_str();
        self.with_acts_of(&Ctx::new(0, now, [0; 16], RequestId::default(), by), &set)
    }

    /// Applies the actions of a set in order to a copy of the catalog.
    fn with_acts_of(&self, ctx: &Ctx, set: &[ApprovalRequest]) -> Result<Catalog, FailedAction> {
        let (mut view, ctx, mut unkept) = (self.view(), ctx.apart(), ChangeSet::default());
        for request in set {
            let outcome = Apply { catalog: &mut view, ctx: &ctx, changes: &mut unkept }.carry_out_request(request);
            if !outcome.code.is_success() {
                return Err(FailedAction { id: request.id.clone(), why: outcome.info() });
            }
        }
        Ok(view)
    }

    /// Reports whether the holder may carry out the requested action.
    pub(super) fn may_do(&self, holder: &Holder, request: &ApprovalRequest) -> bool {
        let Some(payload) = &request.payload else {
            return holder.grants.may(Verb::Release, &request.namespace, request.scope_name());
        };
        let target = self.target_of_request(request, payload);
        self.refuse_payload(&holder.grants, payload, &target).is_none()
    }
}

impl Apply<'_> {
    /// Carries out all actions of a set, or none of them.
    pub(super) fn run_set(&mut self, set: Vec<ApprovalRequest>, id: &str) -> Outcome {
        let stale = set.iter().find(|one| self.catalog.is_stale(one));
        let unable = match stale.map(|one| FailedAction { id: one.id.clone(), why: STALE.to_owned() }) {
            Some(undone) => Some((RequestState::Stale, undone)),
            None if set.len() == 1 => None,
            None => self.catalog.with_acts_of(self.ctx, &set).err().map(|undone| (RequestState::Failed, undone)),
        };
        if let Some((state, FailedAction { id: cause, why })) = unable {
            let set = set.into_iter().map(Arc::new).collect();
            let end = Resolution { state, refused_by: "", reason: &why, cause: Some(&cause) };
            self.close_set(set, id, end);
            return self.catalog.outcome_of_run(id);
        }
        for request in set {
            self.run_request(request);
        }
        self.catalog.outcome_of_run(id)
    }

    /// Carries out a request by the present rights of its requester.
    fn carry_out_request(&mut self, request: &ApprovalRequest) -> Outcome {
        let Some(payload) = request.payload.as_deref() else { return no_such_request() };
        let target = self.catalog.target_of_request(request, payload);
        let requester = &request.created.by;
        let author = request.author.as_deref();
        let requesting = AccountAt { person: &request.person, author, ..AccountAt::from(&request.created) };
        let refused = match self.catalog.access.grants_of(requesting, self.ctx.sure()) {
            Some(grants) => self.catalog.refuse_payload(&grants, payload, &target),
            None => Some(refused("its requester may not any more")),
        };
        let outcome = match refused {
            Some(refused) => refused,
            None => {
                let (acting, Payload { act, snapshot, .. }) =
                    (self.ctx.approved(requester, request.author.clone()), payload.clone());
                let outcome = self.under(&acting).carry_out(act, snapshot);
                self.ctx.draw_after(&acting);
                outcome
            }
        };
        self.changes.did(target, &outcome);
        outcome
    }

    fn run_request(&mut self, mut request: ApprovalRequest) {
        let outcome = self.carry_out_request(&request);
        request.modified = self.ctx.stamp();
        if outcome.code.is_success() {
            request.state = RequestState::Done;
        } else {
            request.state = RequestState::Failed;
            request.reason = outcome.info();
        }
        self.close_request(request);
    }
}
