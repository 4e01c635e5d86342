//! Freezes: one period of time, or periods that recur on days of the week.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::code::{Code, Refusal};
use crate::model::time::Timestamp;
use crate::model::wire::wire_enum;
use crate::model::{limits, name};

const DAY_MINUTES: i64 = 24 * 60;
const WEEK_MINUTES: i64 = 7 * DAY_MINUTES;
/// The first day of Unix time was a Thursday.
const WEEKDAY_OF_DAY_ZERO: i64 = 3;

wire_enum! {
    /// Day of a week.
    pub enum Day {
        Monday = "MON",
        Tuesday = "TUE",
        Wednesday = "WED",
        Thursday = "THU",
        Friday = "FRI",
        Saturday = "SAT",
        Sunday = "SUN",
    }
}

/// Time in which a policy permits no gated act.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Freeze {
    /// Days on which it begins; absent for a single period.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
    /// Begin: RFC 3339; with `days` the time of day, `HH:MM`.
    pub from: String,
    /// End: RFC 3339; with `days` the time of day, which is on the next day unless it is later than `from`.
    pub until: String,
    /// UTC offset of the times of day, `+HH:MM` or `-HH:MM`; `+00:00` if absent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub offset: String,
    /// Reason, at most 1024 characters; refusals include it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

/// A parsed freeze.
#[derive(Debug)]
pub(super) enum Window {
    Once {
        from: Timestamp,
        until: Timestamp,
    },
    /// Recurring freeze in minutes from midnight; the end is after the begin, and may be on the next day.
    Weekly {
        /// Days on which it begins; Monday is 0.
        days: Vec<i64>,
        from: i64,
        until: i64,
        offset: i64,
    },
}

impl Window {
    /// Returns the begins in a week and the duration, in minutes; the first minute of Unix time is 0. A one-time freeze
    /// has no begin.
    fn of_week(&self) -> (impl Iterator<Item = i64>, i64) {
        let (days, from, until, offset) = match self {
            Window::Once { .. } => (&[][..], 0, 0, 0),
            Window::Weekly { days, from, until, offset } => (&days[..], *from, *until, *offset),
        };
        let begins = days.iter().map(move |day| (day - WEEKDAY_OF_DAY_ZERO) * DAY_MINUTES + from - offset);
        (begins, until - from)
    }

    /// Returns the minutes of a week at which it holds.
    pub(super) fn minutes_of_week(&self) -> impl Iterator<Item = usize> {
        let (begins, length) = self.of_week();
        let of_week = |minute: i64| usize::try_from(minute.rem_euclid(WEEK_MINUTES)).unwrap_or(0);
        begins.flat_map(move |begin| (begin..begin + length).map(of_week))
    }

    /// Reports whether it holds at a time, which is in this minute of a week.
    pub(super) fn holds(&self, time: Timestamp, minute: usize) -> bool {
        if let Window::Once { from, until } = self {
            return *from <= time && time < *until;
        }
        let (mut begins, length) = self.of_week();
        let minute = i64::try_from(minute).unwrap_or_default();
        begins.any(|begin| (minute - begin).rem_euclid(WEEK_MINUTES) < length)
    }
}

impl Freeze {
    pub fn check(&self) -> Result<(), Refusal> {
        name::check_length("freezes: comment", &self.comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        let refuse = |why: String| Refusal::new(Code::InvalidParameter, format!("freezes: {why}"));
        if self.days.is_empty() && !self.offset.is_empty() {
            let why = "offset is of times of day: from and until of a freeze without days have their own";
            return Err(refuse(why.to_owned()));
        }
        self.window().map(drop).map_err(refuse)
    }

    pub(super) fn window(&self) -> Result<Window, String> {
        if self.days.is_empty() {
            let read = |field: &str, text: &str| {
                Timestamp::parse(text)
                    .ok_or_else(|| format!("{field} {text:?} is no time, such as 2026-11-20T08:30:35Z"))
            };
            let (from, until) = (read("from", &self.from)?, read("until", &self.until)?);
            if from >= until {
                return Err("until is not after from".to_owned());
            }
            return Ok(Window::Once { from, until });
        }
        let read = |field: &str, text: &str| {
            time_of_day(text).ok_or_else(|| format!("{field} {text:?} is no time of day, such as 16:00"))
        };
        let (from, until) = (read("from", &self.from)?, read("until", &self.until)?);
        let until = if until > from { until } else { until + DAY_MINUTES };
        use crate::model::wire::Words;
        let days = (0..).zip(Day::ALL).filter(|(_, (day, _))| self.days.contains(day)).map(|(at, _)| at).collect();
        Ok(Window::Weekly { days, from, until, offset: read_offset(&self.offset)? })
    }
}

/// Parses `HH:MM` as minutes since midnight; 24:00 is the end of the day.
fn time_of_day(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total <= DAY_MINUTES).then_some(total)
}

fn two_digits(text: &str) -> Option<i64> {
    let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

/// Parses a UTC offset as minutes ahead of UTC.
fn read_offset(text: &str) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let read = || {
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+')?),
        };
        time_of_day(rest).filter(|minutes| *minutes < DAY_MINUTES).map(|minutes| sign * minutes)
    };
    read().ok_or_else(|| format!("offset {text:?} is none, such as +08:00"))
}
