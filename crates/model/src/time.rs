//! Points in time: milliseconds since the Unix epoch, which the leader stamps into the log.

use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

const DAY_MS: u64 = 24 * 3600 * 1000;

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// Current time in two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// Time of the cluster, by which objects are dated.
    pub stamped: Timestamp,
    /// Time that is certain to have passed, see `catalog::time`.
    pub sure: Timestamp,
}

impl From<Timestamp> for Present {
    fn from(time: Timestamp) -> Self {
        Present { stamped: time, sure: time }
    }
}

impl Timestamp {
    /// Formats as `YYYY-MM-DD HH:MM:SS` in UTC, the form of every time on the management surface.
    pub fn text(self) -> String {
        let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
        i64::try_from(self.0 / 1000)
            .ok()
            .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
            .and_then(|moment| moment.format(&format).ok())
            .unwrap_or_default()
    }

    /// Formats as RFC 3339 in UTC with seconds, rounded up so that it is not before the moment.
    pub fn rfc3339(self) -> String {
        let rounded = Timestamp(self.0.div_ceil(1000).saturating_mul(1000));
        rounded.text().replacen(' ', "T", 1) + "Z"
    }

    /// Returns the whole days since the Unix epoch.
    pub fn day(self) -> u64 {
        self.0 / DAY_MS
    }

    /// Parses a time in a request: the form of [`Timestamp::text`], or RFC 3339 with any offset. `None` for anything
    /// else, and for times before 1970.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let plain = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
        let moment = match PrimitiveDateTime::parse(text, &plain) {
            Ok(moment) => moment.assume_utc(),
            Err(_) => OffsetDateTime::parse(text, &Rfc3339).ok()?,
        };
        u64::try_from(moment.unix_timestamp_nanos() / 1_000_000).ok().map(Timestamp)
    }

    /// Returns this time moved forward by milliseconds.
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

    #[test]
    fn times_are_read_in_both_forms() {
        for (text, ms) in [
            ("1970-01-01 00:00:00", Some(0)),
            ("2026-11-20 08:30:35", Some(1_795_163_435_000)),
            ("2026-11-20T08:30:35Z", Some(1_795_163_435_000)),
            ("2026-11-20T09:30:35.225+01:00", Some(1_795_163_435_225)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-11-20", None),
            ("2026-13-20 08:30:35", None),
            ("2026-11-20 08:30:35 ", None),
            ("yesterday", None),
            ("1795163435", None),
            ("", None),
        ] {
            assert_eq!(Timestamp::parse(text), ms.map(Timestamp), "{text:?}");
        }
    }
}
