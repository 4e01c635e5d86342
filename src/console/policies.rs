//! Policies: list and form.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value};

use super::Console;
use super::form::Fields;
use super::frame::{Section, failed, page};
use super::lists::{Row, ThingsPage, kinds_of};
use super::pager::Pager;
use super::resources::{ResourceKind, sort_of};
use super::search::searched;
use super::session::SessionUser;
use crate::catalog::Op;
use crate::model::policy::{Calendar, Gate, Policy};
use crate::model::text::NameFilter;
use crate::model::wire::Words;

pub(super) async fn list(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let sort = ResourceKind::Policies;
    if let Err(refusal) = sort_of(&visitor, sort.word()) {
        return failed(visitor.texts, &refusal);
    }
    let frame = visitor.frame(Section::Requests);
    let name = query.given("name").map(|text| NameFilter::parse(&searched(&text)));
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
            policy.freezes.len().to_string(),
            policy.comment.clone(),
        ];
        let is_frozen = Calendar::of(&policy.freezes).holds(now);
        let badge = if is_frozen { ("warn", t.frozen) } else { ("good", t.not_frozen) };
        Row { name: policy.name.clone(), about, badge }
    };
    let rows = listed.rows.iter().map(row).collect();
    let columns = vec![t.namespace, t.things_named, t.kind, t.approvals, t.gated_actions, t.freezes, t.comment];
    page(&ThingsPage { badges: Some(t.state), frame, sort, query, columns, rows, pager, edits: true })
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

    #[test]
    fn a_new_policy_is_left_to_the_defaults_and_one_that_is_there_is_not() {
        let given = json!({ "name": "p", "namespace": "", "names": [], "gates": [], "approvals": 2, "freezes": [] });
        let of = |op| Value::Object(typed(op, given.as_object().expect("fields").clone()));
        assert_eq!(of(Op::Create), json!({ "name": "p", "approvals": 2 }));
        assert_eq!(of(Op::Update), given, "no gate at all is refused, and not left as it was");
    }
}
