//! The catalog: all replicated state, in memory, as plain maps. They are persistent ones: a
//! [view](Catalog::view) shares them, whatever is applied meanwhile.
//!
//! It is a pure function of the log: [`Catalog::apply`] takes one command with its stamps and
//! returns the answer, the rows that changed and what watchers should hear of. It knows no clock,
//! no randomness, no disk and no network; every node that applied the same entries holds the same
//! catalog. Apply never fails and never panics on input: what is refused is refused per item, as
//! data.
//!
//! Reading order: [`command`], this file, then the books (`services`, `configs`, …). Each book is a
//! set of maps with the rules of change and the queries of one kind of thing.

pub mod access;
pub mod active;
pub mod aliases;
mod archive;
pub mod change;
pub mod command;
mod config_active;
mod config_changes;
mod config_rows;
pub mod configs;
mod contents;
pub mod ctx;
pub mod fold;
mod instance_changes;
pub mod instances;
mod ledger;
mod names;
pub mod namespaces;
pub mod nodes;
pub mod page;
pub mod rebirth;
mod requests;
pub mod retention;
pub mod row;
mod rule_changes;
pub mod rules;
pub mod services;
mod settings;

#[cfg(test)]
mod tests;

use std::fmt;

pub use change::{Applied, Change, Entity, Journal, Outcome};
pub use command::{Command, DeadInstance, InstanceHealth, Op};
pub use ctx::{Ctx, RequestId};
pub use row::{Edit, Row, Table};

use crate::format::level::Level;
use crate::model::access::{Token, User};
use crate::model::alias::ServiceAlias;
use crate::model::config_file::{ConfigFile, ConfigGroup, ConfigRelease};
use crate::model::instance::Instance;
use crate::model::namespace::Namespace;
use crate::model::release::ReleaseOp;
use crate::model::rule::Rule;
use crate::model::rule::release::RuleRelease;
use crate::model::service::Service;
use crate::model::settings::Settings;
use crate::model::time::Timestamp;
use access::Access;
use aliases::{Aliases, Cl5Counter};
use config_rows::{ConfigMark, ConfigVersion};
use configs::Configs;
use contents::StoredContent;
use instances::Instances;
use namespaces::Namespaces;
use nodes::{Cluster, NodeRecord, Nodes};
use requests::{Remembered, Requests};
use rules::Rules;
use services::Services;

/// Stored bytes that this version cannot read: fatal to a node, never shown to a caller.
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
    pub namespaces: Namespaces,
    pub services: Services,
    pub aliases: Aliases,
    pub configs: Configs,
    pub rules: Rules,
    pub instances: Instances,
    pub settings: Settings,
    requests: Requests,
}

impl Catalog {
    /// Applies one command. A request id that was applied before is recognised and changes nothing:
    /// its reply was given when it was applied.
    pub fn apply(&mut self, ctx: &Ctx, command: Command) -> Applied {
        let mut journal = Journal::at(self.level());
        let ctx = &ctx.not_before(self.requests.clock());
        if !self.requests.remember(ctx, &mut journal) {
            return Applied { duplicate: true, ..Applied::default() };
        }
        let outcomes = self.dispatch(ctx, command, &mut journal);
        journal.into_applied(outcomes)
    }

    fn dispatch(&mut self, ctx: &Ctx, command: Command, journal: &mut Journal) -> Vec<Outcome> {
        match command {
            Command::Bootstrap { cluster_id, admin, level } => {
                let cluster = Cluster { cluster_id, founded: ctx.time, level };
                vec![self.bootstrap(ctx, cluster, admin, journal)]
            }
            Command::Raise { level } => vec![self.nodes.raise(level, journal)],
            Command::Announce(node) => vec![self.nodes.announce(node, journal)],
            Command::Forget { node_id } => vec![self.nodes.forget(node_id, journal)],
            Command::SignIn { hash, user_id } => vec![self.access.sign_in(ctx, hash, user_id, journal)],
            Command::SignOut { hash } => vec![self.access.sign_out(&hash, journal)],
            Command::Namespaces(op, items) => each(items, |item| self.write_namespace(ctx, op, &item, journal)),
            Command::Services(op, items) => each(items, |item| self.write_service(ctx, op, &item, journal)),
            Command::Aliases(op, items) => each(items, |item| self.write_alias(ctx, op, &item, journal)),
            Command::Rules(op, items) => each(items, |item| self.write_rule(ctx, op, &item, journal)),
            Command::PublishRules(family, items) => each(items, |item| self.publish_rule(ctx, family, &item, journal)),
            Command::RuleReleases(family, op, items) => {
                each(items, |item| self.change_release(ctx, family, op, &item, journal))
            }
            Command::ConfigGroups(op, items) => each(items, |item| self.write_config_group(ctx, op, &item, journal)),
            Command::ConfigFiles(op, items) => each(items, |item| self.write_config_file(ctx, op, &item, journal)),
            Command::ConfigPublish(items) => each(items, |item| self.publish_config(ctx, &item, journal)),
            Command::ConfigCreateAndPublish(items) => {
                each(items, |item| self.create_and_publish_config(ctx, &item, journal))
            }
            Command::ConfigRollback(items) => self.change_config_releases(ctx, ReleaseOp::Rollback, items, journal),
            Command::ConfigDeleteReleases(items) => self.change_config_releases(ctx, ReleaseOp::Delete, items, journal),
            Command::ConfigStopGray(items) => self.change_config_releases(ctx, ReleaseOp::StopGray, items, journal),
            Command::Instances(op, items) => each(items, |item| self.write_instance(ctx, op, &item, journal)),
            Command::InstancesDeleteHost(items) => each(items, |item| self.delete_instances_of_host(&item, journal)),
            Command::InstancesIsolateHost(items) => {
                each(items, |item| self.isolate_instances_of_host(ctx, &item, journal))
            }
            Command::InstanceHealth(items) => each(items, |item| self.change_health(ctx, &item, journal)),
            Command::RemoveDeadInstances(items) => each(items, |item| self.remove_dead_instance(&item, journal)),
            Command::Settings(change) => vec![self.change_settings(&change, journal)],
            Command::PruneReleases(overfull) => vec![self.prune(&overfull, journal)],
        }
    }

    /// The first entry of a cluster that counts; any later one changes nothing.
    fn bootstrap(&mut self, ctx: &Ctx, cluster: Cluster, admin: User, journal: &mut Journal) -> Outcome {
        if self.nodes.cluster_id().is_some() {
            return Outcome::from(crate::model::code::Code::NoNeedUpdate);
        }
        self.nodes.found(cluster, journal);
        self.access.add_user(admin, journal);
        self.namespaces.ensure(ctx, namespaces::DEFAULT, journal);
        Outcome::default()
    }

    /// The level in force: below it nothing newer is proposed, and apply means what it meant then.
    pub fn level(&self) -> Level {
        self.nodes.level()
    }

    /// The catalog as it stands, for who reads much of it: what is applied afterwards does not show.
    /// Made in no time, as it shares all of its maps with this one, and without the memory of
    /// request ids, which is for apply alone.
    pub fn view(&self) -> Catalog {
        let Catalog { nodes, access, namespaces, services, aliases, configs, rules, instances, settings, requests: _ } =
            self;
        Catalog {
            nodes: nodes.clone(),
            access: access.clone(),
            namespaces: namespaces.clone(),
            services: services.clone(),
            aliases: aliases.clone(),
            configs: configs.clone(),
            rules: rules.clone(),
            instances: instances.clone(),
            settings: settings.clone(),
            requests: Requests::default(),
        }
    }

    /// The stamp of the newest entry.
    pub fn clock(&self) -> Timestamp {
        self.requests.clock()
    }

    /// Takes in one stored row, at start and after a snapshot was installed.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), Corrupt> {
        match Table::of_key(key)? {
            Table::Cluster => self.nodes.load_cluster(Cluster::read(value)?),
            Table::Node => self.nodes.load_node(NodeRecord::read(value)?),
            Table::User => self.access.load_user(User::read(value)?),
            Table::Token => self.access.load_token(Token::read(value)?),
            Table::Request => self.requests.load(Remembered::read(value)?),
            Table::Namespace => drop(self.namespaces.load(Namespace::read(value)?)),
            Table::Service => drop(self.services.load(Service::read(value)?)),
            Table::Alias => drop(self.aliases.load(ServiceAlias::read(value)?)),
            Table::Cl5Counter => self.aliases.load_counter(Cl5Counter::read(value)?),
            Table::Rule => self.rules.load_rule(Rule::read(value)?),
            Table::RuleRelease => self.rules.load_release(RuleRelease::read(value)?),
            Table::ConfigGroup => drop(self.configs.load_group(ConfigGroup::read(value)?)),
            Table::ConfigFile => self.configs.load_file(ConfigFile::read(value)?),
            Table::ConfigRelease => self.configs.load_release(ConfigRelease::read(value)?),
            Table::ConfigMark => self.configs.load_mark(ConfigMark::read(value)?),
            Table::ConfigVersion => self.configs.load_version(ConfigVersion::read(value)?),
            Table::Instance => drop(self.instances.load(Instance::read(value)?)),
            Table::Settings => self.settings = Settings::read(value)?,
            Table::Content => self.configs.load_content(StoredContent::read(value)?),
        }
        Ok(())
    }

    /// To be asked when all rows are loaded: whether what they name is there.
    pub fn check_loaded(&self) -> Result<(), Corrupt> {
        self.configs.check_loaded()
    }

    /// Objects by kind, for the metrics.
    pub fn counts(&self) -> [(&'static str, usize); 13] {
        let instances = self.instances.counts();
        [
            ("namespace", self.namespaces.len()),
            ("service", self.services.len()),
            ("alias", self.aliases.len()),
            ("rule", self.rules.len()),
            ("rule_release", self.rules.release_count()),
            ("instance_healthy", instances.healthy),
            ("instance_unhealthy", instances.total - instances.healthy - instances.isolated),
            ("instance_isolated", instances.isolated),
            ("config_group", self.configs.group_count()),
            ("config_file", self.configs.file_count()),
            ("config_release", self.configs.release_count()),
            ("config_content", self.configs.content_count()),
            ("token", self.access.token_count()),
        ]
    }
}

/// A batch is its items one by one, in order, each succeeding or failing on its own.
fn each<T>(items: Vec<T>, apply: impl FnMut(T) -> Outcome) -> Vec<Outcome> {
    items.into_iter().map(apply).collect()
}
