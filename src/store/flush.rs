//! Group commit: one OS thread that turns many appends into one fsync.
//!
//! A writer queues a waiter after it has written to the WAL. The thread takes all queued waiters, syncs once, and
//! completes them in the order in which they were queued. Writes during a sync share the next one. Waiters are queued
//! under the lock that orders the writes, so a completed waiter means that its write and all writes before it are
//! durable.

use std::io;
use std::iter;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

use openraft::storage::IOFlushed;
use tokio::sync::oneshot;

use super::database::Database;
use crate::format::types::TypeConfig;
use crate::metrics::Metrics;
use crate::tasks;

/// Function that makes the WAL durable: [`Database::sync_wal`], or the replacement of a test.
pub(super) type Sync = Box<dyn FnMut(&Database) -> io::Result<()> + Send>;

pub(super) enum Waiter {
    Append(IOFlushed<TypeConfig>),
    Barrier(oneshot::Sender<io::Result<()>>),
}

impl Waiter {
    fn complete(self, outcome: io::Result<()>) {
        match self {
            Waiter::Append(callback) => callback.io_completed(outcome),
            // The receiver is gone if the caller is.
            Waiter::Barrier(sender) => drop(sender.send(outcome)),
        }
    }
}

pub(super) struct FlushThread {
    /// Queue of the thread; dropping it ends the thread.
    queue: Option<Sender<Waiter>>,
    thread: Option<JoinHandle<()>>,
}

impl FlushThread {
    pub(super) fn start(database: Arc<Database>, metrics: Arc<Metrics>, sync: Sync) -> io::Result<Self> {
        let (queue, waiters) = mpsc::channel();
        let thread = tasks::thread("log-flush", move || Flusher { database, metrics, sync }.run(&waiters))?;
        Ok(FlushThread { queue: Some(queue), thread: Some(thread) })
    }

    pub(super) fn push(&self, waiter: Waiter) -> io::Result<()> {
        let queue = self.queue.as_ref().expect("taken on drop only");
        queue.send(waiter).map_err(|_| io::Error::other("the flush thread of the log has died"))
    }

    /// Returns a receiver that completes once everything written before this call is durable.
    pub(super) fn barrier(&self) -> io::Result<oneshot::Receiver<io::Result<()>>> {
        let (sender, receiver) = oneshot::channel();
        self.push(Waiter::Barrier(sender))?;
        Ok(receiver)
    }
}

impl Drop for FlushThread {
    /// Waits for the thread, so that the directory is free once the last handle is gone.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

struct Flusher {
    database: Arc<Database>,
    metrics: Arc<Metrics>,
    sync: Sync,
}

impl Flusher {
    fn run(mut self, queue: &Receiver<Waiter>) {
        while let Ok(first) = queue.recv() {
            let waiters: Vec<Waiter> = iter::once(first).chain(queue.try_iter()).collect();
            let outcome = self.flush(&waiters);
            for waiter in waiters {
                waiter.complete(copy(&outcome));
            }
        }
        // Rows after the last append have no waiter; a clean end syncs them too. It does not wait for room.
        self.database.room().close();
        let _ = self.database.sync_wal();
    }

    fn flush(&mut self, waiters: &[Waiter]) -> io::Result<()> {
        self.database.check()?;
        let started = Instant::now();
        let outcome = (self.sync)(&self.database);
        self.metrics.fsync_duration.observe(started.elapsed().as_secs_f64());
        let appends = waiters.iter().filter(|waiter| matches!(waiter, Waiter::Append(_))).count();
        if appends > 0 {
            self.metrics.fsync_batch.observe(appends as f64);
        }
        self.database.keep_failure(outcome.map_err(|error| error.to_string()))
    }
}

fn copy(outcome: &io::Result<()>) -> io::Result<()> {
    outcome.as_ref().copied().map_err(|error| io::Error::new(error.kind(), error.to_string()))
}
