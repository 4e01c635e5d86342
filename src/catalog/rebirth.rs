//! A cluster that begins again from an earlier state: restored from a backup, or recovered from one
//! node that was left.
//!
//! Its clients may hold what the state does not know any more: versions, notification ids and log
//! indexes that were given out after it. None of them may be given out again for something else, and
//! nothing that is in force may look older than what a client holds. So everything that counts goes up
//! by [`LEAP`], more than any cluster gives out between a backup and its end. What belonged to the
//! nodes, the sessions and the requests of the cluster before is left behind.
//!
//! One function of a row, so that every node makes the same of the same state.

use std::borrow::Cow;
use std::sync::Arc;

use super::Corrupt;
use super::aliases::Cl5Counter;
use super::config_rows::{ConfigMark, ConfigVersion};
use super::history::HistoryRow;
use super::nodes::{Cluster, NodeRecord};
use super::row::{Edit, Row, Table};
use super::webhooks;
use crate::format::level::Level;
use crate::model::config_file::{ConfigKey, ConfigRelease};
use crate::model::rule::Rule;
use crate::model::rule::release::RuleRelease;
use crate::model::webhook::Webhook;

/// How far versions, notification ids and the log index are moved on.
pub const LEAP: u64 = 1_000_000;
/// Clients keep notification ids in 32 signed bits.
const NOTIFICATION_ID_MAX: u32 = i32::MAX as u32;

/// The cluster that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebirth {
    pub cluster_id: String,
    /// The node that goes on under its id; the ids of all others are spent. `None` where every node
    /// is new and may have any id.
    pub survivor: Option<u64>,
}

impl Rebirth {
    /// What the row under `key` is in the new cluster; `None` for one that is left behind. Keys stay.
    pub fn row<'a>(&self, key: &[u8], value: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>, Corrupt> {
        let row = match Table::of_key(key)? {
            Table::Token | Table::Request => return Ok(None),
            Table::Node => {
                let Some(survivor) = self.survivor else { return Ok(None) };
                changed::<NodeRecord>(value, |node| node.removed |= node.node_id != survivor)?
            }
            Table::Cluster => changed::<Cluster>(value, |cluster| cluster.cluster_id.clone_from(&self.cluster_id))?,
            Table::ConfigMark => changed::<ConfigMark>(value, |mark| {
                let moved = u64::from(mark.notification_id) + LEAP;
                mark.notification_id = u32::try_from(moved).unwrap_or(u32::MAX).min(NOTIFICATION_ID_MAX);
            })?,
            Table::ConfigVersion => changed::<ConfigVersion>(value, |file| {
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
            | Table::Audit => return Ok(Some(Cow::Borrowed(value))),
        };
        Ok(Some(Cow::Owned(row)))
    }

    /// Rows of the new cluster that it has also where the state has none under their keys: they stand
    /// under the key of no file and hold for all files, those too that came after the state.
    pub fn floors() -> [Edit; 2] {
        let key = ConfigKey::default;
        let mark = ConfigMark { key: key(), notification_id: LEAP as u32 };
        let version = ConfigVersion { key: key(), version: LEAP, removed_through: 0 };
        [(mark.key(), mark.value(Level::FIRST)), (version.key(), version.value(Level::FIRST))]
            .map(|(key, value)| Edit { key, value: Some(value) })
    }
}

/// The row in the version that it has.
fn changed<R: Row>(value: &[u8], change: impl FnOnce(&mut R)) -> Result<Vec<u8>, Corrupt> {
    let mut row = R::read(value)?;
    change(&mut row);
    Ok(row.written_as(value[0]))
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
