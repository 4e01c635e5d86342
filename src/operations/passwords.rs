//! Password checks: limits for those that wait, for concurrent hashes, and for hashes per second.
//!
//! A hash takes 19 MiB and tens of milliseconds and cannot be cancelled. Its slot is therefore held by the thread that
//! hashes, not by the request: a client that disconnects frees nothing.

use std::sync::Arc;
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::{self, PasswordHasher, PasswordVerifier, SaltString};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use super::throttle::LoginThrottle;
use crate::model::access::PasswordHash;
use crate::model::limits;
use crate::origin::{Guesser, Origin, OriginQuota};
use crate::tasks;

/// Hashes computed at a time.
const AT_ONCE: usize = 2;
/// Minimum time between the starts of two hashes. The rest of the processors is for authenticated callers.
const PACE: Duration = Duration::from_millis(1000 / limits::PASSWORD_CHECKS_PER_SECOND);

/// The checker of passwords, one per node.
pub(super) struct PasswordChecks {
    argon2: Argon2<'static>,
    throttle: LoginThrottle,
    queue: Arc<OriginQuota>,
    turns: Arc<Semaphore>,
    next: Mutex<Instant>,
}

/// Reason why a password was not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotChecked {
    /// Too many failures; the time to wait.
    Throttled(Duration),
    /// Too many checks are waiting.
    Busy,
}

impl PasswordChecks {
    pub(super) fn new(argon2: Argon2<'static>) -> Self {
        PasswordChecks {
            argon2,
            throttle: LoginThrottle::default(),
            queue: Arc::new(OriginQuota::new(limits::LOGINS_WAITING_MAX, limits::LOGINS_WAITING_PER_ADDRESS)),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Checks a password against a hash. A check without a hash takes as long as one with it.
    pub(super) async fn check(
        &self,
        user: &str,
        guesser: Guesser,
        password: String,
        hash: Option<PasswordHash>,
    ) -> Result<bool, NotChecked> {
        let argon2 = self.argon2.clone();
        self.check_by(user, guesser, move || verify_password(&argon2, &password, hash.as_ref())).await
    }

    /// Hashes a new password when its turn comes.
    pub(super) async fn hash(&self, password: String) -> Option<PasswordHash> {
        let turn = self.turns.clone().acquire_owned().await.ok()?;
        sleep_until(self.paced()).await;
        let argon2 = self.argon2.clone();
        let hashed = tasks::blocking(move || {
            let _turn = turn;
            hash_by(&argon2, &password)
        });
        hashed.await.ok().map(PasswordHash)
    }

    async fn check_by(
        &self,
        user: &str,
        guesser: Guesser,
        is_right: impl FnOnce() -> bool + Send + 'static,
    ) -> Result<bool, NotChecked> {
        let place = QueuePlace::take(&self.queue, guesser.origin)?;
        let mut attempt = self.throttle.attempt(user, guesser).await.map_err(NotChecked::Throttled)?;
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| NotChecked::Busy)?;
        sleep_until(self.paced()).await;
        attempt.is_checked();
        let check = tasks::blocking(move || {
            let is_right = is_right();
            if is_right {
                attempt.succeeded();
            }
            drop((attempt, turn, place));
            is_right
        });
        Ok(check.await)
    }

    /// Returns the time at which the next hash may start.
    fn paced(&self) -> Instant {
        let mut next = self.next.lock();
        let begin = (*next).max(Instant::now());
        *next = begin + PACE;
        begin
    }
}

/// Hashes a password by argon2id with the library's recommended cost. Blocks for tens of milliseconds.
pub fn hash_password(password: &str) -> Result<String, password_hash::Error> {
    hash_by(&Argon2::default(), password)
}

fn hash_by(argon2: &Argon2, password: &str) -> Result<String, password_hash::Error> {
    let salt = SaltString::encode_b64(&rand::random::<[u8; 16]>())?;
    Ok(argon2.hash_password(password.as_bytes(), &salt)?.to_string())
}

/// Compares a password with a hash. Takes the time of one hash also without one, so that the response time does not
/// reveal whether a user exists.
fn verify_password(argon2: &Argon2, password: &str, hash: Option<&PasswordHash>) -> bool {
    let parsed = hash.and_then(|hash| password_hash::PasswordHash::new(&hash.0).ok());
    match parsed {
        Some(parsed) => argon2.verify_password(password.as_bytes(), &parsed).is_ok(),
        None => {
            let _ = hash_by(argon2, password);
            false
        }
    }
}

/// Slot of a check that waits or is being hashed; freed on drop.
pub(super) struct QueuePlace {
    queue: Arc<OriginQuota>,
    origin: Origin,
}

impl QueuePlace {
    pub(super) fn take(queue: &Arc<OriginQuota>, origin: Origin) -> Result<QueuePlace, NotChecked> {
        queue.take(origin, 1).map_err(|_| NotChecked::Busy)?;
        Ok(QueuePlace { queue: queue.clone(), origin })
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.queue.give_back(self.origin, 1);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::origin::Sender;

    fn at(last: u8) -> Guesser {
        Sender { address: Some([192, 0, 2, last].into()), is_local: false }.guesser()
    }

    #[tokio::test]
    async fn a_hash_that_nobody_waits_for_any_more_keeps_its_place() {
        let checks = Arc::new(PasswordChecks::new(Argon2::default()));
        let (began, mut beginnings) = tokio::sync::mpsc::unbounded_channel();
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let finished = Arc::new(Mutex::new(finished));
        for _ in 0..AT_ONCE {
            let (checks, began, finished) = (checks.clone(), began.clone(), finished.clone());
            let request = tokio::spawn(async move {
                let hash = move || {
                    began.send(()).expect("the test listens");
                    // Checks share the receiver: each receives one message.
                    finished.lock().recv().is_err()
                };
                checks.check_by("admin", at(1), hash).await
            });
            beginnings.recv().await.expect("the hash has begun");
            // Like hyper, which drops a request when its client disconnects.
            request.abort();
            assert!(request.await.is_err_and(|error| error.is_cancelled()));
        }
        assert_eq!((checks.turns.available_permits(), checks.queue.taken()), (0, AT_ONCE));
        let mut next = std::pin::pin!(checks.check_by("admin", at(1), || true));
        assert!((&mut next).now_or_never().is_none(), "nobody is hashed before them");
        for _ in 0..AT_ONCE {
            finish.send(()).expect("a hash waits");
        }
        assert_eq!(next.await, Ok(true));
        assert_eq!(checks.queue.taken(), 0);
    }

    #[tokio::test]
    async fn guesses_are_throttled_though_nobody_hears_the_answers() {
        let checks = PasswordChecks::new(Argon2::default());
        for _ in 0..limits::LOGIN_FAILURES_PER_MINUTE {
            assert_eq!(checks.check_by("admin", at(1), || false).await, Ok(false));
        }
        let throttled = checks.check_by("admin", at(1), || true).await;
        assert!(matches!(throttled, Err(NotChecked::Throttled(_))), "{throttled:?}");
        assert_eq!(checks.check_by("admin", at(2), || true).await, Ok(true));
    }
}
