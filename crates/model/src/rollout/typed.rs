//! Plans in the notation of the command line: `5%:10m,25%:30m,100%` and `refused=1`.

use super::{Guard, RolloutStep, Threshold};
use crate::model::wire::{Uint32, Uint64};

/// Steps of a plan, from one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps(pub Vec<RolloutStep>);

pub fn read_steps(text: &str) -> Result<Steps, String> {
    let step = |text: &str| {
        let wrong = || format!("{text:?} is no step: 5%:10m, and 100% at the end");
        let (share, hold) = text.split_once(':').map_or((text, None), |(share, hold)| (share, Some(hold)));
        let percent = share.trim().trim_end_matches('%').parse().map_err(|_| wrong())?;
        let hold_s = hold.map(|hold| read_hold(hold.trim()).map(Uint64).ok_or_else(wrong)).transpose()?;
        Ok::<RolloutStep, String>(RolloutStep { percent: Uint32(percent), hold_s })
    };
    text.split(',').map(|part| step(part.trim())).collect::<Result<_, _>>().map(Steps)
}

/// Parses `90s`, `10m`, `2h` or `1d` as seconds.
fn read_hold(text: &str) -> Option<u64> {
    let (at, unit) = text.char_indices().next_back()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        _ => return None,
    };
    text[..at].parse::<u64>().ok()?.checked_mul(seconds)
}

pub fn read_guard(text: &str) -> Result<Guard, String> {
    let wrong = || format!("{text:?} is no guard: refused=1, health=10, signal, prometheus=QUERY>VALUE");
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number.map(Threshold).ok_or_else(wrong)
    };
    match text.split_once('=').unwrap_or((text, "")) {
        ("refused", value) => Ok(Guard::Refused { max_percent: number(value)?, default: false }),
        ("health", value) => Ok(Guard::Health { max_worse_percent: number(value)?, default: false }),
        ("signal", "") => Ok(Guard::Signal {}),
        ("prometheus", rest) => {
            let at = rest.rfind(['>', '<']).ok_or_else(wrong)?;
            let (query, limit) = (rest[..at].trim().to_owned(), Some(number(&rest[at + 1..])?));
            let is_above = rest[at..].starts_with('>');
            let (above, below) = if is_above { (limit, None) } else { (None, limit) };
            Ok(Guard::Prometheus { query, above, below })
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_are_typed_as_they_are_said() {
        let read = |text: &str| read_steps(text).map(|Steps(steps)| json!(steps));
        let expected = json!([
            {"percent": 5, "hold_s": 600}, {"percent": 25, "hold_s": 7200}, {"percent": 100}
        ]);
        assert_eq!(read("5%:10m, 25:2h,100%"), Ok(expected));
        for wrong in ["", "5%:10", "5%:m", "x%", "5%:10m,,100%", "5%:99999999999999999d", "5%:1ä", "5%:ä"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn guards_are_typed_as_they_are_said() {
        let rows = [
            ("refused=1", json!({"kind": "refused", "max_percent": 1.0})),
            ("health=2.5", json!({"kind": "health", "max_worse_percent": 2.5})),
            ("signal", json!({"kind": "signal"})),
            (
                "prometheus=rate(errors{code=~\"5..\"}[1m]) > 0.1",
                json!({"kind": "prometheus", "query": "rate(errors{code=~\"5..\"}[1m])", "above": 0.1}),
            ),
            ("prometheus=up<1", json!({"kind": "prometheus", "query": "up", "below": 1.0})),
        ];
        for (typed, guard) in rows {
            assert_eq!(read_guard(typed).map(|guard| json!(guard)), Ok(guard), "{typed}");
        }
        for wrong in ["refused", "latency=1", "signal=1", "prometheus=up", "refused=NaN"] {
            assert!(read_guard(wrong).is_err(), "{wrong}");
        }
    }
}
