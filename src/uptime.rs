//! Time since the machine was started, including time asleep, for measuring ages.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the uptime by `CLOCK_BOOTTIME`; the monotonic clock stops while the machine is suspended.
pub(crate) fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    // Neither number is negative, and the nanoseconds are below a billion.
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}
