//! `/livez`, `/readyz` and `/metrics`, which need no token.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::api::http::{App, Doc, Query};
use crate::openapi::Param;
use crate::raft::alarms::AlarmKind;
use crate::raft::status::Check;

const DOC: Doc = Doc::new("Health");
const METRICS_TYPE: &str = "text/plain; version=0.0.4";

pub(crate) const LIVE: Doc = DOC.says("Reports that the process works.").gives_raw(&[(200, "text/plain", "It works.")]);

/// Answers that the process is alive.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

pub(crate) const READY: Doc = DOC
    .says("Readiness of this node: it knows a leader, has caught up and can write.")
    .query(&[&[
        Param::switch("verbose", "Names every check, not only those that fail, and the alarms, which fail none."),
        Param::switch(
            "drain",
            "Gives 404 in the place of 503 while the node shuts down, for HAProxy's `disable-on-404`.",
        ),
    ]])
    .gives_raw(&[
        (200, "text/plain", "It may."),
        (404, "text/plain", "It may not, as it shuts down, and goes on with what it has begun; only with `drain`."),
        (503, "text/plain", "It may not; failing checks are named."),
    ]);

/// Answers 200 if this node is ready for traffic, else 503. Names every failing check; with `?verbose` all checks, and
/// the alarms, which fail no check. With `?drain` a node that shuts down answers 404: HAProxy then sends no new
/// requests and keeps existing connections.
pub(crate) async fn ready(State(app): State<App>, query: Query) -> Response {
    let (checks, verbose, drain) = (app.node().member().readiness().await, query.has("verbose"), query.has("drain"));
    let is_ready = checks.iter().all(|check| check.failure.is_none());
    let mut text: String = checks.iter().map(|check| lines(check, verbose)).collect();
    // These alarms are part of the lines of checks.
    let has_line = |kind| matches!(kind, AlarmKind::Peer | AlarmKind::State | AlarmKind::Removed);
    for alarm in app.node().member().noted_alarms().iter().filter(|alarm| verbose && !has_line(alarm.kind)) {
        text.push_str(&format!("[!]{}: {}\n", alarm.kind.name(), alarm.text));
    }
    text.push_str(if is_ready { "ok\n" } else { "not ready\n" });
    let status = match is_ready {
        true => StatusCode::OK,
        false if drain && app.node().member().is_stopping() => StatusCode::NOT_FOUND,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, text).into_response()
}

/// Formats a check in the way of Kubernetes and etcd. A remark that fails nothing has a line of its own.
fn lines(check: &Check, is_verbose: bool) -> String {
    let name = check.name;
    match (&check.failure, &check.note) {
        (Some(why), _) => format!("[-]{name} failed: {why}\n"),
        (None, _) if !is_verbose => String::new(),
        (None, Some(note)) => format!("[+]{name} ok\n[!]{name}: {note}\n"),
        (None, None) => format!("[+]{name} ok\n"),
    }
}

pub(crate) const METRICS: Doc = DOC.says("All series of this node in Prometheus' text format.").gives_raw(&[(
    200,
    "text/plain",
    "One sample a line.",
)]);

/// Answers with all metrics in Prometheus' text format.
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    app.node().member().record_gauges().await;
    ([(CONTENT_TYPE, METRICS_TYPE)], app.node().metrics().render()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_fails_has_a_minus_sign_and_nothing_else_has() {
        let check = |failure: Option<&str>, note: Option<&str>| Check {
            name: "peers",
            failure: failure.map(str::to_owned),
            note: note.map(str::to_owned),
        };
        for (failure, note, brief, verbose) in [
            (None, None, "", "[+]peers ok\n"),
            (None, Some("2 is slow"), "", "[+]peers ok\n[!]peers: 2 is slow\n"),
            (Some("none"), None, "[-]peers failed: none\n", "[-]peers failed: none\n"),
            (Some("none"), Some("2 is slow"), "[-]peers failed: none\n", "[-]peers failed: none\n"),
        ] {
            let check = check(failure, note);
            assert_eq!((lines(&check, false).as_str(), lines(&check, true).as_str()), (brief, verbose));
        }
    }
}
