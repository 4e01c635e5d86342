//! Batching of proposals on the leader.
//!
//! The number of batches in flight is limited, and while others are in flight a batch is sent only if it is as large as
//! they are together; proposals that arrive meanwhile wait for the next one. So a lone write is sent at once, and under
//! load a batch grows to what arrived during a round trip: one message to openraft, one append, one fsync and one frame
//! to each peer. Without the second rule, callers that wait for their answers end up in many small batches and few
//! large ones, and a small batch costs three nodes as much work as a dozen more writes in a large one.
//!
//! If the majority is far away, a round trip is long, and a waiting proposal would need two of them. Then the next
//! batch is sent once the last one has been in flight for a while, however many there are.
//!
//! Without a majority a batch that was appended may never end. The proposals that wait for it are rejected as soon as
//! the lease of this node has expired: they are in no log yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use openraft::errors::RaftError;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::leading::{ProposeOutcome, write_error};
use super::node::{ClusterRaft, Node};
use crate::format::types::Proposal;
use crate::tasks;

/// Batches in flight: with two, one is written to the disks while the other is applied.
const BATCHES_MAX: usize = 2;
/// Time after which the next batch is sent although others are in flight. To a far majority a round trip takes longer
/// than this. To a near one only a large entry or a stalled disk does, and small batches would only cost processor
/// time.
const OVERTAKE_AFTER_FAR: Duration = Duration::from_millis(10);
const OVERTAKE_AFTER_NEAR: Duration = Duration::from_millis(50);
/// Round trip to a majority from which on it counts as far.
const FAR_ROUND_TRIP: Duration = Duration::from_millis(5);
/// Maximum number of batches in flight, including those that did not wait for others.
const BATCHES_OVERTAKING_MAX: usize = 64;
/// Maximum number of proposals of a batch, and of their bytes unless it is a single proposal: a batch becomes one frame
/// to each peer, or a few.
const BATCH_PROPOSALS_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Maximum number of proposals that wait for a batch, and of their bytes.
const WAITING_MAX: usize = 65_536;
const WAITING_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Minimum time between two scans of a full queue for callers that have given up.
const SWEEP_PAUSE: Duration = Duration::from_millis(100);
/// Pause between two checks of the lease while a batch is in flight.
const LEASE_LOOK: Duration = Duration::from_millis(100);

#[derive(Clone, Default)]
pub(super) struct Batcher(Arc<Mutex<ProposalQueue>>);

#[derive(Default)]
struct ProposalQueue {
    waiting: VecDeque<PendingProposal>,
    waiting_bytes: usize,
    batches: usize,
    /// Number of proposals in these batches.
    under_way: usize,
    swept: Option<Instant>,
    /// Time at which the last batch was sent.
    sent: Option<Instant>,
}

struct PendingProposal {
    proposal: Proposal,
    answer: oneshot::Sender<ProposeOutcome>,
}

impl PendingProposal {
    fn bytes(&self) -> usize {
        self.proposal.0.len()
    }
}

impl Batcher {
    /// Appends a proposal, batched with others that arrive at the same time; returns its outcome.
    pub(super) async fn append(&self, node: &Node, proposal: Proposal) -> ProposeOutcome {
        let (answer, outcome) = oneshot::channel();
        let batch = {
            let mut queue = self.0.lock();
            if !queue.take_in(PendingProposal { proposal, answer }, Instant::now()) {
                return ProposeOutcome::Busy;
            }
            queue.next_batch(Instant::now(), overtake_after(node))
        };
        if let Some(batch) = batch {
            // On its own task: a caller that goes away must not cancel the others.
            tasks::needed("batches", self.clone().send(node.clone(), batch));
        }
        outcome.await.unwrap_or_else(|_| ProposeOutcome::Unknown("the node is stopping".to_owned()))
    }

    /// Sends a batch, and then what was queued meanwhile, until the queue is empty.
    fn send(self, node: Node, mut batch: Vec<PendingProposal>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            loop {
                let count = batch.len();
                self.send_watching_the_lease(&node, batch).await;
                match self.0.lock().end_batch(count, Instant::now(), overtake_after(&node)) {
                    Some(next) => batch = next,
                    None => return,
                }
            }
        })
    }

    async fn send_watching_the_lease(&self, node: &Node, batch: Vec<PendingProposal>) {
        let mut sending = std::pin::pin!(send_batch(&node.inner().raft, batch));
        tokio::select! {
            () = &mut sending => return,
            () = sleep(overtake_after(node)) => {
                let next = self.0.lock().next_batch(Instant::now(), overtake_after(node));
                if let Some(next) = next {
                    tasks::needed("batches", self.clone().send(node.clone(), next));
                }
            }
        }
        loop {
            tokio::select! {
                () = &mut sending => return,
                () = sleep(LEASE_LOOK) => if node.leading_term().is_none() {
                    let waiting = self.0.lock().turn_away();
                    waiting.into_iter().for_each(|one| drop(one.answer.send(ProposeOutcome::NotLeader)));
                },
            }
        }
    }
}

fn overtake_after(node: &Node) -> Duration {
    let is_far = node.inner().elections.round_trip() >= FAR_ROUND_TRIP;
    if is_far { OVERTAKE_AFTER_FAR } else { OVERTAKE_AFTER_NEAR }
}

impl ProposalQueue {
    /// Queues a proposal; returns false if there is no room.
    fn take_in(&mut self, one: PendingProposal, now: Instant) -> bool {
        if !self.has_room(one.bytes()) {
            let is_due = self.swept.is_none_or(|swept| now - swept >= SWEEP_PAUSE);
            if !is_due {
                return false;
            }
            self.swept = Some(now);
            self.forget_who_gave_up();
            if !self.has_room(one.bytes()) {
                return false;
            }
        }
        self.waiting_bytes += one.bytes();
        self.waiting.push_back(one);
        true
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.waiting.len() < WAITING_MAX && self.waiting_bytes + bytes <= WAITING_BYTES_MAX
    }

    /// Removes the proposals of callers that have given up; none of them is in a log.
    fn forget_who_gave_up(&mut self) {
        self.waiting.retain(|one| !one.answer.is_closed());
        self.waiting_bytes = self.waiting.iter().map(PendingProposal::bytes).sum();
    }

    fn turn_away(&mut self) -> VecDeque<PendingProposal> {
        self.waiting_bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Ends a batch of `count` proposals and returns the next one. If too few proposals wait, they are sent when
    /// another batch ends.
    fn end_batch(&mut self, count: usize, now: Instant, overtake_after: Duration) -> Option<Vec<PendingProposal>> {
        self.batches -= 1;
        self.under_way -= count;
        self.next_batch(now, overtake_after)
    }

    fn next_batch(&mut self, now: Instant, overtake_after: Duration) -> Option<Vec<PendingProposal>> {
        let overtakes = self.batches > 0 && self.sent.is_some_and(|sent| now - sent >= overtake_after);
        let goes = if overtakes {
            self.batches < BATCHES_OVERTAKING_MAX
        } else {
            self.batches < BATCHES_MAX && self.waiting.len() >= self.under_way
        };
        if self.waiting.is_empty() || !goes {
            return None;
        }
        let mut bytes = 0;
        let fitting = self.waiting.iter().take(BATCH_PROPOSALS_MAX).take_while(|one| {
            bytes += one.bytes();
            bytes <= BATCH_BYTES_MAX
        });
        let count = fitting.count().max(1);
        let batch: Vec<PendingProposal> = self.waiting.drain(..count).collect();
        self.waiting_bytes -= batch.iter().map(PendingProposal::bytes).sum::<usize>();
        self.batches += 1;
        self.sent = Some(now);
        self.under_way += batch.len();
        Some(batch)
    }
}

async fn send_batch(raft: &ClusterRaft, batch: Vec<PendingProposal>) {
    let (proposals, answers): (Vec<_>, Vec<_>) = batch.into_iter().map(|one| (one.proposal, one.answer)).unzip();
    let mut answers = answers.into_iter();
    let mut written = match raft.client_write_many(proposals).await {
        Ok(written) => written,
        Err(fatal) => {
            answers.for_each(|answer| drop(answer.send(ProposeOutcome::Unknown(fatal.to_string()))));
            return;
        }
    };
    while let (Some(result), Some(answer)) = (written.next().await, answers.next()) {
        let outcome = match result {
            Ok(Ok(written)) => ProposeOutcome::Done { log_index: written.log_id.index },
            Ok(Err(error)) => write_error(RaftError::APIError(error)),
            Err(fatal) => ProposeOutcome::Unknown(fatal.to_string()),
        };
        // A receiver that is gone has given up on its request.
        drop(answer.send(outcome));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Carrying = oneshot::Receiver<ProposeOutcome>;

    fn waiting(count: usize, bytes: usize) -> (Vec<PendingProposal>, Vec<Carrying>) {
        let payload = bytes::Bytes::from(vec![0; bytes]);
        let one = |_| {
            let (answer, outcome) = oneshot::channel();
            (PendingProposal { proposal: Proposal(payload.clone()), answer }, outcome)
        };
        (0..count).map(one).unzip()
    }

    /// Returns the queue of a leader whose batches do not end, with these proposals waiting.
    fn stuck(all: Vec<PendingProposal>, now: Instant) -> ProposalQueue {
        let mut queue = ProposalQueue { batches: BATCHES_MAX, ..ProposalQueue::default() };
        for one in all {
            assert!(queue.take_in(one, now), "there is room");
        }
        queue
    }

    fn take_in(queue: &mut ProposalQueue, bytes: usize, now: Instant) -> bool {
        let (mut one, _carried) = waiting(1, bytes);
        queue.take_in(one.remove(0), now)
    }

    /// Returns the sizes of the batches that are sent as these proposals arrive.
    fn coming(queue: &mut ProposalQueue, all: Vec<PendingProposal>) -> Vec<usize> {
        let now = queue.sent.unwrap_or_else(Instant::now);
        let sent = all.into_iter().filter_map(|one| {
            assert!(queue.take_in(one, Instant::now()), "there is room");
            queue.next_batch(now, OVERTAKE_AFTER_NEAR).map(|batch| batch.len())
        });
        sent.collect()
    }

    fn end(queue: &mut ProposalQueue, count: usize) -> Option<usize> {
        let now = queue.sent.unwrap_or_else(Instant::now);
        queue.end_batch(count, now, OVERTAKE_AFTER_NEAR).map(|batch| batch.len())
    }

    #[test]
    fn what_comes_while_batches_are_on_their_way_makes_the_next_one() {
        let (all, _carried) = waiting(2 * BATCH_PROPOSALS_MAX + 4, 0);
        let mut queue = ProposalQueue::default();
        assert_eq!(coming(&mut queue, all), [1; BATCHES_MAX], "the first ones go out alone and at once");
        assert_eq!(end(&mut queue, 1), Some(BATCH_PROPOSALS_MAX));
        assert_eq!(end(&mut queue, 1), Some(BATCH_PROPOSALS_MAX));
        assert_eq!(end(&mut queue, BATCH_PROPOSALS_MAX), None, "two are fewer than what is on its way");
        assert_eq!(end(&mut queue, BATCH_PROPOSALS_MAX), Some(2));
        assert_eq!(end(&mut queue, 2), None);
        assert_eq!((queue.batches, queue.under_way), (0, 0));
    }

    #[test]
    fn beside_a_batch_goes_one_as_large_or_none() {
        let (mut all, _carried) = waiting(10, 0);
        let mut queue = ProposalQueue::default();
        let rest = all.split_off(5);
        assert_eq!(coming(&mut queue, all), [1, 1]);
        assert_eq!((end(&mut queue, 1), end(&mut queue, 1)), (Some(3), None), "three go, and none is left");
        assert_eq!(coming(&mut queue, rest), [3]);
        assert_eq!(end(&mut queue, 3), None, "two beside three");
        assert_eq!(end(&mut queue, 3), Some(2));
    }

    #[test]
    fn over_a_distance_batches_do_not_wait_for_each_other() {
        let (mut all, _carried) = waiting(5, 0);
        let (mut queue, now) = (ProposalQueue::default(), Instant::now());
        let mut next = |count: usize, at: Duration| {
            for one in all.drain(..count) {
                assert!(queue.take_in(one, now), "there is room");
            }
            queue.next_batch(now + at, OVERTAKE_AFTER_FAR).map(|batch| batch.len())
        };
        assert_eq!([next(1, Duration::ZERO), next(1, Duration::ZERO)], [Some(1), Some(1)]);
        assert_eq!(next(1, OVERTAKE_AFTER_FAR / 2), None, "two are on their way");
        assert_eq!([next(0, OVERTAKE_AFTER_FAR), next(2, OVERTAKE_AFTER_FAR * 3 / 2)], [Some(1), None]);
        assert_eq!(next(0, OVERTAKE_AFTER_FAR * 2), Some(2), "none has come back");
    }

    #[test]
    fn a_batch_is_bounded_by_bytes_and_holds_one_at_least() {
        let (large, _large) = waiting(1, BATCH_BYTES_MAX + 1);
        let (thirds, _thirds) = waiting(4, BATCH_BYTES_MAX / 3);
        let mut queue = stuck(large.into_iter().chain(thirds).collect(), Instant::now());
        let mut sizes = Vec::new();
        let mut ended = 0;
        let now = Instant::now();
        while let Some(batch) = queue.end_batch(ended, now, OVERTAKE_AFTER_NEAR) {
            ended = batch.len();
            sizes.push(ended);
        }
        assert_eq!((sizes, queue.waiting_bytes), (vec![1, 3, 1], 0));
    }

    #[test]
    fn the_queue_is_bounded_in_number_and_in_bytes() {
        let now = Instant::now();
        let (all, _carried) = waiting(WAITING_MAX, 0);
        assert!(!take_in(&mut stuck(all, now), 0, now));
        let (all, _carried) = waiting(4, WAITING_BYTES_MAX / 4);
        let mut full = stuck(all, now);
        assert!(!take_in(&mut full, 1, now));
        assert!(take_in(&mut full, 0, now), "an empty one has room");
    }

    #[test]
    fn who_has_given_up_makes_room_and_is_not_searched_for_at_every_call() {
        let now = Instant::now();
        let (all, mut outcome) = waiting(WAITING_MAX, 1);
        let mut queue = stuck(all, now);
        assert!(!take_in(&mut queue, 1, now));
        outcome.truncate(10);
        assert!(!take_in(&mut queue, 1, now), "searched a moment ago");
        assert!(take_in(&mut queue, 1, now + SWEEP_PAUSE));
        assert_eq!((queue.waiting.len(), queue.waiting_bytes), (11, 11));
        assert_eq!((queue.turn_away().len(), queue.waiting_bytes), (11, 0));
    }
}
