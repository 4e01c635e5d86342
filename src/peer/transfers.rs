//! Snapshots in transfer to peers: the log that follows them has to be retained until they have arrived.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::format::types::NodeId;

#[derive(Clone, Default)]
pub(super) struct Transfers(Arc<Mutex<TransferCounts>>);

#[derive(Default)]
struct TransferCounts {
    under_way: Vec<NodeId>,
    ended: Option<Instant>,
}

/// One transfer, from the dial until it ends.
pub(super) struct Transfer {
    transfers: Transfers,
    target: NodeId,
    was_let_in: bool,
}

impl Transfer {
    /// Marks the peer as connected, so that the log is retained for a while after the transfer. Without a connection it
    /// is not: a peer that stays away would otherwise hold back the purge of the log for good.
    pub(super) fn let_in(&mut self) {
        self.was_let_in = true;
    }
}

impl Transfers {
    pub(super) fn begin(&self, target: NodeId) -> Transfer {
        self.0.lock().under_way.push(target);
        Transfer { transfers: self.clone(), target, was_let_in: false }
    }

    pub(super) fn is_under_way_to(&self, target: NodeId) -> bool {
        self.0.lock().under_way.contains(&target)
    }

    /// Reports whether a transfer is in progress or ended within the last `period`.
    pub(super) fn were_within(&self, period: Duration) -> bool {
        let counted = self.0.lock();
        !counted.under_way.is_empty() || counted.ended.is_some_and(|ended| ended.elapsed() < period)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let mut counted = self.transfers.0.lock();
        if let Some(place) = counted.under_way.iter().position(|target| *target == self.target) {
            counted.under_way.swap_remove(place);
        }
        if self.was_let_in {
            counted.ended = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_transfer_counts_while_it_lasts_and_for_a_while_after() {
        let transfers = Transfers::default();
        assert!(!transfers.were_within(MINUTE), "there was none");
        drop(transfers.begin(2));
        assert!(!transfers.were_within(MINUTE), "a peer that was not met needs nothing");
        let (mut first, mut second) = (transfers.begin(2), transfers.begin(2));
        first.let_in();
        second.let_in();
        tokio::time::advance(MINUTE * 10).await;
        drop(first);
        tokio::time::advance(MINUTE * 10).await;
        assert!(transfers.were_within(MINUTE), "the second one goes on");
        drop(second);
        tokio::time::advance(MINUTE / 2).await;
        assert!(transfers.were_within(MINUTE));
        tokio::time::advance(MINUTE).await;
        assert!(!transfers.were_within(MINUTE));
    }
}
