//! Threads with a stack of a given size, for a step whose recursion is deeper than the caller's stack allows. Tasks and
//! threads that outlive their caller are started by `tasks` of the package `thuban`.

use std::panic::resume_unwind;
use std::thread;

/// Runs a step on a thread with a stack of this size and propagates its panic.
pub fn on_thread<T: Send>(name: &'static str, stack_bytes: usize, step: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes);
        let running = thread.spawn_scoped(scope, step).expect("a thread can be started");
        running.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_result_and_a_panic_are_those_of_the_step() {
        assert_eq!(on_thread("short", 64 * 1024, || 7), 7);
        // Panics without a message: this panic is intended.
        assert!(catch_unwind(|| on_thread("short", 64 * 1024, || resume_unwind(Box::new("meant")))).is_err());
    }
}
