//! Situation of requests, for answers and pages.

use crate::catalog::Catalog;
use crate::catalog::policies::Requirements;
use crate::model::approval::{ApprovalRequest, Obstacle, RequestStanding, RequestState};
use crate::model::grant::Grants;
use crate::model::time::Present;

impl Catalog {
    /// Returns the approvals of a request that are valid at this time, as the grants of their approvers.
    pub(super) fn valid_approvals(&self, now: Present, request: &ApprovalRequest) -> Vec<Grants> {
        request.approvals.iter().filter_map(|given| self.still_approves(now, given, request)).collect()
    }

    /// Returns the situation of a request at this time.
    pub fn standing(&self, now: impl Into<Present>, request: &ApprovalRequest) -> RequestStanding {
        let now = now.into();
        let count = request.approvals.len();
        let ended = RequestStanding {
            state: request.state,
            given: count,
            needed: count,
            obstacles: Vec::new(),
            planned: request.publish_at.filter(|_| request.state == RequestState::Done),
            refused_by: request.refused_by.clone(),
            reason: request.reason.clone(),
        };
        if !request.state.is_pending() {
            return ended;
        }
        let (demands, valid) = (self.demands_of(now, request), self.valid_approvals(now, request));
        let needed = usize::from(demands.approvals).max(1);
        let obstacles = self.obstacles(now, request, (&demands, &valid));
        RequestStanding { given: valid.len(), needed, obstacles, ..ended }
    }

    fn obstacles(
        &self,
        now: Present,
        request: &ApprovalRequest,
        (demands, valid): (&Requirements, &[Grants]),
    ) -> Vec<Obstacle> {
        let mut found = Vec::new();
        let missing = usize::from(demands.approvals).max(1).saturating_sub(valid.len());
        if missing > 0 {
            found.push(Obstacle::Approvals { missing, policies: demands.approved_by.clone() });
        } else if !demands.are_met_by(valid) {
            found.push(Obstacle::Rights { policies: demands.approved_by.clone() });
        }
        let set: Vec<_> = self.approvals.set_of(request).iter().map(|one| ApprovalRequest::clone(one)).collect();
        if !self.approvals.is_whole(&set) {
            found.push(Obstacle::Parts);
        }
        let is_open = |one: &&ApprovalRequest| one.id != request.id && !self.has_approvals(now, one);
        found.extend(set.iter().find(is_open).map(|one| {
            let act = format!("{} of {}/{}", one.act.word(), one.namespace, one.name);
            Obstacle::OtherAct { act }
        }));
        let frozen = set.iter().map(|one| self.demands_of(now, one)).find(|demands| !demands.frozen_by.is_empty());
        found.extend(
            frozen.map(|demands| Obstacle::Freeze { policies: demands.frozen_by, until: demands.frozen_until }),
        );
        if set.iter().any(|one| one.hold) {
            found.push(Obstacle::Hold);
        }
        found
    }

    /// Reports whether a request has enough valid approvals. One is needed even if no policy requires it any more.
    pub(super) fn has_approvals(&self, now: Present, request: &ApprovalRequest) -> bool {
        let valid = self.valid_approvals(now, request);
        !valid.is_empty() && self.demands_of(now, request).are_met_by(&valid)
    }

    /// Reports whether a person approved a request with an approval that is still valid.
    pub fn is_approved_by(&self, now: impl Into<Present>, name: &str, request: &ApprovalRequest) -> bool {
        let (now, person) = (now.into(), self.access.person_named(name));
        request.approvals.iter().any(|given| {
            self.person_who_approved(given) == person && self.still_approves(now, given, request).is_some()
        })
    }
}
