//! A log and a state machine in memory, with just enough for a cluster: the wire is under test.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, Cursor};
use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, IOFlushed, LogState, RaftLogStorage, RaftStateMachine};
use openraft::type_config::alias::SnapshotOf;
use openraft::{EntryPayload, OptionalSend, RaftLogReader, RaftSnapshotBuilder};
use parking_lot::Mutex;

use crate::format::codec;
use crate::format::types::{Entry, LogId, SnapshotMeta, StoredMembership, TypeConfig, Vote};
use crate::peer::SnapshotPort;

#[derive(Clone, Default)]
pub(super) struct MemoryLog(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    entries: BTreeMap<u64, Entry>,
    vote: Option<Vote>,
    purged: Option<LogId>,
}

impl RaftLogReader<TypeConfig> for MemoryLog {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        Ok(self.0.lock().entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.0.lock().vote)
    }
}

impl RaftLogStorage<TypeConfig> for MemoryLog {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let kept = self.0.lock();
        let last = kept.entries.values().next_back().map(|entry| entry.log_id);
        Ok(LogState { last_purged_log_id: kept.purged, last_log_id: last.or(kept.purged) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.0.lock().vote = Some(*vote);
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.0.lock().entries.extend(entries.into_iter().map(|entry| (entry.log_id.index, entry)));
        callback.io_completed(Ok(()));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        self.0.lock().entries.retain(|index, _| last.is_some_and(|last| *index <= last.index));
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let mut kept = self.0.lock();
        kept.entries.retain(|index, _| *index > upto.index);
        kept.purged = Some(upto);
        Ok(())
    }
}

/// State machine whose state is the list of applied commands.
#[derive(Clone, Default)]
pub(super) struct MemoryMachine(Arc<Mutex<Applied>>);

#[derive(Default)]
struct Applied {
    commands: Vec<Bytes>,
    last: Option<LogId>,
    membership: StoredMembership,
    snapshot: Option<(SnapshotMeta, Vec<u8>)>,
}

impl MemoryMachine {
    pub(super) fn commands(&self) -> Vec<Bytes> {
        self.0.lock().commands.clone()
    }
}

impl RaftSnapshotBuilder<TypeConfig> for MemoryMachine {
    type SnapshotData = Vec<u8>;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<TypeConfig, Vec<u8>>> {
        let mut applied = self.0.lock();
        let meta = SnapshotMeta { last_log_id: applied.last, last_membership: applied.membership.clone() };
        let commands: Vec<Vec<u8>> = applied.commands.iter().map(|command| command.to_vec()).collect();
        let data = codec::to_bytes(&commands);
        applied.snapshot = Some((meta.clone(), data.clone()));
        Ok(SnapshotOf::<TypeConfig, _> { meta, snapshot: data })
    }
}

impl RaftStateMachine<TypeConfig> for MemoryMachine {
    type SnapshotData = Vec<u8>;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let applied = self.0.lock();
        Ok((applied.last, applied.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let mut applied = self.0.lock();
            applied.last = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => (),
                EntryPayload::Normal(proposal) => applied.commands.push(proposal.0),
                EntryPayload::Membership(membership) => {
                    applied.membership = StoredMembership::new(Some(entry.log_id), membership);
                }
            }
            drop(applied);
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, data: Vec<u8>) -> io::Result<()> {
        let commands: Vec<Vec<u8>> = codec::from_bytes(&data)?;
        *self.0.lock() = Applied {
            commands: commands.into_iter().map(Bytes::from).collect(),
            last: meta.last_log_id,
            membership: meta.last_membership.clone(),
            snapshot: Some((meta.clone(), data)),
        };
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<TypeConfig, Vec<u8>>>> {
        let kept = self.0.lock().snapshot.clone();
        Ok(kept.map(|(meta, snapshot)| SnapshotOf::<TypeConfig, _> { meta, snapshot }))
    }
}

/// Snapshots as byte vectors.
#[derive(Clone)]
pub(super) struct MemoryPort;

impl SnapshotPort for MemoryPort {
    type Data = Vec<u8>;
    type Source = Cursor<Vec<u8>>;
    type Sink = Vec<u8>;

    async fn open(&self, data: &Vec<u8>) -> io::Result<(Cursor<Vec<u8>>, u64)> {
        Ok((Cursor::new(data.clone()), data.len() as u64))
    }

    async fn create(&self, _bytes: u64) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    async fn write(&self, sink: &mut Vec<u8>, chunk: Bytes) -> io::Result<()> {
        sink.extend_from_slice(&chunk);
        Ok(())
    }

    async fn seal(&self, sink: Vec<u8>) -> io::Result<Vec<u8>> {
        Ok(sink)
    }
}
