//! Policies: list and form.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value};

use super::Console;
use super::fields::Fields;
use super::frame::{Section, page};
use super::kinds::ResourceKind;
use super::lists::{Row, ThingsPage, kinds_of};
use super::pager::Pager;
use super::session::SessionUser;
use super::texts::{Texts, weekday};
use crate::catalog::Op;
use crate::model::policy::{Calendar, Day, Freeze, Gate, Policy};
use crate::model::wire::Words;

pub(super) async fn list(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let sort = ResourceKind::Policies;
    if let Err(refusal) = ResourceKind::seen_by(&visitor, sort.word()) {
        return visitor.failed(&refusal);
    }
    let frame = visitor.frame(Section::Setup);
    let name = query.name_filter("name");
    let (policies, now) = {
        let state = console.node().state();
        let catalog = state.catalog();
        (catalog.policies.clone(), catalog.clock())
    };
    let listed = policies.list(&name, &Pager::page_of(&query));
    let pager = Pager::new(sort.home().1, &query, &listed);
    let t = frame.t;
    let row = |policy: &Arc<Policy>| {
        let gates: Vec<_> = policy.gates.iter().copied().map(Gate::word).collect();
        let about = vec![
            policy.namespace.clone(),
            policy.names.join(", "),
            kinds_of(&policy.kinds),
            policy.approvals.to_string(),
            gates.join(", "),
            policy.freezes.iter().map(|freeze| freeze_text(t, freeze)).collect::<Vec<_>>().join("; "),
            policy.comment.clone(),
        ];
        let is_frozen = Calendar::of(&policy.freezes).holds(now);
        let badge = if is_frozen { ("warn", t.frozen) } else { ("good", t.not_frozen) };
        Row { name: policy.name.clone(), about, badge, changed: None }
    };
    let rows = listed.rows.iter().map(row).collect();
    let columns = vec![t.namespace, t.things_named, t.kind, t.approvals, t.gated_actions, t.freezes, t.comment];
    page(&ThingsPage { badges: Some(t.state), frame, sort, query, columns, rows, pager, edits: true })
}

/// Formats a freeze: its weekdays with their times of day, or one period.
fn freeze_text(t: &Texts, freeze: &Freeze) -> String {
    let word = |day: &Day| weekday(t, day.word()).unwrap_or_default();
    let days: Vec<_> = freeze.days.iter().map(word).collect();
    let offset = if freeze.offset.is_empty() { "UTC" } else { freeze.offset.as_str() };
    match days.is_empty() {
        true => format!("{} – {}", freeze.from, freeze.until),
        false => format!("{} {}–{} ({offset})", days.join(", "), freeze.from, freeze.until),
    }
}

/// Returns the submitted draft. Empty fields of a new policy are left out, so that defaults apply.
pub(super) fn typed(op: Op, mut given: Map<String, Value>) -> Map<String, Value> {
    let is_nothing = |value: &Value| *value == Value::Array(Vec::new()) || *value == "";
    given.retain(|_, value| op != Op::Create || !is_nothing(value));
    given
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::console::texts::Language;

    #[test]
    fn a_freeze_is_told_by_its_weekdays_or_its_period() {
        let [english, chinese] = [Language::English, Language::Chinese].map(Language::texts);
        let freeze = |days: &[Day], offset: &str| Freeze {
            days: days.to_vec(),
            from: "16:00".to_owned(),
            until: "08:00".to_owned(),
            offset: offset.to_owned(),
            comment: String::new(),
        };
        let weekend = [Day::Friday, Day::Saturday];
        assert_eq!(freeze_text(english, &freeze(&weekend, "+08:00")), "Friday, Saturday 16:00–08:00 (+08:00)");
        assert_eq!(freeze_text(chinese, &freeze(&[Day::Friday], "")), "星期五 16:00–08:00 (UTC)");
        assert_eq!(freeze_text(english, &freeze(&[], "")), "16:00 – 08:00");
    }

    #[test]
    fn a_new_policy_is_left_to_the_defaults_and_one_that_is_there_is_not() {
        let given = json!({ "name": "p", "namespace": "", "names": [], "gates": [], "approvals": 2, "freezes": [] });
        let of = |op| Value::Object(typed(op, given.as_object().expect("fields").clone()));
        assert_eq!(of(Op::Create), json!({ "name": "p", "approvals": 2 }));
        assert_eq!(of(Op::Update), given, "no gate at all is refused, and not left as it was");
    }
}
