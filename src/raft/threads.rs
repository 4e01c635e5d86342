//! Threads of consensus: its tasks, the links to peers and the peer listener run on a runtime of their
//! own, and the surfaces on another.
//!
//! Consensus writes to the disk where it stands, in the order of the log. A disk that holds it up must
//! not hold up who only reads: whatever these threads wait for, polls, pulls and health checks are
//! served by others. And a surface under load takes its share of the processors, but no turn of a
//! heartbeat's.

use std::io;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};

/// One for consensus itself, one for what is applied or comes from a peer meanwhile. More would only
/// wait for each other.
const THREADS: usize = 2;

/// The runtime, until it is ended. Dropped before, it ends what still runs there, and waits for none of
/// it.
pub(super) struct Threads(Mutex<Option<Runtime>>);

impl Threads {
    /// With the handle by which the first task gets there.
    pub(super) fn start() -> io::Result<(Self, Handle)> {
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(THREADS).thread_name("consensus").enable_all();
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
