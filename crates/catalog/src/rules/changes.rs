//! Governance rules: changes, shared by all families. Saving a rule never changes what clients see; publishing it does.
//! The life cycle of releases is in `releases`.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::catalog::change::{Entity, Outcome, admits_gray};
use crate::catalog::command::Op;
use crate::catalog::ctx::{Apply, Ctx};
use crate::catalog::history::Thing;
use crate::catalog::releases::{Releasable, later, refuse_unpinned};
use crate::catalog::resource::StoredResource;
use crate::model::code::{Code, Refusal};
use crate::model::is_stale;
use crate::model::release::{Pin, ReleaseOp, ReleaseType, publishable};
use crate::model::rule::release::{RuleRelease, RuleReleaseDraft};
use crate::model::rule::{Family, Rule, RuleDraft};
use crate::model::time::Timestamp;

impl StoredResource for Rule {
    type Draft = RuleDraft;

    fn entity(rule: Arc<Rule>) -> Entity {
        Entity::Rule(rule)
    }

    fn revision(&self) -> &str {
        &self.revision
    }

    fn modified(&self) -> Timestamp {
        self.modified.time
    }

    fn given_revision(draft: &RuleDraft) -> &Option<String> {
        &draft.head.revision
    }

    fn stamp(&mut self, ctx: &Ctx) {
        self.modified = ctx.stamp();
        self.revision = ctx.draw_id();
    }

    fn lay_over(draft: &RuleDraft, rule: &mut Rule) -> Result<(), Outcome> {
        Ok(draft.lay_over(rule).map_err(Refusal::from)?)
    }

    /// Returns `None` for a create, which checks the fields of the rule first.
    fn find(catalog: &Catalog, op: Op, draft: &RuleDraft) -> Option<Arc<Rule>> {
        (op != Op::Create).then(|| catalog.rule_named_by(op, draft)).flatten()
    }

    fn create(apply: &mut Apply<'_>, draft: &RuleDraft) -> Result<Rule, Outcome> {
        let id = draft.head.given_id().map_or_else(|| apply.ctx.draw_id(), str::to_owned);
        let mut rule = draft.rule(id, apply.ctx.draw_id(), apply.ctx.stamp()).map_err(Refusal::from)?;
        rule.enabled_at = rule.enable.then_some(apply.ctx.time);
        let book = apply.catalog.rules.of(rule.family());
        match book.get(&rule.id).or_else(|| book.named(&rule.namespace, &rule.name)) {
            Some(taken) => Err(Outcome::existed(Entity::Rule(taken.clone()))),
            None => Ok(rule),
        }
    }

    fn before_update(apply: &mut Apply<'_>, old: &Rule, rule: &mut Rule) -> Result<(), Outcome> {
        let book = apply.catalog.rules.of(rule.family());
        if let Some(taken) = book.named(&rule.namespace, &rule.name).filter(|named| named.id != rule.id) {
            return Err(Outcome::existed(Entity::Rule(taken.clone())));
        }
        if rule.enable && !old.enable {
            rule.enabled_at = Some(apply.ctx.time);
        }
        Ok(())
    }

    fn put(Apply { catalog, ctx, changes }: &mut Apply<'_>, rule: Rule) -> Arc<Rule> {
        catalog.namespaces.ensure(ctx, &rule.namespace, changes);
        catalog.rules.of_mut(rule.family()).put_rule(rule, changes)
    }

    fn delete(Apply { catalog, changes, .. }: &mut Apply<'_>, old: &Arc<Rule>) -> Result<(), Outcome> {
        catalog.rules.of_mut(old.family()).remove_rule(old, changes);
        catalog.history.forget(&Thing::Rule(old.family(), old.id.clone()), changes);
        Ok(())
    }
}

impl Catalog {
    /// Finds a rule by id if the draft has one, otherwise by namespace and name. An update by id may rename the rule; a
    /// deletion by id and another name matches no rule.
    pub(crate) fn rule_named_by(&self, op: Op, draft: &RuleDraft) -> Option<Arc<Rule>> {
        let book = self.rules.of(draft.body.family());
        let is_strict = op == Op::Delete;
        let fits = |given: &Option<String>, kept: &str| {
            !is_strict || given.as_deref().is_none_or(|given| given.is_empty() || given == kept)
        };
        match draft.head.given_id() {
            Some(id) => book
                .get(id)
                .filter(|rule| fits(&draft.head.name, &rule.name) && fits(&draft.head.namespace, &rule.namespace))
                .cloned(),
            None => book.named(draft.head.namespace.as_deref()?, draft.head.name.as_deref()?).cloned(),
        }
    }

    /// Finds the rule by `rule_id`, by `rule_name` (with `namespace` if the name is not unique), or without either by
    /// `id`.
    pub(crate) fn rule_to_publish(&self, family: Family, draft: &RuleReleaseDraft) -> Result<Arc<Rule>, Refusal> {
        let found = match (draft.given_rule_id(), draft.given_rule_name()) {
            (Some(id), name) => self.rules.of(family).get(id).filter(|rule| name.is_none_or(|name| name == rule.name)),
            (None, Some(name)) => self.rule_by_name(family, name, draft.given_namespace())?,
            (None, None) => draft.given_id().and_then(|id| self.rules.of(family).get(id)),
        };
        let in_namespace = found.filter(|rule| draft.given_namespace().is_none_or(|given| given == rule.namespace));
        in_namespace.cloned().ok_or_else(|| Refusal::new(Code::NotFoundResource, "no such rule"))
    }

    fn rule_by_name(&self, family: Family, name: &str, namespace: Option<&str>) -> Result<Option<&Arc<Rule>>, Refusal> {
        let book = self.rules.of(family);
        if let Some(namespace) = namespace {
            return Ok(book.named(namespace, name));
        }
        let mut named = book.all_named(name);
        let first = named.next();
        if named.next().is_some() {
            let why = "several namespaces have a rule of this name, give its id or namespace";
            return Err(Refusal::new(Code::InvalidParameter, why));
        }
        Ok(first)
    }

    /// Returns the version in force of a rule, as a condition for an action on it.
    pub fn pin_beside(&self, rule: &Rule) -> Pin {
        let normal = self.rules.of(rule.family()).active().normal(&rule.id);
        Pin { in_force: Some(normal.map_or(0, |release| release.version)), ..Pin::default() }
    }

    /// Finds a release by id, or by rule and release name. A release of another rule than the named one does not match.
    pub(crate) fn release_named_by(
        &self,
        family: Family,
        draft: &RuleReleaseDraft,
    ) -> Result<Option<Arc<RuleRelease>>, Refusal> {
        let book = self.rules.of(family);
        let rule = match (draft.given_rule_id(), draft.given_rule_name()) {
            (Some(id), _) => book.get(id),
            (None, Some(name)) => self.rule_by_name(family, name, draft.given_namespace())?,
            (None, None) => None,
        };
        let found = match (draft.given_id(), draft.given_release_name(), rule) {
            (Some(id), _, _) => book.release_by_id(id),
            (None, Some(name), Some(rule)) => book.release(&rule.id, name),
            _ => None,
        };
        let fits = |release: &&Arc<RuleRelease>| {
            (!draft.names_rule() || rule.is_some_and(|rule| rule.id == release.rule.id))
                && draft.given_rule_name().is_none_or(|name| rule.is_some_and(|rule| rule.name == name))
                && draft.given_release_name().is_none_or(|name| name == release.name)
        };
        Ok(found.filter(fits).cloned())
    }
}

impl Apply<'_> {
    pub(crate) fn publish_rule(&mut self, family: Family, draft: &RuleReleaseDraft) -> Outcome {
        let rule = self.catalog.rule_to_publish(family, draft);
        if let Ok(rule) = &rule {
            let now = Pin { revision: Some(rule.revision.clone()), ..self.catalog.pin_beside(rule) };
            if let Some(refused) = refuse_unpinned(draft.pin.as_ref(), &now, self.changes) {
                return refused;
            }
        }
        rule.and_then(|rule| self.try_publish_rule(rule, family, draft)).unwrap_or_else(Outcome::from)
    }

    /// Publishes the copy of a rule from the time of the request. The rule must still exist.
    pub(crate) fn publish_rule_copy(&mut self, copy: Arc<Rule>, family: Family, draft: &RuleReleaseDraft) -> Outcome {
        let there = self.catalog.rule_to_publish(family, draft);
        there.and_then(|_| self.try_publish_rule(copy, family, draft)).unwrap_or_else(Outcome::from)
    }

    fn try_publish_rule(
        &mut self,
        rule: Arc<Rule>,
        family: Family,
        draft: &RuleReleaseDraft,
    ) -> Result<Outcome, Refusal> {
        if is_stale(&draft.revision, &rule.revision) {
            return Ok(Outcome { entity: Entity::Rule(rule), ..Code::DataConflict.into() });
        }
        let release_type = ReleaseType::read(draft.release_type.as_deref())?;
        let book = self.catalog.rules.of(family);
        // A planned release is checked when it is due.
        let is_later = later(self.ctx, draft.publish_at()).is_some();
        let active_grays = if is_later { 0 } else { book.active().grays(&rule.id) };
        publishable(release_type, draft.is_for_everybody(), active_grays > 0)?;
        admits_gray(release_type, active_grays)?;
        Catalog::admits_plan(book.releases_of(&rule.id), self.ctx, draft.publish_at())?;
        let given_id = draft.given_id().filter(|_| draft.names_rule());
        let named = draft.given_release_name().and_then(|name| book.release(&rule.id, name));
        if let Some(taken) = named.or_else(|| book.release_by_id(given_id?)) {
            return Ok(Outcome::existed(Entity::RuleRelease(taken.clone())));
        }
        let mut release = RuleRelease {
            id: given_id.map_or_else(|| self.ctx.draw_id(), str::to_owned),
            name: draft.given_release_name().unwrap_or_default().to_owned(),
            description: draft.description.clone().unwrap_or_default(),
            release_type,
            client_labels: draft.labels().to_vec(),
            client_percent: draft.share(),
            plan: None,
            rollout: draft.plan.clone().map(|plan| Box::new(self.begin_rollout(plan))),
            version: 0,
            active: true,
            rule,
            created: self.ctx.stamp(),
            modified: self.ctx.stamp(),
        };
        release.version = release.take_version(self);
        if release.name.is_empty() {
            release.name = release.free_name(self.catalog, self.ctx, release.version);
        }
        let comment = release.description.clone();
        Ok(self.begin_release(release, draft.publish_at(), &comment, |_| ()))
    }

    pub(crate) fn change_release(&mut self, family: Family, op: ReleaseOp, draft: &RuleReleaseDraft) -> Outcome {
        let target = match self.catalog.release_named_by(family, draft) {
            Ok(target) => target,
            Err(refusal) => return refusal.into(),
        };
        if let Some(release) = &target {
            let now = Pin { version: Some(release.version), ..self.catalog.pin_beside(&release.rule) };
            if let Some(refused) = refuse_unpinned(draft.pin.as_ref(), &now, self.changes) {
                return refused;
            }
        }
        self.change_release_of(op, target, draft.into())
    }
}
