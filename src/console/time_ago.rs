//! A time of the past, as the distance from now.

use super::texts::{Language, Texts};
use crate::model::time::Timestamp;

/// A time in words, and in UTC.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeAgo {
    pub(super) ago: String,
    pub(super) utc: String,
    /// Machine-readable form, which scripts convert to local time.
    pub(super) rfc3339: String,
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

impl TimeAgo {
    pub(super) fn of(t: &Texts, now: Timestamp, then: Timestamp) -> TimeAgo {
        TimeAgo { ago: ago(t, now, then), utc: then.text(), rfc3339: then.rfc3339() }
    }

    /// Returns a time that is in the future, such as the end of a freeze; one that has passed is as in
    /// [`TimeAgo::of`].
    pub(super) fn until(t: &Texts, now: Timestamp, then: Timestamp) -> TimeAgo {
        let seconds = then.0.saturating_sub(now.0) / 1000;
        if seconds < MINUTE {
            return TimeAgo::of(t, now, then);
        }
        let [english, chinese] = distance(seconds);
        let text = if is_chinese(t) { format!("{chinese}后") } else { format!("in {english}") };
        TimeAgo { ago: text, ..TimeAgo::of(t, now, then) }
    }
}

fn ago(t: &Texts, now: Timestamp, then: Timestamp) -> String {
    let seconds = now.0.saturating_sub(then.0) / 1000;
    if seconds < MINUTE {
        return t.home.just_now.to_owned();
    }
    let [english, chinese] = distance(seconds);
    if is_chinese(t) { format!("{chinese}前") } else { format!("{english} ago") }
}

fn is_chinese(t: &Texts) -> bool {
    t.language() == Language::Chinese
}

/// Formats a distance of a minute or more by its largest unit, in English and Chinese.
fn distance(seconds: u64) -> [String; 2] {
    let (number, english, chinese) = match seconds {
        0..HOUR => (seconds / MINUTE, "min", "分钟"),
        HOUR..DAY => (seconds / HOUR, "h", "小时"),
        _ if seconds < 2 * DAY => (1, "day", "天"),
        _ => (seconds / DAY, "days", "天"),
    };
    [format!("{number} {english}"), format!("{number} {chinese}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_by_its_largest_unit() {
        let (english, chinese) = (Language::English.texts(), Language::Chinese.texts());
        let now = Timestamp(10 * DAY * 1000);
        let rows = [
            (0, "just now", "刚刚"),
            (59, "just now", "刚刚"),
            (60, "1 min ago", "1 分钟前"),
            (HOUR - 1, "59 min ago", "59 分钟前"),
            (HOUR, "1 h ago", "1 小时前"),
            (DAY, "1 day ago", "1 天前"),
            (3 * DAY, "3 days ago", "3 天前"),
        ];
        for (seconds, in_english, in_chinese) in rows {
            let then = Timestamp(now.0 - seconds * 1000);
            assert_eq!((ago(english, now, then).as_str(), ago(chinese, now, then).as_str()), (in_english, in_chinese));
        }
        assert_eq!(ago(english, Timestamp(0), now), "just now", "a clock that is behind");
        let until = |t: &Texts, seconds: u64| TimeAgo::until(t, now, Timestamp(now.0 + seconds * 1000)).ago;
        assert_eq!((until(english, 3 * HOUR), until(chinese, 3 * HOUR)), ("in 3 h".to_owned(), "3 小时后".to_owned()));
        assert_eq!(TimeAgo::until(english, now, Timestamp(now.0 - 2 * HOUR * 1000)).ago, "2 h ago", "it has ended");
    }
}
