//! Tasks and threads. All of them are started here, so that no panic goes unnoticed.
//!
//! Every panic is logged and counted (by the hook of `logging`). Its further effect depends on the kind of task:
//!
//! * [`needed`]: work that the node needs permanently, such as a loop or the consumer of a queue. The node shuts down
//!   with an exit code of its own, so that a supervisor restarts it.
//! * [`errand`]: work for one request, call, connection or attempt, or work that its owner restarts. A task that waits
//!   for it gets an error, and the node continues.
//! * [`blocking`]: a step of its caller on a thread that may block. The panic is propagated to the caller.
//! * [`in_place`]: a long step of its caller on the caller's own thread.
//!
//! A needed task may return; only a panic counts as its death.

use std::any::Any;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;
use std::{io, thread};

use futures_util::FutureExt;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet, block_in_place};
use tokio_util::task::TaskTracker;

/// Name of the first needed task that died. Global, because the threads of consensus do not know their node.
static DEATH: LazyLock<Death> = LazyLock::new(Death::default);

struct Death(watch::Sender<Option<&'static str>>);

impl Default for Death {
    fn default() -> Self {
        Death(watch::Sender::new(None))
    }
}

impl Death {
    fn note(&self, name: &'static str) {
        self.0.send_if_modified(|first| first.is_none() && first.replace(name).is_none());
    }

    async fn first(&self) -> &'static str {
        let mut noted = self.0.subscribe();
        match noted.wait_for(Option::is_some).await.map(|name| *name) {
            Ok(Some(name)) => name,
            // The sender is never dropped before this.
            _ => pending().await,
        }
    }

    fn end<T>(&self, name: &'static str, ended: Result<T, Box<dyn Any + Send>>) -> T {
        ended.unwrap_or_else(|panic| {
            self.note(name);
            resume_unwind(panic)
        })
    }
}

/// A needed task has panicked; the node can no longer do all of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task {0:?} has panicked, see the line about it above; the process has to be started again")]
pub struct TaskDied(pub &'static str);

/// Waits until a needed task has died.
pub async fn death() -> TaskDied {
    TaskDied(DEATH.first().await)
}

/// Starts a task that the node needs.
pub fn needed<T: Send + 'static>(name: &'static str, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(watched(&DEATH, name, task))
}

/// Starts a needed task that `tracker` counts.
pub fn needed_in<T: Send + 'static>(
    tracker: &TaskTracker,
    name: &'static str,
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tracker.spawn(watched(&DEATH, name, task))
}

/// Wraps a needed task for a runtime that starts tasks itself.
pub fn watched_as_needed<T>(name: &'static str, task: impl Future<Output = T>) -> impl Future<Output = T> {
    watched(&DEATH, name, task)
}

async fn watched<T>(death: &Death, name: &'static str, task: impl Future<Output = T>) -> T {
    death.end(name, AssertUnwindSafe(task).catch_unwind().await)
}

/// Starts work for one request, call, connection or attempt.
pub fn errand<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work)
}

/// Starts an errand that `tracker` counts.
pub fn errand_in<T: Send + 'static>(
    tracker: &TaskTracker,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tracker.spawn(work)
}

/// Starts an errand on another runtime.
pub fn errand_on<T: Send + 'static>(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    runtime.spawn(work)
}

/// Starts an errand in `set`, which gets its result.
pub fn errand_of<T: Send + 'static>(
    set: &mut JoinSet<T>,
    work: impl Future<Output = T> + Send + 'static,
) -> AbortHandle {
    set.spawn(work)
}

/// Starts an errand on a thread that may block.
pub fn blocking_errand<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(work)
}

/// Runs a step on a thread that may block. The step continues if the caller stops waiting.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match blocking_errand(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime shuts down, and the caller with it.
            Err(_) => pending().await,
        },
    }
}

/// Runs the work of a request. Returns `None` if it panicked; the caller then responds with an error in its own format.
pub async fn caught<T>(work: impl Future<Output = T>) -> Option<T> {
    AssertUnwindSafe(work).catch_unwind().await.ok()
}

/// Starts a thread that the node needs.
pub fn thread(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    let watched = move || DEATH.end(name, catch_unwind(AssertUnwindSafe(work)));
    thread::Builder::new().name(name.to_owned()).spawn(watched)
}

/// Runs long work on the caller's thread, while its other tasks move to other threads.
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    let has_others = Handle::try_current().is_ok_and(|here| here.runtime_flavor() == RuntimeFlavor::MultiThread);
    if has_others { block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;

    /// Panics without a message: these panics are intended.
    fn panics() {
        resume_unwind(Box::new("meant"))
    }

    #[tokio::test]
    async fn the_death_of_a_needed_task_is_noted_by_its_name_and_its_end_is_not() {
        let death: &'static Death = Box::leak(Box::default());
        assert_eq!(tokio::spawn(watched(death, "ends", async { 7 })).await.expect("no panic"), 7);
        let aborted = tokio::spawn(watched(death, "aborted", pending::<()>()));
        aborted.abort();
        assert!(aborted.await.expect_err("aborted").is_cancelled());
        assert_eq!(*death.0.borrow(), None);

        let noticed = tokio::spawn(death.first());
        let died = tokio::spawn(watched(death, "first", async {
            tokio::task::yield_now().await;
            panics();
        }));
        assert!(died.await.expect_err("it panicked").is_panic());
        assert_eq!(noticed.await.expect("no panic"), "first");
        let later = tokio::spawn(watched(death, "later", async { panics() }));
        assert!(later.await.is_err());
        assert_eq!(death.first().await, "first");
    }

    #[tokio::test]
    async fn a_panic_of_an_errand_is_its_callers() {
        assert!(errand(async { panics() }).await.expect_err("it panicked").is_panic());
        assert!(tokio::spawn(blocking(panics)).await.expect_err("it panicked").is_panic());
        assert_eq!((caught(async { panics() }).await, caught(async { 7 }).await), (None, Some(7)));
        assert_eq!(blocking(|| 7).await, 7);
        assert_eq!(*DEATH.0.borrow(), None);
    }

    /// A heartbeat has to be sent while a zone fails.
    #[test]
    fn what_takes_long_holds_up_no_other_task() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let (release, held) = std::sync::mpsc::channel();
        let others = runtime.spawn(async move {
            let long = tokio::spawn(async move { in_place(|| held.recv_timeout(Duration::from_secs(30))) });
            tokio::task::yield_now().await;
            let other = tokio::spawn(async move { release.send(()).is_ok() });
            (other.await.expect("no panic"), long.await.expect("no panic"))
        });
        assert_eq!(runtime.block_on(others).expect("no panic"), (true, Ok(())));
    }

    #[tokio::test]
    async fn where_there_is_one_thread_alone_it_does_the_work() {
        assert_eq!(in_place(|| 7), 7);
    }
}
