//! Failed logins, counted per user and address: guessing is slowed, others are not.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::model::limits;

const WINDOW: Duration = Duration::from_secs(60);
/// Pairs of user and address that are remembered; beyond it the finished windows go, and if that
/// does not help, everything does: a flood must not cost memory.
const PAIRS_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct LoginThrottle {
    failures: Mutex<HashMap<(String, IpAddr), Window>>,
}

struct Window {
    began: Instant,
    failures: u32,
}

impl LoginThrottle {
    /// How long the next attempt has to wait; `None` if it may go on.
    pub(super) fn wait(&self, user: &str, address: IpAddr) -> Option<Duration> {
        let failures = self.failures.lock();
        let window = failures.get(&(user.to_owned(), address))?;
        let left = WINDOW.checked_sub(window.began.elapsed())?;
        (window.failures >= limits::LOGIN_FAILURES_PER_MINUTE).then_some(left)
    }

    pub(super) fn failed(&self, user: &str, address: IpAddr) {
        let mut failures = self.failures.lock();
        if failures.len() >= PAIRS_MAX {
            failures.retain(|_, window| window.began.elapsed() < WINDOW);
            if failures.len() >= PAIRS_MAX {
                failures.clear();
            }
        }
        let fresh = Window { began: Instant::now(), failures: 0 };
        let window = failures.entry((user.to_owned(), address)).or_insert(fresh);
        if window.began.elapsed() >= WINDOW {
            *window = Window { began: Instant::now(), failures: 0 };
        }
        window.failures += 1;
    }

    pub(super) fn succeeded(&self, user: &str, address: IpAddr) {
        self.failures.lock().remove(&(user.to_owned(), address));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn only_the_pair_that_fails_has_to_wait() {
        let throttle = LoginThrottle::default();
        let (here, there) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from([192, 0, 2, 1]));
        for _ in 0..limits::LOGIN_FAILURES_PER_MINUTE {
            assert_eq!(throttle.wait("admin", here), None);
            throttle.failed("admin", here);
        }
        assert!(throttle.wait("admin", here).is_some_and(|wait| wait <= WINDOW));
        assert_eq!(throttle.wait("admin", there), None);
        assert_eq!(throttle.wait("other", here), None);
        throttle.succeeded("admin", here);
        assert_eq!(throttle.wait("admin", here), None);
    }
}
