//! The catalog: all replicated state, in memory, as persistent maps. A [view](Catalog::view) shares the maps and does
//! not change when entries are applied.
//!
//! The catalog is a pure function of the log: [`Catalog::apply`] takes one command with its stamps, and returns the
//! outcomes, the changed rows and the changes for watchers. It uses no clock, randomness, disk or network; nodes that
//! have applied the same entries have the same catalog. Apply never fails and never panics on input: refusals are
//! outcomes of items.
//!
//! Reading order: [`command`], this file, `apply`, then the books (`services`, `configs`, …), whose containers are in
//! `index`. Each book has the maps, changes and queries of one kind of thing. A small book is a single file. A large
//! one is a folder: `mod.rs` has the maps, their rows and the queries, `changes.rs` the changes, and further files the
//! parts that only this book needs.

pub mod access;
pub mod access_keys;
pub mod aliases;
mod apply;
pub mod approvals;
pub mod audit;
pub mod calls;
pub mod client_refusals;
pub mod configs;
pub mod contracts;
mod counts;
#[cfg(any(test, feature = "test-support"))]
pub mod fuzzing;
pub mod history;
mod index;
pub mod instances;
pub mod namespaces;
#[cfg(feature = "next-level")]
pub mod next_level;
pub mod nodes;
pub mod policies;
mod policy_index;
pub mod rules;
pub mod services;
mod settings;
pub mod templates;
#[cfg(any(test, feature = "test-support"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod time;
mod webhook_queue;
pub mod webhooks;
pub mod xds_marks;

use std::fmt;

use crate as catalog;
pub use apply::{authorization, change, command, ctx, rekey, releases, retention, row, would_refuse};
use apply::{resource, scope, sso_commands};
pub use change::{Applied, Change, ChangeSet, Entity, Outcome};
pub use command::{AuthorizedCommand, Command, Credential, DeadInstance, InstanceHealth, Op};
pub use ctx::{Ctx, RequestId};
pub use index::{abandoned, page, set_digest};
pub use row::{Edit, Row};
pub use sso_commands::{SsoLogout, SsoSignIn};

use self::time::ClusterTime;
use crate::format::level::Level;
use crate::model::access::{Token, User};
use crate::model::access_key::AccessKey;
use crate::model::alias::ServiceAlias;
use crate::model::approval::ApprovalRequest;
use crate::model::config_file::{ConfigFile, ConfigGroup, ConfigRelease};
use crate::model::config_template::ConfigTemplate;
use crate::model::contract::Contract;
use crate::model::instance::Instance;
use crate::model::namespace::Namespace;
use crate::model::policy::Policy;
use crate::model::rule::Rule;
use crate::model::rule::release::RuleRelease;
use crate::model::service::Service;
use crate::model::service_token::ServiceToken;
use crate::model::settings::Settings;
use crate::model::sso::{Provider, SsoIdentity};
use crate::model::time::Timestamp;
use crate::model::webhook::Webhook;
use access::{Access, TakenToken};
use access_keys::AccessKeys;
use aliases::{Aliases, Cl5Counter};
use apply::idempotency::{SeenRequest, SeenRequests};
use approvals::Approvals;
use audit::{AuditRow, Trail};
use configs::Configs;
use configs::contents::StoredContent;
use configs::rows::{ConfigMark, ConfigVersion};
use contracts::Contracts;
use history::{History, HistoryRow};
use instances::Instances;
use namespaces::Namespaces;
#[cfg(feature = "next-level")]
use next_level::NextLevel;
use nodes::{Cluster, NodeRecord, Nodes};
use policies::Policies;
use rules::Rules;
use services::Services;
use templates::Templates;
use thuban_base as format;
#[cfg(test)]
use thuban_base::test_seed;
use thuban_model as model;
use webhooks::{WebhookEvent, Webhooks};
use xds_marks::{XdsMark, XdsMarks};

/// Error for stored bytes that this version cannot read. It is fatal to the node, and never returned to a caller.
#[derive(Debug)]
pub struct Corrupt(pub String);

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the stored state cannot be read: {}", self.0)
    }
}

impl std::error::Error for Corrupt {}

/// All replicated state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    pub nodes: Nodes,
    pub access: Access,
    pub access_keys: AccessKeys,
    pub namespaces: Namespaces,
    pub services: Services,
    pub aliases: Aliases,
    pub configs: Configs,
    pub rules: Rules,
    pub instances: Instances,
    pub settings: Settings,
    pub history: History,
    pub templates: Templates,
    pub trail: Trail,
    pub webhooks: Webhooks,
    pub policies: Policies,
    pub contracts: Contracts,
    pub approvals: Approvals,
    pub time: ClusterTime,
    pub xds_marks: XdsMarks,
    #[cfg(feature = "next-level")]
    pub next_level: Option<NextLevel>,
    requests: SeenRequests,
}

/// Declares the tables of stored rows, one per line:
///
/// * its number, the first byte of its keys; it never changes, and 0 belongs to the Raft adapter,
/// * its name in the code, and its label for users,
/// * the type of its rows,
/// * the expression that loads the value of a stored row.
macro_rules! tables {
    (|$catalog:ident, $value:ident|
        $( $(#[$meta:meta])? $number:literal $table:ident $label:literal $row:ty => $load:expr, )+) => {
        /// Tables by number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Table { $( $(#[$meta])? $table = $number, )+ }

        impl Table {
            pub const ALL: &[Table] = &[ $( $(#[$meta])? Table::$table, )+ ];

            /// Returns the label of the table for users.
            pub fn label(self) -> &'static str {
                match self { $( $(#[$meta])? Table::$table => $label, )+ }
            }

            /// Reads the value of a row and writes it again, see [`fuzzing::round_trip`].
            #[cfg(any(test, feature = "test-support"))]
            fn round_trip(self, value: &[u8]) -> bool {
                match self { $( $(#[$meta])? Table::$table => fuzzing::round_trip::<$row>(value), )+ }
            }
        }

        $( $(#[$meta])? const _: () = assert!(<$row as Row>::TABLE as u8 == $number, "the row names another table"); )+

        impl Catalog {
            /// Loads one stored row, at start and after a snapshot was installed.
            pub fn load(&mut self, key: &[u8], $value: &[u8]) -> Result<(), Corrupt> {
                let $catalog = self;
                match Table::of_key(key)? { $( $(#[$meta])? Table::$table => { $load; } )+ }
                Ok(())
            }
        }
    };
}

tables! { |catalog, value|
     1 Cluster        "cluster"          Cluster         => catalog.nodes.load_cluster(Row::read(value)?),
     2 Node           "nodes"            NodeRecord      => catalog.nodes.load_node(Row::read(value)?),
     3 User           "users"            User            => catalog.access.load_user(Row::read(value)?),
     4 Token          "tokens"           Token           => catalog.access.load_token(Row::read(value)?),
     5 Request        "requests"         SeenRequest     => catalog.requests.load(Row::read(value)?),
     6 Namespace      "namespaces"       Namespace       => catalog.namespaces.load(Row::read(value)?),
     7 Service        "services"         Service         => catalog.services.load(Row::read(value)?),
     8 ConfigGroup    "config_groups"    ConfigGroup     => catalog.configs.load_group(Row::read(value)?),
     9 ConfigFile     "config_files"     ConfigFile      => catalog.configs.load_file(Row::read(value)?),
    10 ConfigRelease  "config_releases"  ConfigRelease   => catalog.configs.load_release(Row::read(value)?),
    11 ConfigMark     "config_marks"     ConfigMark      => catalog.configs.load_mark(Row::read(value)?),
    12 ConfigVersion  "config_versions"  ConfigVersion   => catalog.configs.load_version(Row::read(value)?),
    13 Alias          "aliases"          ServiceAlias    => catalog.aliases.load(Row::read(value)?),
    14 Cl5Counter     "alias_counter"    Cl5Counter      => catalog.aliases.load_counter(Row::read(value)?),
    15 Rule           "rules"            Rule            => catalog.rules.load_rule(Row::read(value)?),
    16 RuleRelease    "rule_releases"    RuleRelease     => catalog.rules.load_release(Row::read(value)?),
    17 Instance       "instances"        Instance        => catalog.instances.load(Row::read(value)?),
    18 Settings       "settings"         Settings        => catalog.settings = Row::read(value)?,
    19 Content        "contents"         StoredContent   => catalog.configs.load_content(Row::read(value)?),
    20 AccessKey      "access_keys"      AccessKey       => catalog.access_keys.load(Row::read(value)?),
    21 ServiceToken   "service_tokens"   ServiceToken    => catalog.access.load_service_token(Row::read(value)?),
    22 Audit          "audit"            AuditRow => catalog.trail.load(value)?,
    23 History        "history"          HistoryRow      => catalog.history.load(Row::read(value)?)?,
    24 ConfigTemplate "config_templates" ConfigTemplate  => catalog.templates.load(Row::read(value)?),
    27 Webhook        "webhooks"         Webhook         => catalog.webhooks.load(Row::read(value)?),
    28 WebhookEvent   "webhook_events"   WebhookEvent    => catalog.webhooks.load_event(Row::read(value)?),
    29 Policy         "policies"         Policy          => catalog.policies.load(Row::read(value)?),
    30 ApprovalRequest "approval_requests" ApprovalRequest => catalog.load_request(Row::read(value)?)?,
    31 Contract       "contracts"        Contract        => catalog.contracts.load(Row::read(value)?),
    32 Time           "time"             ClusterTime     => catalog.time.load(Row::read(value)?),
    33 XdsMark        "xds_marks"        XdsMark         => catalog.xds_marks.load(Row::read(value)?),
    34 Provider       "providers"        Provider        => catalog.access.load_provider(Row::read(value)?),
    35 Identity       "identities"       SsoIdentity     => catalog.access.load_identity(Row::read(value)?),
    36 TakenToken     "taken_tokens"     TakenToken      => catalog.access.load_taken(Row::read(value)?),
    #[cfg(feature = "next-level")]
    255 NextLevel     "next_level"       NextLevel       => catalog.next_level = Some(Row::read(value)?),
}

impl Catalog {
    /// Returns the level in force; nothing above it is proposed.
    pub fn level(&self) -> Level {
        self.nodes.level()
    }

    /// Returns a copy of the catalog for long reads, which later entries do not change. It is cheap, because it shares
    /// all maps. Request ids and the audit trail are left out, as only apply needs them.
    pub fn view(&self) -> Catalog {
        Catalog {
            nodes: self.nodes.clone(),
            access: self.access.clone(),
            access_keys: self.access_keys.clone(),
            namespaces: self.namespaces.clone(),
            services: self.services.clone(),
            aliases: self.aliases.clone(),
            configs: self.configs.clone(),
            rules: self.rules.clone(),
            instances: self.instances.clone(),
            settings: self.settings.clone(),
            history: self.history.clone(),
            templates: self.templates.clone(),
            trail: Trail::default(),
            webhooks: self.webhooks.clone(),
            policies: self.policies.clone(),
            contracts: self.contracts.clone(),
            approvals: self.approvals.clone(),
            time: self.time.clone(),
            xds_marks: self.xds_marks.clone(),
            #[cfg(feature = "next-level")]
            next_level: self.next_level.clone(),
            requests: SeenRequests::default(),
        }
    }

    /// Returns a catalog to apply to while this one is read, and to replace it afterwards. Moves the request ids, which
    /// are many and used only by apply, to the new catalog.
    pub fn fork(&mut self) -> Catalog {
        Catalog { trail: self.trail.clone(), requests: std::mem::take(&mut self.requests), ..self.view() }
    }

    /// Reports whether a request was applied within about the last minute.
    pub fn remembers(&self, request: RequestId) -> bool {
        self.requests.knows(request)
    }

    /// Returns the stamp of the newest entry.
    pub fn clock(&self) -> Timestamp {
        self.requests.clock()
    }

    /// Checks after all rows were loaded that everything they refer to exists.
    pub fn check_loaded(&self) -> Result<(), Corrupt> {
        self.configs.check_loaded()
    }
}
