//! Queue of lines for one stream, and the thread that writes it.
//!
//! `tracing_appender::non_blocking` is not used: it counts lines and not bytes, does not count the lines that its
//! worker could not write, and prints where it cannot end.

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

/// Between two tries of a stream that takes nothing, while there is a loss to report.
const RETRY: Duration = Duration::from_secs(1);
/// Room that stays for the next lines when some were written.
const QUEUE_BYTES_KEPT: usize = 64 * 1024;

/// The line that reports lost lines, as the log formats its other ones.
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

/// Lines on their way to a stream. A line that finds no room, or that the stream does not take, is lost and counted;
/// the caller never waits.
#[derive(Clone)]
pub struct LineQueue(Arc<LineQueueState>);

struct LineQueueState {
    waiting: Mutex<WaitingLines>,
    /// Signal that there are lines to write.
    changed: Condvar,
    /// Signal that all lines are written.
    drained: Condvar,
    lost: Tally,
}

#[derive(Default)]
struct WaitingLines {
    /// Whole lines, [`LOG_QUEUE_BYTES_MAX`] at most.
    bytes: Vec<u8>,
    /// Number of later lines that found no room.
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
        // The process does not wait for this thread at its end: the stream may never take anything.
        drop(tasks::thread(name, move || writer.run())?);
        Ok(queue)
    }

    /// Lines that are lost.
    pub(super) fn lost(&self) -> &Tally {
        &self.0.lost
    }

    /// Has whole lines written.
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

    /// Waits until what was pushed is written or lost, `within` at most.
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

/// The thread's part.
struct LineWriter<S> {
    shared: Arc<LineQueueState>,
    stream: S,
    /// None where a loss is counted alone.
    reported_as: Option<LogFormat>,
    /// Lost lines that no line has reported yet.
    lost: u64,
    /// The stream took a part of a line, and not its end.
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

    /// Waits for lines, or for the time to report a loss, and takes them. Returns how many later lines found no room.
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

    /// Writes the report of a loss, if there is one, then the lines. False if the stream does not take them.
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

    /// Writes all bytes; `Err` is how many were taken before the stream failed.
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

/// Not by `std::io::stderr`: its lock would be held while the reader does not read.
fn write_all(stream: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), usize> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(stream, &bytes[written..]) {
            Ok(0) => return Err(written),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            // Another process may have made the stream one that does not block.
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
