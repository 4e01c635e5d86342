//! Time series of the last minutes as small lines.

use crate::console::texts::Texts;
use crate::controllers::recent::{Recent, SAMPLE_EVERY, SAMPLES_MAX, Sampled};

/// Height of the line in its own units.
const HEIGHT: f64 = 36.0;

/// A line, and its last and largest value as texts.
pub(in crate::console) struct Sparkline {
    pub(in crate::console) title: &'static str,
    pub(in crate::console) points: String,
    pub(in crate::console) last: String,
    pub(in crate::console) most: String,
}

/// Returns one line per metric.
pub(in crate::console) fn of(t: &Texts, recent: &Recent) -> Vec<Sparkline> {
    Sampled::ALL.into_iter().map(|measure| drawn(t, measure, &recent.of(measure))).collect()
}

fn drawn(t: &Texts, measure: Sampled, samples: &[u32]) -> Sparkline {
    let most = samples.iter().copied().max().unwrap_or_default();
    let height = |sample: u32| HEIGHT - HEIGHT * f64::from(sample) / f64::from(most.max(1));
    // The newest sample is at the right edge.
    let first = SAMPLES_MAX - samples.len();
    let point = |(at, sample): (usize, &u32)| format!("{},{:.1}", first + at, height(*sample) + 2.0);
    let last = match measure {
        Sampled::LeaderChanges => samples.iter().sum(),
        _ => samples.last().copied().unwrap_or_default(),
    };
    Sparkline {
        title: title(t, measure),
        points: samples.iter().enumerate().map(point).collect::<Vec<_>>().join(" "),
        last: value(measure, last),
        most: value(measure, most),
    }
}

fn title(t: &Texts, measure: Sampled) -> &'static str {
    match measure {
        Sampled::Writes => t.writes,
        Sampled::Pulls => t.pulls,
        Sampled::Held => t.held_polls,
        Sampled::Refusals => t.refusals,
        Sampled::LeaderChanges => t.leader_changes,
    }
}

fn value(measure: Sampled, sample: u32) -> String {
    if !measure.is_rate() {
        return sample.to_string();
    }
    let rate = f64::from(sample) / SAMPLE_EVERY.as_secs_f64();
    if rate < 10.0 { format!("{rate:.1}/s") } else { format!("{rate:.0}/s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::texts::Language;

    #[test]
    fn the_newest_sample_stands_at_the_right_and_the_largest_on_top() {
        let t = Language::English.texts();
        let line = drawn(t, Sampled::Writes, &[0, 50, 25]);
        assert_eq!(line.points, "177,38.0 178,2.0 179,20.0");
        assert_eq!((line.last.as_str(), line.most.as_str()), ("5.0/s", "10/s"));
        let line = drawn(t, Sampled::LeaderChanges, &[0, 1, 0, 1]);
        assert_eq!((line.last.as_str(), line.most.as_str()), ("2", "1"));
        assert_eq!(drawn(t, Sampled::Held, &[]).points, "");
    }
}
