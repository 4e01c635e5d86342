//! Points in time: milliseconds since the Unix epoch, stamped by the leader into the log.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::format_description;

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// `YYYY-MM-DD HH:MM:SS` in UTC, the form of every time on the management surface.
    pub fn text(self) -> String {
        let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
        i64::try_from(self.0 / 1000)
            .ok()
            .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
            .and_then(|moment| moment.format(&format).ok())
            .unwrap_or_default()
    }

    /// This time moved forward.
    pub fn plus_ms(self, ms: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_utc_with_seconds() {
        assert_eq!(Timestamp(0).text(), "1970-01-01 00:00:00");
        assert_eq!(Timestamp(1_795_163_435_225).text(), "2026-11-20 08:30:35");
    }
}
