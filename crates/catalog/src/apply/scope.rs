//! Scopes of permission checks, and the authorization target of an item.

use crate::model::contract::Contract;
use crate::model::grant::{Grants, Verb};
use crate::model::rule::{Effect, End, Rule};

/// Verbs of which each makes a thing visible.
pub const SEEING: &[Verb] = &[Verb::Read, Verb::Discover];

/// Scope of a permission check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResourceScope {
    /// A thing in a namespace.
    Object {
        namespace: String,
        name: String,
    },
    Namespace(String),
    Cluster,
}

impl ResourceScope {
    pub(super) fn thing(namespace: &str, name: &str) -> ResourceScope {
        ResourceScope::Object { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub(super) fn of_rule(rule: &Rule) -> ResourceScope {
        ResourceScope::thing(&rule.namespace, &rule.name)
    }

    /// Returns the scopes that a contract covers. Its patterns serve as names: a grant covers a pattern if it covers
    /// every name that matches it.
    pub(super) fn of_contract(contract: &Contract) -> Vec<ResourceScope> {
        contract.scopes().into_iter().map(|name| ResourceScope::thing(&contract.namespace, name)).collect()
    }

    pub(super) fn lets(&self, grants: &Grants, verb: Verb) -> bool {
        match self {
            ResourceScope::Object { namespace, name } => grants.may(verb, namespace, name),
            ResourceScope::Namespace(namespace) => grants.may_in(verb, namespace),
            ResourceScope::Cluster => grants.may_everywhere(verb),
        }
    }

    pub(super) fn shows(&self, grants: &Grants) -> bool {
        match self {
            ResourceScope::Object { .. } => SEEING.iter().any(|verb| self.lets(grants, *verb)),
            ResourceScope::Namespace(namespace) => SEEING.iter().any(|verb| grants.may_within(*verb, namespace)),
            ResourceScope::Cluster => true,
        }
    }
}

/// Authorization target of one item: the existing thing, if any, and the scopes it is created in or moved to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthTarget {
    /// Kind, namespace and name of the thing, as recorded in the audit trail.
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Scope of the thing that the item names; `None` if it does not exist.
    pub(super) existing: Option<ResourceScope>,
    /// Scopes in which something is created, or to which it is moved.
    pub(super) destinations: Vec<ResourceScope>,
    /// Revision of the existing thing, or a substitute for one.
    pub(super) revision: String,
    /// Services that the rule acts on before and after the change; they are authorized like its scope.
    pub(super) effects: Vec<Effect>,
    /// Effect of the thing: a caller that may see one of its services sees that the thing exists.
    pub(super) visible_by: Option<Effect>,
    /// Effects that clients lose by the item, which requires release; `None` if there are none.
    pub(crate) removed_effects: Option<Vec<Effect>>,
}

impl AuthTarget {
    pub(super) fn new(kind: &'static str, namespace: impl Into<String>, name: impl Into<String>) -> AuthTarget {
        let (namespace, name) = (namespace.into(), name.into());
        AuthTarget { kind, namespace, name, ..AuthTarget::default() }
    }

    /// Returns a target that belongs to the cluster as a whole.
    pub(crate) fn of_cluster(kind: &'static str, name: impl Into<String>) -> AuthTarget {
        AuthTarget { existing: Some(ResourceScope::Cluster), ..AuthTarget::new(kind, "", name) }
    }

    /// Sets the scope and the revision of an existing target.
    pub(super) fn at(self, place: ResourceScope, revision: impl Into<String>) -> AuthTarget {
        AuthTarget { existing: Some(place), revision: revision.into(), ..self }
    }

    /// Sets the state that the audit trail records as the one before.
    pub(crate) fn with_revision(self, revision: String) -> AuthTarget {
        AuthTarget { revision, ..self }
    }

    pub(super) fn to(mut self, place: ResourceScope) -> AuthTarget {
        self.destinations.push(place);
        self
    }

    /// Reports whether the named thing does not exist and nothing is created.
    pub(super) fn has_no_place(&self) -> bool {
        self.existing.is_none() && self.destinations.is_empty()
    }

    pub(super) fn is_shown(&self, place: &ResourceScope, grants: &Grants) -> bool {
        let feels = |end: &End| SEEING.iter().any(|verb| grants.may_touch(*verb, &end.namespace, &end.service));
        place.shows(grants) || self.visible_by.as_ref().is_some_and(|effect| effect.ends().any(feels))
    }
}

/// Returns the first service at which one of the verbs is missing.
pub(super) fn refused_at<'a>(grants: &Grants, verbs: &[Verb], effects: &'a [Effect]) -> Option<&'a End> {
    let may = |end: &End| verbs.iter().all(|verb| grants.may(*verb, &end.namespace, &end.service));
    effects.iter().find_map(|effect| effect.refused_at(may))
}
