//! Releases of rules and of files, which share their display and their forms.

use similar::{ChangeTag, TextDiff};

use super::fields::Fields;
use super::release_fields::{guard_lines, label_lines, steps};
use super::texts::Texts;
use crate::model::audience::{Audience, ClientLabel, ClientPercent};
use crate::model::code::{Code, Refusal};
use crate::model::config_file::ConfigRelease;
use crate::model::release::{GivenTime, Plan, ReleaseOp, ReleaseState, ReleaseType};
use crate::model::rollout::typed::{self, Steps};
use crate::model::rollout::{Guard, RolloutAction, RolloutPlan, RolloutState, StagedRollout};
use crate::model::rule::matching::{MatchString, MatchType};
use crate::model::rule::release::RuleRelease;
use crate::model::time::Timestamp;
use crate::model::wire::{Uint32, Words};

/// Returns the displayed name of a release: a generated name equals its version.
pub(super) fn called(name: &str, version: u64) -> String {
    let version = format!("v{version}");
    if name == version { version } else { format!("{name} {version}") }
}

/// Reports whether a withdrawal could reactivate another release.
pub(super) fn may_go_back(releases: &[ReleaseRow]) -> bool {
    releases.iter().any(ReleaseRow::may_return)
}

/// Reports whether some clients have a gray release, during which a release to all is refused.
pub(super) fn has_canary(releases: &[ReleaseRow]) -> bool {
    releases.iter().any(|one| one.is_gray && one.is_active())
}

/// Joins sentences as the lines of a comparison.
pub(super) fn lines(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("{sentence}\n")).collect()
}

/// An applicable act on a release, for the head of a page.
#[derive(Debug, PartialEq)]
pub(super) struct HeadAct {
    pub(super) release: String,
    pub(super) change: &'static str,
    /// Name of the act, with that of the release and without.
    pub(super) text: String,
    pub(super) word: &'static str,
    pub(super) sure: &'static str,
    pub(super) class: &'static str,
}

/// Returns the applicable acts, at most two in addition to the release of the draft: those that end or complete a gray
/// release, otherwise the way back. The acts of a stepwise rollout are on its card, a withdrawal is in the list of
/// releases.
pub(super) fn head_acts(t: &Texts, releases: &[ReleaseRow]) -> Vec<HeadAct> {
    let act = |one: &ReleaseRow, change, word: &'static str, sure, class| HeadAct {
        release: one.name.clone(),
        change,
        text: format!("{word}: {}", called(&one.name, one.version)),
        word,
        sure,
        class,
    };
    if let Some(gray) = releases.iter().find(|one| one.is_gray && one.is_active()) {
        if gray.rollout.as_ref().is_some_and(RolloutRow::is_live) {
            return Vec::new();
        }
        return vec![
            act(gray, "promote", t.promote, t.sure_promote, "primary"),
            act(gray, "stop", t.stop, t.sure_stop, "danger"),
        ];
    }
    let Some(normal) = releases.iter().find(|one| one.is_active()) else {
        return Vec::new();
    };
    let earlier = releases.iter().filter(|one| one.may_return() && !one.is_gray && one.version < normal.version);
    let previous = earlier.max_by_key(|one| one.version);
    previous.map(|previous| act(previous, "rollback", t.roll_back, t.sure_rollback, "")).into_iter().collect()
}

/// A release as a row of a table.
pub(super) struct ReleaseRow {
    pub(super) name: String,
    pub(super) version: u64,
    pub(super) state: ReleaseState,
    pub(super) is_gray: bool,
    pub(super) audience: String,
    pub(super) comment: String,
    pub(super) time: Timestamp,
    pub(super) by: String,
    /// Planned time of publication, and the reason if it failed.
    pub(super) plan: Option<(Timestamp, String)>,
    pub(super) rollout: Option<RolloutRow>,
}

/// Progress of a stepwise rollout.
pub(super) struct RolloutRow {
    pub(super) step: u32,
    pub(super) steps: usize,
    pub(super) percent: u32,
    /// Shares of the steps, for the marks of the bar.
    pub(super) marks: Vec<u32>,
    pub(super) state: RolloutState,
    /// Time of the next step; `None` if none is due by itself.
    pub(super) next_at: Option<Timestamp>,
    pub(super) reason: String,
}

impl RolloutRow {
    fn new(rollout: &StagedRollout) -> RolloutRow {
        RolloutRow {
            step: rollout.step,
            steps: rollout.plan.steps.len(),
            percent: rollout.percent(),
            marks: rollout.plan.steps.iter().map(|step| step.percent.0).collect(),
            state: rollout.state,
            next_at: rollout.next_at(),
            reason: rollout.reason.clone(),
        }
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, RolloutState::Running | RolloutState::Paused)
    }

    pub(super) fn is_running(&self) -> bool {
        self.state == RolloutState::Running
    }

    pub(super) fn badge(&self) -> &'static str {
        match self.state {
            RolloutState::Running | RolloutState::Done => "good",
            RolloutState::Paused => "warn",
            RolloutState::Stopped => "fault",
        }
    }

    pub(super) fn word(&self, t: &Texts) -> &'static str {
        match self.state {
            RolloutState::Running => t.rollout_running,
            RolloutState::Paused => t.rollout_paused,
            RolloutState::Done => t.rollout_done,
            RolloutState::Stopped => t.rollout_stopped,
        }
    }
}

/// Releases of both kinds have the same fields but no common trait.
macro_rules! row_of {
    ($release:expr) => {
        ReleaseRow {
            name: $release.name.clone(),
            version: $release.version,
            state: $release.state(),
            is_gray: $release.release_type == ReleaseType::Gray,
            audience: audience(&$release.audience()),
            comment: $release.description.clone(),
            time: $release.modified.time,
            by: $release.modified.by.clone(),
            plan: $release.plan.as_ref().map(|plan: &Plan| (plan.at, plan.failed.clone())),
            rollout: $release.rollout.as_deref().map(RolloutRow::new),
        }
    };
}

impl ReleaseRow {
    pub(super) fn of_rule(release: &RuleRelease) -> ReleaseRow {
        row_of!(release)
    }

    pub(super) fn of_file(release: &ConfigRelease) -> ReleaseRow {
        row_of!(release)
    }

    /// Returns a release without details.
    #[cfg(test)]
    pub(super) fn bare(version: u64, state: ReleaseState) -> ReleaseRow {
        ReleaseRow {
            name: format!("r{version}"),
            version,
            state,
            is_gray: false,
            audience: String::new(),
            comment: String::new(),
            time: Timestamp(0),
            by: String::new(),
            plan: None,
            rollout: None,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        matches!(self.state, ReleaseState::NormalActive | ReleaseState::GrayActive)
    }

    /// Reports whether it was published and is inactive, so that it can be reactivated.
    pub(super) fn may_return(&self) -> bool {
        self.state == ReleaseState::NormalInactive
    }

    pub(super) fn is_planned(&self) -> bool {
        self.state == ReleaseState::Scheduled
    }

    pub(super) fn badge(&self) -> &'static str {
        match self.state {
            ReleaseState::NormalActive => "good",
            ReleaseState::GrayActive | ReleaseState::Scheduled => "warn",
            ReleaseState::Failed => "fault",
            _ => "",
        }
    }

    pub(super) fn word(&self, t: &Texts) -> &'static str {
        match self.state {
            ReleaseState::NormalActive => t.in_force,
            ReleaseState::GrayActive => t.gray,
            ReleaseState::Scheduled => t.scheduled,
            ReleaseState::Failed => t.failed_release,
            _ => t.inactive,
        }
    }
}

/// Formats the clients of a gray release on one line.
pub(super) fn audience(audience: &Audience<'_>) -> String {
    let labels = audience.labels.iter().map(|label| format!("{}={}", label.key, label.value.value));
    let percent = audience.percent.map(|share| format!("{} % ({})", share.percent.0, share.by));
    labels.chain(percent).collect::<Vec<_>>().join(", ")
}

/// Requested rollout of a release.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Rollout {
    pub(super) name: Option<String>,
    pub(super) comment: Option<String>,
    pub(super) release_type: Option<String>,
    pub(super) labels: Option<Vec<ClientLabel>>,
    pub(super) percent: Option<ClientPercent>,
    pub(super) plan: Option<RolloutPlan>,
    pub(super) at: Option<GivenTime>,
    /// Comment of a request for approval.
    pub(super) request: Option<String>,
}

impl Rollout {
    pub(super) fn read(fields: &Fields) -> Result<Rollout, Refusal> {
        let is_gray = matches!(fields.get("type"), "gray" | "steps");
        let labels: Vec<_> = label_lines(fields).iter().map(|line| label(line)).collect::<Result<_, _>>()?;
        let percent = fields.given("percent").map(|text| percent(&text, fields.get("by"))).transpose()?;
        let plan = steps(fields).filter(|_| is_gray).map(|steps| plan_of(&steps, fields)).transpose()?;
        let at = fields.given("at").map(|text| time(&text)).transpose()?;
        Ok(Rollout {
            name: fields.given("release_name"),
            comment: fields.given("comment"),
            release_type: is_gray.then(|| ReleaseType::Gray.word().to_owned()),
            labels: (is_gray && !labels.is_empty()).then_some(labels),
            percent: percent.filter(|_| is_gray && plan.is_none()),
            plan,
            at,
            request: fields.given("request"),
        })
    }
}

/// Parses `key=value`, or `key=a,b` for one of several.
fn label(line: &str) -> Result<ClientLabel, Refusal> {
    let refuse =
        || Refusal::new(Code::InvalidMatchRule, format!("{line:?} has to be key=value, a line for each label"));
    let (key, value) = line.split_once('=').ok_or_else(refuse)?;
    let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
    let kind = if value.contains(',') { MatchType::In } else { MatchType::Exact };
    Ok(ClientLabel { key, value: MatchString { kind, value, ..MatchString::default() } })
}

fn percent(text: &str, by: &str) -> Result<ClientPercent, Refusal> {
    let percent: u32 = text.parse().map_err(|_| Refusal::new(Code::InvalidParameter, "percent is a whole number"))?;
    let by = if by.is_empty() { crate::model::config_lookup::CLIENT_ADDRESS_LABEL } else { by };
    Ok(ClientPercent { by: by.to_owned(), percent: Uint32(percent) })
}

fn plan_of(steps: &str, fields: &Fields) -> Result<RolloutPlan, Refusal> {
    let invalid = |why: String| Refusal::new(Code::InvalidParameter, why);
    let Steps(steps) = typed::read_steps(steps).map_err(invalid)?;
    let lines = guard_lines(fields);
    let guards = match lines.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Guard::defaults(),
        ["none"] => Vec::new(),
        ref lines => lines.iter().map(|line| typed::read_guard(line)).collect::<Result<_, _>>().map_err(invalid)?,
    };
    let by = fields.given("by").unwrap_or_else(|| crate::model::config_lookup::CLIENT_ADDRESS_LABEL.to_owned());
    Ok(RolloutPlan { by, steps, guards })
}

fn time(text: &str) -> Result<GivenTime, Refusal> {
    let why = "the time has to be YYYY-MM-DD HH:MM:SS in UTC, or of RFC 3339";
    Timestamp::parse(text).map(GivenTime).ok_or_else(|| Refusal::new(Code::InvalidParameter, why))
}

/// Returns the operation of the submitted button; `None` for any other value.
pub(super) fn wanted(fields: &Fields) -> Option<ReleaseOp> {
    match fields.get("change") {
        "promote" => Some(ReleaseOp::Promote),
        "withdraw" => Some(ReleaseOp::Withdraw),
        "stop" => Some(ReleaseOp::StopGray),
        "rollback" => Some(ReleaseOp::Rollback),
        "delete" => Some(ReleaseOp::Delete),
        _ => action(fields).map(|_| ReleaseOp::Rollout),
    }
}

/// Returns the rollout action of the submitted button.
pub(super) fn action(fields: &Fields) -> Option<RolloutAction> {
    RolloutAction::of_word(fields.get("change")).filter(|action| *action != RolloutAction::Stop)
}

/// A line of a comparison.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub(super) class: &'static str,
    pub(super) sign: char,
    pub(super) text: String,
}

/// Returns the changed lines with some context.
pub(super) fn compared(before: &str, after: &str) -> Vec<Line> {
    const AROUND: usize = 3;
    const WITHIN: std::time::Duration = std::time::Duration::from_millis(500);
    let diff = TextDiff::configure().timeout(WITHIN).diff_lines(before, after);
    let mut lines = Vec::new();
    for group in diff.grouped_ops(AROUND) {
        if !lines.is_empty() {
            lines.push(Line { class: "gap", sign: '…', text: String::new() });
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (class, sign) = match change.tag() {
                ChangeTag::Equal => ("", ' '),
                ChangeTag::Insert => ("added", '+'),
                ChangeTag::Delete => ("removed", '-'),
            };
            lines.push(Line { class, sign, text: change.value().trim_end_matches(['\n', '\r']).to_owned() });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_is_read_from_its_form() {
        let fields =
            Fields::parse(b"type=gray&labels=zone%3Da%0Aapp+%3D+x,y&percent=10&comment=+first+&at=2030-01-01+00:00:00");
        let rollout = Rollout::read(&fields).expect("a rollout");
        let labels = rollout.labels.expect("labels");
        assert_eq!(
            (labels[0].key.as_str(), labels[0].value.value.as_str(), labels[0].value.kind),
            ("zone", "a", MatchType::Exact)
        );
        assert_eq!(
            (labels[1].key.as_str(), labels[1].value.value.as_str(), labels[1].value.kind),
            ("app", "x,y", MatchType::In)
        );
        let share = rollout.percent.expect("a share");
        assert_eq!((share.by.as_str(), share.percent.0), ("CLIENT_IP", 10));
        assert_eq!((rollout.comment.as_deref(), rollout.at.is_some()), (Some("first"), true));
        // The fields for gray releases are ignored for a normal one.
        let normal = Rollout::read(&Fields::parse(b"type=normal&labels=zone%3Da&percent=10")).expect("a rollout");
        assert_eq!(normal, Rollout::default());
        for bad in [&b"labels=zone"[..], b"percent=x", b"at=tomorrow"] {
            assert!(Rollout::read(&Fields::parse(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_head_of_a_page_offers_what_makes_sense_now() {
        let t = super::super::texts::Language::English.texts();
        let row = |version: u64, state, is_gray| ReleaseRow { is_gray, ..ReleaseRow::bare(version, state) };
        let acts = |rows: &[ReleaseRow]| {
            let acts = head_acts(t, rows).into_iter();
            acts.map(|act| format!("{} {}", act.change, act.release)).collect::<Vec<_>>()
        };
        let (active, inactive) = (ReleaseState::NormalActive, ReleaseState::NormalInactive);
        assert_eq!(acts(&[]), [""; 0]);
        assert_eq!(acts(&[row(1, active, false)]), [""; 0], "a page with nothing to do has no red button");
        let rows = [row(3, active, false), row(2, inactive, false), row(1, inactive, false)];
        assert_eq!(acts(&rows), ["rollback r2"]);
        let rows = [row(4, ReleaseState::GrayActive, true), row(3, active, false), row(2, inactive, false)];
        assert_eq!(acts(&rows), ["promote r4", "stop r4"]);
        // After a rollback, nothing newer is offered.
        let rows = [row(3, inactive, false), row(2, active, false)];
        assert_eq!(acts(&rows), [""; 0]);
    }

    #[test]
    fn only_what_changed_is_shown_and_what_stands_around_it() {
        let before: String = (0..20).map(|line| format!("line {line}\n")).collect();
        let lines = compared(&before, &before.replace("line 10\n", "another\n"));
        assert_eq!(lines.len(), 8);
        let changed: Vec<_> =
            lines.iter().filter(|line| line.sign != ' ').map(|line| (line.sign, line.text.as_str())).collect();
        assert_eq!(changed, [('-', "line 10"), ('+', "another")]);
        assert_eq!(compared(&before, &before), []);
    }
}
