//! openraft's state machine over the catalog and the rows of the store.
//!
//! A group of committed entries ([`super::cost`]) is applied in these steps:
//!
//! * Decode each entry.
//! * Lock the catalog, apply as many entries as readers can wait for, and unlock it. Large entries are applied to a
//!   copy that shares what does not change, which then replaces the catalog.
//! * Hand all changed rows to the store with the applied index, the membership and the state hash; it writes them in
//!   ONE batch.
//! * Notify readers that wait for this index, watchers of the changed keys, and callers that wait for their reply.
//!
//! Groups are applied one after the other, so rows and progress are written in the order of the log.
//!
//! Apply does not wait for the disk, except to read the text of a release that comes into force again from its row
//! ([`super::contents`]), after the catalog was unlocked. A reply means that a majority has the entry in its log and
//! that this node serves it; the rows are written later. A node that ends before that applies those entries again.
//! Reading rows first writes the pending ones, so a snapshot or a backup, which consists of rows, holds everything that
//! was ever acknowledged here, and the log is purged only up to a snapshot.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use futures_util::Stream;
use openraft::OptionalSend;
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::type_config::alias::SnapshotOf;
use parking_lot::Mutex;
use tokio::task::yield_now;

use super::backup::header_of;
use super::checkpoint_hashes::Checkpoints;
use super::contents::{ContentTexts, any_lacks_text};
use super::cost::{ApplyBatch, Groups, HELD_MAX, Opened, Payload};
use super::effects::{Effects, watch_keys};
use super::progress::{PROGRESS_KEY, Progress};
use super::state::{Applied, ApplyListener, CommandReply, State};
use super::state_size::Weight;
use crate::catalog::{Catalog, Change, Edit};
use crate::format::codec;
use crate::format::types::{Entry, LogId, SnapshotMeta, StoredMembership, TypeConfig};
use crate::metrics::Metrics;
use crate::peer::Checkpoint;
use crate::store::{SnapshotFile, Store, blocking};
use crate::tasks::in_place;
use crate::watch::Hub;

/// Default number of entries between two checkpoints of the state hash.
const CHECKPOINT_ENTRIES: u64 = 1024;

/// The state machine; all clones share their state.
#[derive(Clone)]
pub struct Machine {
    store: Store,
    state: Arc<State>,
    progress: Arc<Mutex<Progress>>,
    weight: Arc<Weight>,
    checkpoints: Arc<Mutex<Checkpoints>>,
    metrics: Arc<Metrics>,
    listener: Option<Arc<dyn ApplyListener>>,
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
        let progress = Arc::new(Mutex::new(progress));
        Ok(Machine { store, state, progress, weight, checkpoints, metrics, listener: None })
    }

    /// Sets the number of entries between two checkpoints of the state hash.
    pub fn with_checkpoints_every(self, entries: u64) -> Machine {
        *self.checkpoints.lock() = Checkpoints::new(entries);
        self
    }

    pub(super) fn with_listener(self, listener: Arc<dyn ApplyListener>) -> Machine {
        Machine { listener: Some(listener), ..self }
    }

    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Returns applied index, membership and state hash of one moment.
    pub fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    /// Returns the counted bytes of the state's rows.
    pub(super) fn weight(&self) -> &Weight {
        &self.weight
    }

    /// Writes the current state to a snapshot file, which becomes the newest one. Blocks.
    ///
    /// Rows and header come from one view of the store, so the snapshot is consistent although entries are applied
    /// while it is written.
    pub(super) fn write_snapshot(&self) -> io::Result<SnapshotFile> {
        let now = self.state.clock.wall_time();
        let file = self.store.build_snapshot(|view| Ok(codec::to_bytes(&header_of(view, now)?)))?;
        let meta = described(&file)?;
        tracing::info!(snapshot = %meta.last_log_id.map_or(0, |id| id.index), bytes = file.bytes(), "snapshot built");
        Ok(file)
    }

    /// Returns the index that the newest finished snapshot covers.
    pub(super) fn snapshot_index(&self) -> io::Result<Option<u64>> {
        let Some(file) = self.store.current_snapshot() else { return Ok(None) };
        Ok(described(&file)?.last_log_id.map(|id| id.index))
    }

    /// Returns the state hashes at checkpoint indexes, for the comparison with other nodes.
    pub(super) fn checkpoints(&self) -> Vec<Checkpoint> {
        self.checkpoints.lock().all()
    }

    /// Applies the next entries of a group, as many as fit into one step, and returns their effects.
    fn apply_group(&self, group: &mut ApplyBatch) -> io::Result<Effects> {
        let started = Instant::now();
        let mut effects = Effects { progress: self.progress(), ..Effects::default() };
        let edits = self.change_catalog(group, &mut effects)?;
        self.read_contents(&edits, &mut effects)?;
        self.store.put_rows(edits.iter().map(|edit| (&edit.key, edit.value.as_ref())))?;
        *self.progress.lock() = mem::take(&mut effects.progress);
        effects.checkpoints.drain(..).for_each(|checkpoint| self.checkpoints.lock().note(checkpoint));
        self.metrics.apply_batch.observe(effects.entries as f64);
        self.metrics.apply_duration.observe(started.elapsed().as_secs_f64());
        Ok(effects)
    }

    /// Reads the texts that the entries need in memory from now on, and those of the replies that are awaited here.
    fn read_contents(&self, edits: &[Edit], effects: &mut Effects) -> io::Result<()> {
        let texts = ContentTexts { edits, store: &self.store };
        texts.give(&mem::take(&mut effects.unread))?;
        for (request, reply) in &mut effects.replies {
            if any_lacks_text(&reply.outcomes) && self.state.replies.is_awaited(*request) {
                texts.complete(&mut reply.outcomes)?;
            }
        }
        Ok(())
    }

    /// Applies entries in memory, and returns the rows that they change.
    fn change_catalog(&self, group: &mut ApplyBatch, effects: &mut Effects) -> io::Result<Vec<Edit>> {
        let mut edits = if group.is_beside() {
            let mut next = self.holding_catalog(Catalog::fork);
            let edits = self.apply_to(&mut next, group, effects, |_| false)?;
            let old = self.holding_catalog(|catalog| {
                self.state.note(&next);
                effects.feed(self.state.feed());
                mem::replace(catalog, next)
            });
            drop(old);
            edits
        } else {
            self.holding_catalog(|catalog| {
                let edits = self.apply_to(catalog, group, effects, |held| held.elapsed() >= HELD_MAX)?;
                self.state.note(catalog);
                effects.feed(self.state.feed());
                Ok::<_, io::Error>(edits)
            })?
        };
        self.weight.record(&edits);
        edits.push(Edit { key: PROGRESS_KEY.to_vec(), value: Some(codec::to_bytes(&effects.progress)) });
        Ok(edits)
    }

    /// Runs `work` while the catalog is locked for writing. Readers wait until it returns.
    fn holding_catalog<T>(&self, work: impl FnOnce(&mut Catalog) -> T) -> T {
        let mut catalog = self.state.catalog.write();
        let since = Instant::now();
        let done = work(&mut catalog);
        drop(catalog);
        self.metrics.catalog_held.observe(since.elapsed().as_secs_f64());
        done
    }

    /// Applies at least one entry, until the group is empty or `is_enough` holds for the time of the start.
    fn apply_to(
        &self,
        catalog: &mut Catalog,
        group: &mut ApplyBatch,
        effects: &mut Effects,
        is_enough: impl Fn(Instant) -> bool,
    ) -> io::Result<Vec<Edit>> {
        let since = Instant::now();
        let mut edits = Vec::new();
        while let Some(Opened { log_id, payload, .. }) = group.pop() {
            effects.progress.check_follows(&log_id)?;
            match payload {
                Payload::Blank => {}
                Payload::Membership(membership) => {
                    effects.progress.membership = StoredMembership::new(Some(log_id), membership);
                }
                Payload::Command(ctx, command) => {
                    let applied = catalog.apply(&ctx, command);
                    effects.is_stamped = true;
                    effects.progress.fold(log_id.index, &applied.edits);
                    if applied.duplicate {
                        self.metrics.duplicates.inc();
                    } else {
                        let reply = CommandReply { outcomes: applied.outcomes, audit: applied.audit };
                        effects.replies.push((ctx.request, reply));
                    }
                    effects.changes.extend(applied.changes.into_iter().map(|change| (log_id.index, change)));
                    effects.unread.extend(applied.unread);
                    edits.extend(applied.edits);
                }
            }
            effects.progress.last_applied = Some(log_id);
            effects.entries += 1;
            if self.checkpoints.lock().is_due(log_id.index) {
                let hash = effects.progress.compared();
                effects.checkpoints.push(Checkpoint { index: log_id.index, hash });
            }
            if is_enough(since) {
                break;
            }
        }
        effects.applied = Applied::of(effects.progress.index(), catalog);
        effects.time = catalog.time_mark();
        Ok(edits)
    }

    /// Applies entries while no node runs: there is no one to notify.
    pub(crate) fn replay(&self, entries: &[Entry]) -> io::Result<()> {
        entries.iter().try_for_each(|entry| self.apply_group(&mut ApplyBatch::from(Opened::open(entry)?)).map(drop))
    }

    fn tell(&self, effects: Effects) {
        self.metrics.applied_index.set(i64::try_from(effects.applied.index).unwrap_or(i64::MAX));
        if effects.is_stamped {
            self.state.clock.observe(effects.time);
        }
        self.state.applied.send_replace(effects.applied);
        self.listener.iter().for_each(|listener| listener.applied(&effects.replies));
        if effects.changes.iter().any(|(_, change)| *change == Change::Webhooks) {
            self.state.webhooks.send_replace(());
        }
        // Before the watchers: a writer must not wait until a hundred thousand of them are woken.
        self.state.replies.answer(effects.replies);
        self.state.hub().wake(effects.changes.iter().flat_map(|(_, change)| watch_keys(change)));
    }

    /// Replaces the current state by that of an installed snapshot, and wakes every watcher. Reads all rows, so it must
    /// not run on an async thread.
    fn reload(&self) -> io::Result<()> {
        let (catalog, progress) = load(&self.store, &self.weight)?;
        let applied = Applied::of(progress.index(), &catalog);
        self.state.clock.install(catalog.time_mark());
        let mut held = self.state.catalog.write();
        self.state.note(&catalog);
        let old = mem::replace(&mut *held, catalog);
        self.state.feed().replaced(applied.index);
        drop(held);
        *self.progress.lock() = progress;
        self.checkpoints.lock().clear();
        self.state.applied.send_replace(applied);
        self.state.webhooks.send_replace(());
        self.state.hub().wake_all();
        // Dropped here, where no one waits: freeing a large state takes as long as building it.
        drop(old);
        Ok(())
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
        let mut groups = Groups::of(entries);
        while let Some((mut group, mut responders)) = groups.next().await? {
            while !group.is_empty() {
                let effects = match group.is_long() {
                    true => in_place(|| self.apply_group(&mut group))?,
                    false => self.apply_group(&mut group)?,
                };
                let applied = effects.entries;
                self.tell(effects);
                responders.drain(..applied).flatten().for_each(|responder| responder.send(()));
                if !group.is_empty() || groups.has_more() {
                    // All of consensus may share one thread, and a heartbeat waits for it.
                    yield_now().await;
                }
            }
        }
        Ok(())
    }

    /// Returns a builder that reports the newest snapshot, which [`super::compaction`] wrote: a failure to write one
    /// here would end consensus. With `force` the builder writes one; it is set at the start of a node that purged its
    /// log and lost its snapshot.
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

/// Snapshot builder that openraft calls.
pub struct Builder {
    machine: Machine,
    /// True if it writes a snapshot, false if it returns the newest finished one.
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
