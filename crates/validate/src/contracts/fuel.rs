//! Budget of one evaluation: processor time, and bytes that expressions create.
//!
//! Neither engine can be interrupted from outside, so each of their steps checks the budget here. The time is the
//! processor time of this thread: a busy machine accepts the same contents as an idle one.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::model::limits;

/// Steps between two readings of the clock.
const STEPS_BETWEEN_LOOKS: u64 = 256;

#[derive(Debug, Default)]
pub(super) struct Fuel {
    ends: Option<Duration>,
    bytes_left: Cell<u64>,
    faults_left: Cell<usize>,
    steps_to_look: Cell<u64>,
    is_out: Cell<bool>,
}

impl Fuel {
    pub(super) fn start(time: Duration, bytes: u64) -> Fuel {
        let ends = Some(thread_time().saturating_add(time));
        let faults_left = Cell::new(limits::CONTRACT_FAULTS_MADE_MAX);
        Fuel { ends, bytes_left: Cell::new(bytes), faults_left, ..Fuel::default() }
    }

    /// Runs work that does not count towards the time limit; returns its result and its time.
    pub(super) fn besides<A>(&mut self, work: impl FnOnce() -> A) -> (A, Duration) {
        let begun = thread_time();
        let made = work();
        let taken = thread_time().saturating_sub(begun);
        self.ends = self.ends.map(|ends| ends.saturating_add(taken));
        (made, taken)
    }

    /// Counts steps; false once the time is used up.
    pub(super) fn step(&self, steps: u64) -> bool {
        let Some(ends) = self.ends else { return true };
        match self.steps_to_look.get().checked_sub(steps) {
            Some(left) => self.steps_to_look.set(left),
            None => {
                self.steps_to_look.set(STEPS_BETWEEN_LOOKS);
                if !self.is_out.get() && thread_time() > ends {
                    self.is_out.set(true);
                }
            }
        }
        !self.is_out.get()
    }

    /// Counts bytes that are created; false once none are left.
    pub(super) fn make(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let left = self.bytes_left.get().checked_sub(bytes);
        self.bytes_left.set(left.unwrap_or_default());
        // Writing the bytes takes time too.
        left.is_some() && self.step(1 + bytes / 64)
    }

    /// Counts a fault that an engine holds in memory. Returns false, and ends the evaluation, once none are left.
    pub(super) fn fault(&self) -> bool {
        match self.faults_left.get().checked_sub(1) {
            Some(left) => self.faults_left.set(left),
            None if self.ends.is_some() => self.is_out.set(true),
            None => {}
        }
        !self.is_out.get()
    }

    pub(super) fn is_out(&self) -> bool {
        self.is_out.get()
    }
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_bytes_come_to_an_end() {
        let fuel = Fuel::start(Duration::from_millis(1), 10);
        assert!(fuel.make(4) && fuel.make(6) && !fuel.make(1));
        let steps = (0..100_000_000_u64).take_while(|_| fuel.step(1)).count();
        assert!(steps < 100_000_000 && fuel.is_out());
        assert!(Fuel::default().step(u64::MAX), "what is not metered has no end");
    }
}
