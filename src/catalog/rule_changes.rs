//! Governance rules: rules of change, for all families alike. Saving a rule never changes what
//! clients see; publishing does. What may become of a release is the table in `model::release`.

use std::sync::Arc;

use super::Catalog;
use super::change::{Entity, Journal, Outcome};
use super::command::Op;
use super::ctx::Ctx;
use crate::model::code::{Code, Refusal};
use crate::model::is_stale;
use crate::model::release::{ReleaseOp, ReleaseState, ReleaseType, Transition, publishable, transition};
use crate::model::rule::release::{RuleRelease, RuleReleaseDraft};
use crate::model::rule::{Family, Rule, RuleDraft};

impl Catalog {
    pub(super) fn write_rule(&mut self, ctx: &Ctx, op: Op, draft: &RuleDraft, journal: &mut Journal) -> Outcome {
        let outcome = match (op, self.rule_named_by(draft)) {
            (Op::Create, _) => self.create_rule(ctx, draft, journal),
            (Op::Update, None) => Err(Code::NotFoundResource.into()),
            (Op::Update, Some(old)) => self.update_rule(ctx, &old, draft, journal),
            (Op::Delete, None) => Ok(Outcome::default()),
            (Op::Delete, Some(old)) => {
                self.rules.of_mut(old.family()).remove_rule(&old, journal);
                Ok(Outcome::done(Entity::Rule(old)))
            }
        };
        outcome.unwrap_or_else(Outcome::from)
    }

    /// By id if the draft gives one, else by namespace and name.
    pub(super) fn rule_named_by(&self, draft: &RuleDraft) -> Option<Arc<Rule>> {
        let book = self.rules.of(draft.body.family());
        match draft.head.given_id() {
            Some(id) => book.get(id).cloned(),
            None => book.named(draft.head.namespace.as_deref()?, draft.head.name.as_deref()?).cloned(),
        }
    }

    fn create_rule(&mut self, ctx: &Ctx, draft: &RuleDraft, journal: &mut Journal) -> Result<Outcome, Refusal> {
        let id = draft.head.given_id().map_or_else(|| ctx.draw_id(), str::to_owned);
        let mut rule = draft.rule(id, ctx.draw_id(), ctx.stamp())?;
        rule.enabled_at = rule.enable.then_some(ctx.time);
        let book = self.rules.of(rule.family());
        if let Some(taken) = book.get(&rule.id).or_else(|| book.named(&rule.namespace, &rule.name)) {
            return Ok(Outcome { entity: Entity::Rule(taken.clone()), ..Code::ExistedResource.into() });
        }
        self.namespaces.ensure(ctx, &rule.namespace, journal);
        Ok(Outcome::done(Entity::Rule(self.rules.of_mut(rule.family()).put_rule(rule, journal))))
    }

    fn update_rule(
        &mut self,
        ctx: &Ctx,
        old: &Arc<Rule>,
        draft: &RuleDraft,
        journal: &mut Journal,
    ) -> Result<Outcome, Refusal> {
        if is_stale(&draft.head.revision, &old.revision) {
            return Ok(Outcome { entity: Entity::Rule(old.clone()), ..Code::DataConflict.into() });
        }
        let mut rule = Rule::clone(old);
        draft.lay_over(&mut rule)?;
        if rule == **old {
            return Ok(Outcome::unchanged(Entity::Rule(old.clone())));
        }
        let book = self.rules.of(rule.family());
        if let Some(taken) = book.named(&rule.namespace, &rule.name).filter(|named| named.id != rule.id) {
            return Ok(Outcome { entity: Entity::Rule(taken.clone()), ..Code::ExistedResource.into() });
        }
        if rule.enable && !old.enable {
            rule.enabled_at = Some(ctx.time);
        }
        rule.modified = ctx.stamp();
        rule.revision = ctx.draw_id();
        self.namespaces.ensure(ctx, &rule.namespace, journal);
        Ok(Outcome::done(Entity::Rule(self.rules.of_mut(rule.family()).put_rule(rule, journal))))
    }

    pub(super) fn publish_rule(
        &mut self,
        ctx: &Ctx,
        family: Family,
        draft: &RuleReleaseDraft,
        journal: &mut Journal,
    ) -> Outcome {
        self.try_publish_rule(ctx, family, draft, journal).unwrap_or_else(Outcome::from)
    }

    fn try_publish_rule(
        &mut self,
        ctx: &Ctx,
        family: Family,
        draft: &RuleReleaseDraft,
        journal: &mut Journal,
    ) -> Result<Outcome, Refusal> {
        let rule = self.rule_to_publish(family, draft)?;
        let release_type = ReleaseType::read(draft.release_type.as_deref())?;
        let book = self.rules.of(family);
        publishable(release_type, draft.labels(), book.active().has_gray(&rule.id))?;
        let given_id = draft.given_id().filter(|_| draft.names_rule());
        let named = draft.given_release_name().and_then(|name| book.release(&rule.id, name));
        if let Some(taken) = named.or_else(|| book.release_by_id(given_id?)) {
            return Ok(Outcome { entity: Entity::RuleRelease(taken.clone()), ..Code::ExistedResource.into() });
        }
        let version = rule.versions + 1;
        let release = RuleRelease {
            id: given_id.map_or_else(|| ctx.draw_id(), str::to_owned),
            name: self.rule_release_name(family, draft, &rule.id, version),
            description: draft.description.clone().unwrap_or_default(),
            release_type,
            client_labels: draft.labels().to_vec(),
            version,
            active: true,
            rule: rule.clone(),
            created: ctx.stamp(),
            modified: ctx.stamp(),
        };
        Ok(Outcome::done(Entity::RuleRelease(self.activate(ctx, release, journal))))
    }

    /// By `rule_id`, by `rule_name` (with `namespace` where the name is not unique), or with neither
    /// by `id`.
    pub(super) fn rule_to_publish(&self, family: Family, draft: &RuleReleaseDraft) -> Result<Arc<Rule>, Refusal> {
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

    /// The name given, else one made of the version; a caller may have taken that very name, so it
    /// grows until it is free.
    fn rule_release_name(&self, family: Family, draft: &RuleReleaseDraft, rule_id: &str, version: u64) -> String {
        if let Some(given) = draft.given_release_name() {
            return given.to_owned();
        }
        let mut name = format!("v{version}");
        while self.rules.of(family).release(rule_id, &name).is_some() {
            name.push('x');
        }
        name
    }

    /// Makes a release active under the version that it carries; a normal one takes the place of
    /// the one before it.
    fn activate(&mut self, ctx: &Ctx, release: RuleRelease, journal: &mut Journal) -> Arc<RuleRelease> {
        let book = self.rules.of_mut(release.rule.family());
        if let Some(rule) = book.get(&release.rule.id).cloned() {
            book.put_rule(Rule { versions: release.version, ..Rule::clone(&rule) }, journal);
        }
        if release.release_type == ReleaseType::Normal
            && let Some(normal) = book.active().normal(&release.rule.id).cloned()
        {
            let retired = RuleRelease { active: false, modified: ctx.stamp(), ..RuleRelease::clone(&normal) };
            book.put_release(retired, journal);
        }
        let release = book.put_release(release, journal);
        self.retain_rule_releases(release.rule.family(), &release.rule.id, journal);
        release
    }

    pub(super) fn change_release(
        &mut self,
        ctx: &Ctx,
        family: Family,
        op: ReleaseOp,
        draft: &RuleReleaseDraft,
        journal: &mut Journal,
    ) -> Outcome {
        let target = match self.release_named_by(family, draft) {
            Ok(target) => target,
            Err(refusal) => return refusal.into(),
        };
        let state = target.as_ref().map_or(ReleaseState::Missing, |release| release.state());
        let entity = target.clone().map_or(Entity::None, Entity::RuleRelease);
        let (verdict, target) = (transition(op, state), target);
        match (verdict, target) {
            (Transition::Activate, Some(target)) => {
                let version =
                    self.rules.of(family).get(&target.rule.id).map_or(target.version, |rule| rule.versions) + 1;
                let release =
                    RuleRelease { active: true, version, modified: ctx.stamp(), ..RuleRelease::clone(&target) };
                Outcome::done(Entity::RuleRelease(self.activate(ctx, release, journal)))
            }
            (Transition::Deactivate, Some(target)) => {
                let release = RuleRelease { active: false, modified: ctx.stamp(), ..RuleRelease::clone(&target) };
                let release = self.rules.of_mut(family).put_release(release, journal);
                self.retain_rule_releases(family, &release.rule.id, journal);
                Outcome::done(Entity::RuleRelease(release))
            }
            (Transition::Remove, Some(target)) => {
                self.rules.of_mut(family).remove_release(&target, journal);
                Outcome::done(entity)
            }
            (Transition::Refuse(refusal), _) => Outcome { entity, ..refusal.into() },
            (Transition::Stay(code), _) => Outcome { entity, ..code.into() },
            (Transition::Activate | Transition::Deactivate | Transition::Remove, None) => Code::NotFoundResource.into(),
        }
    }

    /// By id, or by rule and release name. A release of another rule than the given one is none.
    pub(super) fn release_named_by(
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
