//! Limits on repeated log lines: one per key in an interval, or one in all.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Keys that are logged per interval; the metrics count the others.
const KEYS_MAX: usize = 1000;

/// Keys that were logged already. By default each of them is logged only once.
#[derive(Debug, Default)]
pub(crate) struct LogOnce<K = ()> {
    /// Interval after which all keys may be logged again.
    pause: Option<Duration>,
    logged: Mutex<Logged<K>>,
}

#[derive(Debug, Default)]
struct Logged<K> {
    since: Option<Instant>,
    keys: HashSet<K>, // bound: logged-keys
}

impl<K: Eq + Hash> LogOnce<K> {
    /// Allows each key once per `pause`, which begins with its first line.
    pub(crate) fn every(pause: Duration) -> Self {
        LogOnce { pause: Some(pause), logged: Mutex::new(Logged { since: None, keys: HashSet::new() }) }
    }

    /// Reports whether a line about this key is to be written now, and records it.
    pub(crate) fn is_due(&self, key: K) -> bool {
        let (mut logged, now) = (self.logged.lock(), Instant::now());
        if logged.since.is_none_or(|since| self.pause.is_some_and(|pause| now - since >= pause)) {
            *logged = Logged { since: Some(now), keys: HashSet::new() };
        }
        logged.keys.len() < KEYS_MAX && logged.keys.insert(key)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn each_key_is_logged_once_in_a_pause() {
        let log = LogOnce::every(PAUSE);
        for expected in [true, false] {
            assert_eq!(log.is_due(("a", Some(1))), expected);
            assert_eq!(log.is_due(("a", Some(2))), expected);
            assert_eq!(log.is_due(("b", Some(1))), expected);
            assert_eq!(log.is_due(("a", None)), expected);
        }
        advance(PAUSE).await;
        assert!(log.is_due(("a", Some(1))));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_pause_it_is_logged_once_and_for_all() {
        let log = LogOnce::default();
        assert!(log.is_due(()));
        advance(1000 * PAUSE).await;
        assert!(!log.is_due(()));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_remembered_than_there_is_room_for() {
        let log = LogOnce::every(PAUSE);
        assert_eq!((0..2 * KEYS_MAX).filter(|key| log.is_due(*key)).count(), KEYS_MAX);
    }
}
