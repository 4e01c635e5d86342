//! Things as policies name them, and questions that others ask of policies.

use crate::catalog::Catalog;
use crate::catalog::ctx::Ctx;
use crate::catalog::history::Thing;
use crate::catalog::policies::Subject;
use crate::model::approval::ApprovalRequest;
use crate::model::code::{Code, Refusal};
use crate::model::policy::{Gate, PolicyKind};

impl Catalog {
    /// Refuses a planned release whose time falls where a policy asks for more than it was planned with.
    pub(in crate::catalog) fn check_planned(
        &self,
        ctx: &Ctx,
        (thing, gate): (&Thing, Gate),
        is_approved: bool,
    ) -> Result<(), Refusal> {
        let Some(subject) = self.named(thing) else { return Ok(()) };
        let demands = self.policies.demands(gate, &subject, ctx.time);
        // The sentences become part of hashed rows (`tests::words`).
        if !demands.frozen_by.is_empty() {
            return Err(Refusal::new(Code::Frozen, format!("frozen by {}", demands.frozen_by.join(", "))));
        }
        if demands.approvals > 0 && !is_approved {
            let why = format!("{} asks for approval", demands.approved_by.join(", "));
            return Err(Refusal::new(Code::ApprovalRequired, why));
        }
        Ok(())
    }

    /// True if a policy asks for the approval of others before a thing is published.
    pub fn asks_approval(&self, thing: &Thing) -> bool {
        let demands = |subject| self.policies.demands(Gate::Publish, &subject, self.clock());
        self.named(thing).is_some_and(|subject| demands(subject).approvals > 0)
    }

    /// A thing, as policies name it.
    fn named(&self, thing: &Thing) -> Option<Subject> {
        let (kind, place) = match thing {
            Thing::File(key) => {
                (PolicyKind::ConfigFile, (key.namespace.clone(), format!("{}/{}", key.group, key.file)))
            }
            Thing::Rule(family, id) => {
                let rule = self.rules.of(*family).get(id)?;
                (PolicyKind::Rule(*family), (rule.namespace.clone(), rule.name.clone()))
            }
        };
        let places = [place].into_iter().chain(self.released_as(thing.clone())).collect();
        Some(Subject { kind, places })
    }

    /// The thing of a request, as it is called now; one that is gone, as it was called.
    pub(super) fn subject_of(&self, request: &ApprovalRequest) -> Subject {
        let thing = request.payload.as_ref().and_then(|payload| self.thing_of(&payload.act));
        let was = || Subject { kind: request.kind, places: vec![(request.namespace.clone(), request.name.clone())] };
        thing.and_then(|thing| self.named(&thing)).unwrap_or_else(was)
    }

    /// Namespace and name of a rule as clients have it. Whoever gives a rule another name does not get it out of the
    /// policies that hold for what is in force.
    pub(super) fn released_as(&self, thing: Thing) -> Option<(String, String)> {
        let Thing::Rule(family, id) = thing else { return None };
        let rule = &self.rules.of(family).active().normal(&id)?.rule;
        Some((rule.namespace.clone(), rule.name.clone()))
    }

    /// The version that is in force for all clients, 0 for none.
    pub fn version_of(&self, thing: &Thing) -> u64 {
        match thing {
            Thing::File(key) => self.configs.active_release(key).map_or(0, |release| release.version),
            Thing::Rule(family, id) => self.rules.of(*family).active().normal(id).map_or(0, |release| release.version),
        }
    }
}
