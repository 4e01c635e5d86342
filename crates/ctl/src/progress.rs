//! Progress and result of long work. The bar is for terminals; it is hidden in a log or a pipe.

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

/// Numbers of tasks that were not done.
pub(super) struct Carried {
    pub(super) refused: usize,
    /// Tasks that wait for approval.
    pub(super) asked: usize,
}

impl Carried {
    /// Returns the numbers of done and other tasks among `count`.
    pub(super) fn summary(&self, count: usize) -> String {
        let Carried { refused, asked } = *self;
        let waiting = match asked {
            0 => String::new(),
            1 => "1 waits for approval, ".to_owned(),
            asked => format!("{asked} wait for approval, "),
        };
        format!("{} done, {waiting}{refused} refused", count - refused - asked)
    }
}
