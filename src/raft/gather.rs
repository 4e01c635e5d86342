//! Proposals gathered into batches on the leader.
//!
//! Only so many batches are on their way at a time; what comes meanwhile waits for the next one. So a
//! lone write goes out at once, and under load a batch grows to what arrived during a round trip: one
//! message to openraft, one append, one fsync and one frame to each peer for all of it.

use std::sync::Arc;

use futures_util::StreamExt;
use openraft::errors::RaftError;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::leading::{Carried, write_error};
use super::node::ClusterRaft;
use super::types::Proposal;

/// Batches on their way: with two, one is on the disks while the next one is being applied.
const BATCHES_MAX: usize = 2;
/// Proposals of one batch: the append of a batch is one frame to a peer, or a few.
const BATCH_PROPOSALS_MAX: usize = 1024;

/// Proposals that may wait for a batch.
const WAITING_MAX: usize = 65_536;

#[derive(Clone, Default)]
pub(super) struct Gatherer(Arc<Mutex<Gathered>>);

#[derive(Default)]
struct Gathered {
    waiting: Vec<Waiting>,
    batches: usize,
}

struct Waiting {
    proposal: Proposal,
    answer: oneshot::Sender<Carried>,
}

impl Gatherer {
    /// Appends a proposal with others that come at the same time; returns how that ended.
    pub(super) async fn append(&self, raft: &ClusterRaft, proposal: Proposal) -> Carried {
        let (answer, carried) = oneshot::channel();
        let batch = {
            let mut gathered = self.0.lock();
            if !gathered.has_room() {
                return Carried::Refused(format!("more than {WAITING_MAX} proposals wait to be appended"));
            }
            gathered.waiting.push(Waiting { proposal, answer });
            let is_free = gathered.batches < BATCHES_MAX;
            gathered.next_batch(is_free)
        };
        if let Some(batch) = batch {
            // On a task of its own: a caller that goes away must not take the others along.
            tokio::spawn(self.clone().send(raft.clone(), batch));
        }
        carried.await.unwrap_or_else(|_| Carried::Unknown("the node is stopping".to_owned()))
    }

    /// Sends a batch, and then whatever has gathered, until nothing has.
    async fn send(self, raft: ClusterRaft, mut batch: Vec<Waiting>) {
        loop {
            send_batch(&raft, batch).await;
            let mut gathered = self.0.lock();
            gathered.batches -= 1;
            match gathered.next_batch(true) {
                Some(next) => batch = next,
                None => return,
            }
        }
    }
}

impl Gathered {
    /// Without a majority batches stand still, and callers give up: those make room.
    fn has_room(&mut self) -> bool {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.retain(|one| !one.answer.is_closed());
        }
        self.waiting.len() < WAITING_MAX
    }

    fn next_batch(&mut self, is_free: bool) -> Option<Vec<Waiting>> {
        if !is_free || self.waiting.is_empty() {
            return None;
        }
        self.batches += 1;
        let count = self.waiting.len().min(BATCH_PROPOSALS_MAX);
        Some(self.waiting.drain(..count).collect())
    }
}

async fn send_batch(raft: &ClusterRaft, batch: Vec<Waiting>) {
    let (proposals, answers): (Vec<_>, Vec<_>) = batch.into_iter().map(|one| (one.proposal, one.answer)).unzip();
    let mut answers = answers.into_iter();
    let mut written = match raft.client_write_many(proposals).await {
        Ok(written) => written,
        Err(fatal) => {
            answers.for_each(|answer| drop(answer.send(Carried::Unknown(fatal.to_string()))));
            return;
        }
    };
    while let (Some(result), Some(answer)) = (written.next().await, answers.next()) {
        let carried = match result {
            Ok(Ok(written)) => Carried::Done { log_index: written.log_id.index },
            Ok(Err(error)) => write_error(RaftError::APIError(error)),
            Err(fatal) => Carried::Unknown(fatal.to_string()),
        };
        // Who does not wait any more has given up on its request.
        drop(answer.send(carried));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(count: usize) -> (Vec<Waiting>, Vec<oneshot::Receiver<Carried>>) {
        let one = |_| {
            let (answer, carried) = oneshot::channel();
            (Waiting { proposal: Proposal(bytes::Bytes::new()), answer }, carried)
        };
        (0..count).map(one).unzip()
    }

    #[test]
    fn what_comes_while_batches_are_on_their_way_makes_the_next_one() {
        let (all, _carried) = waiting(BATCH_PROPOSALS_MAX + 3);
        let mut gathered = Gathered::default();
        let mut sizes = Vec::new();
        for one in all {
            gathered.waiting.push(one);
            let is_free = gathered.batches < BATCHES_MAX;
            sizes.extend(gathered.next_batch(is_free).map(|batch| batch.len()));
        }
        assert_eq!(sizes, [1; BATCHES_MAX], "the first ones go out alone and at once");
        assert_eq!(gathered.next_batch(true).map(|batch| batch.len()), Some(BATCH_PROPOSALS_MAX));
        assert_eq!(gathered.next_batch(true).map(|batch| batch.len()), Some(3 - BATCHES_MAX));
        assert!(gathered.next_batch(true).is_none());
    }

    #[test]
    fn who_has_given_up_makes_room() {
        let (all, mut carried) = waiting(WAITING_MAX);
        let mut gathered = Gathered { waiting: all, batches: BATCHES_MAX };
        assert!(!gathered.has_room());
        carried.truncate(10);
        assert!(gathered.has_room());
        assert_eq!(gathered.waiting.len(), 10);
    }
}
