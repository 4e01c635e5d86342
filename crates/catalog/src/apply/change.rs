//! Result of an apply: the outcome of each item, the changed rows, and the changes to wake waiters.

use std::fmt;
use std::sync::Arc;

use super::row::{Edit, Row};
use super::scope::AuthTarget;
use crate::catalog::audit::row::{AuditRow, AuditedItem};
use crate::model::access::User;
use crate::model::access_key::AccessKey;
use crate::model::alias::ServiceAlias;
use crate::model::approval::ApprovalRequest;
use crate::model::code::{Code, Refusal, info_of};
use crate::model::config_file::{ConfigFile, ConfigGroup, ConfigKey, ConfigRelease};
use crate::model::config_template::ConfigTemplate;
use crate::model::content::Content;
use crate::model::contract::{Contract, Violation};
use crate::model::instance::Instance;
use crate::model::limits;
use crate::model::namespace::Namespace;
use crate::model::policy::Policy;
use crate::model::release::ReleaseType;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{End, Family, Rule};
use crate::model::service::Service;
use crate::model::service_token::ServiceToken;
use crate::model::sso::{FreedIdentity, Provider};
use crate::model::time::Timestamp;
use crate::model::webhook::{News, Webhook};
use crate::model::wire::Words;

/// Outcome of one item of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub code: Code,
    pub detail: String,
    pub entity: Entity,
    /// True if the state that the node validated against has changed since: the node may try again.
    pub overtaken: bool,
}

/// Thing that an item changed, in its new state.
#[derive(Clone, Debug, PartialEq)]
pub enum Entity {
    None,
    Namespace(Arc<Namespace>),
    Service(Arc<Service>),
    Alias(Arc<ServiceAlias>),
    Rule(Arc<Rule>),
    RuleRelease(Arc<RuleRelease>),
    ConfigGroup(Arc<ConfigGroup>),
    ConfigFile(Arc<ConfigFile>),
    ConfigRelease(Arc<ConfigRelease>),
    ConfigTemplate(Arc<ConfigTemplate>),
    Instance(Arc<Instance>),
    User(Arc<User>),
    ServiceToken(Arc<ServiceToken>),
    AccessKey(Arc<AccessKey>),
    Webhook(Arc<Webhook>),
    Policy(Arc<Policy>),
    Contract(Arc<Contract>),
    Provider(Arc<Provider>),
    /// Identity that was deleted.
    Identity(Arc<FreedIdentity>),
    Request(Arc<ApprovalRequest>),
    /// Policies that block the action, in place of a thing.
    PolicyBlock(Arc<PolicyBlock>),
    /// Place at which a contract is broken, in place of a thing.
    Broken(Arc<Violation>),
}

/// Policies that block an action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyBlock {
    pub policies: Vec<String>,
    /// End of the last freeze, if the action is frozen.
    pub until: Option<Timestamp>,
}

impl Entity {
    /// Returns a mark of the thing's state: its revision, or the version of a release.
    fn revision(&self) -> String {
        match self {
            Entity::Namespace(namespace) => namespace.revision.clone(),
            Entity::Service(service) => service.revision.clone(),
            Entity::Rule(rule) => rule.revision.clone(),
            Entity::Instance(instance) => instance.revision.clone(),
            Entity::Alias(alias) => alias.revision.clone(),
            Entity::ConfigGroup(group) => group.revision.clone(),
            Entity::ConfigFile(file) => file.revision.clone(),
            Entity::Webhook(hook) => hook.revision.clone(),
            Entity::ConfigTemplate(template) => template.revision.clone(),
            Entity::RuleRelease(release) => release.version.to_string(),
            Entity::ConfigRelease(release) => release.version.to_string(),
            Entity::User(user) => user.revision.clone(),
            Entity::ServiceToken(token) => token.revision.clone(),
            Entity::AccessKey(key) => key.revision.clone(),
            Entity::Policy(policy) => policy.revision.clone(),
            Entity::Contract(contract) => contract.revision.clone(),
            Entity::Provider(provider) => provider.revision.clone(),
            Entity::Request(request) => request.state.word().to_owned(),
            Entity::Identity(_) | Entity::PolicyBlock(_) | Entity::Broken(_) | Entity::None => String::new(),
        }
    }
}

impl Default for Outcome {
    fn default() -> Self {
        Code::ExecuteSuccess.into()
    }
}

impl From<Code> for Outcome {
    fn from(code: Code) -> Self {
        Outcome { code, detail: String::new(), entity: Entity::None, overtaken: false }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Outcome { detail: refusal.detail, ..refusal.code.into() }
    }
}

impl Outcome {
    pub fn done(entity: Entity) -> Self {
        Outcome { entity, ..Outcome::default() }
    }

    /// Returns the refusal of a create by a resource that exists.
    pub fn existed(entity: Entity) -> Self {
        Outcome { entity, ..Code::ExistedResource.into() }
    }

    /// Returns the refusal of what breaks a contract, with the first place in detail.
    pub fn broken(places: &[Violation]) -> Self {
        let Some(first) = places.first() else { return Code::ContractBroken.into() };
        let more = match places.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let detail = format!("{}{more}", first.text());
        Outcome { detail, entity: Entity::Broken(Arc::new(first.clone())), ..Code::ContractBroken.into() }
    }

    /// Returns the refusal of an update based on an outdated revision.
    pub fn stale(entity: Entity) -> Self {
        let detail = "its revision is another by now, read it again and change that".to_owned();
        Outcome { detail, entity, ..Code::DataConflict.into() }
    }

    pub fn unchanged(entity: Entity) -> Self {
        Outcome { entity, ..Code::NoNeedUpdate.into() }
    }

    /// Returns the `info` of the answer.
    pub fn info(&self) -> String {
        info_of(self.code, &self.detail)
    }
}

/// Change that a waiting client may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A release of this file was added, removed or replaced.
    Config(ConfigKey),
    Namespaces,
    /// A service or an alias, by the name under which clients look it up.
    Service {
        namespace: String,
        name: String,
    },
    /// Rules of a family that clients of these services see.
    Rules {
        family: Family,
        ends: Vec<End>,
        /// Services among `ends` on whose calls the rules may act.
        called: Vec<End>,
    },
    /// An instance of this service was added, removed or changed.
    Instances {
        namespace: String,
        service: String,
    },
    /// A webhook, or its queue of events.
    Webhooks,
}

impl Change {
    pub(crate) fn service(namespace: &str, name: &str) -> Change {
        Change::Service { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Refuses one more where there are `most` already.
pub(crate) fn admits_one_more(what: &str, count: usize, most: usize) -> Result<(), Refusal> {
    if count < most { Ok(()) } else { Err(too_many(what, most)) }
}

/// Returns the refusal of one more where there are `most` already.
pub(crate) fn too_many(what: impl fmt::Display, most: usize) -> Refusal {
    Refusal::new(Code::TooMany, format!("at most {most} {what}"))
}

/// Refuses a gray release in force beyond the limit, because each keeps its compiled conditions in memory. The refusal
/// of a planned release is stored and hashed (`tests::words`).
pub(crate) fn admits_gray(release_type: ReleaseType, active_grays: usize) -> Result<(), Refusal> {
    let most = limits::ACTIVE_GRAYS_MAX;
    if release_type != ReleaseType::Gray || active_grays < most {
        return Ok(());
    }
    Err(too_many("active gray releases of it: promote one, or stop one", most))
}

/// Collector of the changed rows, changes and audited items of one apply.
#[derive(Debug, Default)]
pub struct ChangeSet {
    edits: Vec<Edit>,
    changes: Vec<Change>,
    audited: Vec<AuditedItem>,
    /// True if the current item will be proposed again, and is to be recorded then.
    comes_again: bool,
    audit: Vec<AuditRow>,
    /// Events for webhooks, and the instances whose health changed.
    news: Vec<News>,
    health: Vec<Arc<Instance>>,
    /// Contents needed in memory again, without their texts.
    unread: Vec<Content>,
}

impl ChangeSet {
    pub fn put<R: Row>(&mut self, row: &R) {
        self.edits.push(Edit { key: row.key(), value: Some(row.value()) });
    }

    pub fn delete<R: Row>(&mut self, row: &R) {
        self.edits.push(Edit { key: row.key(), value: None });
    }

    pub fn changed(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Returns the number of changed rows so far.
    pub(super) fn edit_count(&self) -> usize {
        self.edits.len()
    }

    /// Leaves the current item out of the audit trail: it changed nothing and will be proposed again.
    pub(crate) fn leave_out(&mut self) {
        self.comes_again = true;
    }

    /// Records an item and its outcome for the audit trail.
    pub(crate) fn did(&mut self, target: AuthTarget, outcome: &Outcome) {
        if std::mem::take(&mut self.comes_again) {
            return;
        }
        let AuthTarget { kind, namespace, name, revision: before, .. } = target;
        let after = if outcome.code.is_success() { outcome.entity.revision() } else { before.clone() };
        self.audited.push(AuditedItem { kind, namespace, name, code: outcome.code, before, after });
    }

    /// Reports whether the current item is left out because it will be proposed again.
    pub(crate) fn is_left_out(&self) -> bool {
        self.comes_again
    }

    /// Records that an action was carried out without approval, and the reason.
    pub(crate) fn did_in_emergency(&mut self, namespace: &str, name: &str, reason: &str) {
        let (namespace, name, before) = (namespace.to_owned(), name.to_owned(), String::new());
        let (kind, code, after) = ("emergency", Code::ExecuteSuccess, reason.to_owned());
        self.audited.push(AuditedItem { kind, namespace, name, code, before, after });
    }

    /// Records a sign-in at an identity provider: the name of the person, its `sub`, and the new session if there is
    /// one.
    pub(crate) fn did_sign_in(&mut self, name: &str, code: Code, (before, after): (String, String)) {
        let (kind, namespace, name) = ("identity", String::new(), name.to_owned());
        self.audited.push(AuditedItem { kind, namespace, name, code, before, after });
    }

    /// Takes the recorded items of this entry.
    pub(crate) fn take_audited(&mut self) -> Vec<AuditedItem> {
        std::mem::take(&mut self.audited)
    }

    /// Adds an event for webhooks, queued at the end of the entry.
    pub(crate) fn tell(&mut self, news: News) {
        self.news.push(news);
    }

    pub(crate) fn emit_health(&mut self, instance: Arc<Instance>) {
        self.health.push(instance);
    }

    /// Takes the events and the health changes for webhooks.
    pub(crate) fn take_news(&mut self) -> (Vec<News>, Vec<Arc<Instance>>) {
        (std::mem::take(&mut self.news), std::mem::take(&mut self.health))
    }

    /// Requests the text of a content that is on disk only.
    pub(crate) fn read(&mut self, content: Content) {
        self.unread.push(content);
    }

    /// Adds the removal of a row that was not read.
    pub(crate) fn forget(&mut self, edit: Edit) {
        self.edits.push(edit);
    }

    /// Adds a row of the audit trail, which is also exported.
    pub(crate) fn write_down(&mut self, row: AuditRow) {
        self.put(&row);
        self.audit.push(row);
    }

    pub(super) fn into_applied(self, outcomes: Vec<Outcome>) -> Applied {
        let ChangeSet { edits, changes, audit, unread, .. } = self;
        Applied { outcomes, edits, changes, audit, unread, duplicate: false }
    }
}

/// Result of one apply.
#[derive(Debug, Default, PartialEq)]
pub struct Applied {
    /// One outcome per item, in order.
    pub outcomes: Vec<Outcome>,
    /// Changed rows in the order of their changes: the last edit of a key is its final value.
    pub edits: Vec<Edit>,
    pub changes: Vec<Change>,
    /// Rows added to the audit trail.
    pub audit: Vec<AuditRow>,
    /// Contents whose texts are to be read from their rows and shared.
    pub unread: Vec<Content>,
    /// True if the request id was applied before; nothing was changed.
    pub duplicate: bool,
}
