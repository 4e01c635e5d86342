//! Runtime of openraft: tokio's, with tasks that are watched. A panic in one of them would otherwise leave a node that
//! looks healthy and replicates nothing.

use std::time::Duration;

#[allow(deprecated, reason = "the crate that it is to be taken from is a part of openraft")]
use openraft::impls::TokioRuntime as Inner;
use openraft::{AsyncRuntime, OptionalSend};

use crate::tasks;

/// Runtime of consensus.
#[derive(Debug)]
pub struct WatchedRuntime(Inner);

impl AsyncRuntime for WatchedRuntime {
    type JoinError = <Inner as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <Inner as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <Inner as AsyncRuntime>::Sleep;
    type Instant = <Inner as AsyncRuntime>::Instant;
    type TimeoutError = <Inner as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <Inner as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = <Inner as AsyncRuntime>::ThreadLocalRng;
    type Mpsc = <Inner as AsyncRuntime>::Mpsc;
    type Watch = <Inner as AsyncRuntime>::Watch;
    type Oneshot = <Inner as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <Inner as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(task: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        Inner::spawn(tasks::watched_as_needed("consensus", task))
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        Inner::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        Inner::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, work: F) -> Self::Timeout<R, F> {
        Inner::timeout(duration, work)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Self::Instant, work: F) -> Self::Timeout<R, F> {
        Inner::timeout_at(deadline, work)
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        Inner::is_panic(error)
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        Inner::thread_rng()
    }

    fn new(threads: usize) -> Self {
        WatchedRuntime(Inner::new(threads))
    }

    fn block_on<F, T>(&mut self, work: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(work)
    }
}
