//! Scope of a permission check, and the target of an item: the scopes that it is judged at.

use crate::model::contract::Contract;
use crate::model::grant::{Grants, Verb};
use crate::model::rule::{Effect, End, Rule};

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

    pub(super) fn of_rule(rule: &Rule) -> ResourceScope {
        ResourceScope::thing(&rule.namespace, &rule.name)
    }

    /// Scopes of all that a contract covers. Its patterns stand for names here: a grant covers a pattern if it covers
    /// every name of it.
    pub(super) fn of_contract(contract: &Contract) -> Vec<ResourceScope> {
        contract.scopes().into_iter().map(|name| ResourceScope::thing(&contract.namespace, name)).collect()
    }

    pub(super) fn lets(&self, grants: &Grants, verb: Verb) -> bool {
        match self {
            ResourceScope::Thing { namespace, name } => grants.may(verb, namespace, name),
            ResourceScope::Namespace(namespace) => grants.may_in(verb, namespace),
            ResourceScope::Cluster => grants.may_everywhere(verb),
        }
    }

    pub(super) fn shows(&self, grants: &Grants) -> bool {
        match self {
            ResourceScope::Thing { .. } => SEEING.iter().any(|verb| self.lets(grants, *verb)),
            ResourceScope::Namespace(namespace) => SEEING.iter().any(|verb| grants.may_within(*verb, namespace)),
            ResourceScope::Cluster => true,
        }
    }
}

/// Authorization target of one item: the existing thing, if any, and the scopes it is created in or moved to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::catalog) struct AuthTarget {
    /// Kind, namespace and name of the thing, as the audit trail has them.
    pub(in crate::catalog) kind: &'static str,
    pub(in crate::catalog) namespace: String,
    pub(in crate::catalog) name: String,
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
    pub(in crate::catalog) takes: Option<Vec<Effect>>,
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

    /// True if the thing that it names is not there, and nothing is made.
    pub(super) fn has_no_place(&self) -> bool {
        self.stands.is_none() && self.goes.is_empty()
    }

    pub(super) fn is_shown(&self, place: &ResourceScope, grants: &Grants) -> bool {
        let feels = |end: &End| SEEING.iter().any(|verb| grants.may_touch(*verb, &end.namespace, &end.service));
        place.shows(grants) || self.felt.as_ref().is_some_and(|effect| effect.ends().any(feels))
    }
}

/// The first end at which one of the verbs is missing.
pub(super) fn refused_at<'a>(grants: &Grants, verbs: &[Verb], effects: &'a [Effect]) -> Option<&'a End> {
    let may = |end: &End| verbs.iter().all(|verb| grants.may(*verb, &end.namespace, &end.service));
    effects.iter().find_map(|effect| effect.refused_at(may))
}
