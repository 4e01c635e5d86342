//! Result of an apply: the answer per item, the rows that changed, and the changes for those who wait.

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
use crate::model::contract::{Broken, Contract};
use crate::model::instance::Instance;
use crate::model::limits;
use crate::model::namespace::Namespace;
use crate::model::policy::Policy;
use crate::model::release::ReleaseType;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{End, Family, Rule};
use crate::model::service::Service;
use crate::model::service_token::ServiceToken;
use crate::model::time::Timestamp;
use crate::model::webhook::{News, Webhook};
use crate::model::wire::Words;

/// The answer to one item of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub code: Code,
    pub detail: String,
    pub entity: Entity,
    /// True if the state that the node had looked at has changed since: it may look again.
    pub overtaken: bool,
}

/// The thing that an item was about, as it stands after it.
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
    Request(Arc<ApprovalRequest>),
    /// No thing, but what holds an act back.
    PolicyBlock(Arc<PolicyBlock>),
    /// No thing, but the place at which one breaks its contract.
    Broken(Arc<Broken>),
}

/// Policies that hold an act back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyBlock {
    pub policies: Vec<String>,
    /// The moment from which no freeze holds, if one does.
    pub until: Option<Timestamp>,
}

impl Entity {
    /// Mark that distinguishes one state of the thing from the next: a revision, or the version of a release.
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
            Entity::Request(request) => request.state.word().to_owned(),
            Entity::PolicyBlock(_) | Entity::Broken(_) | Entity::None => String::new(),
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

    /// Refusal of what breaks a contract: it tells of the first place.
    pub fn broken(places: &[Broken]) -> Self {
        let Some(first) = places.first() else { return Code::ContractBroken.into() };
        let more = match places.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let detail = format!("{}{more}", first.text());
        Outcome { detail, entity: Entity::Broken(Arc::new(first.clone())), ..Code::ContractBroken.into() }
    }

    /// The thing is not any more what the caller has read.
    pub fn stale(entity: Entity) -> Self {
        let detail = "its revision is another by now, read it again and change that".to_owned();
        Outcome { detail, entity, ..Code::DataConflict.into() }
    }

    pub fn unchanged(entity: Entity) -> Self {
        Outcome { entity, ..Code::NoNeedUpdate.into() }
    }

    /// The `info` of the answer.
    pub fn info(&self) -> String {
        info_of(self.code, &self.detail)
    }
}

/// Something that a waiting client could see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A release of this file came, went or was exchanged.
    Config(ConfigKey),
    Namespaces,
    /// A service, or an alias of one, by the name under which clients ask for it.
    Service {
        namespace: String,
        name: String,
    },
    /// The rules of a family that clients see for these services.
    Rules {
        family: Family,
        ends: Vec<End>,
        /// Those of them on whose calls the rules may act.
        called: Vec<End>,
    },
    /// An instance of this service came, went or changed.
    Instances {
        namespace: String,
        service: String,
    },
    /// A webhook, or that something waits for one.
    Webhooks,
}

impl Change {
    pub(in crate::catalog) fn service(namespace: &str, name: &str) -> Change {
        Change::Service { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Refuses one more where there are `most` already.
pub(in crate::catalog) fn too_many(what: impl fmt::Display, most: usize) -> Refusal {
    Refusal::new(Code::TooMany, format!("at most {most} {what}"))
}

/// Refuses a gray release in force beyond the limit: each keeps its compiled conditions. The refusal of a planned
/// release is stored and hashed (`tests::words`).
pub(in crate::catalog) fn admits_gray(release_type: ReleaseType, active_grays: usize) -> Result<(), Refusal> {
    let most = limits::ACTIVE_GRAYS_MAX;
    if release_type != ReleaseType::Gray || active_grays < most {
        return Ok(());
    }
    Err(too_many("active gray releases of it: promote one, or stop one", most))
}

/// Collects, during one apply, the rows that change and what watchers should hear.
#[derive(Debug, Default)]
pub struct ChangeSet {
    edits: Vec<Edit>,
    changes: Vec<Change>,
    audited: Vec<AuditedItem>,
    /// The item that is done now is asked for again, and told of then.
    comes_again: bool,
    audit: Vec<AuditRow>,
    /// For webhooks: what happened, and the instances whose health changed.
    news: Vec<News>,
    health: Vec<Arc<Instance>>,
    /// Contents that came into memory again, without their text.
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

    /// Number of rows that have changed so far.
    pub(super) fn edit_count(&self) -> usize {
        self.edits.len()
    }

    /// Nothing came of the item that is done now, and whoever asked asks again.
    pub(in crate::catalog) fn leave_out(&mut self) {
        self.comes_again = true;
    }

    /// Remembers what was asked for, and what came of it.
    pub(in crate::catalog) fn did(&mut self, target: AuthTarget, outcome: &Outcome) {
        if std::mem::take(&mut self.comes_again) {
            return;
        }
        let AuthTarget { kind, namespace, name, before, .. } = target;
        let after = if outcome.code.is_success() { outcome.entity.revision() } else { before.clone() };
        self.audited.push(AuditedItem { kind, namespace, name, code: outcome.code, before, after });
    }

    /// True if nothing came of the item that is done now, and it is asked for again.
    pub(in crate::catalog) fn is_left_out(&self) -> bool {
        self.comes_again
    }

    /// Remembers that an act was done without approval, and why.
    pub(in crate::catalog) fn did_in_emergency(&mut self, namespace: &str, name: &str, reason: &str) {
        let (namespace, name, before) = (namespace.to_owned(), name.to_owned(), String::new());
        let (kind, code, after) = ("emergency", Code::ExecuteSuccess, reason.to_owned());
        self.audited.push(AuditedItem { kind, namespace, name, code, before, after });
    }

    /// Takes the items that were remembered of this entry, once.
    pub(in crate::catalog) fn take_audited(&mut self) -> Vec<AuditedItem> {
        std::mem::take(&mut self.audited)
    }

    /// Adds an event for webhooks, handed to them when the entry is applied.
    pub(in crate::catalog) fn tell(&mut self, news: News) {
        self.news.push(news);
    }

    pub(in crate::catalog) fn tell_of_health(&mut self, instance: Arc<Instance>) {
        self.health.push(instance);
    }

    /// Takes the events and the changes of health for webhooks, once.
    pub(in crate::catalog) fn take_news(&mut self) -> (Vec<News>, Vec<Arc<Instance>>) {
        (std::mem::take(&mut self.news), std::mem::take(&mut self.health))
    }

    /// The text of a content is needed from now on, and on disk alone.
    pub(in crate::catalog) fn read(&mut self, content: Content) {
        self.unread.push(content);
    }

    /// A row that goes and was not read.
    pub(in crate::catalog) fn forget(&mut self, edit: Edit) {
        self.edits.push(edit);
    }

    /// Keeps a row of the audit trail, also for who tells of it outside.
    pub(in crate::catalog) fn write_down(&mut self, row: AuditRow) {
        self.put(&row);
        self.audit.push(row);
    }

    pub(super) fn into_applied(self, outcomes: Vec<Outcome>) -> Applied {
        let ChangeSet { edits, changes, audit, unread, .. } = self;
        Applied { outcomes, edits, changes, audit, unread, duplicate: false }
    }
}

/// The result of one apply.
#[derive(Debug, Default, PartialEq)]
pub struct Applied {
    /// One per item, in order.
    pub outcomes: Vec<Outcome>,
    /// In the order in which they happened: a later one for the same key wins.
    pub edits: Vec<Edit>,
    pub changes: Vec<Change>,
    /// Rows of the audit trail that it wrote.
    pub audit: Vec<AuditRow>,
    /// Contents whose texts are to be read from their rows, for all who share them.
    pub unread: Vec<Content>,
    /// The request id was applied before; nothing was done.
    pub duplicate: bool,
}
