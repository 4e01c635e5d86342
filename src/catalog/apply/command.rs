//! Commands: what a log entry asks of the catalog. One variant per kind of change, a whole request batch inside; items
//! were checked by the node that took the request as far as that is possible without state.
//!
//! The encoding (variant and field names in MessagePack) is pinned by golden bytes in the tests: a stored log has to be
//! read by every later version. Variants may be added, never renamed, and what is added belongs to a level
//! ([`Command::level`]) below which it is not proposed.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::releases::{Due, RolloutTransition};
use super::retention::Overfull;
use crate::catalog::audit::row::AuditNote;
use crate::catalog::client_refusals::ClientRefusal;
#[cfg(feature = "next-level")]
use crate::catalog::next_level::NextLevel;
use crate::catalog::nodes::NodeRecord;
use crate::catalog::time::TimeChange;
use crate::format::level::Level;
use crate::model::access::{Founder, PasswordHash, TokenHash, UserDraft, Whence};
use crate::model::access_key::AccessKeyDraft;
use crate::model::alias::AliasDraft;
use crate::model::approval::{RequestDraft, RequestOp};
use crate::model::config_file::{ConfigFileDraft, ConfigGroupDraft, ConfigPublish, ConfigReleaseDraft};
use crate::model::config_template::ConfigTemplateDraft;
use crate::model::contract::ContractDraft;
use crate::model::grant::Verb;
use crate::model::instance::InstanceDraft;
use crate::model::namespace::NamespaceDraft;
use crate::model::policy::PolicyDraft;
use crate::model::release::ReleaseOp;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, RuleDraft};
use crate::model::service::ServiceDraft;
use crate::model::service_token::{ServiceTokenChange, ServiceTokenDraft};
use crate::model::settings::SettingsChange;
use crate::model::webhook::{WebhookDraft, WebhookTold};

/// Operation on each item of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    Create,
    Update,
    Delete,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Names the cluster and makes its administrator; the first one counts.
    Bootstrap {
        cluster_id: String,
        admin: Founder,
        /// Level that all founders can speak.
        #[serde(default, skip_serializing_if = "Level::is_first")]
        level: Level,
    },
    /// A node tells who it is and where clients reach it.
    Announce(NodeRecord),
    /// A removed member is forgotten; its id may not come back.
    Forget {
        node_id: u64,
    },
    SignIn {
        hash: TokenHash,
        user_id: String,
        /// Password hash that was checked.
        #[serde(default, skip_serializing_if = "PasswordHash::is_empty")]
        password: PasswordHash,
        #[serde(default, skip_serializing_if = "Whence::is_unknown")]
        from: Whence,
    },
    SignOut {
        hash: TokenHash,
    },
    Namespaces(Op, Vec<NamespaceDraft>),
    Services(Op, Vec<ServiceDraft>),
    ConfigGroups(Op, Vec<ConfigGroupDraft>),
    ConfigFiles(Op, Vec<ConfigFileDraft>),
    ConfigPublish(Vec<ConfigReleaseDraft>),
    ConfigCreateAndPublish(Vec<ConfigPublish>),
    ConfigRollback(Vec<ConfigReleaseDraft>),
    ConfigDeleteReleases(Vec<ConfigReleaseDraft>),
    Aliases(Op, Vec<AliasDraft>),
    Rules(Op, Vec<RuleDraft>),
    PublishRules(Family, Vec<RuleReleaseDraft>),
    ConfigStopGray(Vec<ConfigReleaseDraft>),
    RuleReleases(Family, ReleaseOp, Vec<RuleReleaseDraft>),
    /// A create is a registration: it replaces what is there.
    Instances(Op, Vec<InstanceDraft>),
    /// All instances of a service on a host.
    InstancesDeleteHost(Vec<InstanceDraft>),
    InstancesIsolateHost(Vec<InstanceDraft>),
    /// Health that the leader found by heartbeats, or by their absence.
    InstanceHealth(Vec<InstanceHealth>),
    /// The cluster speaks this level from here on.
    Raise {
        level: Level,
    },
    /// Settings that are given change, the others stay.
    Settings(SettingsChange),
    /// Removes the surplus releases of these, a bounded number at a time.
    PruneReleases(Overfull),
    /// Instances that the leader saw unhealthy for longer than the settings allow.
    RemoveDeadInstances(Vec<DeadInstance>),
    /// A caller's request, judged by what the caller may do when it is applied.
    #[serde(rename = "Asked")]
    Authorized(Box<AuthorizedCommand>),
    Users(Op, Vec<UserDraft>),
    /// With `replaces`, only in place of that one.
    ChangePassword {
        name: String,
        password_hash: PasswordHash,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<PasswordHash>,
    },
    /// Made or deleted.
    ServiceTokens(Op, Vec<ServiceTokenDraft>),
    /// Their secrets are sealed.
    AccessKeys(Op, Vec<AccessKeyDraft>),
    /// Operations on releases of files that have no command of their own.
    ConfigReleases(ReleaseOp, Vec<ConfigReleaseDraft>),
    /// Releases that the leader found to be due.
    PublishDue(Vec<Due>),
    ConfigTemplates(Op, Vec<ConfigTemplateDraft>),
    /// Events that a node saw, that are no commands and belong into the audit trail.
    Note(Vec<AuditNote>),
    /// Their secrets are sealed.
    Webhooks(Op, Vec<WebhookDraft>),
    /// Deliveries of the leader to webhooks, and their results.
    WebhooksTold(Vec<WebhookTold>),
    /// Changes the grants, the end or the secret of service tokens.
    ChangeTokens(Vec<ServiceTokenChange>),
    /// Logins end, by what they are called where they are shown.
    EndSessions(Vec<String>),
    Policies(Op, Vec<PolicyDraft>),
    Contracts(Op, Vec<ContractDraft>),
    /// Requests for approval are approved, refused, withdrawn or run.
    Requests(RequestOp, Vec<RequestDraft>),
    /// Requests that have waited for longer than the settings allow expire, a bounded number at a time.
    ExpireRequests,
    /// Steps, pauses and stops of rollouts that the leader found due.
    Rollouts(Vec<RolloutTransition>),
    /// Clients could not apply releases: webhooks are told.
    ClientsRefused(Vec<ClientRefusal>),
    Time(TimeChange),
    /// Namespaces of which clients of xDS have something.
    XdsSeen(Vec<String>),
    /// Command of the level that exists in tests.
    #[cfg(feature = "next-level")]
    NextLevel(NextLevel),
}

impl Command {
    /// Returns the lowest level at which a node reads this command as it is meant. A new variant, or a new field whose
    /// absence means something else, has a row here.
    pub fn level(&self) -> Level {
        match self {
            Command::Raise { level } | Command::Bootstrap { level, .. } => *level,
            Command::Authorized(asked) => asked.command.level(),
            #[cfg(feature = "next-level")]
            Command::NextLevel(_) => Level::NEXT,
            _ => Level::FIRST,
        }
    }
}

/// Properties of a command that take no state to know.
struct Profile {
    /// The audit trail's word for it, in hashed rows: another word belongs to another level (`tests::words`).
    action: &'static str,
    /// Verbs that its caller needs at the target of an item; none where that depends on more than the command.
    verbs: &'static [Verb],
    /// Number of things that it is about.
    items: usize,
    /// True if the state may grow by it.
    adds: bool,
    /// True if no caller may ask for it: it is a command of the cluster itself.
    is_own: bool,
}

impl Profile {
    /// Of a caller's command that adds nothing.
    fn new(action: &'static str, verbs: &'static [Verb], items: usize) -> Profile {
        Profile { action, verbs, items, adds: false, is_own: false }
    }

    /// Of an operation on each item of a batch.
    fn batch(op: Op, verbs: &'static [Verb], items: usize) -> Profile {
        Profile { adds: op.adds(), ..Profile::new(op.word(), verbs, items) }
    }

    fn publish(verbs: &'static [Verb], items: usize) -> Profile {
        Profile { adds: true, ..Profile::new("publish", verbs, items) }
    }

    /// Of an operation on releases that are there.
    fn releases(op: ReleaseOp, items: usize) -> Profile {
        Profile { adds: op.adds(), ..Profile::new(op.word(), RELEASE, items) }
    }

    /// Of a command of the cluster itself.
    fn own(action: &'static str, items: usize) -> Profile {
        Profile { is_own: true, ..Profile::new(action, &[], items) }
    }
}

const EDIT: &[Verb] = &[Verb::Edit];
const RELEASE: &[Verb] = &[Verb::Release];
const MANAGE: &[Verb] = &[Verb::Manage];
const OPERATE: &[Verb] = &[Verb::Operate];

impl Command {
    /// One row a command.
    fn profile(&self, self_registration: bool) -> Profile {
        let of_instances: &[Verb] = if self_registration { &[Verb::Register] } else { EDIT };
        match self {
            Command::Bootstrap { .. } => Profile::own("found", 1),
            Command::Announce(_) => Profile::own("announce", 1),
            Command::Forget { .. } => Profile::own("forget", 1),
            Command::SignIn { .. } => Profile::new("login", &[], 1),
            Command::SignOut { .. } => Profile::new("logout", &[], 1),
            Command::Namespaces(op, items) => Profile::batch(*op, EDIT, items.len()),
            Command::Services(op, items) => Profile::batch(*op, EDIT, items.len()),
            Command::ConfigGroups(op, items) => Profile::batch(*op, EDIT, items.len()),
            Command::ConfigFiles(op, items) => Profile::batch(*op, EDIT, items.len()),
            Command::ConfigPublish(items) => Profile::publish(RELEASE, items.len()),
            Command::ConfigCreateAndPublish(items) => Profile::publish(&[Verb::Edit, Verb::Release], items.len()),
            Command::ConfigRollback(items) => Profile::releases(ReleaseOp::Rollback, items.len()),
            Command::ConfigDeleteReleases(items) => Profile::releases(ReleaseOp::Delete, items.len()),
            Command::Aliases(op, items) => Profile::batch(*op, EDIT, items.len()),
            Command::Rules(op, items) => Profile::batch(*op, EDIT, items.len()),
            Command::PublishRules(_, items) => Profile::publish(RELEASE, items.len()),
            Command::ConfigStopGray(items) => Profile::releases(ReleaseOp::StopGray, items.len()),
            Command::RuleReleases(_, op, items) => Profile::releases(*op, items.len()),
            Command::Instances(op, items) => {
                let action = match op {
                    Op::Create if self_registration => "register",
                    Op::Delete if self_registration => "deregister",
                    op => op.word(),
                };
                Profile { action, ..Profile::batch(*op, of_instances, items.len()) }
            }
            Command::InstancesDeleteHost(items) => Profile::new("delete", of_instances, items.len()),
            Command::InstancesIsolateHost(items) => Profile::new("isolate", of_instances, items.len()),
            Command::InstanceHealth(items) => Profile::own("health", items.len()),
            Command::Raise { .. } => Profile::own("raise", 1),
            Command::Settings(_) => Profile::new("settings", OPERATE, 1),
            Command::PruneReleases(overfull) => Profile::own("prune", overfull.files.len() + overfull.rules.len()),
            Command::RemoveDeadInstances(items) => Profile::own("remove", items.len()),
            Command::Authorized(asked) => Profile { is_own: false, ..asked.command.profile(asked.self_registration) },
            Command::Users(op, items) => Profile::batch(*op, MANAGE, items.len()),
            Command::ChangePassword { .. } => Profile::new("password", &[], 1),
            Command::ServiceTokens(op, items) => Profile::batch(*op, MANAGE, items.len()),
            Command::AccessKeys(op, items) => Profile::batch(*op, MANAGE, items.len()),
            Command::ConfigReleases(op, items) => Profile::releases(*op, items.len()),
            Command::PublishDue(items) => Profile::own("publish", items.len()),
            Command::ConfigTemplates(op, items) => Profile::batch(*op, EDIT, items.len()),
            Command::Note(notes) => Profile::own("note", notes.len()),
            Command::Webhooks(op, items) => Profile::batch(*op, OPERATE, items.len()),
            Command::WebhooksTold(items) => Profile::own("tell", items.len()),
            Command::ChangeTokens(items) => {
                let is_rotation = items.iter().all(|item| item.rotation.is_some());
                Profile::new(if is_rotation { "rotate" } else { "update" }, MANAGE, items.len())
            }
            Command::EndSessions(items) => Profile::new("logout", &[], items.len()),
            Command::Policies(op, items) => Profile::batch(*op, MANAGE, items.len()),
            Command::Contracts(op, items) => Profile::batch(*op, EDIT, items.len()),
            Command::Requests(op, items) => {
                let verbs: &[Verb] = match op {
                    RequestOp::Approve | RequestOp::Refuse => &[Verb::Approve],
                    RequestOp::Withdraw | RequestOp::Run => &[],
                };
                Profile { adds: op.adds(), ..Profile::new(op.word(), verbs, items.len()) }
            }
            Command::ExpireRequests => Profile::own("expire", 1),
            Command::Rollouts(items) => Profile::own("rollout", items.len()),
            Command::ClientsRefused(items) => Profile::own("client_refused", items.len()),
            Command::Time(change) => Profile { is_own: change.is_own(), ..Profile::new("time", MANAGE, 1) },
            Command::XdsSeen(items) => Profile::own("xds_seen", items.len()),
            #[cfg(feature = "next-level")]
            Command::NextLevel(_) => Profile::own("next_level", 1),
        }
    }

    /// The audit trail's word for it.
    pub(in crate::catalog) fn action(&self, self_registration: bool) -> &'static str {
        self.profile(self_registration).action
    }

    /// Verbs that its caller needs at the target of an item; none where that depends on more than the command.
    pub fn verbs(&self, self_registration: bool) -> &'static [Verb] {
        self.profile(self_registration).verbs
    }

    /// Things that it is about: a measure of the work that it makes, and not more than that.
    pub fn items(&self) -> usize {
        self.profile(false).items
    }

    /// True if the state may grow by it: such a command is refused where room is short. A command that takes away, lets
    /// people in to take away, keeps the cluster together or ends a release is not refused, and goes on.
    pub fn adds(&self) -> bool {
        self.profile(false).adds
    }

    /// True if it is a command of the cluster itself; no caller may ask for it.
    pub(in crate::catalog) fn is_own(&self) -> bool {
        self.profile(false).is_own
    }
}

impl Op {
    fn word(self) -> &'static str {
        match self {
            Op::Create => "create",
            Op::Update => "update",
            Op::Delete => "delete",
        }
    }

    /// An update may put something larger in place of what is there.
    fn adds(self) -> bool {
        match self {
            Op::Create | Op::Update => true,
            Op::Delete => false,
        }
    }
}

/// A command with its caller: the credential, the address and the id of the HTTP request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthorizedCommand {
    pub credential: Credential,
    /// Of the client, as far as it is known.
    pub address: Option<IpAddr>,
    /// Id of the HTTP request.
    pub request: String,
    /// An instance speaks of itself.
    #[serde(rename = "itself")]
    pub self_registration: bool,
    /// Its caller was refused so often lately that the trail does not have it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mutes_refusals: bool,
    pub command: Command,
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

/// An instance whose health has changed since the leader looked at it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceHealth {
    pub id: String,
    pub healthy: bool,
    /// As it was found: with another revision it has changed since.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
}

/// An instance as it was found dead: with another revision it has changed since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadInstance {
    pub id: String,
    pub revision: String,
}
