//! Progress bar for long work on a terminal; hidden in a log or a pipe.

use std::io::{IsTerminal, Write, stderr};

/// Minimum number of steps for which a bar is shown.
const LONG: usize = 200;

pub(super) struct ProgressBar {
    done: usize,
    all: usize,
    is_shown: bool,
}

impl ProgressBar {
    pub(super) fn of(all: usize) -> ProgressBar {
        ProgressBar { done: 0, all, is_shown: all >= LONG && stderr().is_terminal() }
    }

    pub(super) fn step(&mut self) {
        self.done += 1;
        if self.is_shown {
            let _ = write!(stderr(), "\r{} of {}", self.done, self.all);
            let _ = stderr().flush();
        }
    }

    /// Clears the bar before a line is printed.
    pub(super) fn clear(&self) {
        if self.is_shown {
            let _ = write!(stderr(), "\r\u{1b}[K");
            let _ = stderr().flush();
        }
    }
}
