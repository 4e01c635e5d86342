//! Freezes: a time from one moment to another, or one that comes again on days of the week.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::code::{Code, Refusal};
use crate::model::time::Timestamp;
use crate::model::wire::wire_enum;
use crate::model::{limits, name};

const MINUTE_MS: i64 = 60 * 1000;
const DAY_MINUTES: i64 = 24 * 60;
const DAY_MS: i64 = DAY_MINUTES * MINUTE_MS;
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

/// Time in which a policy lets nothing through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Freeze {
    /// Days on which it begins. Without them it is once, from one moment to another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
    /// RFC 3339; with `days` the time of day, `HH:MM`.
    pub from: String,
    /// RFC 3339; with `days` the time of day, which is of the next day unless it is later than `from`.
    pub until: String,
    /// Of the times of day, `+HH:MM` or `-HH:MM`; `+00:00` where absent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub offset: String,
    /// Reason, at most 1024 characters; who is refused is told.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

/// A freeze that was read.
enum Window {
    Once {
        from: Timestamp,
        until: Timestamp,
    },
    /// Minutes from midnight; the end is after the beginning, and may be on the next day.
    Weekly {
        from: i64,
        until: i64,
        offset: i64,
    },
}

impl Freeze {
    pub fn check(&self) -> Result<(), Refusal> {
        name::check_length("freezes: comment", &self.comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        let refuse = |why: String| Refusal::new(Code::InvalidParameter, format!("freezes: {why}"));
        self.window().map(drop).map_err(refuse)
    }

    fn window(&self) -> Result<Window, String> {
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
        Ok(Window::Weekly { from, until, offset: read_offset(&self.offset)? })
    }

    /// Its end, if it holds at a time. One that cannot be read, which no check lets through, never holds.
    pub fn until(&self, time: Timestamp) -> Option<Timestamp> {
        match self.window().ok()? {
            Window::Once { from, until } => (from <= time && time < until).then_some(until),
            Window::Weekly { from, until, offset } => {
                let local = i64::try_from(time.0).ok()?.saturating_add(offset * MINUTE_MS);
                let today = local.div_euclid(DAY_MS);
                let ends = [today - 1, today].into_iter().filter(|day| self.begins_on(*day)).filter_map(|day| {
                    let at = |minutes: i64| day.saturating_mul(DAY_MS).saturating_add(minutes * MINUTE_MS);
                    let (begin, end) = (at(from), at(until));
                    (begin <= local && local < end).then_some(end)
                });
                let end = ends.max()?.saturating_sub(offset * MINUTE_MS);
                u64::try_from(end).ok().map(Timestamp)
            }
        }
    }

    fn begins_on(&self, day: i64) -> bool {
        use crate::model::wire::Words;
        let weekday = usize::try_from((day + WEEKDAY_OF_DAY_ZERO).rem_euclid(7)).unwrap_or_default();
        Day::ALL.get(weekday).is_some_and(|(named, _)| self.days.contains(named))
    }
}

/// Minutes since midnight of `HH:MM`; 24:00 is the end of the day.
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

/// Minutes that a place's clocks are ahead of UTC.
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
