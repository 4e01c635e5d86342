//! Commands: the payload of a log entry. One variant per kind of change, with the whole batch of a request; the node
//! that received the request has checked the items as far as possible without state.
//!
//! The encoding (variant and field names in MessagePack) is pinned by golden bytes in the tests: every later version
//! must read a stored log. Variants may be added, but never renamed. Each addition belongs to a level
//! ([`Command::level`]) and is not proposed below it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::releases::{Due, RolloutTransition};
use super::retention::Overfull;
use super::sso_commands::{SsoLogout, SsoSignIn};
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
use crate::model::sso::{Bearer, IdentityRequest, ProviderDraft};
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
    /// Foundation of the cluster: its id and its administrator. Only the first one takes effect.
    Bootstrap {
        cluster_id: String,
        admin: Founder,
        /// Level that all founders support.
        #[serde(default, skip_serializing_if = "Level::is_first")]
        level: Level,
    },
    /// Announcement of a node: its identity and its addresses for clients.
    Announce(NodeRecord),
    /// Removal of a member's record; its id must not be used again.
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
    /// Changes of instances. A create is a registration, and replaces an existing instance.
    Instances(Op, Vec<InstanceDraft>),
    /// Deletion of all instances of a service on a host.
    InstancesDeleteHost(Vec<InstanceDraft>),
    InstancesIsolateHost(Vec<InstanceDraft>),
    /// Health changes that the leader determined from heartbeats.
    InstanceHealth(Vec<InstanceHealth>),
    /// Raise of the cluster's level.
    Raise {
        level: Level,
    },
    /// Change of settings; absent ones keep their values.
    Settings(SettingsChange),
    /// Removal of surplus releases, a bounded number per entry.
    PruneReleases(Overfull),
    /// Removal of instances that were unhealthy for longer than the settings allow.
    RemoveDeadInstances(Vec<DeadInstance>),
    /// A caller's command, authorized by the caller's rights at the time of apply.
    #[serde(rename = "Asked")]
    Authorized(Box<AuthorizedCommand>),
    Users(Op, Vec<UserDraft>),
    /// Change of a password; with `replaces`, only if that is the present hash.
    ChangePassword {
        name: String,
        password_hash: PasswordHash,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<PasswordHash>,
    },
    /// Creation or deletion of service tokens.
    ServiceTokens(Op, Vec<ServiceTokenDraft>),
    /// Changes of access keys, with sealed secrets.
    AccessKeys(Op, Vec<AccessKeyDraft>),
    /// Operations on releases of files that have no variant of their own.
    ConfigReleases(ReleaseOp, Vec<ConfigReleaseDraft>),
    /// Publication of planned releases that are due.
    PublishDue(Vec<Due>),
    ConfigTemplates(Op, Vec<ConfigTemplateDraft>),
    /// Audit notes of actions that are not commands.
    Note(Vec<AuditNote>),
    /// Changes of webhooks, with sealed secrets.
    Webhooks(Op, Vec<WebhookDraft>),
    /// Results of the leader's deliveries to webhooks.
    WebhooksTold(Vec<WebhookTold>),
    /// Changes of grants, expiry or secret of service tokens.
    ChangeTokens(Vec<ServiceTokenChange>),
    /// End of logins, by the ids shown in lists.
    EndSessions(Vec<String>),
    Policies(Op, Vec<PolicyDraft>),
    Contracts(Op, Vec<ContractDraft>),
    /// Decisions on requests for approval: approve, refuse, withdraw, run.
    Requests(RequestOp, Vec<RequestDraft>),
    /// Expiry of requests that have waited for longer than the settings allow, a bounded number per entry.
    ExpireRequests,
    /// Steps, pauses and stops of rollouts that the leader found due.
    Rollouts(Vec<RolloutTransition>),
    /// Events for webhooks that clients could not apply releases.
    ClientsRefused(Vec<ClientRefusal>),
    Time(TimeChange),
    /// Namespaces in which clients of xDS have resources.
    XdsSeen(Vec<String>),
    /// Changes of identity providers, with sealed secrets.
    Providers(Op, Vec<ProviderDraft>),
    SsoSignIn(Box<SsoSignIn>),
    SsoLogout(SsoLogout),
    /// Deletion of identities, so that their names are free; with `tokens`, of the service tokens of these people.
    FreeIdentities {
        items: Vec<IdentityRequest>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tokens: bool,
    },
    /// Command of the level that exists only in tests.
    #[cfg(feature = "next-level")]
    NextLevel(NextLevel),
}

impl Command {
    /// Returns the lowest level at which a node understands this command. A new variant needs a row here, and so does a
    /// new field whose absence has another meaning.
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

/// Properties of a command that do not depend on the state.
struct Profile {
    /// Action name in the audit trail; its rows are hashed, so a change requires a new level (`tests::words`).
    action: &'static str,
    /// Verbs that the caller needs at the target of an item; empty if they depend on more than the command.
    verbs: &'static [Verb],
    /// Number of items.
    items: usize,
    /// True if the command may increase the state.
    adds: bool,
    /// True for a command of the cluster itself, which no caller may propose.
    is_own: bool,
}

impl Profile {
    /// Returns the profile of a caller's command that adds nothing.
    fn new(action: &'static str, verbs: &'static [Verb], items: usize) -> Profile {
        Profile { action, verbs, items, adds: false, is_own: false }
    }

    /// Returns the profile of an operation on each item of a batch.
    fn batch(op: Op, verbs: &'static [Verb], items: usize) -> Profile {
        Profile { adds: op.adds(), ..Profile::new(op.word(), verbs, items) }
    }

    fn publish(verbs: &'static [Verb], items: usize) -> Profile {
        Profile { adds: true, ..Profile::new("publish", verbs, items) }
    }

    /// Returns the profile of an operation on existing releases.
    fn releases(op: ReleaseOp, items: usize) -> Profile {
        Profile { adds: op.adds(), ..Profile::new(op.word(), RELEASE, items) }
    }

    /// Returns the profile of a command of the cluster itself.
    fn own(action: &'static str, items: usize) -> Profile {
        Profile { is_own: true, ..Profile::new(action, &[], items) }
    }
}

const EDIT: &[Verb] = &[Verb::Edit];
const RELEASE: &[Verb] = &[Verb::Release];
const MANAGE: &[Verb] = &[Verb::Manage];
const OPERATE: &[Verb] = &[Verb::Operate];

impl Command {
    /// Returns the profile; one row per command.
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
            Command::Providers(op, items) => Profile::batch(*op, MANAGE, items.len()),
            Command::SsoSignIn(_) => Profile::new("login", &[], 1),
            Command::SsoLogout(_) => Profile::new("logout", &[], 1),
            Command::FreeIdentities { items, .. } => Profile::new("delete", MANAGE, items.len()),
            #[cfg(feature = "next-level")]
            Command::NextLevel(_) => Profile::own("next_level", 1),
        }
    }

    /// Returns the action name in the audit trail.
    pub(crate) fn action(&self, self_registration: bool) -> &'static str {
        self.profile(self_registration).action
    }

    /// Returns the verbs that the caller needs at the target of an item; empty if they depend on more than the command.
    pub fn verbs(&self, self_registration: bool) -> &'static [Verb] {
        self.profile(self_registration).verbs
    }

    /// Returns the number of items, an estimate of the work.
    pub fn items(&self) -> usize {
        self.profile(false).items
    }

    /// Reports whether the command may increase the state; such a command is refused when capacity is short. Commands
    /// that delete, log in, maintain the cluster or end a release are always accepted.
    pub fn adds(&self) -> bool {
        self.profile(false).adds
    }

    /// Reports whether this is a command of the cluster itself, which no caller may propose.
    pub(crate) fn is_own(&self) -> bool {
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

    /// Reports whether the operation may increase the state. An update may replace a value by a larger one.
    fn adds(self) -> bool {
        match self {
            Op::Create | Op::Update => true,
            Op::Delete => false,
        }
    }
}

/// A command with its caller: credential, address and id of the HTTP request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthorizedCommand {
    pub credential: Credential,
    /// Address of the client, if known.
    pub address: Option<IpAddr>,
    /// Id of the HTTP request.
    pub request: String,
    /// True if an instance registers or deregisters itself.
    #[serde(rename = "itself")]
    pub self_registration: bool,
    /// True if the caller was refused too often recently for the trail to record it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mutes_refusals: bool,
    pub command: Command,
}

/// Credential of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Credential {
    /// A password that was just checked, for a login.
    Login,
    Token(TokenHash),
    /// A client certificate in the name of a user.
    Certificate(String),
    /// A verified token of an identity provider.
    Bearer(Box<Bearer>),
}

impl Credential {
    /// Returns the id of the credential in the audit trail.
    pub fn token_id(&self) -> &str {
        match self {
            Credential::Token(hash) => hash.id(),
            Credential::Bearer(bearer) => &bearer.id,
            Credential::Login | Credential::Certificate(_) => "",
        }
    }
}

/// Health change of an instance, found by the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceHealth {
    pub id: String,
    pub healthy: bool,
    /// Revision at which it was found; with another revision the change is ignored.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
}

/// A dead instance, with the revision at which it was found; with another revision it is not removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadInstance {
    pub id: String,
    pub revision: String,
}
