//! Roles and grants: the rights of a user or token, and where they apply.
//!
//! A grant is a role on a scope, and a role is a set of verbs. The scope of an object is its namespace and its name:
//! that of the service (also for its instances and aliases), of the config group (also for its files), or of the rule
//! itself. Objects of a whole namespace require a grant on all its names, and those of the cluster a grant on
//! everything.
//!
//! | role | read | edit | release | register | discover | operate | manage | approve |
//! |---|---|---|---|---|---|---|---|---|
//! | admin | x | x | x | x | x | x | x | x |
//! | operator | | | | | | x | | |
//! | releaser | x | | x | | | | | |
//! | approver | x | | | | | | | x |
//! | editor | x | x | | | | | | |
//! | reader | x | | | | | | | |
//! | client | | | | x | x | | | |

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::code::{Code, Refusal};
use crate::model::{limits, name};

/// Right on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// See the object in any answer.
    Read,
    /// Change drafts, services, aliases and instances.
    Edit,
    /// Decide what clients get: publish, roll back, stop and delete releases.
    Release,
    /// Register an instance and send its heartbeats.
    Register,
    /// Discover and pull as a client does.
    Discover,
    /// Manage members, backups and settings.
    Operate,
    /// Manage users, tokens, access keys and the audit trail.
    Manage,
    /// Approve and refuse requests of others.
    Approve,
}

impl Verb {
    pub fn word(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Edit => "edit",
            Verb::Release => "release",
            Verb::Register => "register",
            Verb::Discover => "discover",
            Verb::Operate => "operate",
            Verb::Manage => "manage",
            Verb::Approve => "approve",
        }
    }
}

/// A named set of verbs. There are no other roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Admin,
    Operator,
    Releaser,
    Editor,
    Reader,
    Client,
    Approver,
}

impl Role {
    pub const ALL: [Role; 7] =
        [Role::Admin, Role::Operator, Role::Releaser, Role::Approver, Role::Editor, Role::Reader, Role::Client];

    pub fn word(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Operator => "operator",
            Role::Releaser => "releaser",
            Role::Editor => "editor",
            Role::Reader => "reader",
            Role::Client => "client",
            Role::Approver => "approver",
        }
    }

    /// Returns the verbs in the table above.
    pub fn verbs(self) -> &'static [Verb] {
        match self {
            Role::Admin => {
                use Verb::{Approve, Discover, Edit, Manage, Operate, Read, Register, Release};
                &[Read, Edit, Release, Register, Discover, Operate, Manage, Approve]
            }
            Role::Operator => &[Verb::Operate],
            Role::Releaser => &[Verb::Read, Verb::Release],
            Role::Editor => &[Verb::Read, Verb::Edit],
            Role::Reader => &[Verb::Read],
            Role::Client => &[Verb::Register, Verb::Discover],
            Role::Approver => &[Verb::Read, Verb::Approve],
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Role::Admin => {
                "everything; on all namespaces and names also users, tokens, access keys and the audit trail"
            }
            Role::Operator => {
                "members, backups, webhooks and settings of the cluster; a backup holds all configuration and all \
                 hashes of passwords"
            }
            Role::Releaser => "publish, roll back, stop and delete releases",
            Role::Editor => "drafts of rules and config files, services, aliases, instances, namespaces",
            Role::Reader => "see everything, change nothing",
            Role::Approver => {
                "approve and refuse what others ask for; with releaser also act without approval in an emergency"
            }
            Role::Client => "register, deregister and beat for instances, discover, pull configuration",
        }
    }

    pub fn may(self, verb: Verb) -> bool {
        self.verbs().contains(&verb)
    }
}

/// A role on a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Grant {
    pub role: Role,
    /// A namespace, a prefix followed by `*`, or `*` for all.
    #[serde(default = "everything")]
    pub namespace: String,
    /// Name of a service, config group or rule, a prefix followed by `*`, or `*` for all.
    #[serde(default = "everything")]
    pub name: String,
}

fn everything() -> String {
    ALL.to_owned()
}

const ALL: &str = "*";

/// Reports whether a pattern covers a text: it is equal, or ends with `*` and the text begins with the rest.
pub(crate) fn covers(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => pattern == text,
    }
}

impl Grant {
    /// Returns a grant of a role on everything.
    pub fn of(role: Role) -> Grant {
        Grant { role, namespace: everything(), name: everything() }
    }

    fn check(&self) -> Result<(), Refusal> {
        self.check_in("grants")
    }

    /// Checks a grant that the named field gives.
    pub(crate) fn check_in(&self, field: &str) -> Result<(), Refusal> {
        check_pattern(&format!("{field}: namespace"), &self.namespace)?;
        check_pattern(&format!("{field}: name"), &self.name)
    }
}

/// Checks a pattern: a name, a prefix followed by `*`, or `*`.
pub(crate) fn check_pattern(field: &str, pattern: &str) -> Result<(), Refusal> {
    let refuse = |why: &str| Err(Refusal::new(Code::InvalidParameter, format!("{field} {why}")));
    name::check_length(field, pattern, limits::NAME_CHARS_MAX, Code::InvalidParameter)?;
    if pattern.is_empty() {
        return refuse("is empty, it is a name, a beginning of one with * behind it, or *");
    }
    if pattern.strip_suffix('*').unwrap_or(pattern).contains('*') {
        return refuse("may hold * at its end only");
    }
    if pattern.chars().any(char::is_control) {
        return refuse("may not hold control characters");
    }
    Ok(())
}

/// A grant in a request, which must name its namespace.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "GrantDraft")]
pub struct GivenGrant {
    pub role: Role,
    /// A namespace, a prefix followed by `*`, or `*` for all.
    pub namespace: String,
    /// Name of a service, config group or rule, a prefix followed by `*`, or `*` for all.
    #[serde(default = "everything")]
    pub name: String,
}

impl GivenGrant {
    /// Reads a list of grants, for fields with a default.
    pub fn read_all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Grants>, D::Error> {
        let given = Option::<Vec<GivenGrant>>::deserialize(deserializer)?;
        let grant = |GivenGrant { role, namespace, name }| Grant { role, namespace, name };
        Ok(given.map(|given| Grants::new(given.into_iter().map(grant).collect::<Vec<_>>())))
    }
}

/// All grants of a user or token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Arc<[Grant]>);

impl Grants {
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }

    pub fn new(grants: impl Into<Arc<[Grant]>>) -> Grants {
        Grants(grants.into())
    }

    /// Returns a grant of a role on everything.
    pub fn all(role: Role) -> Grants {
        Grants::new([Grant::of(role)])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns these grants and others, each once.
    pub fn with(&self, others: &Grants) -> Grants {
        match (self.is_empty(), others.is_empty()) {
            (_, true) => self.clone(),
            (true, _) => others.clone(),
            _ => Grants::new(
                self.iter().chain(others.iter()).cloned().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(),
            ),
        }
    }

    /// Checks grants of a request.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.0.len() > limits::GRANTS_MAX {
            let why = format!("grants: {} of them, at most {}", self.0.len(), limits::GRANTS_MAX);
            return Err(Refusal::new(Code::InvalidParameter, why));
        }
        self.0.iter().try_for_each(Grant::check)
    }

    pub fn contains(&self, grant: &Grant) -> bool {
        self.0.contains(grant)
    }

    fn any(&self, verb: Verb, in_scope: impl Fn(&Grant) -> bool) -> bool {
        self.0.iter().any(|grant| grant.role.may(verb) && in_scope(grant))
    }

    /// Reports whether a verb is granted on one object.
    pub fn may(&self, verb: Verb, namespace: &str, name: &str) -> bool {
        self.any(verb, |grant| covers(&grant.namespace, namespace) && covers(&grant.name, name))
    }

    /// Reports whether a verb is granted on a namespace with everything in it.
    pub fn may_in(&self, verb: Verb, namespace: &str) -> bool {
        self.any(verb, |grant| covers(&grant.namespace, namespace) && grant.name == ALL)
    }

    /// Reports whether a verb is granted on at least one name in a namespace.
    pub fn may_within(&self, verb: Verb, namespace: &str) -> bool {
        self.any(verb, |grant| covers(&grant.namespace, namespace))
    }

    /// Reports whether a verb is granted on everything.
    pub fn may_everywhere(&self, verb: Verb) -> bool {
        self.any(verb, |grant| grant.namespace == ALL && grant.name == ALL)
    }

    /// Reports whether a verb is granted on something that a namespace and a name select; `*` selects all.
    pub fn may_touch(&self, verb: Verb, namespace: &str, name: &str) -> bool {
        let overlaps = |pattern: &str, text: &str| text == ALL || covers(pattern, text);
        self.any(verb, |grant| overlaps(&grant.namespace, namespace) && overlaps(&grant.name, name))
    }

    /// Reports whether a verb is granted on something that a pair of patterns covers.
    pub fn may_meet(&self, verb: Verb, namespace: &str, name: &str) -> bool {
        let meet = |one: &str, other: &str| covers(one, other) || covers(other, one);
        self.any(verb, |grant| meet(&grant.namespace, namespace) && meet(&grant.name, name))
    }

    /// Reports whether a verb is granted anywhere.
    pub fn may_somewhere(&self, verb: Verb) -> bool {
        self.any(verb, |_| true)
    }

    pub fn roles(&self) -> impl Iterator<Item = Role> {
        self.0.iter().map(|grant| grant.role)
    }
}

impl Serialize for Grants {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Grants {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Grant>::deserialize(deserializer).map(Grants::new)
    }
}

impl JsonSchema for Grants {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<Grant>::schema_name()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        Vec::<Grant>::json_schema(schemas)
    }
}

/// Part of the registry that a caller sees: everything, or the objects on which its grants include a verb. Lists check
/// every object, so the common case of everything costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ReadScope {
    #[default]
    Everything,
    Of(Grants, &'static [Verb]),
}

impl ReadScope {
    /// Returns the scope of all objects on which the grants include any of these verbs.
    pub fn new(grants: &Grants, verbs: &'static [Verb]) -> ReadScope {
        if verbs.iter().any(|verb| grants.may_everywhere(*verb)) {
            return ReadScope::Everything;
        }
        ReadScope::Of(grants.clone(), verbs)
    }

    pub fn is_whole(&self) -> bool {
        matches!(self, ReadScope::Everything)
    }

    /// Reports whether the caller sees nothing: each of its lists is empty.
    pub fn is_blind(&self) -> bool {
        match self {
            ReadScope::Everything => false,
            ReadScope::Of(grants, verbs) => !verbs.iter().any(|verb| grants.may_somewhere(*verb)),
        }
    }

    pub fn sees(&self, namespace: &str, name: &str) -> bool {
        match self {
            ReadScope::Everything => true,
            ReadScope::Of(grants, verbs) => verbs.iter().any(|verb| grants.may(*verb, namespace, name)),
        }
    }

    /// Reports whether the caller sees something that a namespace and a name select; `*` selects all.
    pub fn touches(&self, namespace: &str, name: &str) -> bool {
        match self {
            ReadScope::Everything => true,
            ReadScope::Of(grants, verbs) => verbs.iter().any(|verb| grants.may_touch(*verb, namespace, name)),
        }
    }

    /// Reports whether the caller sees something that a pair of patterns covers.
    pub fn meets(&self, namespace: &str, name: &str) -> bool {
        match self {
            ReadScope::Everything => true,
            ReadScope::Of(grants, verbs) => verbs.iter().any(|verb| grants.may_meet(*verb, namespace, name)),
        }
    }

    /// Reports whether the caller sees something in a namespace, and therefore the namespace.
    pub fn sees_namespace(&self, namespace: &str) -> bool {
        match self {
            ReadScope::Everything => true,
            ReadScope::Of(grants, verbs) => verbs.iter().any(|verb| grants.may_within(*verb, namespace)),
        }
    }
}
