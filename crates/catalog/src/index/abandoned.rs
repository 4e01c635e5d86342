//! Cancellation of walks. A walk whose result is no longer needed stops at its next step, and its findings are
//! discarded.
//!
//! Only walks made by [`walk`] can be cancelled: apply always walks to the end.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// Flag of the current walk of this thread.
    static ABANDONED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Walks on this thread, until the end or until `abandoned` becomes true.
pub fn walk<T>(abandoned: Arc<AtomicBool>, walk: impl FnOnce() -> T) -> T {
    /// Guard that clears the flag even after a panic: the thread is reused.
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

/// Reports whether the walk on this thread may stop.
pub(super) fn is_abandoned() -> bool {
    ABANDONED.with_borrow(|abandoned| abandoned.as_ref().is_some_and(|abandoned| abandoned.load(Ordering::Relaxed)))
}
