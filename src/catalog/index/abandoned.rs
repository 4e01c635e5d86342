//! Abandonment of walks. A walk whose result nobody waits for any more stops at its next step, and what it has found by
//! then is thrown away.
//!
//! Only walks made by [`walk`] can be abandoned: apply walks to the end.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// Of the walk that this thread is on.
    static ABANDONED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Makes a walk on this thread, until it ends or `abandoned` becomes true.
pub fn walk<T>(abandoned: Arc<AtomicBool>, walk: impl FnOnce() -> T) -> T {
    /// Also after a panic: the thread is used again.
    struct Forget;

    impl Drop for Forget {
        fn drop(&mut self) {
            ABANDONED.set(None);
        }
    }

    ABANDONED.set(Some(abandoned));
    let _forget = Forget;
    walk()
}

/// True if the walk on this thread may end here.
pub(super) fn is_abandoned() -> bool {
    ABANDONED.with_borrow(|abandoned| abandoned.as_ref().is_some_and(|abandoned| abandoned.load(Ordering::Relaxed)))
}
