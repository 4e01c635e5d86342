//! Effects of applied entries, and the watch keys that they wake.

use super::progress::Progress;
use super::state::{Applied, CommandReply};
use crate::catalog::time::TimeMark;
use crate::catalog::{Change, RequestId};
use crate::model::content::Content;
use crate::peer::Checkpoint;
use crate::watch::WatchKey;
use crate::watch::feed::Feed;

/// Effects of one group of entries.
#[derive(Default)]
pub(super) struct Effects {
    /// Progress including the entries of this group.
    pub(super) progress: Progress,
    /// Number of entries applied.
    pub(super) entries: usize,
    /// State hashes at checkpoint indexes, recorded once the rows are written.
    pub(super) checkpoints: Vec<Checkpoint>,
    pub(super) applied: Applied,
    /// Newest stamp and its certainty, and whether one of these entries set it.
    pub(super) time: TimeMark,
    pub(super) is_stamped: bool,
    /// Changes, each with the index of its entry.
    pub(super) changes: Vec<(u64, Change)>,
    /// Contents that are needed in memory and are on disk only.
    pub(super) unread: Vec<Content>,
    pub(super) replies: Vec<(RequestId, CommandReply)>,
}

impl Effects {
    /// Pushes the changes to the feed. Called while the catalog is locked for writing, so that the feed has every
    /// change that a reader of the catalog sees.
    pub(super) fn feed(&self, feed: &Feed<Change>) {
        feed.push(self.changes.iter().filter(|(_, change)| is_of_services(change)).cloned());
    }
}

/// Reports whether the change concerns services, and so clients of xDS.
fn is_of_services(change: &Change) -> bool {
    matches!(change, Change::Service { .. } | Change::Rules { .. } | Change::Instances { .. })
}

pub(super) fn watch_keys(change: &Change) -> Vec<WatchKey> {
    match change {
        Change::Config(key) => vec![WatchKey::config(&key.namespace, &key.group, &key.file)],
        Change::Namespaces => vec![WatchKey::namespaces()],
        Change::Service { namespace, name } => {
            vec![WatchKey::service(namespace, name), WatchKey::services(Some(namespace)), WatchKey::services(None)]
        }
        Change::Rules { family, ends, .. } => {
            ends.iter().map(|end| WatchKey::rules(*family, &end.namespace, &end.service)).collect()
        }
        Change::Webhooks => Vec::new(),
        Change::Instances { namespace, service } => vec![WatchKey::instances(namespace, service)],
    }
}
