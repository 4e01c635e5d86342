//! Clients with every release that they have, as exchanged between nodes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};

use super::HoldState;
use crate::catalog::Catalog;
use crate::catalog::history::Thing;

/// Protocol by which a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    Apollo,
    Discover,
    Xds,
    Polaris,
}

impl Protocol {
    pub const ALL: [Protocol; 4] = [Protocol::Apollo, Protocol::Discover, Protocol::Xds, Protocol::Polaris];

    /// Returns the name used in addresses of pages.
    pub fn word(self) -> &'static str {
        match self {
            Protocol::Apollo => "apollo",
            Protocol::Discover => "discover",
            Protocol::Xds => "xds",
            Protocol::Polaris => "polaris",
        }
    }
}

/// A client with the releases that it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentClient {
    pub address: String,
    pub agent: String,
    /// Identity that the client claims; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    pub labels: Vec<(String, String)>,
    /// Protocols by which it reads, sorted.
    pub protocols: Vec<Protocol>,
    /// Milliseconds between the last contact and the answer.
    pub heard_ms_ago: u64,
    /// Releases by subject.
    pub releases: Vec<HeldRelease>,
    /// Number of services whose list of instances it has.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    pub lists: u64,
    /// State of resources of xDS: refused, or sent and not acknowledged yet; `None` if all were acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<HoldState>,
    /// Reason of the newest refusal of a resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A release that a client has or should have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRelease {
    pub thing: Thing,
    /// Version that the client has; 0 for none.
    pub version: u64,
    pub state: HoldState,
    /// Reason of a refusal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Milliseconds since the last contact that confirmed this version.
    #[serde(rename = "heard_ms_ago")]
    pub confirmed_ms_ago: u64,
}

/// Filter of clients; an empty part matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSearch {
    /// Text within the address, the identity, the program, or a label as `key=value`, in any case.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<HoldState>,
    /// Namespace of a release that the client has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Answer of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentClients {
    /// Number of matching clients.
    pub amount: u64,
    /// Number of them by state, in the order of [`HoldState::ALL`].
    #[serde(default)]
    pub tally: [u64; HoldState::ALL.len()],
    /// The clients, those that refused something first, then those that lack a release.
    pub clients: Vec<PresentClient>,
}

impl PresentClient {
    /// Returns the worst state of its releases and resources.
    pub fn state(&self) -> HoldState {
        let states = self.releases.iter().map(|release| release.state).chain(self.unsettled);
        states.min().unwrap_or(if self.protocols == [Protocol::Xds] { HoldState::Applied } else { HoldState::Held })
    }

    /// Returns the texts that identify a client.
    pub fn identity(&self) -> [&str; 3] {
        [&self.address, &self.agent, &self.node_id]
    }

    /// Adds what another stream, topic or node knows about the same client. For each subject the version counts
    /// that was confirmed last, and of two confirmed at the same time the worse state.
    pub fn merge(&mut self, other: PresentClient) {
        self.protocols.extend(other.protocols);
        self.protocols.sort();
        self.protocols.dedup();
        self.lists = self.lists.max(other.lists);
        for release in other.releases {
            self.add(release);
        }
        if self.labels.is_empty() || (!other.labels.is_empty() && other.heard_ms_ago < self.heard_ms_ago) {
            self.labels = other.labels;
        }
        self.heard_ms_ago = self.heard_ms_ago.min(other.heard_ms_ago);
        self.unsettled = self.unsettled.into_iter().chain(other.unsettled).min();
        if self.message.is_empty() {
            self.message = other.message;
        }
    }

    fn add(&mut self, release: HeldRelease) {
        match self.releases.binary_search_by(|known| known.thing.cmp(&release.thing)) {
            Ok(at) => {
                let known = &mut self.releases[at];
                if (release.confirmed_ms_ago, release.state) < (known.confirmed_ms_ago, known.state) {
                    *known = release;
                }
            }
            Err(at) => self.releases.insert(at, release),
        }
    }
}

impl ClientSearch {
    /// Reports whether the text is within one of these texts, or within a label as `key=value`. The text of the search
    /// has to be in lower case.
    pub(super) fn finds<'a>(&self, texts: impl IntoIterator<Item = &'a str>, labels: &[(String, String)]) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.text);
        self.text.is_empty()
            || texts.into_iter().any(has)
            || labels.iter().any(|(key, value)| has(&format!("{key}={value}")))
    }

    pub(super) fn wants(&self, client: &PresentClient, catalog: &Catalog) -> bool {
        let is_there = |namespace: &String| {
            client.releases.iter().any(|held| namespace_of(catalog, &held.thing) == Some(namespace.as_str()))
        };
        self.finds(client.identity(), &client.labels)
            && self.protocol.is_none_or(|protocol| client.protocols.contains(&protocol))
            && self.state.is_none_or(|state| client.state() == state)
            && self.namespace.as_ref().is_none_or(is_there)
    }
}

/// Returns the namespace of a file or rule; `None` for a deleted rule.
fn namespace_of<'a>(catalog: &'a Catalog, thing: &'a Thing) -> Option<&'a str> {
    match thing {
        Thing::File(key) => Some(&key.namespace),
        Thing::Rule(family, id) => catalog.rules.of(*family).get(id).map(|rule| rule.namespace.as_str()),
    }
}

/// Merges the answers of several nodes: a client known to two of them counts once.
pub fn merged(answers: impl IntoIterator<Item = PresentClients>) -> PresentClients {
    let mut all: BTreeMap<[String; 3], PresentClient> = BTreeMap::new();
    let mut amount = 0;
    let mut tally = [0; HoldState::ALL.len()];
    for answer in answers {
        amount += answer.amount;
        tally.iter_mut().zip(answer.tally).for_each(|(sum, number)| *sum += number);
        for client in answer.clients {
            match all.entry(client.identity().map(str::to_owned)) {
                Entry::Vacant(free) => drop(free.insert(client)),
                Entry::Occupied(mut known) => {
                    let (before, other) = (known.get().state(), client.state());
                    known.get_mut().merge(client);
                    tally[before as usize] -= 1;
                    tally[other as usize] -= 1;
                    tally[known.get().state() as usize] += 1;
                    amount -= 1;
                }
            }
        }
    }
    let mut clients: Vec<_> = all.into_values().collect();
    clients.sort_by_key(PresentClient::state);
    PresentClients { amount, tally, clients }
}
