//! openraft's state machine over the catalog and the rows of the store.
//!
//! One group of committed entries goes: lock the catalog, apply each entry, write all changed rows
//! with the applied index, the membership and the state hash in ONE batch, unlock; then tell who
//! waits: readers that need this index, watchers of the changed keys, and those who wait for the
//! answers. Nobody sees a change whose rows are not written, and nobody is answered before the
//! change can be seen.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{Stream, StreamExt, TryStreamExt};
use openraft::entry::RaftEntry;
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::type_config::alias::SnapshotOf;
use openraft::{EntryPayload, OptionalSend};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::codec;
use super::proposal;
use super::state::{Applied, State};
use super::types::{LogId, SnapshotMeta, StoredMembership, TypeConfig};
use crate::catalog::{Catalog, Change, Edit, Outcome, RequestId};
use crate::metrics::Metrics;
use crate::store::{SnapshotFile, Store, View};
use crate::watch::{Hub, WatchKey};

/// The row of the Raft adapter; table 0 is not the catalog's.
const PROGRESS_KEY: &[u8] = &[0];

/// Entries applied under one lock and in one batch: a node that replays much of its log keeps its
/// readers waiting for a moment only, and holds no more than this in memory.
const GROUP_ENTRIES_MAX: usize = 1024;

/// What is kept beside the catalog's rows, and always in the batch that made it true.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub last_applied: Option<LogId>,
    pub membership: StoredMembership,
    /// Hash over the edits of all commands, in order: equal on two nodes that applied the same
    /// index exactly if apply did the same on both.
    #[serde(with = "hash_bytes")]
    pub hash: [u8; 32],
}

mod hash_bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(hash: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(hash)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        bytes.try_into().map_err(|_| serde::de::Error::custom("a state hash has 32 bytes"))
    }
}

impl Progress {
    fn read(row: Option<Vec<u8>>) -> io::Result<Progress> {
        row.map_or_else(|| Ok(Progress::default()), |bytes| codec::from_bytes(&bytes))
    }

    fn index(&self) -> u64 {
        self.last_applied.map_or(0, |id| id.index)
    }

    fn fold(&mut self, index: u64, edits: &[Edit]) {
        let mut hash = Sha256::new();
        hash.update(self.hash);
        hash.update(index.to_be_bytes());
        for edit in edits {
            let value = edit.value.as_deref().unwrap_or_default();
            hash.update([u8::from(edit.value.is_some())]);
            hash.update((edit.key.len() as u64).to_be_bytes());
            hash.update(&edit.key);
            hash.update((value.len() as u64).to_be_bytes());
            hash.update(value);
        }
        self.hash = hash.finalize().into();
    }
}

/// The state machine; cheap to clone, all clones are one.
#[derive(Clone)]
pub struct Machine {
    store: Store,
    state: Arc<State>,
    progress: Arc<Mutex<Progress>>,
    metrics: Arc<Metrics>,
}

impl Machine {
    /// Loads the rows of the store into a catalog.
    pub fn load(store: Store, hub: Hub, metrics: Arc<Metrics>) -> io::Result<Machine> {
        let started = Instant::now();
        let (catalog, progress) = load(&store)?;
        let index = progress.index();
        tracing::info!(log.index = index, elapsed_ms = started.elapsed().as_millis(), "state loaded");
        let state = Arc::new(State::new(catalog, index, hub));
        Ok(Machine { store, state, progress: Arc::new(Mutex::new(progress)), metrics })
    }

    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Applied index, membership and state hash of one moment.
    pub fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    /// Applies a group of entries and says what has to be told afterwards.
    fn apply_group(&self, group: &[super::types::Entry]) -> io::Result<News> {
        let mut news = News::default();
        let mut progress = self.progress();
        let mut edits = Vec::new();
        let mut catalog = self.state.catalog.write();
        for entry in group {
            let log_id = entry.log_id();
            match &entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Membership(membership) => {
                    progress.membership = StoredMembership::new(Some(log_id), membership.clone());
                }
                EntryPayload::Normal(proposal) => {
                    let (ctx, command) = proposal::open(log_id.index, proposal)
                        .map_err(|error| corrupt(format!("log entry {log_id}: {error}")))?;
                    let applied = catalog.apply(&ctx, command);
                    progress.fold(log_id.index, &applied.edits);
                    if applied.duplicate {
                        self.metrics.duplicates.inc();
                    } else {
                        news.replies.push((ctx.request, applied.outcomes));
                    }
                    news.changes.extend(applied.changes);
                    edits.extend(applied.edits);
                }
            }
            progress.last_applied = Some(log_id);
        }
        edits.push(Edit { key: PROGRESS_KEY.to_vec(), value: Some(codec::to_bytes(&progress)) });
        self.store.write_rows(edits.into_iter().map(|edit| (edit.key, edit.value)))?;
        news.applied = Applied { index: progress.index(), notification_id: catalog.configs.newest_notification_id() };
        *self.progress.lock() = progress;
        Ok(news)
    }

    fn tell(&self, news: News) {
        self.metrics.applied_index.set(i64::try_from(news.applied.index).unwrap_or(i64::MAX));
        self.state.applied.send_replace(news.applied);
        self.state.hub().wake(news.changes.iter().flat_map(watch_keys));
        for (request, outcomes) in news.replies {
            self.state.beats.see_written(&outcomes);
            self.state.replies.answer(request, outcomes);
        }
    }

    /// Puts the state of an installed snapshot in place of the present one. Every watcher wakes:
    /// anything may have changed.
    fn reload(&self) -> io::Result<()> {
        let (catalog, progress) = load(&self.store)?;
        let applied = Applied { index: progress.index(), notification_id: catalog.configs.newest_notification_id() };
        *self.state.catalog.write() = catalog;
        *self.progress.lock() = progress;
        self.state.applied.send_replace(applied);
        self.state.hub().wake_all();
        Ok(())
    }
}

/// What to tell after a group was applied.
#[derive(Default)]
struct News {
    applied: Applied,
    changes: Vec<Change>,
    replies: Vec<(RequestId, Vec<Outcome>)>,
}

fn watch_keys(change: &Change) -> Vec<WatchKey> {
    match change {
        Change::Config(key) => vec![WatchKey::config(&key.namespace, &key.group, &key.file)],
        Change::Namespaces => vec![WatchKey::namespaces()],
        Change::Service { namespace, name } => {
            vec![WatchKey::service(namespace, name), WatchKey::services(Some(namespace)), WatchKey::services(None)]
        }
        Change::Rules(family, ends) => {
            ends.iter().map(|end| WatchKey::rules(*family, &end.namespace, &end.service)).collect()
        }
        Change::Instances { namespace, service } => vec![WatchKey::instances(namespace, service)],
    }
}

fn load(store: &Store) -> io::Result<(Catalog, Progress)> {
    let mut catalog = Catalog::default();
    let mut progress = Progress::default();
    store.for_each_row(|key, value| {
        if key == PROGRESS_KEY {
            progress = codec::from_bytes(value)?;
            return Ok(());
        }
        catalog.load(key, value).map_err(|error| corrupt(error.to_string()))
    })?;
    Ok((catalog, progress))
}

fn corrupt(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Machine;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let progress = self.progress();
        Ok((progress.last_applied, progress.membership))
    }

    async fn apply<S>(&mut self, entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        let mut groups = entries.try_chunks(GROUP_ENTRIES_MAX);
        while let Some(group) = groups.next().await {
            let (group, responders): (Vec<_>, Vec<_>) = group.map_err(|failed| failed.1)?.into_iter().unzip();
            let started = Instant::now();
            let news = self.apply_group(&group)?;
            self.metrics.apply_batch.observe(group.len() as f64);
            self.metrics.apply_duration.observe(started.elapsed().as_secs_f64());
            self.tell(news);
            responders.into_iter().flatten().for_each(|responder| responder.send(()));
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Machine {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotFile) -> Result<(), io::Error> {
        tracing::info!(snapshot = %meta.last_log_id.map_or(0, |id| id.index), "installing a snapshot");
        let machine = self.clone();
        blocking(move || {
            machine.store.install_snapshot(&snapshot)?;
            machine.reload()
        })
        .await
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<SnapshotOf<TypeConfig, SnapshotFile>>, io::Error> {
        let Some(file) = self.store.current_snapshot() else { return Ok(None) };
        let meta = codec::from_bytes(&file.header())?;
        Ok(Some(SnapshotOf::<TypeConfig, SnapshotFile> { meta, snapshot: file }))
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Machine {
    type SnapshotData = SnapshotFile;

    /// Rows and header come from one view of the store, so the snapshot is of one moment although
    /// entries are applied while it is written.
    async fn build_snapshot(&mut self) -> Result<SnapshotOf<TypeConfig, SnapshotFile>, io::Error> {
        let store = self.store.clone();
        let file = blocking(move || store.build_snapshot(|view| Ok(codec::to_bytes(&meta_of(view)?)))).await?;
        let meta: SnapshotMeta = codec::from_bytes(&file.header())?;
        tracing::info!(snapshot = %meta.last_log_id.map_or(0, |id| id.index), bytes = file.bytes(), "snapshot built");
        Ok(SnapshotOf::<TypeConfig, SnapshotFile> { meta, snapshot: file })
    }
}

fn meta_of(view: &View<'_>) -> io::Result<SnapshotMeta> {
    let progress = Progress::read(view.get_row(PROGRESS_KEY)?)?;
    Ok(SnapshotMeta { last_log_id: progress.last_applied, last_membership: progress.membership })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
