//! Queue of lines for one stream, and the thread that writes them.
//!
//! `tracing_appender::non_blocking` is not used: it limits lines and not bytes, does not count the lines that its
//! worker could not write, and prints errors if its worker cannot be stopped.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::json;
use time::OffsetDateTime;
use time::macros::format_description;

use super::{LogFormat, Tally};
use crate::model::limits::LOG_QUEUE_BYTES_MAX;
use crate::tasks;

/// Interval between attempts to report lost lines on a stream that accepts nothing.
const RETRY: Duration = Duration::from_secs(1);
/// Capacity retained for the next lines after a write.
const QUEUE_BYTES_KEPT: usize = 64 * 1024;

/// Returns the line that reports lost lines, in the format of the log.
fn report(format: LogFormat, lost: u64) -> String {
    let shown = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    let now = OffsetDateTime::now_utc().format(shown).unwrap_or_default();
    let (target, message) = (module_path!(), "lines of the log are lost: they could not be written");
    match format {
        LogFormat::Text => format!("{now}  WARN {target}: {message} lines={lost}\n"),
        LogFormat::Json => {
            let fields = json!({ "message": message, "lines": lost });
            format!("{}\n", json!({ "timestamp": now, "level": "WARN", "fields": fields, "target": target }))
        }
    }
}

/// Queue of lines for a stream. A line that does not fit, or that the stream does not accept, is dropped and counted.
/// The caller never waits.
#[derive(Clone)]
pub struct LineQueue(Arc<LineQueueState>);

struct LineQueueState {
    waiting: Mutex<WaitingLines>,
    /// Notified when there are lines to write.
    changed: Condvar,
    /// Notified when all lines are written.
    drained: Condvar,
    lost: Tally,
}

#[derive(Default)]
struct WaitingLines {
    /// Whole lines, at most [`LOG_QUEUE_BYTES_MAX`] bytes.
    bytes: Vec<u8>,
    /// Number of later lines that did not fit.
    lost: u64,
    is_writing: bool,
}

impl LineQueue {
    pub(super) fn start(
        name: &'static str,
        stream: impl AsFd + Send + 'static,
        reported_as: Option<LogFormat>,
    ) -> io::Result<LineQueue> {
        let (waiting, changed, drained, lost) = Default::default();
        let queue = LineQueue(Arc::new(LineQueueState { waiting, changed, drained, lost }));
        let writer = LineWriter { shared: queue.0.clone(), stream, reported_as, lost: 0, is_within_line: false };
        // The process does not join this thread at its end, because the stream may never accept anything.
        drop(tasks::thread(name, move || writer.run())?);
        Ok(queue)
    }

    /// Returns the count of dropped lines.
    pub(super) fn lost(&self) -> &Tally {
        &self.0.lost
    }

    /// Queues whole lines.
    pub fn push(&self, lines: &[u8]) {
        let mut waiting = self.0.waiting.lock();
        if waiting.bytes.len() + lines.len() > LOG_QUEUE_BYTES_MAX {
            let count = count_lines(lines);
            waiting.lost += count;
            drop(waiting);
            self.0.lost.add(count);
            return;
        }
        waiting.bytes.extend_from_slice(lines);
        drop(waiting);
        self.0.changed.notify_one();
    }

    /// Waits until all queued lines are written or dropped, for at most `within`.
    pub(super) fn flush(&self, within: Duration) {
        let mut waiting = self.0.waiting.lock();
        let is_busy = |waiting: &mut WaitingLines| waiting.is_writing || !waiting.bytes.is_empty();
        self.0.drained.wait_while_for(&mut waiting, is_busy, within);
    }
}

impl Write for LineQueue {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.push(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Writing half of a queue, owned by its thread.
struct LineWriter<S> {
    shared: Arc<LineQueueState>,
    stream: S,
    /// Format of the report of dropped lines; none if they are only counted.
    reported_as: Option<LogFormat>,
    /// Number of dropped lines not reported so far.
    lost: u64,
    /// Set if the stream accepted only the beginning of a line.
    is_within_line: bool,
}

impl<S: AsFd> LineWriter<S> {
    fn run(mut self) {
        let mut lines = Vec::new();
        let mut is_taken = true;
        loop {
            let lost_behind = self.take(&mut lines, is_taken);
            is_taken = self.put(&lines);
            self.lost += lost_behind;
            lines.clear();
            lines.shrink_to(QUEUE_BYTES_KEPT);
        }
    }

    /// Waits for lines, or until a loss can be reported, and takes them. Returns the number of later lines that did not
    /// fit.
    fn take(&self, lines: &mut Vec<u8>, is_taken: bool) -> u64 {
        let mut waiting = self.shared.waiting.lock();
        waiting.is_writing = false;
        if waiting.bytes.is_empty() {
            self.shared.drained.notify_all();
        }
        let is_idle = |waiting: &mut WaitingLines| waiting.bytes.is_empty() && waiting.lost == 0;
        if self.lost == 0 || self.reported_as.is_none() {
            self.shared.changed.wait_while(&mut waiting, is_idle);
        } else if !is_taken {
            self.shared.changed.wait_while_for(&mut waiting, is_idle, RETRY);
        }
        waiting.is_writing = true;
        std::mem::swap(&mut waiting.bytes, lines);
        std::mem::take(&mut waiting.lost)
    }

    /// Writes the report of dropped lines, if there are any, and then the lines. Returns false if the stream does not
    /// accept them.
    fn put(&mut self, lines: &[u8]) -> bool {
        let report =
            self.reported_as.filter(|_| self.lost > 0).map(|format| report(format, self.lost)).unwrap_or_default();
        let is_reported = self.write(report.as_bytes()).is_ok();
        if is_reported {
            self.lost = 0;
        }
        let written = if is_reported { self.write(lines) } else { Err(0) };
        let Err(written) = written else { return true };
        let lost = count_lines(&lines[written..]);
        self.lost += lost;
        self.shared.lost.add(lost);
        false
    }

    /// Writes all bytes. The error is the number of bytes accepted before the stream failed.
    fn write(&mut self, bytes: &[u8]) -> Result<(), usize> {
        if self.is_within_line && !bytes.is_empty() {
            write_all(self.stream.as_fd(), b"\n").map_err(|_| 0usize)?;
            self.is_within_line = false;
        }
        write_all(self.stream.as_fd(), bytes).inspect_err(|written| {
            self.is_within_line |= *written > 0 && bytes[*written - 1] != b'\n';
        })
    }
}

/// Writes all bytes without `std::io::stderr`, whose lock would be held while the reader does not read.
fn write_all(stream: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), usize> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(stream, &bytes[written..]) {
            Ok(0) => return Err(written),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            // Another process may have made the stream non-blocking.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::from_borrowed_fd(stream, PollFlags::OUT)], None);
            }
            Err(_) => return Err(written),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
