//! Clients that have a version of a thing, counted by the leader for guards of rollouts. Each node sends a fixed-size
//! row for every client, so the sums over all nodes are exact up to [`limits::HOLDERS_TOLD_MAX`] rows a node.
//!
//! A client that several nodes know counts once. Its version is taken from the node with the most recent
//! contact; its newest report on the version counts, from whichever node.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::entry::{DeliveredVersion, Topic};
use super::{Applied, Subscribers, Subscription, streaming};
use crate::catalog::Catalog;
use crate::catalog::history::Thing;
use crate::model::config_file::canonical_file;
use crate::model::{limits, number_of};

/// Bytes of one client in an answer: its hash, the hash of its host, milliseconds since its version was confirmed,
/// flags, time of its report.
const ROW_BYTES: usize = 8 + 8 + 4 + 1 + 8;
const HAS: u8 = 1;
const APPLIED: u8 = 2;
const REFUSED: u8 = 4;

/// Answer of one node: every client that it sent some version of the thing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HoldersAnswer {
    /// Milliseconds since the node started its register.
    pub up_ms: u64,
    /// False if rows were left out because there are too many clients.
    pub is_whole: bool,
    #[serde(with = "super::fleet::as_bytes")]
    rows: Vec<u8>,
}

/// One client of one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HolderRow {
    pub(super) client: u64,
    pub(super) host: u64,
    pub(super) confirmed_ms_ago: u64,
    /// Set if the client has the version of the query; otherwise it has another one.
    pub(super) has: bool,
    pub(super) word: Option<Applied>,
    /// Time of the report.
    pub(super) at: u64,
}

impl HolderRow {
    fn of(client: &Subscription, version: u64) -> HolderRow {
        HolderRow {
            client: client_mark([&client.address, &client.agent, &client.node_id]),
            host: host_mark(&client.address),
            confirmed_ms_ago: client.confirmed_ms_ago,
            has: client.version == version,
            word: client.applied,
            at: client.applied_at.map_or(0, |at| at.0),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let word = match self.word {
            None => 0,
            Some(Applied::Yes) => APPLIED,
            Some(Applied::Refused) => REFUSED,
        };
        out.extend(self.client.to_be_bytes());
        out.extend(self.host.to_be_bytes());
        out.extend(u32::try_from(self.confirmed_ms_ago).unwrap_or(u32::MAX).to_be_bytes());
        out.push(word | if self.has { HAS } else { 0 });
        out.extend(self.at.to_be_bytes());
    }

    fn read(row: &[u8; ROW_BYTES]) -> HolderRow {
        let number = |from: usize, to: usize| row[from..to].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        HolderRow {
            client: number(0, 8),
            host: number(8, 16),
            confirmed_ms_ago: number(16, 20),
            has: row[20] & HAS != 0,
            word: match row[20] {
                flags if flags & REFUSED != 0 => Some(Applied::Refused),
                flags if flags & APPLIED != 0 => Some(Applied::Yes),
                _ => None,
            },
            at: number(21, 29),
        }
    }
}

/// Returns the hash that identifies a client by its address, program and identity, equal on all nodes.
pub(super) fn client_mark([address, agent, node_id]: [&str; 3]) -> u64 {
    let mut digest = Sha256::new();
    digest.update((address.len() as u64).to_be_bytes());
    digest.update(address);
    digest.update(agent);
    if !node_id.is_empty() {
        digest.update([0]);
        digest.update(node_id);
    }
    number_of(&digest.finalize())
}

/// Returns the hash that identifies a host, equal on all nodes.
pub fn host_mark(host: &str) -> u64 {
    number_of(&Sha256::digest(host))
}

impl HoldersAnswer {
    fn of(rows: &[HolderRow], up_ms: u64) -> HoldersAnswer {
        let told = &rows[..rows.len().min(limits::HOLDERS_TOLD_MAX)];
        let mut bytes = Vec::with_capacity(told.len() * ROW_BYTES);
        told.iter().for_each(|row| row.put(&mut bytes));
        HoldersAnswer { up_ms, is_whole: told.len() == rows.len(), rows: bytes }
    }

    fn rows(&self) -> impl Iterator<Item = HolderRow> {
        let (rows, _) = self.rows.as_chunks();
        rows.iter().map(HolderRow::read)
    }
}

/// Clients that have a version of a thing or another version of it, merged over several nodes.
#[derive(Debug, Default)]
pub struct Holders {
    clients: HashMap<u64, HolderRow>, // bound: clients
}

/// Versions on a host, over all its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostState {
    /// A client on the host has the version.
    pub has: bool,
    /// A client on the host has another version.
    pub has_other: bool,
}

impl Holders {
    /// Merges the answer of one node.
    pub fn add(&mut self, answer: &HoldersAnswer) {
        for row in answer.rows() {
            match self.clients.entry(row.client) {
                Entry::Vacant(free) => drop(free.insert(row)),
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    let (mut counted, other) = match row.confirmed_ms_ago < known.confirmed_ms_ago {
                        true => (row, *known),
                        false => (*known, row),
                    };
                    if counted.has && other.has && other.word.is_some() && counted.at < other.at {
                        (counted.word, counted.at) = (other.word, other.at);
                    }
                    *known = counted;
                }
            }
        }
    }

    fn having(&self) -> impl Iterator<Item = &HolderRow> {
        self.clients.values().filter(|client| client.has)
    }

    /// Returns the number of clients that have the version.
    pub fn amount(&self) -> usize {
        self.having().count()
    }

    /// Returns the number of clients that have the version and reported that they applied it.
    pub fn applied(&self) -> usize {
        self.having().filter(|client| client.word == Some(Applied::Yes)).count()
    }

    /// Returns the number of clients that have the version and reported that they could not apply it.
    pub fn refused(&self) -> usize {
        self.having().filter(|client| client.word == Some(Applied::Refused)).count()
    }

    /// Returns the hosts of all clients, keyed by [`host_mark`].
    pub fn hosts(&self) -> HashMap<u64, HostState> {
        let mut hosts: HashMap<u64, HostState> = HashMap::new();
        for client in self.clients.values() {
            let host = hosts.entry(client.host).or_default();
            host.has |= client.has;
            host.has_other |= !client.has;
        }
        hosts
    }
}

impl Subscribers {
    /// Returns every present client that was sent some version of the thing.
    pub fn holders(&self, catalog: &Catalog, thing: &Thing, version: u64) -> HoldersAnswer {
        let mut rows = Vec::new();
        match thing {
            Thing::File(key) => {
                let canonical = canonical_file(&key.file);
                self.each_there(Some(self.topic_of_file(&key.group, &key.file)), |entry, now| {
                    if let Topic::File { group, file, .. } = &entry.wants
                        && let DeliveredVersion::File { namespace, file: given, version: has, .. } = &entry.given
                        && **group == *key.group
                        && **file == *canonical
                        && **namespace == *key.namespace
                        && **given == *key.file
                    {
                        rows.push(entry.holder(namespace, *has, *has == version, now));
                    }
                });
            }
            Thing::Rule(family, id) => {
                self.each_there(None, |entry, now| {
                    if let Topic::Rules { family: wanted, .. } | Topic::ReportedRule { family: wanted } = &entry.wants
                        && let DeliveredVersion::Rules(given) = &entry.given
                        && wanted == family
                        && let Some((_, has)) = given.iter().find(|(known, _)| **known == **id)
                    {
                        rows.push(entry.holder(id, *has, *has == version, now));
                    }
                });
                let of_xds = streaming::of_rule(&self.streams, catalog.rules.of(*family).active(), id);
                rows.extend(of_xds.iter().filter(|row| row.version != 0).map(|row| HolderRow::of(row, version)));
            }
        }
        let up_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        HoldersAnswer::of(&rows, up_ms)
    }
}

#[cfg(test)]
mod tests;
