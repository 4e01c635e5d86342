//! Time that passes while the machine sleeps too, for whatever is judged by its age.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Since the machine was started (`CLOCK_BOOTTIME`): the monotonic clock stands still while it is suspended.
pub(crate) fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    // Neither is negative, and the second is below a billion.
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}
