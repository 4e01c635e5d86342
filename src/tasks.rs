//! Tasks and threads: all of them begin here, so that none ends without a word.
//!
//! A panic is a line of the log and counted, wherever it happens (the hook of `logging`). What else it does follows one
//! rule:
//!
//! * [`needed`]: work that the node goes on needing when a request has ended, as a loop or the consumer of a queue. The
//!   node goes down in order with an exit code of its own, for a supervisor to start it again.
//! * [`errand`]: work for one request, call, connection or try, or work that is begun again by who needs it. Who waits
//!   for it gets an error, and the node goes on.
//! * [`blocking`]: a step of its caller on a thread that may block. The panic goes on in the caller, and does what it
//!   does there.
//!
//! A needed task that returns is no death: it says so in its code.

use std::any::Any;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;
use std::{io, thread};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio_util::task::TaskTracker;

/// Name of the first needed task that died. One for the process: a thread of consensus does not know its node.
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
            // The sender lives as long as this.
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

/// A task that the node needs has panicked: the node cannot be trusted to do its work any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task {0:?} has panicked, see the line about it above; the process has to be started again")]
pub struct TaskDied(pub &'static str);

/// Returns when a needed task has died.
pub async fn death() -> TaskDied {
    TaskDied(DEATH.first().await)
}

/// Begins a task that the node needs.
pub fn needed<T: Send + 'static>(name: &'static str, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(watched(&DEATH, name, task))
}

/// The same, counted by `tracker`.
pub fn needed_in<T: Send + 'static>(
    tracker: &TaskTracker,
    name: &'static str,
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tracker.spawn(watched(&DEATH, name, task))
}

/// The same for a runtime that begins tasks by itself.
pub fn watched_as_needed<T>(name: &'static str, task: impl Future<Output = T>) -> impl Future<Output = T> {
    watched(&DEATH, name, task)
}

async fn watched<T>(death: &Death, name: &'static str, task: impl Future<Output = T>) -> T {
    death.end(name, AssertUnwindSafe(task).catch_unwind().await)
}

/// Begins work for one request, call, connection or try.
pub fn errand<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work)
}

/// The same, counted by `tracker`.
pub fn errand_in<T: Send + 'static>(
    tracker: &TaskTracker,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tracker.spawn(work)
}

/// The same on another runtime.
pub fn errand_on<T: Send + 'static>(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    runtime.spawn(work)
}

/// The same; `set` has the outcome, or that there is none.
pub fn errand_of<T: Send + 'static>(
    set: &mut JoinSet<T>,
    work: impl Future<Output = T> + Send + 'static,
) -> AbortHandle {
    set.spawn(work)
}

/// Begins an errand on a thread that may block.
pub fn blocking_errand<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(work)
}

/// Does a step on a thread that may block. It goes on when the caller does not wait any more.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match blocking_errand(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime goes down, and the caller with it.
            Err(_) => pending().await,
        },
    }
}

/// Does the work of a request; none if it has panicked, and its client is to hear of that in the form of its surface.
pub async fn caught<T>(work: impl Future<Output = T>) -> Option<T> {
    AssertUnwindSafe(work).catch_unwind().await.ok()
}

/// Begins a thread that the node needs.
pub fn thread(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    let watched = move || DEATH.end(name, catch_unwind(AssertUnwindSafe(work)));
    thread::Builder::new().name(name.to_owned()).spawn(watched)
}

/// Does a step on a thread of its own with a stack of this size; a panic is the caller's.
pub fn on_thread<T: Send>(name: &'static str, stack_bytes: usize, step: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes);
        let running = thread.spawn_scoped(scope, step).expect("a thread can be started");
        running.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Silent: these panics are meant.
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
        assert!(catch_unwind(|| on_thread("short", 64 * 1024, panics)).is_err());
        assert_eq!(*DEATH.0.borrow(), None);
    }
}
