//! Effects of applied entries, and the keys that they wake.

use super::machine::Progress;
use super::state::{Applied, CommandReply};
use crate::catalog::time::TimeMark;
use crate::catalog::{Change, RequestId};
use crate::model::content::Content;
use crate::peer::Checkpoint;
use crate::watch::WatchKey;
use crate::watch::feed::Feed;

/// The effects of one group.
#[derive(Default)]
pub(super) struct Effects {
    /// Progress with the entries of this group.
    pub(super) progress: Progress,
    /// Entries that were applied.
    pub(super) entries: usize,
    /// Hashes at the indexes where they are noted, once the rows are written.
    pub(super) checkpoints: Vec<Checkpoint>,
    pub(super) applied: Applied,
    /// The newest stamp with what is known of it, and whether one of these entries brought it.
    pub(super) time: TimeMark,
    pub(super) is_stamped: bool,
    /// Each with the index of its entry.
    pub(super) changes: Vec<(u64, Change)>,
    /// Contents that are needed in memory, and are on disk alone.
    pub(super) unread: Vec<Content>,
    pub(super) replies: Vec<(RequestId, CommandReply)>,
}

impl Effects {
    /// Tells the feed of what was applied. Called while the catalog is held for writing: a reader of the catalog finds
    /// in the feed what it sees.
    pub(super) fn feed(&self, feed: &Feed<Change>) {
        feed.push(self.changes.iter().filter(|(_, change)| is_of_services(change)).cloned());
    }
}

/// True for a change that says something of services, and so to clients of xDS.
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
