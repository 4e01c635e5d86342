//! Freezes of a policy, prepared for checking every act: parsed once, with recurring ones as a bitmap of the minutes of
//! a week, so that neither their number nor their overlaps slow down a check.

use super::freeze::{Freeze, Window};
use crate::model::limits;
use crate::model::time::Timestamp;

const MINUTE_MS: u64 = 60 * 1000;
const WEEK_MINUTES: usize = 7 * 24 * 60;
const WORDS: usize = WEEK_MINUTES.div_ceil(u64::BITS as usize);

/// Minutes of a week, counted from the first minute of Unix time; one bit each.
type Week = [u64; WORDS];

/// Freezes of one policy.
#[derive(Debug, Default)]
pub struct Calendar {
    /// Minutes at which a recurring freeze holds; `None` without recurring freezes.
    weekly: Option<Box<Week>>,
    /// Begin and end of the other freezes, merged and in order.
    once: Vec<(Timestamp, Timestamp)>,
    /// Freezes with a comment.
    commented: Vec<(Window, String)>,
}

impl Calendar {
    /// Prepares freezes. An unreadable one, which no check accepts, never holds.
    pub fn of(freezes: &[Freeze]) -> Calendar {
        let mut calendar = Calendar::default();
        for freeze in freezes {
            let Ok(window) = freeze.window() else { continue };
            match &window {
                Window::Once { from, until } => calendar.once.push((*from, *until)),
                Window::Weekly { .. } => {
                    let week = calendar.weekly.get_or_insert_with(|| Box::new([0; WORDS]));
                    window.minutes_of_week().for_each(|minute| set(week, minute));
                }
            }
            if !freeze.comment.is_empty() {
                calendar.commented.push((window, freeze.comment.clone()));
            }
        }
        calendar.once.sort_unstable();
        let mut joined: Vec<(Timestamp, Timestamp)> = Vec::with_capacity(calendar.once.len());
        for (from, until) in calendar.once {
            match joined.last_mut() {
                Some((_, end)) if from <= *end => *end = until.max(*end),
                _ => joined.push((from, until)),
            }
        }
        Calendar { once: joined, ..calendar }
    }

    pub fn holds(&self, time: Timestamp) -> bool {
        self.weekly.as_ref().is_some_and(|week| is_set(week, minute_of(time))) || self.end_of_once(time).is_some()
    }

    /// Returns the comment of the first freeze that holds at a time and has one.
    pub fn comment_at(&self, time: Timestamp) -> &str {
        let minute = minute_of(time);
        let held = self.commented.iter().find(|(window, _)| window.holds(time, minute));
        held.map_or("", |(_, comment)| comment)
    }

    /// Returns the end of the one-time freeze that holds at a time.
    fn end_of_once(&self, time: Timestamp) -> Option<Timestamp> {
        let begun = self.once.partition_point(|(from, _)| *from <= time);
        let (_, until) = self.once.get(begun.checked_sub(1)?)?;
        (time < *until).then_some(*until)
    }

    /// Returns the begin of the next freeze after `time`; `None` if no freeze begins after it.
    pub fn next_begin(&self, time: Timestamp) -> Option<Timestamp> {
        let once = self.once.get(self.once.partition_point(|(from, _)| *from <= time)).map(|(from, _)| *from);
        let weekly = self.weekly.as_ref().and_then(|week| {
            let (now, begun) = (minute_of(time), time.0 - time.0 % MINUTE_MS);
            let begins = |ahead: usize| {
                is_set(week, (now + ahead) % WEEK_MINUTES) && !is_set(week, (now + ahead - 1) % WEEK_MINUTES)
            };
            let ahead = (1..=WEEK_MINUTES).find(|ahead| begins(*ahead))?;
            Some(Timestamp(begun.saturating_add(ahead as u64 * MINUTE_MS)))
        });
        [once, weekly].into_iter().flatten().min()
    }

    /// Returns the first moment from `time` on at which no freeze holds. `None` if there is none, or if more follow
    /// each other than are examined.
    pub fn free_from(calendars: &[&Calendar], time: Timestamp) -> Option<Timestamp> {
        let mut week: Week = [0; WORDS];
        for weekly in calendars.iter().filter_map(|calendar| calendar.weekly.as_ref()) {
            week.iter_mut().zip(weekly.iter()).for_each(|(all, one)| *all |= one);
        }
        let mut free = time;
        for _ in 0..limits::FREEZES_IN_A_ROW_MAX {
            let once = calendars.iter().filter_map(|calendar| calendar.end_of_once(free)).max();
            let weekly = if is_set(&week, minute_of(free)) { Some(end_of_week(&week, free)?) } else { None };
            match once.max(weekly) {
                Some(end) => free = end,
                None => return Some(free),
            }
        }
        None
    }
}

fn minute_of(time: Timestamp) -> usize {
    usize::try_from(time.0 / MINUTE_MS % WEEK_MINUTES as u64).unwrap_or_default()
}

fn set(week: &mut Week, minute: usize) {
    if let Some(word) = week.get_mut(minute / 64) {
        *word |= 1 << (minute % 64);
    }
}

fn is_set(week: &Week, minute: usize) -> bool {
    week.get(minute / 64).is_some_and(|word| word >> (minute % 64) & 1 == 1)
}

/// Returns the first free minute after `time`; `None` if the freezes cover the whole week.
fn end_of_week(week: &Week, time: Timestamp) -> Option<Timestamp> {
    let now = minute_of(time);
    let minutes = (1..=WEEK_MINUTES).find(|ahead| !is_set(week, (now + ahead) % WEEK_MINUTES))?;
    let begun = time.0 - time.0 % MINUTE_MS;
    Some(Timestamp(begun.saturating_add(minutes as u64 * MINUTE_MS)))
}
