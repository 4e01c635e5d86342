//! Threads of consensus: its tasks, the links to peers and the peer listener run on a runtime of their
//! own, and the surfaces on another.
//!
//! Consensus writes to the disk where it stands, in the order of the log. A disk that holds it up must
//! not hold up who only reads: whatever these threads wait for, polls, pulls and health checks are
//! served by others. And a surface under load takes its share of the processors, but no turn of a
//! heartbeat's.

use std::io;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::task::block_in_place;

/// One for consensus itself, one for what is applied or comes from a peer meanwhile. More would only
/// wait for each other.
const THREADS_MAX: usize = 2;

/// Number of threads of consensus: one where there are two processors. A second thread would hand over to the first at
/// every step of an entry, and take the processor from those that serve clients.
fn count(processors: usize) -> usize {
    processors.div_ceil(2).clamp(1, THREADS_MAX)
}

/// Does work that takes long on the thread of the caller, whose other tasks go on elsewhere meanwhile.
pub(crate) fn at_length<T>(work: impl FnOnce() -> T) -> T {
    let has_others = Handle::try_current().is_ok_and(|here| here.runtime_flavor() == RuntimeFlavor::MultiThread);
    if has_others { block_in_place(work) } else { work() }
}

/// The runtime, until it is ended. Dropped before, it ends what still runs there, and waits for none of
/// it.
pub(crate) struct Threads(Mutex<Option<Runtime>>);

impl Threads {
    /// With the handle by which the first task gets there.
    pub(crate) fn start() -> io::Result<(Self, Handle)> {
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(count(thread::available_parallelism()?.get())).thread_name("consensus").enable_all();
        let runtime = runtime.build()?;
        let handle = runtime.handle().clone();
        Ok((Threads(Mutex::new(Some(runtime))), handle))
    }

    /// Ends what still runs there and waits for the threads, but no longer than `limit`: one may be in the
    /// middle of a write. Not for async threads.
    pub(super) fn end(&self, limit: Duration) {
        let runtime = self.0.lock().take();
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(limit);
        }
    }
}

impl Drop for Threads {
    /// Never blocks: the last handle on a node may go on any thread, also on one of these.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}

/// The listener on the runtime of the caller, whichever it was made on.
pub(super) fn settle(listener: TcpListener) -> io::Result<TcpListener> {
    TcpListener::from_std(listener.into_std()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_leave_processors_to_the_surfaces() {
        let rows = [(1, 1), (2, 1), (3, 2), (4, 2), (64, 2)];
        for (processors, threads) in rows {
            assert_eq!(count(processors), threads, "of {processors} processors");
        }
    }

    /// As a heartbeat is to be sent while a zone dies.
    #[test]
    fn what_takes_long_holds_up_no_other_task() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let (release, held) = std::sync::mpsc::channel();
        let others = runtime.spawn(async move {
            let long = tokio::spawn(async move { at_length(|| held.recv_timeout(Duration::from_secs(30))) });
            tokio::task::yield_now().await;
            let other = tokio::spawn(async move { release.send(()).is_ok() });
            (other.await.expect("no panic"), long.await.expect("no panic"))
        });
        assert_eq!(runtime.block_on(others).expect("no panic"), (true, Ok(())));
    }

    #[tokio::test]
    async fn where_there_is_one_thread_alone_it_does_the_work() {
        assert_eq!(at_length(|| 7), 7);
    }
}
