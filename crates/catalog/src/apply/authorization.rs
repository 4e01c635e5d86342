//! Authorization of commands, the only place where writes are authorized. Each item is checked when it is applied,
//! against the grants and the meaning of its ids and names at that moment, so an id, a move, an alias or an outdated
//! node cannot bypass it.
//!
//! A thing that the caller may not read is reported as missing, and a refused item changes nothing. A command without a
//! caller is the cluster's own and is not checked.

use std::sync::Arc;

use super::change::{Entity, Outcome};
use super::command::{Credential, Op};
use super::ctx::{Apply, Ctx};
pub use super::scope::SEEING;
use super::scope::{AuthTarget, ResourceScope, refused_at};
use crate::catalog::Catalog;
use crate::catalog::access::Holder;
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grants, ReadScope, Verb};
use crate::model::release::{ReleaseOp, ReleaseState, Transition, transition};
use crate::model::rule::Family;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::sso::SsoAuthor;

/// Holder of a command's credential at the moment of apply.
#[derive(Debug)]
pub(crate) enum Principal {
    /// The cluster itself.
    Cluster,
    /// No user yet: a login.
    Stranger,
    Holder(Holder),
    /// A caller whose token is no longer valid, or whose user is deleted or disabled.
    Gone,
}

impl Principal {
    /// Returns the id of the acting user, directly or through a service token; empty if there is none.
    pub(crate) fn person(&self) -> &str {
        match self {
            Principal::Holder(holder) => &holder.person,
            Principal::Cluster | Principal::Stranger | Principal::Gone => "",
        }
    }

    /// Returns the claims of a caller of an identity provider.
    pub(super) fn author(&self) -> Option<&Arc<SsoAuthor>> {
        match self {
            Principal::Holder(holder) => holder.author.as_ref(),
            Principal::Cluster | Principal::Stranger | Principal::Gone => None,
        }
    }
}

/// Authorization check of the items of one command.
pub(super) struct AuthCheck<'a> {
    pub(super) principal: &'a Principal,
    pub(super) verbs: &'a [Verb],
    /// Answer for a thing that the principal may not see.
    pub(super) missing: Outcome,
}

/// Returns the answer to an operation on a thing that does not exist.
pub(super) fn missing(op: Op) -> Outcome {
    match op {
        Op::Create | Op::Update => Code::NotFoundResource.into(),
        Op::Delete => Outcome::default(),
    }
}

/// Returns the answer to an operation on a release that does not exist.
pub(super) fn missing_release(op: ReleaseOp) -> Outcome {
    match transition(op, ReleaseState::Missing) {
        Transition::Refuse(refusal) => refusal.into(),
        Transition::Stay(code) => code.into(),
        Transition::Activate
        | Transition::Deactivate
        | Transition::Remove
        | Transition::Promote
        | Transition::Withdraw
        | Transition::Roll => Code::NotFoundResource.into(),
    }
}

impl Catalog {
    /// Finds the holder of a credential.
    pub(super) fn principal(&self, credential: &Credential, ctx: &Ctx) -> Principal {
        if *credential == Credential::Login {
            return Principal::Stranger;
        }
        self.access.holder_of(credential, ctx.sure()).map_or(Principal::Gone, Principal::Holder)
    }

    /// Resolves rules named without a namespace, to the rule of that name that the principal sees.
    pub(super) fn named_for(
        &self,
        principal: &Principal,
        family: Family,
        mut drafts: Vec<RuleReleaseDraft>,
    ) -> Vec<RuleReleaseDraft> {
        let Principal::Holder(holder) = principal else { return drafts };
        for draft in drafts.iter_mut().filter(|draft| draft.given_namespace().is_none()) {
            let name = draft.given_rule_name().filter(|_| draft.given_rule_id().is_none());
            let Some(name) = name.map(str::to_owned) else { continue };
            let book = self.rules.of(family);
            let mut seen = book.all_named(&name).filter(|rule| ResourceScope::of_rule(rule).shows(&holder.grants));
            let meant = match (seen.next(), seen.next()) {
                (Some(one), None) => Some(one),
                (Some(_), Some(_)) => None,
                // None of them is visible, so any one will be reported as missing.
                (None, _) => book.all_named(&name).next(),
            };
            if let Some(rule) = meant {
                draft.namespace = Some(rule.namespace.clone());
            }
        }
        drafts
    }

    /// Removes from an outcome what its caller may not see, such as the thing that already has the name.
    fn redact(&self, outcome: Outcome, grants: &Grants) -> Outcome {
        let is_seen = match &outcome.entity {
            // Visible through the services of a rule as well.
            Entity::Request(request) => request.is_seen_by(&ReadScope::new(grants, SEEING)),
            entity => {
                grants.may_everywhere(Verb::Read) || self.place_of(entity).is_none_or(|place| place.shows(grants))
            }
        };
        if is_seen { outcome } else { Outcome { entity: Entity::None, ..outcome } }
    }

    /// Returns the scope that a thing belongs to.
    pub(super) fn place_of(&self, entity: &Entity) -> Option<ResourceScope> {
        match entity {
            Entity::None => None,
            Entity::Namespace(namespace) => Some(ResourceScope::Namespace(namespace.name.clone())),
            Entity::Service(service) => Some(ResourceScope::thing(&service.namespace, &service.name)),
            Entity::Alias(alias) => Some(ResourceScope::thing(&alias.namespace, &alias.service)),
            Entity::Rule(rule) => Some(ResourceScope::thing(&rule.namespace, &rule.name)),
            Entity::RuleRelease(release) => Some(ResourceScope::of_rule(self.rule_of(release))),
            Entity::ConfigGroup(group) => Some(ResourceScope::thing(&group.namespace, &group.name)),
            Entity::ConfigFile(file) => Some(ResourceScope::thing(&file.key.namespace, &file.key.group)),
            Entity::ConfigRelease(release) => Some(ResourceScope::thing(&release.key.namespace, &release.key.group)),
            Entity::Instance(instance) => Some(ResourceScope::thing(&instance.namespace, &instance.service)),
            Entity::ConfigTemplate(_)
            | Entity::User(_)
            | Entity::ServiceToken(_)
            | Entity::AccessKey(_)
            | Entity::Policy(_)
            | Entity::Provider(_)
            | Entity::Identity(_)
            | Entity::Webhook(_) => Some(ResourceScope::Cluster),
            Entity::Contract(contract) => ResourceScope::of_contract(contract).into_iter().next(),
            Entity::Request(request) => Some(ResourceScope::thing(&request.namespace, request.scope_name())),
            // A blocked caller learns what blocks the action.
            Entity::PolicyBlock(_) | Entity::Broken(_) => None,
        }
    }
}

impl Apply<'_> {
    /// Applies each item that the principal is permitted to apply at the item's target.
    pub(super) fn each_judged<T>(
        &mut self,
        check: &AuthCheck<'_>,
        items: Vec<T>,
        target_of: impl Fn(&Catalog, &T) -> AuthTarget,
        mut apply: impl FnMut(&mut Apply<'_>, T) -> Outcome,
    ) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            if let Principal::Cluster = check.principal {
                outcomes.push(apply(self, item));
                continue;
            }
            let (target, edits) = (target_of(self.catalog, &item), self.changes.edit_count());
            let outcome = match check.principal {
                Principal::Cluster | Principal::Stranger => Code::NotAllowedAccess.into(),
                Principal::Gone => Code::TokenNotExisted.into(),
                Principal::Holder(holder) => match judge(&holder.grants, check, &target) {
                    Some(refused) => refused,
                    None => match self.catalog.refuse_dots(&target) {
                        Some(refused) => refused.into(),
                        None => {
                            let outcome = apply(self, item);
                            self.catalog.redact(outcome, &holder.grants)
                        }
                    },
                },
            };
            // Deleting a thing that does not exist is a success, but nothing to record.
            let is_nothing =
                check.missing.code.is_success() && outcome.code.is_success() && self.changes.edit_count() == edits;
            if !is_nothing {
                self.changes.did(target, &outcome);
            }
            outcomes.push(outcome);
        }
        outcomes
    }
}

impl Catalog {
    /// Reports whether these grants permit publishing a rule, by the same check as in apply.
    pub fn lets_publish(&self, grants: &Grants, family: Family, draft: &RuleReleaseDraft) -> bool {
        lets_release(grants, &self.target_of_rule_publication(family, draft))
    }

    /// Reports whether these grants permit changing an existing release of a rule.
    pub fn lets_change_release(&self, grants: &Grants, family: Family, draft: &RuleReleaseDraft) -> bool {
        lets_release(grants, &self.target_of_rule_release(family, draft))
    }
}

fn lets_release(grants: &Grants, target: &AuthTarget) -> bool {
    let may = |place: &ResourceScope| place.lets(grants, Verb::Release);
    target.existing.iter().chain(&target.destinations).all(may)
        && refused_at(grants, &[Verb::Release], &target.effects).is_none()
}

/// Returns the refusal of an item, or `None` if it is permitted.
pub(super) fn judge(grants: &Grants, check: &AuthCheck<'_>, target: &AuthTarget) -> Option<Outcome> {
    let may = |place: &ResourceScope| check.verbs.iter().all(|verb| place.lets(grants, *verb));
    if let Some(place) = target.existing.as_ref().filter(|place| !may(place)) {
        return Some(if target.is_shown(place, grants) { refused(check.verbs) } else { check.missing.clone() });
    }
    if !target.destinations.iter().all(may) {
        return Some(refused(check.verbs));
    }
    if let Some(end) = refused_at(grants, check.verbs, &target.effects) {
        let why = format!("{} at {end:?}, which the rule acts on", needs(check.verbs));
        return Some(Refusal::new(Code::NotAllowedAccess, why).into());
    }
    let taken = target.removed_effects.as_ref()?;
    let lets_release = target.existing.iter().all(|place| place.lets(grants, Verb::Release));
    let at =
        if lets_release { format!(" at {:?}", refused_at(grants, &[Verb::Release], taken)?) } else { String::new() };
    let why = format!("it is in force or planned: this needs release{at}, or withdraw it first");
    Some(Refusal::new(Code::NotAllowedAccess, why).into())
}

/// Returns the refusal of an item whose caller lacks one of these verbs.
pub fn refused(verbs: &[Verb]) -> Outcome {
    Refusal::new(Code::NotAllowedAccess, needs(verbs)).into()
}

fn needs(verbs: &[Verb]) -> String {
    let words: Vec<_> = verbs.iter().map(|verb| verb.word()).collect();
    format!("this needs {}", words.join(" and "))
}
