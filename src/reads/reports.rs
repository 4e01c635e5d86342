//! Reports of discovering clients: what came of a release of a rule that they were given.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::model::code::{Code, Refusal};
use crate::model::config_lookup::CLIENT_ADDRESS_LABEL;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::name;
use crate::model::rule::Family;
use crate::origin::Origin;
use crate::raft::node::Node;
use crate::subscribers::{Applied, Client, Word};

/// Word of a client on a release of a rule.
pub struct RuleReport {
    pub family: Family,
    /// Namespace and name of the rule.
    pub namespace: String,
    pub name: String,
    pub release: ReportedRelease,
    pub is_ok: bool,
    /// Reason why it could not apply it.
    pub message: String,
    /// Labels of the client, as it discovers with them.
    pub labels: BTreeMap<String, String>,
    /// The program that reports, and from where.
    pub agent: String,
    pub address: Option<IpAddr>,
    /// Scope of what the client may know of.
    pub read_scope: ReadScope,
}

/// Release that a report is about.
pub enum ReportedRelease {
    Named(String),
    Version(u64),
    /// The one that the client was given.
    Given,
}

impl RuleReport {
    /// Notes the word if this node gave the client that release. Of a client or of a release that it does not know
    /// nothing is noted, and nothing is told.
    pub fn note(&self, node: &Node) -> Result<(), Refusal> {
        name::check_namespace(&self.namespace)?;
        name::check_length("name", &self.name, limits::NAME_CHARS_MAX, Code::InvalidParameter)?;
        name::check_metadata(&self.labels)?;
        let catalog = node.state().view();
        let book = catalog.rules.of(self.family);
        let Some(rule) = book.named(&self.namespace, &self.name) else { return Ok(()) };
        let version = match &self.release {
            ReportedRelease::Named(name) => match book.release(&rule.id, name) {
                Some(release) => Some(release.version),
                None => return Ok(()),
            },
            ReportedRelease::Version(version) => Some(*version),
            ReportedRelease::Given => None,
        };
        let address = self.address.map(|address| address.to_string()).unwrap_or_default();
        let client = Client {
            address: self.labels.get(CLIENT_ADDRESS_LABEL).unwrap_or(&address),
            agent: &self.agent,
            origin: Origin::of_any(self.address),
            hold: Duration::ZERO,
        };
        let applied = if self.is_ok { Applied::Yes } else { Applied::Refused };
        let word = Word { applied, message: &self.message, at: node.now() };
        let sees = |namespace: &str, service: &str| self.read_scope.sees(namespace, service);
        node.subscribers().applied_rule(client, (self.family, &rule.id, version), sees, word);
        Ok(())
    }
}
