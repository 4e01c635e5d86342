//! The release that a request for approval makes or is about, in words.

use super::releases::{audience, called};
use super::settings_text::span;
use super::texts::{Language, Texts};
use crate::model::approval::ActBrief;
use crate::model::audience::Audience;
use crate::model::rollout::{Guard, RolloutPlan, Threshold};

/// A fact with its name.
pub(super) type Fact = (&'static str, String);

/// Returns what is known of the release beside the change of the object.
pub(super) fn meant(t: &Texts, brief: &ActBrief<'_>) -> Vec<Fact> {
    let of = &t.request;
    let mut facts = Vec::new();
    let mut say = |name, text: String| {
        if !text.is_empty() {
            facts.push((name, text));
        }
    };
    match brief.release_version {
        0 => say(of.release, brief.release_name.to_owned()),
        version => say(of.release, called(brief.release_name, version)),
    }
    say(of.brings_back, brief.previous_release.to_owned());
    if brief.step > 0 {
        say(of.step, format!("{} → {}", brief.step, brief.step + 1));
    }
    say(of.to_clients, audience(&Audience { labels: brief.client_labels, percent: None }));
    if let Some(share) = brief.client_percent {
        say(of.share, format!("{} %, {} {}", share.percent.0, of.by, share.by));
    }
    if let Some(plan) = brief.plan {
        say(of.steps, steps(t, plan));
        say(of.stops, plan.guards.iter().map(|guard| stop(t, guard)).collect::<Vec<_>>().join(of.or));
    }
    facts
}

fn steps(t: &Texts, plan: &RolloutPlan) -> String {
    let (of, is_chinese) = (&t.request, t.language() == Language::Chinese);
    let step = |percent: u32, hold_s: u64| match hold_s {
        0 => format!("{percent} %"),
        _ => format!("{percent} % {} {}", of.for_time, span(is_chinese, hold_s)),
    };
    let (last, before) = plan.steps.split_last().map_or((None, &[][..]), |(last, before)| (Some(last), before));
    let held = before.iter().map(|one| step(one.percent.0, one.hold_s.map_or(0, |hold| hold.0)));
    let end = last.map(|last| if last.percent.0 == 100 { of.at_end.to_owned() } else { step(last.percent.0, 0) });
    let steps: Vec<_> = held.chain(end).collect();
    format!("{} ({} {})", steps.join(if is_chinese { "，" } else { ", " }), of.by, plan.by)
}

/// Describes the condition under which a guard stops the rollout.
fn stop(t: &Texts, guard: &Guard) -> String {
    match guard {
        Guard::Refused { max_percent, .. } => format!("{} {} %", t.object.guard_refused, max_percent.0),
        Guard::Health { max_worse_percent, .. } => format!("{} {} %", t.object.guard_health, max_worse_percent.0),
        Guard::Signal {} => t.object.guard_signal.to_owned(),
        Guard::Prometheus { query, above, below } => {
            let limit = |sign, limit: &Option<_>| limit.as_ref().map(|limit: &Threshold| format!("{sign} {}", limit.0));
            let limits: Vec<_> = limit(">", above).into_iter().chain(limit("<", below)).collect();
            format!("{query} {}", limits.join(t.request.or))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::audience::ClientPercent;
    use crate::model::wire::Uint32;

    #[test]
    fn a_release_by_steps_is_told_in_words() {
        let plan = serde_json::json!({"by": "zone", "steps": [{"percent": 5, "hold_s": 600},
            {"percent": 25, "hold_s": 7200}, {"percent": 100}], "guards": [{"kind": "refused", "max_percent": 1},
            {"kind": "prometheus", "query": "rate(errors[5m])", "above": 0.5}, {"kind": "signal"}]});
        let plan: RolloutPlan = serde_json::from_value(plan).expect("a plan");
        let share = ClientPercent { by: "CLIENT_IP".into(), percent: Uint32(7) };
        let brief = ActBrief {
            release_name: "careful",
            release_version: 3,
            step: 1,
            client_percent: Some(&share),
            plan: Some(&plan),
            ..ActBrief::default()
        };
        let told = |language: Language| {
            let facts = meant(language.texts(), &brief);
            facts.into_iter().map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>()
        };
        assert_eq!(
            told(Language::English),
            [
                "Release: careful v3",
                "Step: 1 → 2",
                "Percentage of them: 7 %, counted by CLIENT_IP",
                "In steps: 5 % for 10 minutes, 25 % for 2 hours, then for everyone (counted by zone)",
                "Stops if: clients that refuse it are more than 1 %, or rate(errors[5m]) > 0.5, or a program reports a \
                 failure",
            ]
        );
        assert_eq!(told(Language::Chinese)[3], "分步: 5 % 保持 10 分钟，25 % 保持 2 小时，之后全量 (划分依据 zone)");
        assert_eq!(meant(Language::English.texts(), &ActBrief::default()), []);
    }
}
