//! Subjects of policies, and queries about them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::catalog::ctx::Ctx;
use crate::catalog::history::Thing;
use crate::catalog::policies::{Gates, Subject};
use crate::model::approval::{ApprovalRequest, GatedAction, Snapshot};
use crate::model::code::{Code, Refusal};
use crate::model::policy::{Gate, Place, PolicyKind};
use crate::model::rule::{Effect, Rule};

impl Catalog {
    /// Refuses a planned release that a policy blocks or that lacks a required approval.
    pub(crate) fn check_planned(
        &self,
        ctx: &Ctx,
        (thing, gate): (&Thing, Gate),
        is_approved: bool,
    ) -> Result<(), Refusal> {
        let Some(subject) = self.subject(thing, &[]) else { return Ok(()) };
        let demands = self.policies.demands(gate.into(), &subject, ctx.present());
        // The texts become part of hashed rows (`tests::words`).
        if !demands.frozen_by.is_empty() {
            return Err(Refusal::new(Code::Frozen, format!("frozen by {}", demands.frozen_by.join(", "))));
        }
        if demands.approvals > 0 && !is_approved {
            let why = format!("{} asks for approval", demands.approved_by.join(", "));
            return Err(Refusal::new(Code::ApprovalRequired, why));
        }
        Ok(())
    }

    /// Reports whether a policy requires approval before a thing is published.
    pub fn asks_approval(&self, thing: &Thing) -> bool {
        let draft = match thing {
            Thing::File(_) => None,
            Thing::Rule(family, id) => self.rules.of(*family).get(id).cloned(),
        };
        let demands = |subject| self.policies.demands(Gate::Publish.into(), &subject, self.clock());
        self.subject(thing, draft.as_slice()).is_some_and(|subject| demands(subject).approvals > 0)
    }

    /// Returns the places at which a rule is evaluated: its name, and the services on whose calls it acts.
    pub fn places_of_rule(&self, rule: &Rule) -> Vec<Place> {
        let effects = self.effects([rule]);
        let ends = effects.iter().flat_map(Effect::ends).cloned().map(Place::End);
        [Place::of_rule(rule)].into_iter().chain(ends).collect()
    }

    /// Returns the subject of a thing: its present name first; for a rule also its places in each release in force or
    /// planned, and in copies. So renaming a rule does not remove it from a policy.
    pub(super) fn subject(&self, thing: &Thing, copies: &[Arc<Rule>]) -> Option<Subject> {
        let (family, id) = match thing {
            Thing::File(key) => {
                return Some(Subject { kind: PolicyKind::ConfigFile, places: vec![Place::File(key.clone())] });
            }
            Thing::Rule(family, id) => (*family, id),
        };
        let book = self.rules.of(family);
        let first = Place::of_rule(book.get(id).or(copies.first())?);
        let seen = book.releases_of(id).filter(|release| release.state().is_in_force_or_planned());
        let rules = seen.map(|release| &release.rule).chain(copies);
        let mut others: BTreeSet<Place> = rules.flat_map(|rule| self.places_of_rule(rule)).collect();
        others.remove(&first);
        Some(Subject { kind: PolicyKind::Rule(family), places: [first].into_iter().chain(others).collect() })
    }

    /// Returns the subject of an action, including what it would release; an action on nothing has the name that it
    /// gives.
    pub(super) fn subject_of_act(&self, act: &GatedAction) -> Option<Subject> {
        let subject = self.thing_of(act).and_then(|thing| self.subject(&thing, &self.rules_of(act, None)));
        let named = || {
            let target = self.target_of_act(act);
            let place = Place::Rule { namespace: target.namespace, name: target.name };
            (!place.scope().1.is_empty()).then(|| Subject { kind: act.kind(), places: vec![place] })
        };
        subject.or_else(named)
    }

    /// Returns the subject of a request: the thing by its present name and by its name when the request was made.
    pub(super) fn subject_of(&self, request: &ApprovalRequest) -> Subject {
        let asked = request.place();
        let found = request.payload.as_ref().and_then(|payload| {
            let rules = self.rules_of(&payload.act, payload.snapshot.as_ref());
            self.subject(&self.thing_of(&payload.act)?, &rules)
        });
        let mut subject = found.unwrap_or_else(|| Subject { kind: request.kind, places: Vec::new() });
        if !subject.places.contains(&asked) {
            subject.places.push(asked);
        }
        subject
    }

    /// Returns the rule or file of a request, if it exists: the one that was meant when the request was made, whatever
    /// its name is now; by its name if the request no longer has its act.
    pub fn thing_of_request(&self, request: &ApprovalRequest) -> Option<Thing> {
        if let Some(payload) = &request.payload {
            return self.thing_of(&payload.act);
        }
        match (request.kind, request.place()) {
            (PolicyKind::Rule(family), _) => {
                let rule = self.rules.of(family).named(&request.namespace, &request.name)?;
                Some(Thing::Rule(family, rule.id.clone()))
            }
            (_, Place::File(key)) => Some(Thing::File(key)),
            _ => None,
        }
    }

    /// Returns the rules that an action would release: the copy of a request, otherwise the present ones.
    fn rules_of(&self, act: &GatedAction, copy: Option<&Snapshot>) -> Vec<Arc<Rule>> {
        match (act, copy) {
            (_, Some(Snapshot::Rule(rule))) => vec![rule.clone()],
            (GatedAction::PublishRule(family, draft), _) => {
                self.rule_to_publish(*family, draft).ok().into_iter().collect()
            }
            (GatedAction::RuleRelease(family, _, draft), _) => {
                let Ok(Some(release)) = self.release_named_by(*family, draft) else { return Vec::new() };
                let earlier = draft.to_previous.unwrap_or_default().then(|| self.earlier_normal(&*release)).flatten();
                [Some(release), earlier].into_iter().flatten().map(|release| release.rule.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the gates of an action. A plan ends with a promotion, so it needs what a promotion needs.
    pub(super) fn gates_of(act: &GatedAction, gate: Gate) -> Gates {
        Gates { now: gate, later: act.has_plan().then_some(Gate::Promote) }
    }

    /// Returns the version in force for all clients, 0 for none.
    pub fn version_of(&self, thing: &Thing) -> u64 {
        match thing {
            Thing::File(key) => self.configs.active_release(key).map_or(0, |release| release.version),
            Thing::Rule(family, id) => self.rules.of(*family).active().normal(id).map_or(0, |release| release.version),
        }
    }
}
