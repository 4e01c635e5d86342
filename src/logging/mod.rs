//! Output of a serving process: lines for stdout and stderr, and the reports of panics.
//!
//! Each stream has a bounded queue and a thread that writes it ([`LineQueue`]). A reader that has ended or does not
//! read, or a full disk, therefore costs lines only: no task waits for the log or fails because of it.

mod lines;

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use parking_lot::Mutex;
use prometheus::IntCounter;

use crate::metrics::Metrics;

pub use lines::LineQueue;

/// Maximum time to wait for unwritten lines at the end of the process.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);
/// Maximum time to wait for the line of a panic, which may be the last one.
const PANIC_FLUSH_WITHIN: Duration = Duration::from_millis(200);

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// The two output streams of the process.
#[derive(Clone)]
pub struct Output {
    pub stdout: LineQueue,
    pub stderr: LineQueue,
    panics: Tally,
}

impl Output {
    /// Starts the threads. From now on panics are logged and counted.
    pub fn start(format: LogFormat) -> std::io::Result<Output> {
        let output = Output {
            stdout: LineQueue::start("stdout", rustix::stdio::stdout(), None)?,
            stderr: LineQueue::start("stderr", rustix::stdio::stderr(), Some(format))?,
            panics: Tally::default(),
        };
        let (log, panics) = (output.stderr.clone(), output.panics.clone());
        panic::set_hook(Box::new(move |panic| {
            panics.add(1);
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let thread = thread::current();
            let thread = thread.name().unwrap_or_default();
            let trace = Backtrace::capture();
            let trace = (trace.status() == BacktraceStatus::Captured).then(|| tracing::field::display(trace));
            tracing::error!(panic = text_of(panic.payload()), place, thread, trace, "a task panicked");
            log.flush(PANIC_FLUSH_WITHIN);
        }));
        Ok(output)
    }

    /// Counts dropped lines and panics in `metrics`, including those so far.
    pub fn count_in(&self, metrics: &Metrics) {
        self.stderr.lost().count_in(&metrics.log_lines_dropped);
        self.panics.count_in(&metrics.panics);
    }

    /// Waits until the lines are written, for at most [`FLUSH_WITHIN`].
    pub fn flush(&self) {
        let began = Instant::now();
        self.stderr.flush(FLUSH_WITHIN);
        self.stdout.flush(FLUSH_WITHIN.saturating_sub(began.elapsed()));
    }
}

/// Returns the message of a panic.
pub fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no text")
}

/// Count of events that may occur before its metric exists.
#[derive(Clone, Default)]
pub struct Tally(Arc<TallyState>);

#[derive(Default)]
struct TallyState {
    counter: OnceLock<IntCounter>,
    early: Mutex<u64>,
}

impl Tally {
    pub(crate) fn add(&self, count: u64) {
        match self.0.counter.get() {
            Some(counter) => counter.inc_by(count),
            None => *self.0.early.lock() += count,
        }
        self.move_early();
    }

    /// Forwards the count to `counter` from now on, including the events so far.
    pub(crate) fn count_in(&self, counter: &IntCounter) {
        // The node of this process sets it once.
        let _ = self.0.counter.set(counter.clone());
        self.move_early();
    }

    fn move_early(&self) {
        if let Some(counter) = self.0.counter.get() {
            counter.inc_by(std::mem::take(&mut *self.0.early.lock()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_keeps_what_came_before_its_counter() {
        let (tally, counter) = (Tally::default(), IntCounter::new("events", "Events.").expect("a counter"));
        tally.add(2);
        tally.count_in(&counter);
        tally.add(3);
        assert_eq!(counter.get(), 5);
    }

    #[test]
    fn the_text_of_a_panic_is_read_in_both_forms() {
        let rows: [(Box<dyn Any + Send>, &str); 3] =
            [(Box::new("plain"), "plain"), (Box::new("owned".to_owned()), "owned"), (Box::new(7), "no text")];
        for (payload, text) in rows {
            assert_eq!(text_of(&*payload), text);
        }
    }
}
