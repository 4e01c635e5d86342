//! Rekeying of a state for a new cluster that is restored from a backup, or recovered from a single node.
//!
//! Clients may hold versions, notification ids and log indexes that were issued after the state was saved. The new
//! cluster must not issue them again for something else, and nothing in force may look older than what a client holds.
//! Versions are therefore raised by [`LEAP`], and the log index by [`INDEX_LEAP`], more than any cluster issues between
//! a backup and its end. Nodes, sessions, requests and the time of the old cluster are not carried over.
//!
//! Several clusters may start from one state: a trial restore, then the real one. Each draws its id and the start of
//! its notification ids ([`notification_start`]), and its release keys end with a mark of that id. So nothing that a
//! client holds from one of them has another meaning in the others.
//!
//! The new rows are computed once, from the old rows and the drawn values, and copied to all nodes.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::ctx::NUMBERS_PER_ENTRY;
use super::row::{Edit, Row, Table};
use crate::catalog::Corrupt;
use crate::catalog::aliases::Cl5Counter;
use crate::catalog::configs::rows::{ConfigMark, ConfigVersion};
use crate::catalog::history::HistoryRow;
use crate::catalog::nodes::{Cluster, NodeRecord};
use crate::catalog::webhooks;
use crate::model::approval::ApprovalRequest;
use crate::model::config_file::{ConfigKey, ConfigRelease};
use crate::model::rule::Rule;
use crate::model::rule::release::RuleRelease;
use crate::model::webhook::Webhook;

/// Increase of all versions.
pub const LEAP: u64 = 1_000_000;
/// Increase of the log index: the entries of 49 days at a thousand a second.
pub const INDEX_LEAP: u64 = 1 << 32;
/// Limit for indexes. Numbers known to clients, [`NUMBERS_PER_ENTRY`] of each entry, stay below 2^53, so that every
/// JSON parser reads them exactly.
const INDEX_MAX: u64 = (1 << 53) / NUMBERS_PER_ENTRY;

/// End of the range in which notification ids start. Clients store them in 32 signed bits; a start in the lower half
/// leaves at least 2^30 ids, one a second for 34 years.
const STARTS_END: u32 = 1 << 30;
/// Least number of starts to draw from above the old ids; with fewer, the start is anywhere in the lower half.
const STARTS_MIN: u32 = 1 << 27;

/// Digits of the cluster id in release keys.
const BIRTH_DIGITS: usize = 8;

/// Returns the first log index of the new cluster; `None` if its numbers could become too large within [`INDEX_LEAP`]
/// entries. Starting near index 0, this happens after 2046 rekeyings.
pub fn index_after(origin: u64) -> Option<u64> {
    origin.checked_add(INDEX_LEAP).filter(|index| *index <= INDEX_MAX - INDEX_LEAP)
}

/// Returns the first notification id: above `newest` of the state while there is room, and randomized by `drawn`.
///
/// Two clusters of one state that issue `n` ids each share one with a probability of `2 n` divided by the number of
/// possible starts: 2^30 at first, so two in a million for a thousand ids, and never fewer than 2^27. A client that
/// holds a higher id than any here is treated as a client of another cluster, and is sent the current state.
pub fn notification_start(newest: u32, drawn: u32) -> u32 {
    let above = newest.saturating_add(LEAP as u32);
    let begin = if above <= STARTS_END - STARTS_MIN { above } else { LEAP as u32 };
    begin + drawn % (STARTS_END - begin)
}

/// Returns the notification id in a row; 0 if it has none.
pub fn notification_id_of(key: &[u8], value: &[u8]) -> Result<u32, Corrupt> {
    match Table::of_key(key)? {
        Table::ConfigMark => Ok(ConfigMark::read(value)?.notification_id),
        _ => Ok(0),
    }
}

/// The new cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebirth {
    pub cluster_id: String,
    /// The node that continues in its directory; `None` if all nodes are new.
    pub survivor: Option<u64>,
    /// Initial members. With a survivor, the ids of all other nodes are used up.
    pub members: BTreeSet<u64>,
    /// Highest notification id of the old cluster. The new cluster continues with the next one.
    pub notification_id: u32,
}

impl Rebirth {
    /// Returns a rebirth with new nodes, and without random values.
    #[cfg(any(test, feature = "test-support"))]
    pub fn of(cluster_id: &str) -> Self {
        let cluster_id = cluster_id.to_owned();
        Rebirth { cluster_id, survivor: None, members: BTreeSet::new(), notification_id: LEAP as u32 }
    }

    /// Returns the suffix of release keys.
    fn birth(&self) -> String {
        self.cluster_id.chars().take(BIRTH_DIGITS).collect()
    }

    /// Returns the row for the new cluster; `None` if it is not carried over. Keys do not change.
    pub fn row<'a>(&self, key: &[u8], value: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>, Corrupt> {
        let row = match Table::of_key(key)? {
            Table::Token | Table::Request | Table::Time => return Ok(None),
            Table::Node => {
                let Some(survivor) = self.survivor else { return Ok(None) };
                let mut node = NodeRecord::read(value)?;
                if node.node_id != survivor && self.members.contains(&node.node_id) {
                    return Ok(None);
                }
                node.removed |= node.node_id != survivor;
                node.value()
            }
            Table::Cluster => changed::<Cluster>(value, |cluster| cluster.cluster_id.clone_from(&self.cluster_id))?,
            Table::ConfigMark => changed::<ConfigMark>(value, |mark| mark.notification_id = self.notification_id)?,
            Table::ConfigVersion => changed::<ConfigVersion>(value, |file| {
                if file.key == ConfigKey::default() {
                    file.birth = self.birth();
                }
                leap(&mut file.version);
                leap_if_any(&mut file.removed_through);
            })?,
            Table::ConfigRelease => changed::<ConfigRelease>(value, |release| leap(&mut release.version))?,
            Table::Rule => changed::<Rule>(value, |rule| {
                leap(&mut rule.versions);
                leap_if_any(&mut rule.removed_through);
            })?,
            Table::RuleRelease => changed::<RuleRelease>(value, |release| leap(&mut release.version))?,
            // Events refer to versions, so they are raised like those of the releases.
            Table::History => changed::<HistoryRow>(value, |row| {
                let event = Arc::make_mut(&mut row.event);
                leap(&mut event.version);
                leap_if_any(&mut event.from_version);
            })?,
            Table::ApprovalRequest => {
                changed::<ApprovalRequest>(value, |request| leap_if_any(&mut request.base_version))?
            }
            Table::Cl5Counter => changed::<Cl5Counter>(value, |counter| *counter = counter.far_ahead(LEAP))?,
            // A survivor continues its deliveries. After a restore, the old cluster may still be delivering its own.
            Table::Webhook if self.survivor.is_none() => changed::<Webhook>(value, webhooks::restored)?,
            Table::WebhookEvent if self.survivor.is_none() => return Ok(None),
            Table::User
            | Table::ServiceToken
            | Table::Namespace
            | Table::Service
            | Table::Alias
            | Table::Instance
            | Table::ConfigGroup
            | Table::ConfigFile
            | Table::Settings
            | Table::Content
            | Table::AccessKey
            | Table::Webhook
            | Table::WebhookEvent
            | Table::ConfigTemplate
            | Table::Policy
            | Table::Contract
            | Table::XdsMark
            | Table::Provider
            | Table::Identity
            | Table::TakenToken
            | Table::Audit => return Ok(Some(Cow::Borrowed(value))),
            #[cfg(feature = "next-level")]
            Table::NextLevel => return Ok(Some(Cow::Borrowed(value))),
        };
        Ok(Some(Cow::Owned(row)))
    }

    /// Returns rows that the new cluster gets even if the state lacks them. They have the key of no file and apply to
    /// all files, including those created after the state was saved.
    pub fn floors(&self) -> [Edit; 2] {
        let key = ConfigKey::default;
        let mark = ConfigMark { key: key(), notification_id: self.notification_id };
        let version = ConfigVersion { key: key(), version: LEAP, removed_through: 0, birth: self.birth() };
        [(mark.key(), mark.value()), (version.key(), version.value())]
            .map(|(key, value)| Edit { key, value: Some(value) })
    }
}

/// Reads a row, changes it and returns its new value.
fn changed<R: Row>(value: &[u8], change: impl FnOnce(&mut R)) -> Result<Vec<u8>, Corrupt> {
    let mut row = R::read(value)?;
    change(&mut row);
    Ok(row.value())
}

fn leap(count: &mut u64) {
    *count = count.saturating_add(LEAP);
}

/// Raises a count, unless it is 0 for nothing counted.
fn leap_if_any(count: &mut u64) {
    if *count > 0 {
        leap(count);
    }
}
