//! Repeat limiter: equal answers to one client are at least a second apart.
//!
//! Some clients poll again at once after every answer; with an answer that they do not understand they send hundreds or
//! thousands of polls a second. An answer that needed no wait and equals the previous one to the identical request is
//! therefore delayed until that one is a second old. An answer that differs is never delayed.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Minimum interval of two equal answers to one client, and the delay of every refused poll.
pub(crate) const FLOOR: Duration = Duration::from_secs(1);
/// Limit for the answers remembered per second. Beyond it, repeats are not delayed.
const ANSWERS_MAX: usize = 200_000;

/// Answers of the last one to two seconds, by the hash of their request.
pub(super) struct RepeatLimiter {
    /// Seeded at random, so that a client cannot make another's request look like a repeat.
    hashing: RandomState,
    answers: Mutex<Generations>,
}

/// Two generations, which are dropped as a whole instead of entry by entry.
struct Generations {
    began: Instant,
    young: HashMap<RequestMark, LastAnswer>, // bound: repeats
    old: HashMap<RequestMark, LastAnswer>,   // bound: repeats
}

#[derive(Clone, Copy)]
struct LastAnswer {
    answer: u64,
    at: Instant,
}

impl Default for RepeatLimiter {
    fn default() -> Self {
        let answers = Generations { began: Instant::now(), young: HashMap::new(), old: HashMap::new() };
        RepeatLimiter { hashing: RandomState::new(), answers: Mutex::new(answers) }
    }
}

/// Hash that identifies a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RequestMark(u64);

impl RepeatLimiter {
    pub(super) fn mark(&self, request: &impl Hash) -> RequestMark {
        RequestMark(self.hashing.hash_one(request))
    }

    /// Returns the time by which the answer has to be delayed; `None` if it may be sent now.
    pub(super) fn delay(&self, request: RequestMark, answer: &impl Hash) -> Option<Duration> {
        let now = Instant::now();
        let given = self.answers.lock().find(request, now)?;
        let due = given.at + FLOOR;
        (given.answer == self.hashing.hash_one(answer) && due > now).then(|| due - now)
    }

    /// Remembers an answer that is sent now.
    pub(super) fn given(&self, request: RequestMark, answer: &impl Hash) {
        let given = LastAnswer { answer: self.hashing.hash_one(answer), at: Instant::now() };
        self.answers.lock().insert(request, given);
    }
}

impl Generations {
    fn find(&mut self, request: RequestMark, now: Instant) -> Option<LastAnswer> {
        self.age(now);
        self.young.get(&request).or_else(|| self.old.get(&request)).copied()
    }

    fn insert(&mut self, request: RequestMark, given: LastAnswer) {
        self.age(given.at);
        if self.young.len() < ANSWERS_MAX {
            self.young.insert(request, given);
        }
    }

    fn age(&mut self, now: Instant) {
        if now - self.began >= FLOOR {
            self.old = std::mem::take(&mut self.young);
            self.began = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_the_equal_answer_to_the_identical_request_waits() {
        let floor = RepeatLimiter::default();
        assert_eq!(floor.delay(floor.mark(&("client", "query")), &"answer"), None, "nothing was answered yet");
        floor.given(floor.mark(&("client", "query")), &"answer");
        assert_eq!(floor.delay(floor.mark(&("client", "query")), &"answer"), Some(FLOOR));
        assert_eq!(floor.delay(floor.mark(&("client", "query")), &"news"), None);
        assert_eq!(floor.delay(floor.mark(&("client", "other query")), &"answer"), None);
        assert_eq!(floor.delay(floor.mark(&("other client", "query")), &"answer"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_runs_from_the_last_answer() {
        let floor = RepeatLimiter::default();
        for _ in 0..5 {
            floor.given(floor.mark(&"request"), &"answer");
            advance(FLOOR * 3 / 4).await;
            assert_eq!(floor.delay(floor.mark(&"request"), &"answer"), Some(FLOOR / 4));
            advance(FLOOR / 4).await;
            assert_eq!(floor.delay(floor.mark(&"request"), &"answer"), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_old_is_forgotten() {
        let floor = RepeatLimiter::default();
        for request in 0..1000 {
            floor.given(floor.mark(&request), &"answer");
        }
        advance(FLOOR * 2).await;
        floor.given(floor.mark(&"request"), &"answer");
        advance(FLOOR * 2).await;
        floor.given(floor.mark(&"request"), &"answer");
        let answers = floor.answers.lock();
        assert_eq!((answers.young.len(), answers.old.len()), (1, 1));
    }
}
