//! Rekeying of a state for a new cluster: one restored from a backup, or recovered from a single node.
//!
//! Its clients may hold what the state does not know any more: versions, notification ids and log
//! indexes that were given out after it. None of them may be given out again for something else, and
//! nothing that is in force may look older than what a client holds. So versions go up by [`LEAP`] and the log
//! index by [`INDEX_LEAP`], more than any cluster gives out between a backup and its end. What belonged to the
//! nodes, the sessions, the requests and the time of the cluster before is left behind.
//!
//! Several clusters may begin from one state: a restore that was tried, then the right one. Each has drawn its id and
//! where its notification ids begin ([`notification_start`]), and its release keys end in a mark of that id. So a
//! client of one of them has nothing that means something else in another.
//!
//! The new row follows from the old one and from what was drawn; it is made once, and copied to all nodes.

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

/// Versions are moved on so far.
pub const LEAP: u64 = 1_000_000;
/// The log index is moved on so far: as many entries as are made in 49 days at a thousand a second.
pub const INDEX_LEAP: u64 = 1 << 32;
/// The numbers that clients know, [`NUMBERS_PER_ENTRY`] of each entry, are below 2^53: every program that reads JSON
/// can tell such numbers apart.
const INDEX_MAX: u64 = (1 << 53) / NUMBERS_PER_ENTRY;

/// Clients keep notification ids in 32 signed bits. They begin in the lower half, so that at least 2^30 are left:
/// one a second for 34 years.
const STARTS_END: u32 = 1 << 30;
/// So many ids must be left to draw from above those of before; else they begin anywhere in the lower half.
const STARTS_MIN: u32 = 1 << 27;

/// Digits of the cluster id in release keys.
const BIRTH_DIGITS: usize = 8;

/// The first index of the new cluster's log; `None` where numbers would be too large before it has as many entries as
/// it was moved on by. From an index near 0 that is so after 2046 times.
pub fn index_after(origin: u64) -> Option<u64> {
    origin.checked_add(INDEX_LEAP).filter(|index| *index <= INDEX_MAX - INDEX_LEAP)
}

/// The first notification id, above `newest` of the state for as long as there is room: `drawn` makes it a number of
/// its own.
///
/// Two clusters of one state that give out `n` ids each have one in common with a probability of `2 n` by the numbers
/// to draw from: of 2^30 at first, so for a thousand ids two in a million. There are never fewer than 2^27. A client
/// that holds a higher id than any here is told what is current all the same, as somebody from elsewhere.
pub fn notification_start(newest: u32, drawn: u32) -> u32 {
    let above = newest.saturating_add(LEAP as u32);
    let begin = if above <= STARTS_END - STARTS_MIN { above } else { LEAP as u32 };
    begin + drawn % (STARTS_END - begin)
}

/// The notification id that a row holds; 0 where it holds none.
pub fn notification_id_of(key: &[u8], value: &[u8]) -> Result<u32, Corrupt> {
    match Table::of_key(key)? {
        Table::ConfigMark => Ok(ConfigMark::read(value)?.notification_id),
        _ => Ok(0),
    }
}

/// The cluster that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebirth {
    pub cluster_id: String,
    /// The node that goes on in its directory. `None` where all of them are new.
    pub survivor: Option<u64>,
    /// Members from the beginning. Beside a survivor the ids of all others are spent.
    pub members: BTreeSet<u64>,
    /// Notification id of all changes of before; the next one has one more.
    pub notification_id: u32,
}

impl Rebirth {
    /// Of new nodes, and not drawn.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of(cluster_id: &str) -> Self {
        let cluster_id = cluster_id.to_owned();
        Rebirth { cluster_id, survivor: None, members: BTreeSet::new(), notification_id: LEAP as u32 }
    }

    /// The end of release keys.
    fn birth(&self) -> String {
        self.cluster_id.chars().take(BIRTH_DIGITS).collect()
    }

    /// Row under `key` in the new cluster; `None` for one that is left behind. Keys stay.
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
            // What is told of versions stays true of the releases that have them.
            Table::History => changed::<HistoryRow>(value, |row| {
                let event = Arc::make_mut(&mut row.event);
                leap(&mut event.version);
                leap_if_any(&mut event.from_version);
            })?,
            Table::ApprovalRequest => {
                changed::<ApprovalRequest>(value, |request| leap_if_any(&mut request.base_version))?
            }
            Table::Cl5Counter => changed::<Cl5Counter>(value, |counter| *counter = counter.far_ahead(LEAP))?,
            // Who goes on tells whom it told; what is restored may stand beside who still does.
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
            | Table::Audit => return Ok(Some(Cow::Borrowed(value))),
            #[cfg(feature = "next-level")]
            Table::NextLevel => return Ok(Some(Cow::Borrowed(value))),
        };
        Ok(Some(Cow::Owned(row)))
    }

    /// Rows of the new cluster that it has also where the state has none under their keys: they stand
    /// under the key of no file and hold for all files, those too that came after the state.
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

/// For a count that is 0 where there was nothing to count.
fn leap_if_any(count: &mut u64) {
    if *count > 0 {
        leap(count);
    }
}
