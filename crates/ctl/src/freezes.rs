//! Freezes of policies in tables: the one that holds now, else the next one.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use thuban_model::policy::{Calendar, Freeze};
use thuban_model::time::Timestamp;

/// Formats the freeze of a policy that holds now, else the next one.
pub(super) fn frozen(row: &Value) -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "no log is written: the reader of the table compares with the same clock"
    )]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    frozen_at(row, Timestamp(u64::try_from(now).unwrap_or(u64::MAX)))
}

fn frozen_at(row: &Value, now: Timestamp) -> String {
    let freezes: Vec<Freeze> = serde_json::from_value(row["freezes"].clone()).unwrap_or_default();
    let calendar = Calendar::of(&freezes);
    // Freezes begin and end at whole minutes, as they are written.
    let minute = |time: Timestamp| time.text().chars().take("2026-12-24 00:00".len()).collect::<String>();
    let end = |begin: Timestamp| Calendar::free_from(&[&calendar], begin);
    let word = match (calendar.holds(now), calendar.next_begin(now)) {
        (true, _) => match end(now) {
            Some(until) => format!("now, until {}", minute(until)),
            None => "always".to_owned(),
        },
        (false, Some(begin)) => match end(begin) {
            Some(until) => format!("{} to {}", minute(begin), minute(until)),
            None => format!("from {}", minute(begin)),
        },
        (false, None) if freezes.is_empty() => "-".to_owned(),
        (false, None) => "no more".to_owned(),
    };
    let more = freezes.len().saturating_sub(1);
    if more == 0 || word == "no more" { word } else { format!("{word} (and {more} more)") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_shows_when_it_is_frozen() {
        let once = json!({ "from": "2026-12-24T00:00:00Z", "until": "2026-12-27T00:00:00Z" });
        let weekly = json!({ "days": ["FRI"], "from": "16:00", "until": "08:00", "offset": "+08:00" });
        let always = json!({ "days": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"], "from": "00:00",
            "until": "00:00" });
        for (freezes, now, expected) in [
            (json!([]), "2026-12-01T00:00:00Z", "-"),
            (json!([once]), "2026-12-01T00:00:00Z", "2026-12-24 00:00 to 2026-12-27 00:00"),
            (json!([once]), "2026-12-25T00:00:00Z", "now, until 2026-12-27 00:00"),
            (json!([once]), "2026-12-27T00:00:00Z", "no more"),
            (json!([weekly]), "2026-12-01T00:00:00Z", "2026-12-04 08:00 to 2026-12-05 00:00"),
            (json!([once, weekly]), "2026-12-04T09:00:00Z", "now, until 2026-12-05 00:00 (and 1 more)"),
            (json!([always]), "2026-12-04T09:00:00Z", "always"),
        ] {
            let now = Timestamp::parse(now).expect("a time");
            assert_eq!(frozen_at(&json!({ "freezes": freezes }), now), expected);
        }
    }
}
