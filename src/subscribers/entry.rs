//! One client with the topic that it asks for and the version that it was sent.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::holders::HolderRow;
use super::reports::Report;
use super::rule_sets::RuleSet;
use super::{FILES, LISTS, Subscription};
use crate::catalog::Catalog;
use crate::model::config_lookup::{CLIENT_ADDRESS_LABEL, ClientLabels, Released};
use crate::model::rule::Family;
use crate::model::time::Timestamp;
use crate::origin::Origin;

pub(super) struct Subscriber {
    pub(super) wants: Topic,
    /// Hashes of the client and of its host, equal on all nodes.
    pub(super) marks: [u64; 2],
    pub(super) address: Box<str>,
    pub(super) agent: Box<str>,
    pub(super) labels: Box<[(String, String)]>,
    pub(super) given: DeliveredVersion,
    /// The client's reports on what it was sent, the newest last.
    pub(super) reports: Vec<Report>,
    pub(super) since: Timestamp,
    /// Time of the last contact.
    pub(super) heard: Instant,
    /// Time of the last contact that confirmed the version: a delivery or a report. A poll does not, since the client
    /// may have been sent another version by another node.
    pub(super) confirmed: Instant,
    /// Set if the release is known from the client's report alone. The labels may then differ from those it was served
    /// with.
    pub(super) is_reported: bool,
    /// Set if the release is inferred from polls that name no address; the client may name one in its pulls.
    pub(super) is_assumed: bool,
    /// Set for an SDK of Polaris.
    pub(super) is_polaris: bool,
    /// Address of the connection of its last pull, if the client names another one.
    pub(super) connection: Option<IpAddr>,
    /// Time after `heard` for which the client counts as present.
    pub(super) stays: Duration,
    /// Origin that pays for this entry, and the bytes it pays for.
    pub(super) origin: Origin,
    pub(super) bytes: usize,
}

/// Subject that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// A file of a group, in any spelling of its name, from the first of these namespaces that has it.
    File {
        group: Box<str>,
        file: Box<str>,
        namespaces: Box<[String]>,
    },
    Rules {
        family: Family,
        namespace: Box<str>,
        service: Box<str>,
    },
    /// A rule that the client reported to have; the service is unknown.
    ReportedRule {
        family: Family,
    },
    /// The list of instances of a service.
    Instances {
        namespace: Box<str>,
        service: Box<str>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeliveredVersion {
    File {
        namespace: Box<str>,
        /// The name as stored.
        file: Box<str>,
        version: u64,
        /// Hash of the release key.
        key: u64,
    },
    Rules(RuleSet),
    List {
        /// Hash of the list's revision.
        revision: u64,
        /// Highest known log index that was applied before the list was read.
        index: u64,
    },
}

impl DeliveredVersion {
    /// Reports whether the client was sent this version of `thing`: the namespace of a file, or the id of a rule.
    pub(super) fn is_of(&self, thing: &str, wanted: u64) -> bool {
        match self {
            DeliveredVersion::File { namespace, version, .. } => **namespace == *thing && *version == wanted,
            DeliveredVersion::Rules(set) => set.iter().any(|(id, version)| **id == *thing && *version == wanted),
            DeliveredVersion::List { .. } => false,
        }
    }
}

/// Bytes of allocator overhead per string.
const OF_ALLOCATION: usize = 16;

impl Topic {
    fn bytes(&self) -> usize {
        match self {
            Topic::File { group, file, namespaces } => {
                let namespaces = namespaces.iter().map(|one| size_of::<String>() + OF_ALLOCATION + one.len());
                group.len() + file.len() + 3 * OF_ALLOCATION + namespaces.sum::<usize>()
            }
            Topic::Rules { namespace, service, .. } | Topic::Instances { namespace, service } => {
                namespace.len() + service.len() + 2 * OF_ALLOCATION
            }
            Topic::ReportedRule { .. } => 0,
        }
    }
}

impl Subscriber {
    /// Returns the bytes in memory, without rule sets that are shared with other clients.
    pub(super) fn size(&self) -> usize {
        let labels =
            self.labels.iter().map(|(key, value)| 2 * (size_of::<String>() + OF_ALLOCATION) + key.len() + value.len());
        let given = match &self.given {
            DeliveredVersion::File { namespace, file, .. } => namespace.len() + file.len() + 2 * OF_ALLOCATION,
            DeliveredVersion::Rules(set) => set.bytes_if_alone(),
            DeliveredVersion::List { .. } => 0,
        };
        let texts = self.address.len() + self.agent.len() + 3 * OF_ALLOCATION + labels.sum::<usize>();
        let reports = self.reports.iter().map(Report::bytes).sum::<usize>();
        // The entry's slot in the map is included: a key, and the unused capacity.
        2 * size_of::<u64>() + size_of::<Subscriber>() + self.wants.bytes() + texts + given + reports
    }

    pub(super) fn is_there(&self, now: Instant) -> bool {
        now - self.heard < self.stays
    }

    pub(super) fn kind(&self) -> &'static str {
        match &self.wants {
            Topic::File { .. } => FILES,
            Topic::Rules { family, .. } | Topic::ReportedRule { family } => family.word(),
            Topic::Instances { .. } => LISTS,
        }
    }

    /// Reports whether the client has the release that it should have. Returns `None` if no release is due and it has
    /// none, or if the topic has no releases.
    pub(super) fn is_current(&self, catalog: &Catalog) -> Option<bool> {
        match (&self.wants, &self.given) {
            // The node that served the client counts it.
            _ if self.is_reported => None,
            (Topic::File { group, file, namespaces }, DeliveredVersion::File { namespace, version, .. }) => {
                let due = self.due_file(catalog, namespaces, group, file)?;
                Some(*due.namespace == **namespace && due.version == *version)
            }
            (Topic::Rules { family, namespace, service }, DeliveredVersion::Rules(given)) => {
                let label = |key: &str| self.label(key);
                let due = catalog.rules.of(*family).active().of_service(namespace, service, label);
                let due = due.iter().filter(|release| release.rule.enable);
                let due: HashSet<_> = due.map(|release| (release.rule.id.as_str(), release.version)).collect();
                let is_current = due.len() == given.len();
                let is_current = is_current && given.iter().all(|(id, version)| due.contains(&(&**id, *version)));
                (!(due.is_empty() && given.is_empty())).then_some(is_current)
            }
            _ => None,
        }
    }

    pub(super) fn due_file<'a>(
        &self,
        catalog: &'a Catalog,
        namespaces: &[String],
        group: &str,
        file: &str,
    ) -> Option<&'a Arc<Released>> {
        let client = ClientLabels { address: self.address.to_string(), labels: self.labels.to_vec() };
        namespaces.iter().find_map(|namespace| catalog.configs.find(namespace, group, file, &client))
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        match self.labels.iter().find(|(known, _)| known == key) {
            Some((_, value)) => Some(value.as_str()),
            None => (key == CLIENT_ADDRESS_LABEL).then_some(&*self.address),
        }
    }

    /// Returns the row for guards of rollouts. `thing` has the meaning that it has in [`DeliveredVersion::is_of`].
    pub(super) fn holder(&self, thing: &str, version: u64, has: bool, now: Instant) -> HolderRow {
        let report = self.reports.iter().find(|report| report.is_of(thing, version));
        let [client, host] = self.marks;
        HolderRow {
            client,
            host,
            confirmed_ms_ago: self.confirmed_ms_ago(now),
            has,
            word: report.map(|report| report.applied),
            at: report.map_or(0, |report| report.at.0),
        }
    }

    pub(super) fn confirmed_ms_ago(&self, now: Instant) -> u64 {
        u64::try_from((now - self.confirmed).as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the row for a query about one thing. `thing` has the meaning that it has in [`DeliveredVersion::is_of`].
    pub(super) fn to_subscription(
        &self,
        thing: &str,
        (version, is_current): (u64, bool),
        now: Instant,
    ) -> Subscription {
        let report = self.reports.iter().find(|report| report.is_of(thing, version));
        Subscription {
            address: self.address.to_string(),
            agent: self.agent.to_string(),
            labels: self.labels.to_vec(),
            version,
            since: self.since,
            confirmed_ms_ago: self.confirmed_ms_ago(now),
            is_current,
            is_xds: false,
            is_polaris: self.is_polaris,
            node_id: String::new(),
            applied: report.map(|report| report.applied),
            message: report.map(|report| report.message.to_string()).unwrap_or_default(),
            applied_at: report.map(|report| report.at),
            is_reported: self.is_reported,
            is_assumed: self.is_assumed,
            connection: self.connection.map(|connection| connection.to_string()).unwrap_or_default(),
        }
    }
}
