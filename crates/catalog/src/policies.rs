//! Policies: changes, queries, and the combined requirements of those that apply to an action.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;

use super::Catalog;
use super::change::{Entity, Outcome, admits_one_more};
use super::command::Op;
use super::page::{self, Listed, Page, Placed, cut_sorted, place_of};
use super::policy_index::{Judge, PolicyIndex};
use super::resource::{StoredResource, newest_first, resource};
use super::row::{Row, RowKey, Table};
use crate::catalog::ctx::Apply;
use crate::model::grant::{Grants, Verb};
use crate::model::limits;
use crate::model::policy::{Calendar, Gate, Place, Policy, PolicyDraft, PolicyKind};
use crate::model::text::NameFilter;
use crate::model::time::{Present, Timestamp};

impl Row for Policy {
    const TABLE: Table = Table::Policy;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.name);
    }
}

impl Placed for Policy {
    fn place(&self) -> page::ListKey<'_> {
        place_of([&self.name])
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    by_name: OrdMap<Arc<str>, Arc<Policy>>,
    /// Index of the policies.
    index: PolicyIndex,
}

/// A thing as policies name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub kind: PolicyKind,
    /// Places of the thing: its present name first; for a rule also those of its releases in force or planned.
    pub places: Vec<Place>,
}

/// Gates of an action: the present one, and one that the action will pass later by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    pub now: Gate,
    pub later: Option<Gate>,
}

impl From<Gate> for Gates {
    fn from(now: Gate) -> Gates {
        Gates { now, later: None }
    }
}

/// Combined requirements of the policies that apply to an action at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Number of approvals required, and the policies that require any.
    pub approvals: u8,
    pub approved_by: Vec<String>,
    /// Policies that freeze the action now, and the end of the last freeze, if known.
    pub frozen_by: Vec<String>,
    pub frozen_until: Option<Timestamp>,
    /// Comment of the freeze.
    pub comment: String,
    /// Requirements of each of these policies.
    holds: Vec<Hold>,
}

/// Approvals required by one policy, and the scopes of what it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hold {
    approvals: u8,
    scopes: BTreeSet<(String, String)>,
}

impl Hold {
    fn may_approve(&self, grants: &Grants) -> bool {
        self.scopes.iter().all(|(namespace, name)| grants.may(Verb::Approve, namespace, name))
    }
}

impl Requirements {
    /// Reports whether these grants permit approval for at least one of the policies.
    pub fn may_approve(&self, grants: &Grants) -> bool {
        self.holds.iter().any(|hold| hold.may_approve(grants))
    }

    /// Reports whether these grants permit approval for all of the policies.
    pub fn may_approve_all(&self, grants: &Grants) -> bool {
        self.holds.iter().all(|hold| hold.may_approve(grants))
    }

    /// Reports whether each policy has as many permitted approvers as it requires.
    pub fn are_met_by(&self, approvers: &[Grants]) -> bool {
        self.holds.iter().all(|hold| {
            let counted = approvers.iter().filter(|grants| hold.may_approve(grants));
            counted.count() >= usize::from(hold.approvals)
        })
    }

    fn hold(&mut self, policy: &Policy, approvals: u8, subject: &Subject) {
        let scopes = subject.places.iter().flat_map(|place| policy.scopes_at(place)).collect();
        self.holds.push(Hold { approvals, scopes });
    }
}

impl Policies {
    pub fn get(&self, name: &str) -> Option<&Arc<Policy>> {
        self.by_name.get(name)
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Lists policies, newest change first, then by name.
    pub fn list(&self, name: &Option<NameFilter>, page: &Page) -> Listed<Arc<Policy>> {
        let wanted = |policy: &&Arc<Policy>| NameFilter::passes(name, &policy.name);
        cut_sorted(self.by_name.values().filter(wanted).collect(), newest_first, page)
    }

    /// Returns the combined requirements of all policies that apply to an action. A later gate requires its approvals
    /// now, but freezes only then. While the time is in doubt, a freeze at either of the two times applies.
    pub fn demands(&self, gates: Gates, subject: &Subject, now: impl Into<Present>) -> Requirements {
        let Present { stamped: time, sure } = now.into();
        let mut demands = Requirements::default();
        let all = || self.by_name.values().cloned().collect();
        let judging = |gate: Gate| self.index.judging(all, gate, subject.kind, &subject.places);
        let now = judging(gates.now);
        for Judge { policy, calendar } in now.iter().copied() {
            let frozen_at = [time, sure].into_iter().find(|time| calendar.holds(*time));
            let is_frozen = frozen_at.is_some();
            if policy.approvals > 0 {
                demands.approvals = demands.approvals.max(policy.approvals);
                demands.approved_by.push(policy.name.clone());
            }
            if is_frozen {
                demands.frozen_by.push(policy.name.clone());
                if demands.comment.is_empty() {
                    calendar.comment_at(frozen_at.unwrap_or(time)).clone_into(&mut demands.comment);
                }
            }
            if policy.approvals > 0 || is_frozen {
                demands.hold(policy, policy.approvals, subject);
            }
        }
        for Judge { policy, .. } in gates.later.into_iter().flat_map(judging) {
            if policy.approvals > 0 && !now.iter().any(|judge| judge.policy.name == policy.name) {
                demands.approvals = demands.approvals.max(policy.approvals);
                demands.approved_by.push(policy.name.clone());
                demands.hold(policy, policy.approvals, subject);
            }
        }
        if !demands.frozen_by.is_empty() {
            let calendars: Vec<_> = now.iter().map(|judge| &judge.calendar).collect();
            demands.frozen_until = Calendar::free_from(&calendars, time);
        }
        demands
    }

    pub(super) fn load(&mut self, policy: Policy) -> Arc<Policy> {
        let policy = Arc::new(policy);
        self.index = PolicyIndex::default();
        self.by_name.insert(policy.name.as_str().into(), policy.clone());
        policy
    }
}

impl StoredResource for Policy {
    resource!(PolicyDraft => Entity::Policy, modified);

    fn find(catalog: &Catalog, _: Op, draft: &PolicyDraft) -> Option<Arc<Policy>> {
        catalog.policies.get(&draft.name).cloned()
    }

    fn create(apply: &mut Apply<'_>, draft: &PolicyDraft) -> Result<Policy, Outcome> {
        admits_one_more("policies", apply.catalog.policies.len(), limits::POLICIES_MAX)?;
        let mut policy = Policy { created: apply.ctx.stamp(), ..Policy::new(&draft.name) };
        policy.stamp(apply.ctx);
        draft.lay_over(&mut policy);
        Ok(policy)
    }

    fn put(apply: &mut Apply<'_>, policy: Policy) -> Arc<Policy> {
        apply.changes.put(&policy);
        apply.catalog.policies.load(policy)
    }

    fn delete(apply: &mut Apply<'_>, old: &Arc<Policy>) -> Result<(), Outcome> {
        apply.changes.delete(&**old);
        apply.catalog.policies.index = PolicyIndex::default();
        apply.catalog.policies.by_name.remove(old.name.as_str());
        Ok(())
    }
}
