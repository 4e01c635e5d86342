//! Held reads: a read without news waits until there are some, or until its time is over.
//!
//! The order makes it safe: watch everything that the answer can depend on, THEN read, then wait, and read again at
//! every wake-up. A change in between leaves a wake-up, so none is lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::metrics::{Held, Metrics};
use crate::watch::{Wake, Watch};

/// Largest share of the hold that is subtracted at random, so that polls which began together, as after a restart, do
/// not end together for ever.
const JITTER_MAX: f64 = 0.05;

/// A read that may be held.
pub trait HeldQuery: Send {
    type Answer: Send;
    type Refusal: Send;

    /// Registers on everything that the answer can depend on, including the reader's credential.
    fn watch(&mut self) -> Result<Watch, Self::Refusal>;

    /// Reads under that watch, or under a new one if the answer depends on other keys by now, and re-authorizes the
    /// reader. `is_woken` is true once a change has woken the read: its answer is then no repetition.
    fn read(
        &mut self,
        watch: &mut Watch,
        is_woken: bool,
    ) -> impl Future<Output = Result<ReadResult<Self::Answer>, Self::Refusal>> + Send;
}

/// Result of one read.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadResult<A> {
    /// Something that the client does not have.
    News(A),
    Unchanged,
    /// News that repeat the previous answer to the client: to be sent at that moment at the earliest.
    NotBefore(Instant),
}

/// End of a wait.
#[derive(Debug, PartialEq, Eq)]
pub enum HoldEnd<A> {
    News(A),
    /// No news until the deadline.
    Unchanged,
    /// The node is shutting down: the client should continue with another one.
    Shutdown,
}

/// A held read, counted and registered until it is dropped.
pub struct Hold<Q> {
    pub query: Q,
    watch: Watch,
    held: Held,
    /// Time at which it ends without news.
    deadline: Instant,
    /// Time before which the present news must not be sent.
    delayed: Option<Instant>,
    is_woken: bool,
}

impl<Q: HeldQuery> Hold<Q> {
    /// Begins to hold a read for the given time. Refused at the limit of held reads.
    pub fn begin(mut query: Q, metrics: &Arc<Metrics>, hold: Duration) -> Result<Self, Q::Refusal> {
        let watch = query.watch()?;
        let held = Held::begin(metrics);
        let deadline = held.began() + hold;
        Ok(Hold { query, watch, held, deadline, delayed: None, is_woken: false })
    }

    /// Reads without waiting; `None` if there is nothing to send now.
    pub async fn look(&mut self) -> Result<Option<Q::Answer>, Q::Refusal> {
        let read = self.query.read(&mut self.watch, self.is_woken).await;
        self.delayed = None;
        match read.inspect_err(|_| self.held.outcome = "refused")? {
            ReadResult::News(answer) => {
                self.held.outcome = "changed";
                return Ok(Some(answer));
            }
            ReadResult::NotBefore(moment) => self.delayed = Some(moment),
            ReadResult::Unchanged => {}
        }
        Ok(None)
    }

    /// Waits for news, for the time of the hold at most.
    pub async fn wait(&mut self) -> Result<HoldEnd<Q::Answer>, Q::Refusal> {
        loop {
            match timeout_at(self.delayed.unwrap_or(self.deadline), self.watch.changed()).await {
                Ok(Wake::Changed) => self.is_woken |= self.delayed.is_none(),
                Ok(Wake::Closed) => {
                    self.held.outcome = "shutdown";
                    return Ok(HoldEnd::Shutdown);
                }
                Err(_) if self.delayed.is_none() => {
                    self.held.outcome = "unchanged";
                    return Ok(HoldEnd::Unchanged);
                }
                Err(_) => {}
            }
            // Boxed: most waiting reads are never woken.
            if let Some(answer) = Box::pin(self.look()).await? {
                return Ok(HoldEnd::News(answer));
            }
        }
    }
}

/// Shortens a hold at random by up to 5 %.
pub fn jittered(hold: Duration) -> Duration {
    hold.mul_f64(1.0 - JITTER_MAX * rand::random::<f64>())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::origin::Origin;
    use crate::watch::{Hub, WatchKey};

    const HOLD: Duration = Duration::from_secs(10);

    /// A client that waits for a number to change.
    struct Counter {
        hub: Hub,
        known: u64,
        now: Arc<parking_lot::Mutex<Scene>>,
        watches: usize,
    }

    #[derive(Clone, Copy, Default)]
    struct Scene {
        number: u64,
        /// Key that decides the number.
        key: u64,
        is_refused: bool,
        /// Time before which a reader that has not waited gets no answer.
        not_before: Option<Instant>,
    }

    fn key(of: u64) -> WatchKey {
        WatchKey::service("n", &of.to_string())
    }

    impl HeldQuery for Counter {
        type Answer = u64;
        type Refusal = &'static str;

        fn watch(&mut self) -> Result<Watch, &'static str> {
            self.watches += 1;
            self.hub.watch(Origin::UNKNOWN, vec![key(self.now.lock().key)], 0).map_err(|_| "full")
        }

        async fn read(&mut self, watch: &mut Watch, is_woken: bool) -> Result<ReadResult<u64>, &'static str> {
            let scene = *self.now.lock();
            if scene.is_refused {
                return Err("not you");
            }
            if scene.key as usize >= self.watches {
                *watch = self.watch()?;
            }
            if scene.number == self.known {
                return Ok(ReadResult::Unchanged);
            }
            match scene.not_before.filter(|moment| !is_woken && *moment > Instant::now()) {
                Some(moment) => Ok(ReadResult::NotBefore(moment)),
                None => Ok(ReadResult::News(scene.number)),
            }
        }
    }

    struct Bench {
        hub: Hub,
        now: Arc<parking_lot::Mutex<Scene>>,
        metrics: Arc<Metrics>,
    }

    impl Bench {
        fn new() -> Self {
            let metrics = Arc::new(Metrics::new().expect("a consistent table"));
            Bench { hub: Hub::new(1), now: Arc::default(), metrics }
        }

        fn begin(&self) -> Result<Hold<Counter>, &'static str> {
            let counter = Counter { hub: self.hub.clone(), known: 0, now: self.now.clone(), watches: 0 };
            Hold::begin(counter, &self.metrics, HOLD)
        }

        fn change(&self, change: impl FnOnce(&mut Scene)) {
            change(&mut self.now.lock());
            self.hub.wake([key(0)]);
        }

        fn ended(&self, outcome: &str) -> u64 {
            self.metrics.polls_ended.with_label_values(&[outcome]).get()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn news_are_told_at_once_and_no_news_at_the_deadline() {
        let bench = Bench::new();
        let begun = Instant::now();
        let mut hold = bench.begin().expect("there is room");
        assert_eq!((hold.look().await, bench.metrics.polls_held.get()), (Ok(None), 1));
        assert_eq!((hold.wait().await, begun.elapsed().as_secs()), (Ok(HoldEnd::Unchanged), HOLD.as_secs()));
        assert_eq!(bench.begin().err(), Some("full"));
        drop(hold);
        bench.change(|scene| scene.number = 1);
        let mut hold = bench.begin().expect("there is room again");
        assert_eq!((hold.look().await, begun.elapsed().as_secs()), (Ok(Some(1)), HOLD.as_secs()));
        drop(hold);
        let (unchanged, changed) = (bench.ended("unchanged"), bench.ended("changed"));
        assert_eq!((unchanged, changed, bench.ended("dropped"), bench.metrics.polls_held.get()), (1, 1, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_before_the_wait_is_not_lost() {
        let bench = Bench::new();
        let begun = Instant::now();
        let mut hold = bench.begin().expect("there is room");
        assert_eq!(hold.look().await, Ok(None));
        bench.change(|scene| scene.number = 7);
        assert_eq!((hold.wait().await, begun.elapsed()), (Ok(HoldEnd::News(7)), Duration::ZERO));
    }

    /// A delayed answer is sent at its moment; a change meanwhile is sent at once.
    #[tokio::test(start_paused = true)]
    async fn news_wait_for_their_moment() {
        let bench = Bench::new();
        let begun = Instant::now();
        let second = Duration::from_secs(1);
        *bench.now.lock() = Scene { number: 1, not_before: Some(begun + second), ..Scene::default() };
        let mut hold = bench.begin().expect("there is room");
        assert_eq!(hold.look().await, Ok(None));
        assert_eq!((hold.wait().await, begun.elapsed().as_secs()), (Ok(HoldEnd::News(1)), 1));
        drop(hold);
        *bench.now.lock() = Scene { number: 0, not_before: Some(begun + second * 5), ..Scene::default() };
        let mut hold = bench.begin().expect("there is room");
        assert_eq!(hold.look().await, Ok(None));
        bench.change(|scene| scene.number = 2);
        assert_eq!((hold.wait().await, begun.elapsed().as_secs()), (Ok(HoldEnd::News(2)), 1), "it has waited for news");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_may_no_more_and_a_shutdown_end_the_hold() {
        let bench = Bench::new();
        let mut hold = bench.begin().expect("there is room");
        assert_eq!(hold.look().await, Ok(None));
        bench.change(|scene| scene.is_refused = true);
        assert_eq!(hold.wait().await, Err("not you"));
        drop(hold);
        bench.change(|scene| scene.is_refused = false);
        let mut hold = bench.begin().expect("there is room");
        bench.hub.close();
        assert_eq!(hold.wait().await, Ok(HoldEnd::Shutdown));
        drop(hold);
        assert_eq!((bench.ended("refused"), bench.ended("shutdown")), (1, 1));
    }

    /// A key that the answer newly depends on is watched from then on.
    #[tokio::test(start_paused = true)]
    async fn other_keys_are_watched_from_then_on() {
        let bench = Bench { hub: Hub::new(2), ..Bench::new() };
        let mut hold = bench.begin().expect("there is room");
        assert_eq!(hold.look().await, Ok(None));
        bench.change(|scene| scene.key = 1);
        let mut waiting = Box::pin(hold.wait());
        assert_eq!((&mut waiting).now_or_never(), None);
        bench.now.lock().number = 3;
        bench.hub.wake([key(1)]);
        assert_eq!(waiting.await, Ok(HoldEnd::News(3)));
        assert_eq!((hold.query.watches, bench.hub.waiters()), (2, 1));
    }
}
