//! openraft's state machine over the catalog and the rows of the store.
//!
//! One group of committed entries goes: lock the catalog, apply each entry, unlock, or where one of them is large,
//! do so to a copy that shares what does not change, and put it in place; hand all changed rows
//! to the store, with the applied index, the membership and the state hash, all of which it writes in ONE
//! batch; then tell who waits: readers that need this index, watchers of the changed keys, and those who
//! wait for the answers. Groups go one after the other, so rows and their progress are written in the order
//! of the log.
//!
//! The disk is waited for by nobody here: an answer means that a majority has the entry in its log and that
//! this node shows it, and the rows follow. A node that ends before they are written applies those entries
//! again. Who reads rows has those that wait written first, so a snapshot or a backup, which is made of
//! rows, holds all that was ever acknowledged here, and the log is purged behind a snapshot only.

use std::collections::BTreeSet;
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

use super::backup::header_of;
use super::hashes::Checkpoints;
use super::peer::Checkpoint;
use super::proposal;
use super::state::{Applied, Reply, State};
use super::threads::at_length;
use super::weight::Weight;
use crate::catalog::{Catalog, Change, Edit, RequestId};
use crate::format::codec;
use crate::format::level::Level;
use crate::format::pack::hash_bytes;
use crate::format::types::{Entry, LogId, NodeId, SnapshotMeta, StoredMembership, TypeConfig};
use crate::metrics::Metrics;
use crate::model::time::Timestamp;
use crate::store::{SnapshotFile, Store, blocking};
use crate::watch::{Hub, WatchKey};

/// The row of the Raft adapter; table 0 is not the catalog's.
pub(crate) const PROGRESS_KEY: &[u8] = &[0];

/// Entries applied under one lock and in one batch: a node that replays much of its log keeps its
/// readers waiting for a moment only, and holds no more than this in memory.
const GROUP_ENTRIES_MAX: usize = 1024;

/// Bytes of an entry that is applied beside what readers see, and shown at once: ten thousand changes of health are
/// one, and neither a reader nor a heartbeat must wait for them. It costs a copy of all that changes, which many
/// small entries would pay for dearly.
const BESIDE_BYTES_MIN: usize = 64 * 1024;

/// Entries between two notes of the state hash, unless told otherwise.
const CHECKPOINT_ENTRIES: u64 = 1024;

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

impl Progress {
    pub(crate) fn read(row: Option<Vec<u8>>) -> io::Result<Progress> {
        row.map_or_else(|| Ok(Progress::default()), |bytes| codec::from_bytes(&bytes))
    }

    pub(crate) fn index(&self) -> u64 {
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

    /// What the members compare at this index: the hash of the state and, from [`Level::EDGES`] on, who votes and who
    /// learns here. Two nodes that disagree on that have two majorities, whatever their states are. Addresses are
    /// left out: clusters that earlier versions formed may have them written in different ways.
    fn compared(&self, level: Level) -> [u8; 32] {
        if level < Level::EDGES {
            return self.hash;
        }
        let (membership, mut hash) = (self.membership.membership(), Sha256::new());
        hash.update(self.hash);
        let mut add = |ids: &BTreeSet<NodeId>| {
            hash.update((ids.len() as u64).to_be_bytes());
            ids.iter().for_each(|id| hash.update(id.to_be_bytes()));
        };
        membership.get_joint_config().iter().for_each(&mut add);
        add(&membership.nodes().map(|(id, _)| *id).collect());
        hash.finalize().into()
    }
}

/// The state machine; cheap to clone, all clones are one.
#[derive(Clone)]
pub struct Machine {
    store: Store,
    state: Arc<State>,
    progress: Arc<Mutex<Progress>>,
    weight: Arc<Weight>,
    checkpoints: Arc<Mutex<Checkpoints>>,
    metrics: Arc<Metrics>,
}

impl Machine {
    /// Loads the rows of the store into a catalog.
    pub fn load(store: Store, hub: Hub, metrics: Arc<Metrics>) -> io::Result<Machine> {
        let started = Instant::now();
        let weight = Arc::new(Weight::default());
        let (catalog, progress) = load(&store, &weight)?;
        let index = progress.index();
        tracing::info!(log.index = index, elapsed_ms = started.elapsed().as_millis(), "state loaded");
        let state = Arc::new(State::new(catalog, index, hub));
        let checkpoints = Arc::new(Mutex::new(Checkpoints::new(CHECKPOINT_ENTRIES)));
        Ok(Machine { store, state, progress: Arc::new(Mutex::new(progress)), weight, checkpoints, metrics })
    }

    /// Notes the state hash each `entries` entries.
    pub fn with_checkpoints_every(self, entries: u64) -> Machine {
        *self.checkpoints.lock() = Checkpoints::new(entries);
        self
    }

    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Applied index, membership and state hash of one moment.
    pub fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    /// The bytes of the state's rows.
    pub(super) fn weight(&self) -> &Weight {
        &self.weight
    }

    /// Writes the present state to a snapshot file, which is the newest one then. Blocks.
    ///
    /// Rows and header come from one view of the store, so the snapshot is of one moment although
    /// entries are applied while it is written.
    pub(super) fn write_snapshot(&self) -> io::Result<SnapshotFile> {
        let now = self.state.clock.wall_time();
        let file = self.store.build_snapshot(|view| Ok(codec::to_bytes(&header_of(view, now)?)))?;
        let meta = described(&file)?;
        tracing::info!(snapshot = %meta.last_log_id.map_or(0, |id| id.index), bytes = file.bytes(), "snapshot built");
        Ok(file)
    }

    /// The index that the newest finished snapshot covers.
    pub(super) fn snapshot_index(&self) -> io::Result<Option<u64>> {
        let Some(file) = self.store.current_snapshot() else { return Ok(None) };
        Ok(described(&file)?.last_log_id.map(|id| id.index))
    }

    /// The state hash at fixed indexes, for a comparison with other nodes.
    pub(super) fn checkpoints(&self) -> Vec<Checkpoint> {
        self.checkpoints.lock().all()
    }

    /// Applies a group of entries and says what has to be told afterwards.
    fn apply_group(&self, group: &[Entry]) -> io::Result<News> {
        let mut news = News::default();
        let mut progress = self.progress();
        let edits = self.change_catalog(group, &mut progress, &mut news)?;
        self.store.put_rows(edits.iter().map(|edit| (&edit.key, edit.value.as_ref())))?;
        *self.progress.lock() = progress;
        news.checkpoints.drain(..).for_each(|checkpoint| self.checkpoints.lock().note(checkpoint));
        Ok(news)
    }

    /// Applies each entry in memory, and returns the rows that this changes.
    fn change_catalog(&self, group: &[Entry], progress: &mut Progress, news: &mut News) -> io::Result<Vec<Edit>> {
        let mut edits = if !group.iter().any(is_large) {
            let mut catalog = self.state.catalog.write();
            let edits = self.apply_to(&mut catalog, group, progress, news)?;
            self.state.note(&catalog);
            edits
        } else {
            let mut next = self.state.catalog.write().fork();
            let edits = self.apply_to(&mut next, group, progress, news)?;
            let mut catalog = self.state.catalog.write();
            self.state.note(&next);
            let old = std::mem::replace(&mut *catalog, next);
            drop(catalog);
            drop(old);
            edits
        };
        self.weight.record(&edits);
        edits.push(Edit { key: PROGRESS_KEY.to_vec(), value: Some(codec::to_bytes(&*progress)) });
        Ok(edits)
    }

    fn apply_to(
        &self,
        catalog: &mut Catalog,
        group: &[Entry],
        progress: &mut Progress,
        news: &mut News,
    ) -> io::Result<Vec<Edit>> {
        let mut edits = Vec::new();
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
                    news.is_stamped = true;
                    progress.fold(log_id.index, &applied.edits);
                    if applied.duplicate {
                        self.metrics.duplicates.inc();
                    } else {
                        let reply = Reply { outcomes: applied.outcomes, audit: applied.audit };
                        news.replies.push((ctx.request, reply));
                    }
                    news.changes.extend(applied.changes);
                    edits.extend(applied.edits);
                }
            }
            progress.last_applied = Some(log_id);
            if self.checkpoints.lock().is_due(log_id.index) {
                news.checkpoints.push(Checkpoint { index: log_id.index, hash: progress.compared(catalog.level()) });
            }
        }
        news.applied = Applied { index: progress.index(), notification_id: catalog.configs.newest_notification_id() };
        news.clock = catalog.clock();
        Ok(edits)
    }

    /// Applies entries while no node runs: nobody waits, nobody is told.
    pub(crate) fn replay(&self, entries: &[Entry]) -> io::Result<()> {
        entries.chunks(GROUP_ENTRIES_MAX).try_for_each(|group| self.apply_group(group).map(drop))
    }

    fn tell(&self, news: News) {
        self.metrics.applied_index.set(i64::try_from(news.applied.index).unwrap_or(i64::MAX));
        if news.is_stamped {
            self.state.clock.observe(news.clock);
        }
        self.state.applied.send_replace(news.applied);
        self.state.beats.see_written(news.replies.iter().flat_map(|(_, reply)| &reply.outcomes));
        if news.changes.contains(&Change::Webhooks) {
            self.state.webhooks.send_replace(());
        }
        // Before the herd: who wrote does not wait until a hundred thousand were told.
        self.state.replies.answer(news.replies);
        self.state.hub().wake(news.changes.iter().flat_map(watch_keys));
    }

    /// Puts the state of an installed snapshot in place of the present one. Every watcher wakes:
    /// anything may have changed. Reads all rows, so not for async threads.
    fn reload(&self) -> io::Result<()> {
        let (catalog, progress) = load(&self.store, &self.weight)?;
        let applied = Applied { index: progress.index(), notification_id: catalog.configs.newest_notification_id() };
        self.state.clock.not_before(catalog.clock());
        let mut held = self.state.catalog.write();
        self.state.note(&catalog);
        let old = std::mem::replace(&mut *held, catalog);
        drop(held);
        *self.progress.lock() = progress;
        self.checkpoints.lock().clear();
        self.state.applied.send_replace(applied);
        self.state.webhooks.send_replace(());
        self.state.hub().wake_all();
        // Here, where nobody waits: giving back a large state takes as long as making it.
        drop(old);
        Ok(())
    }
}

fn is_large(entry: &Entry) -> bool {
    codec::entry_payload_bytes(entry) >= BESIDE_BYTES_MIN
}

/// What to tell after a group was applied.
#[derive(Default)]
struct News {
    /// Hashes at the indexes where they are noted, once the rows are written.
    checkpoints: Vec<Checkpoint>,
    applied: Applied,
    /// The newest stamp, and whether one of these entries brought it.
    clock: Timestamp,
    is_stamped: bool,
    changes: Vec<Change>,
    replies: Vec<(RequestId, Reply)>,
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
        Change::Webhooks => Vec::new(),
        Change::Instances { namespace, service } => vec![WatchKey::instances(namespace, service)],
    }
}

fn load(store: &Store, weight: &Weight) -> io::Result<(Catalog, Progress)> {
    let mut catalog = Catalog::default();
    let mut progress = Progress::default();
    weight.replace(|weigh| {
        store.for_each_row(|key, value| {
            if key == PROGRESS_KEY {
                progress = codec::from_bytes(value)?;
                return Ok(());
            }
            weigh(key, value);
            catalog.load(key, value).map_err(|error| corrupt(error.to_string()))
        })
    })?;
    catalog.check_loaded().map_err(|error| corrupt(error.to_string()))?;
    Ok((catalog, progress))
}

fn corrupt(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Builder;

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
            let news = match group.iter().any(is_large) {
                true => at_length(|| self.apply_group(&group))?,
                false => self.apply_group(&group)?,
            };
            self.metrics.apply_batch.observe(group.len() as f64);
            self.metrics.apply_duration.observe(started.elapsed().as_secs_f64());
            self.tell(news);
            responders.into_iter().flatten().for_each(|responder| responder.send(()));
        }
        Ok(())
    }

    /// Snapshots are written by [`super::keeping`] and only told of here: one that cannot be written
    /// would end consensus otherwise. `force` is the start of a node that purged its log and has lost
    /// its snapshot, for which there is no other way.
    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        let is_there = self.store.current_snapshot().is_some();
        (force || is_there).then(|| Builder { machine: self.clone(), writes: force })
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder { machine: self.clone(), writes: true }
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
        Ok(Some(SnapshotOf::<TypeConfig, SnapshotFile> { meta: described(&file)?, snapshot: file }))
    }
}

/// What openraft asks for a snapshot.
pub struct Builder {
    machine: Machine,
    /// Else the newest finished one is what it gets.
    writes: bool,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> Result<SnapshotOf<TypeConfig, SnapshotFile>, io::Error> {
        let finished = if self.writes { None } else { self.machine.store.current_snapshot() };
        let file = match finished {
            Some(file) => file,
            None => {
                let machine = self.machine.clone();
                blocking(move || machine.write_snapshot()).await?
            }
        };
        Ok(SnapshotOf::<TypeConfig, SnapshotFile> { meta: described(&file)?, snapshot: file })
    }
}

fn described(file: &SnapshotFile) -> io::Result<SnapshotMeta> {
    codec::from_bytes(&file.header())
}
