//! Authorization of commands: the only place where writes are judged. Each item is judged when it is applied, by the
//! grants of that moment and by what its ids and names stand for then, so an id, a move, an alias or a node that is
//! behind cannot get around it.
//!
//! A thing that the caller may not read is answered as missing, and a refused item changes nothing. A command without
//! a caller is the cluster's own and is not judged.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::change::{Entity, Outcome};
use super::command::{Command, Op};
use super::ctx::Ctx;
use crate::catalog::access::Holder;
use crate::catalog::{Catalog, ChangeSet};
use crate::format::level::Level;
use crate::model::access::{PasswordHash, TokenHash, Whence};
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grants, Verb};
use crate::model::release::{ReleaseOp, ReleaseState, Transition, transition};
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Effect, End, Family};

/// A command with its caller: the credential, the address and the id of the HTTP request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthorizedCommand {
    pub credential: Credential,
    /// Of the client, as far as it is known.
    pub address: Option<IpAddr>,
    /// Id of the HTTP request.
    pub request: String,
    /// An instance speaks of itself.
    pub itself: bool,
    /// Its caller was refused so often lately that the trail does not have it again. From [`Level::RIGHTS`] on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mutes_refusals: bool,
    pub command: Command,
}

impl AuthorizedCommand {
    /// The command as it was before anybody was named with it.
    pub fn bare(self) -> Command {
        match self.command {
            Command::SignIn { hash, user_id, .. } => {
                Command::SignIn { hash, user_id, password: PasswordHash::default(), from: Whence::default() }
            }
            command => command,
        }
    }
}

/// By what a caller is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Credential {
    /// A password that was just checked, for a login.
    Login,
    Token(TokenHash),
    /// A certificate in the name of a user.
    Certificate(String),
}

impl Credential {
    /// Id of the credential in the audit trail.
    pub fn token_id(&self) -> &str {
        match self {
            Credential::Token(hash) => hash.id(),
            Credential::Login | Credential::Certificate(_) => "",
        }
    }
}

/// The holder of a command's credential at the moment of apply.
#[derive(Debug)]
pub(in crate::catalog) enum Principal {
    /// The cluster itself.
    Cluster,
    /// Nobody yet: a login.
    Stranger,
    Holder(Holder),
    /// A caller whose token is no longer valid, or whose user is deleted or disabled.
    Gone,
}

/// Seeing a thing, in one way or another.
pub const SEEING: &[Verb] = &[Verb::Read, Verb::Discover];

/// The scope of a permission check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResourceScope {
    /// A thing in a namespace.
    Thing {
        namespace: String,
        name: String,
    },
    Namespace(String),
    Cluster,
}

impl ResourceScope {
    pub(super) fn thing(namespace: &str, name: &str) -> ResourceScope {
        ResourceScope::Thing { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn lets(&self, grants: &Grants, verb: Verb) -> bool {
        match self {
            ResourceScope::Thing { namespace, name } => grants.may(verb, namespace, name),
            ResourceScope::Namespace(namespace) => grants.may_in(verb, namespace),
            ResourceScope::Cluster => grants.may_everywhere(verb),
        }
    }

    fn shows(&self, grants: &Grants) -> bool {
        match self {
            ResourceScope::Thing { .. } => SEEING.iter().any(|verb| self.lets(grants, *verb)),
            ResourceScope::Namespace(namespace) => SEEING.iter().any(|verb| grants.may_within(*verb, namespace)),
            ResourceScope::Cluster => true,
        }
    }
}

/// Authorization target of one item: the existing thing, if any, and the scopes it is created in or moved to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AuthTarget {
    /// Kind, namespace and name of the thing, as the audit trail has them.
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Scope of the thing that it names; `None` if it does not exist.
    pub(super) stands: Option<ResourceScope>,
    /// Scopes that something is made in, or moved to.
    pub(super) goes: Vec<ResourceScope>,
    /// The revision of what is there, or what stands for one.
    pub(super) before: String,
    /// Effects besides its place, as it is and as it becomes: judged as the place is.
    pub(super) acts: Vec<Effect>,
    /// Effect of the thing: a caller who may see one of its ends sees that the thing exists.
    pub(super) felt: Option<Effect>,
    /// Effects that the item takes away from clients besides, which needs the right to release; `None` if none.
    pub(super) takes: Option<Vec<Effect>>,
}

impl AuthTarget {
    pub(super) fn new(kind: &'static str, namespace: impl Into<String>, name: impl Into<String>) -> AuthTarget {
        let (namespace, name) = (namespace.into(), name.into());
        AuthTarget { kind, namespace, name, ..AuthTarget::default() }
    }

    /// Target that belongs to the cluster as a whole.
    pub(super) fn of_cluster(kind: &'static str, name: impl Into<String>) -> AuthTarget {
        AuthTarget { stands: Some(ResourceScope::Cluster), ..AuthTarget::new(kind, "", name) }
    }

    /// Target that exists, in the revision that it has.
    pub(super) fn at(self, place: ResourceScope, before: impl Into<String>) -> AuthTarget {
        AuthTarget { stands: Some(place), before: before.into(), ..self }
    }

    pub(super) fn to(mut self, place: ResourceScope) -> AuthTarget {
        self.goes.push(place);
        self
    }
}

impl AuthTarget {
    fn is_shown(&self, place: &ResourceScope, grants: &Grants) -> bool {
        let feels = |end: &End| SEEING.iter().any(|verb| grants.may_touch(*verb, &end.namespace, &end.service));
        place.shows(grants) || self.felt.as_ref().is_some_and(|effect| effect.ends().any(feels))
    }
}

/// The check of the items of one command.
pub(super) struct AuthCheck<'a> {
    pub(super) principal: &'a Principal,
    pub(super) verbs: &'a [Verb],
    /// Answer for a thing that the principal does not see.
    pub(super) missing: Outcome,
}

/// Answer of an operation on a thing that does not exist.
pub(super) fn missing(op: Op) -> Outcome {
    match op {
        Op::Create | Op::Update => Code::NotFoundResource.into(),
        Op::Delete => Outcome::default(),
    }
}

/// The same of a release.
pub(super) fn missing_release(op: ReleaseOp) -> Outcome {
    match transition(op, ReleaseState::Missing) {
        Transition::Refuse(refusal) => refusal.into(),
        Transition::Stay(code) => code.into(),
        Transition::Activate
        | Transition::Deactivate
        | Transition::Remove
        | Transition::Promote
        | Transition::Withdraw => Code::NotFoundResource.into(),
    }
}

impl Catalog {
    /// Principal of a credential, with the name that is written down for it.
    pub(super) fn principal(&self, credential: &Credential, ctx: &Ctx) -> Principal {
        let holder = match credential {
            Credential::Login => return Principal::Stranger,
            Credential::Token(hash) => self.access.holder(hash, ctx.time),
            Credential::Certificate(name) => self.access.holder_named(name),
        };
        holder.map_or(Principal::Gone, Principal::Holder)
    }

    /// A rule that is named without its namespace is the one of that name that the principal sees.
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
                // Whichever of them it is, it is not seen.
                (None, _) => book.all_named(&name).next(),
            };
            if let Some(rule) = meant {
                draft.namespace = Some(rule.namespace.clone());
            }
        }
        drafts
    }

    /// Does to each item what `apply` does, if the principal may have that done where the item aims at.
    pub(super) fn each_judged<T>(
        &mut self,
        job: &AuthCheck<'_>,
        items: Vec<T>,
        changes: &mut ChangeSet,
        aim: impl Fn(&Catalog, &T) -> AuthTarget,
        mut apply: impl FnMut(&mut Catalog, T, &mut ChangeSet) -> Outcome,
    ) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            if let Principal::Cluster = job.principal {
                outcomes.push(apply(self, item, changes));
                continue;
            }
            let (aim, edits) = (aim(self, &item), changes.edit_count());
            let outcome = match job.principal {
                Principal::Cluster | Principal::Stranger => Code::NotAllowedAccess.into(),
                Principal::Gone => Code::TokenNotExisted.into(),
                Principal::Holder(holder) => match judge(&holder.grants, job, &aim) {
                    Some(refused) => refused,
                    None => match self.refuse_dots(&aim) {
                        Some(refused) => refused.into(),
                        None => {
                            let outcome = apply(self, item, changes);
                            self.shown(outcome, &holder.grants)
                        }
                    },
                },
            };
            // Who deletes what is not there has done nothing that could be told.
            let is_nothing =
                job.missing.code.is_success() && outcome.code.is_success() && changes.edit_count() == edits;
            if !is_nothing || changes.level() < Level::RIGHTS {
                changes.did(aim, &outcome);
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    /// An outcome without what its caller may not see: the thing that has the name already, say.
    fn shown(&self, outcome: Outcome, grants: &Grants) -> Outcome {
        let is_seen =
            grants.may_everywhere(Verb::Read) || self.place_of(&outcome.entity).is_none_or(|place| place.shows(grants));
        if is_seen { outcome } else { Outcome { entity: Entity::None, ..outcome } }
    }

    /// Scope that a thing belongs to.
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
            | Entity::Webhook(_) => Some(ResourceScope::Cluster),
        }
    }
}

/// `None` if it may be done.
fn judge(grants: &Grants, job: &AuthCheck<'_>, aim: &AuthTarget) -> Option<Outcome> {
    let may = |place: &ResourceScope| job.verbs.iter().all(|verb| place.lets(grants, *verb));
    if let Some(place) = aim.stands.as_ref().filter(|place| !may(place)) {
        return Some(if aim.is_shown(place, grants) { refused(job.verbs) } else { job.missing.clone() });
    }
    if !aim.goes.iter().all(may) {
        return Some(refused(job.verbs));
    }
    if let Some(end) = refused_at(grants, job.verbs, &aim.acts) {
        let why = format!("{} at {end:?}, which the rule acts on", needs(job.verbs));
        return Some(Refusal::new(Code::NotAllowedAccess, why).into());
    }
    let taken = aim.takes.as_ref()?;
    let lets_release = aim.stands.iter().all(|place| place.lets(grants, Verb::Release));
    let at =
        if lets_release { format!(" at {:?}", refused_at(grants, &[Verb::Release], taken)?) } else { String::new() };
    let why = format!("it is in force or planned: this needs release{at}, or withdraw it first");
    Some(Refusal::new(Code::NotAllowedAccess, why).into())
}

/// The first end at which one of the verbs is missing.
pub(super) fn refused_at<'a>(grants: &Grants, verbs: &[Verb], effects: &'a [Effect]) -> Option<&'a End> {
    let may = |end: &End| verbs.iter().all(|verb| grants.may(*verb, &end.namespace, &end.service));
    effects.iter().find_map(|effect| effect.refused_at(may))
}

/// Refusal of an item whose caller lacks one of these verbs.
pub fn refused(verbs: &[Verb]) -> Outcome {
    Refusal::new(Code::NotAllowedAccess, needs(verbs)).into()
}

fn needs(verbs: &[Verb]) -> String {
    let words: Vec<_> = verbs.iter().map(|verb| verb.word()).collect();
    format!("this needs {}", words.join(" and "))
}
