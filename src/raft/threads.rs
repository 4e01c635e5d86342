//! Threads of consensus: its tasks, the links to peers and the peer listener run on their own runtime, and the surfaces
//! on another.
//!
//! Consensus writes to the disk inline, in the order of the log. A stalled disk must not delay readers: while these
//! threads wait, other threads serve polls, pulls and health checks. And a surface under load competes for the
//! processors but does not delay a heartbeat in the queue of a runtime.

use std::io;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};

/// Maximum number of threads: one for consensus itself, one for apply and calls of peers. More would only wait for each
/// other.
const THREADS_MAX: usize = 2;

/// Returns the number of threads of consensus: one for two processors. A second thread would hand over to the first at
/// every step of an entry, and take a processor from the threads that serve clients.
fn count(processors: usize) -> usize {
    processors.div_ceil(2).clamp(1, THREADS_MAX)
}

/// The runtime, until it is shut down. Dropping it ends the tasks that still run there without waiting.
pub(crate) struct Threads(Mutex<Option<Runtime>>);

impl Threads {
    /// Starts the runtime; returns it with the handle for spawning the first task there.
    pub(crate) fn start() -> io::Result<(Self, Handle)> {
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(count(thread::available_parallelism()?.get())).thread_name("consensus").enable_all();
        let runtime = runtime.build()?;
        let handle = runtime.handle().clone();
        Ok((Threads(Mutex::new(Some(runtime))), handle))
    }

    /// Ends the tasks that still run there and waits for the threads at most `limit`: one may be in the middle of a
    /// write. Must not be called on an async thread.
    pub(super) fn end(&self, limit: Duration) {
        let runtime = self.0.lock().take();
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(limit);
        }
    }
}

impl Drop for Threads {
    /// Drops without blocking: the last handle on a node may be dropped on any thread, also on one of these.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}

/// Moves a listener to the runtime of the caller.
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
}
