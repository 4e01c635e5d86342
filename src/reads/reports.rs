//! Reports of discovering clients on releases of rules that they were sent.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::rules::{Active, RuleBook};
use crate::model::code::{Code, Refusal};
use crate::model::config_lookup::CLIENT_ADDRESS_LABEL;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::name;
use crate::model::rule::Family;
use crate::model::rule::release::RuleRelease;
use crate::operations::member::LocalMember;
use crate::origin::Origin;
use crate::subscribers::{Applied, Client, RuleWord, Word};

/// Report of a client on a release of a rule.
pub struct RuleReport {
    pub family: Family,
    /// Id of the rule; empty if the rule is named.
    pub id: String,
    /// Namespace and name of the rule, as sent to the client.
    pub namespace: String,
    pub name: String,
    pub release: ReportedRelease,
    pub is_ok: bool,
    /// Reason why the client could not apply the release.
    pub message: String,
    /// Labels with which the client discovers.
    pub labels: BTreeMap<String, String>, // bound: request
    /// Name of the reporting program.
    pub agent: String,
    pub address: Option<IpAddr>,
    /// Origin by which limits count the stored report.
    pub origin: Origin,
    /// Scope of what the client may see.
    pub read_scope: ReadScope,
}

/// Release that a report is about.
pub enum ReportedRelease {
    Named(String),
    Version(u64),
    /// The one that was sent to the client.
    Given,
}

impl RuleReport {
    /// Records the report if this node sent the release to the client, or if the release is in force and visible to the
    /// client. Any other report is ignored without an error.
    pub fn note(&self, member: &LocalMember) -> Result<(), Refusal> {
        if self.id.is_empty() {
            name::check_namespace(&self.namespace)?;
            name::check_length("name", &self.name, limits::NAME_CHARS_MAX, Code::InvalidParameter)?;
        }
        name::check_length("id", &self.id, limits::ID_CHARS_MAX, Code::InvalidParameter)?;
        name::check_metadata(&self.labels)?;
        let address = self.address.map(|address| address.to_string()).unwrap_or_default();
        let client = Client {
            address: self.labels.get(CLIENT_ADDRESS_LABEL).unwrap_or(&address),
            agent: &self.agent,
            origin: self.origin,
            hold: Duration::ZERO,
            connection: None,
            is_named: true,
            is_polaris: false,
        };
        let catalog = member.state().view();
        let named = self.named(catalog.rules.of(self.family));
        let in_force = self.in_force(catalog.rules.of(self.family).active(), &named, client.address);
        let labels: Vec<_> = self.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let applied = if self.is_ok { Applied::Yes } else { Applied::Refused };
        let word = Word { applied, message: &self.message, at: member.state().now() };
        let report = RuleWord { family: self.family, named: &named, labels: &labels, in_force, word };
        let sees = |namespace: &str, service: &str| self.read_scope.sees(namespace, service);
        member.subscribers().applied_rule(client, report, sees);
        Ok(())
    }

    /// Returns the rules that the report may mean, each with the reported version. A client knows a rule by the name in
    /// its release, which may differ from its present name.
    fn named(&self, book: &RuleBook) -> Vec<(String, Option<u64>)> {
        let mut ids: Vec<String> = match self.id.is_empty() {
            false => vec![self.id.clone()],
            true => book.active().released_as(&self.namespace, &self.name).map(|id| id.to_string()).collect(),
        };
        if ids.is_empty() {
            ids.extend(book.named(&self.namespace, &self.name).map(|rule| rule.id.clone()));
        }
        let version = |id: String| match &self.release {
            ReportedRelease::Named(name) => book.release(&id, name).map(|release| (id, Some(release.version))),
            ReportedRelease::Version(version) => Some((id, Some(*version))),
            ReportedRelease::Given => Some((id, None)),
        };
        ids.into_iter().filter_map(version).collect()
    }

    /// Returns the reported release, if it is in force and visible to the client.
    fn in_force<'a>(
        &self,
        active: &'a Active,
        named: &[(String, Option<u64>)],
        address: &str,
    ) -> Option<&'a Arc<RuleRelease>> {
        let label = |key: &str| match self.labels.get(key) {
            Some(value) => Some(value.as_str()),
            None => (key == CLIENT_ADDRESS_LABEL).then_some(address),
        };
        let is_seen = |release: &&Arc<RuleRelease>| {
            let ends = release.rule.ends();
            release.rule.enable && ends.iter().any(|end| self.read_scope.touches(&end.namespace, &end.service))
        };
        let found = named.iter().find_map(|(id, version)| match version {
            Some(version) => active.releases_of(id).find(|release| release.version == *version),
            None => active.release_for(id, label),
        });
        found.filter(is_seen)
    }
}
