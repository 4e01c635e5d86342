//! Gives the inputs of libFuzzer to the entries of [`thuban::fuzzing`], and watches what they take in memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::OnceCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use thuban::fuzzing::{FuzzEntry, FuzzTarget, entry};

pub use libfuzzer_sys;

/// Declares the fuzz target of this name.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(|input: &[u8]| $crate::feed($name, input));
    };
}

thread_local! {
    static ENTRY: OnceCell<(FuzzEntry, &'static FuzzTarget)> = const { OnceCell::new() };
}

/// One input. Panics where the entry does, and where the input takes more memory than the target allows it.
pub fn feed(name: &str, input: &[u8]) {
    ENTRY.with(|ready| {
        let (entry, target) = ready.get_or_init(|| entry(name).unwrap_or_else(|| panic!("there is no target {name}")));
        let before = LIVE.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        entry(input);
        let taken = PEAK.load(Ordering::Relaxed).saturating_sub(before);
        let (for_each_byte, besides) = target.memory;
        let allowed = besides + for_each_byte * input.len();
        assert!(taken <= allowed, "{taken} bytes of memory for an input of {}, {allowed} are allowed", input.len());
    });
}

/// Bytes that are allocated now, and the most that were since [`feed`] looked.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static METER: Meter = Meter;

/// The system's allocator with a count. libFuzzer counts only where a sanitizer tells it.
struct Meter;

fn grow(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

fn shrink(bytes: usize) {
    LIVE.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came; what is counted changes nothing.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        shrink(layout.size());
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        grow(bytes);
        shrink(layout.size());
        unsafe { System.realloc(memory, layout, bytes) }
    }
}
