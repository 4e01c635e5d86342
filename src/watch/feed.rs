//! Feed of changes to one follower, in the order of the log.
//!
//! Unlike a wake-up, a change carries its subject. Without a follower nothing is stored. For a follower that is too
//! slow, the feed stores only that it has lost changes.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Limit for the changes that wait for the follower; beyond it, all of them are dropped.
const WAITING_MAX: usize = 100_000;

/// A feed of changes, each with the index of its log entry.
pub struct Feed<T> {
    queue: Mutex<Queue<T>>,
    bell: Notify,
}

struct Queue<T> {
    is_followed: bool,
    waiting: Vec<(u64, T)>,
    /// Index up to which anything may have changed.
    lost: Option<u64>,
}

/// Changes since the last [`Feed::take`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedChanges<T> {
    /// Changes, each with the index of its entry.
    Changes(Vec<(u64, T)>),
    /// Unknown changes up to this index: anything may have changed.
    Everything(u64),
}

impl<T> Default for Feed<T> {
    fn default() -> Self {
        let queue = Queue { is_followed: false, waiting: Vec::new(), lost: None };
        Feed { queue: Mutex::new(queue), bell: Notify::new() }
    }
}

impl<T> Feed<T> {
    /// Stores changes from now on, until they are taken.
    pub fn follow(&self) {
        self.queue.lock().is_followed = true;
    }

    /// Adds changes. Must be called while the state is locked for writing, so that a reader of the state finds in the
    /// feed exactly the changes that the state has.
    pub fn push(&self, changes: impl IntoIterator<Item = (u64, T)>) {
        let mut queue = self.queue.lock();
        if !queue.is_followed {
            return;
        }
        let had = queue.waiting.len();
        queue.waiting.extend(changes);
        if queue.waiting.len() == had {
            return;
        }
        if queue.waiting.len() > WAITING_MAX {
            queue.lost = queue.waiting.iter().map(|(index, _)| *index).chain(queue.lost).max();
            queue.waiting = Vec::new();
        }
        drop(queue);
        self.bell.notify_one();
    }

    /// Reports that the whole state was replaced by that of this index.
    pub fn replaced(&self, index: u64) {
        let mut queue = self.queue.lock();
        if queue.is_followed {
            queue.waiting = Vec::new();
            queue.lost = Some(index);
            drop(queue);
            self.bell.notify_one();
        }
    }

    /// Takes the changes since the last call.
    pub fn take(&self) -> FeedChanges<T> {
        let mut queue = self.queue.lock();
        let waiting = std::mem::take(&mut queue.waiting);
        match queue.lost.take() {
            Some(index) => FeedChanges::Everything(waiting.iter().map(|(index, _)| *index).fold(index, u64::max)),
            None => FeedChanges::Changes(waiting),
        }
    }

    /// Waits for a change; returns at once if one came since the last wait. Supports one follower.
    pub async fn changed(&self) {
        self.bell.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn changes_are_kept_for_who_follows() {
        let feed = Feed::default();
        feed.push([(1, "a")]);
        assert_eq!(feed.take(), FeedChanges::Changes(Vec::new()), "nobody followed");
        feed.follow();
        feed.push([(2, "b"), (2, "c")]);
        feed.push([(3, "d")]);
        assert_eq!(feed.changed().now_or_never(), Some(()));
        assert_eq!(feed.take(), FeedChanges::Changes(vec![(2, "b"), (2, "c"), (3, "d")]));
        feed.push([]);
        assert_eq!(feed.changed().now_or_never(), None, "nothing is no news");
    }

    #[test]
    fn who_is_far_behind_or_sees_another_state_is_told_so() {
        let feed = Feed::default();
        feed.follow();
        feed.push((0..=WAITING_MAX as u64).map(|index| (index, index)));
        feed.push([(200_000, 1)]);
        assert_eq!(feed.take(), FeedChanges::Everything(200_000));
        feed.push([(200_001, 1)]);
        feed.replaced(300_000);
        assert_eq!(feed.take(), FeedChanges::Everything(300_000));
        assert_eq!(feed.take(), FeedChanges::Changes(Vec::new()));
    }
}
