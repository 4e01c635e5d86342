//! The audit trail, newest first.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::frame::{Frame, Section, page, page_unproven};
use super::pager::Pager;
use super::session::SessionUser;
use super::texts::{self, Texts};
use super::time_ago::TimeAgo;
use crate::catalog::audit::{AuditEvent, Filter};
use crate::catalog::page::Listed;
use crate::model::code::{Code, Refusal};
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;

/// Results that the filter offers.
const RESULTS: [Code; 6] = [
    Code::ExecuteSuccess,
    Code::RequestAccepted,
    Code::NotAllowedAccess,
    Code::DataConflict,
    Code::ApprovalRequired,
    Code::Frozen,
];

/// A row of the trail, as text.
pub(super) struct Change {
    pub(super) time: TimeAgo,
    pub(super) user: String,
    pub(super) action: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) code: u32,
    pub(super) result: &'static str,
    pub(super) address: String,
    pub(super) count: u32,
}

impl Change {
    fn new(t: &Texts, now: Timestamp, event: AuditEvent) -> Change {
        Change {
            time: TimeAgo::of(t, now, event.time),
            user: event.user,
            action: event.action.into_owned(),
            kind: event.kind.into_owned(),
            namespace: event.namespace,
            name: event.name,
            code: event.code,
            result: texts::result(t, event.code),
            address: event.address.map(|address| address.to_string()).unwrap_or_default(),
            count: event.count,
        }
    }

    /// Returns the class of the badge.
    pub(super) fn badge(&self) -> &'static str {
        match self.code {
            0..202_000 => "good",
            202_000..400_000 => "warn",
            _ => "fault",
        }
    }
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Trail {
    frame: Frame,
    query: Fields,
    rows: Vec<Change>,
    pager: Pager,
}

impl Trail {
    /// Returns the kinds of the rows shown, for the filter.
    fn kinds(&self) -> BTreeSet<&str> {
        self.rows.iter().map(|row| row.kind.as_str()).collect()
    }

    /// Returns the results offered by the filter, each with its text: the usual ones and the requested one.
    fn results(&self) -> Vec<(u32, &'static str)> {
        let asked = self.query.get("code").parse().ok();
        let codes: BTreeSet<u32> = RESULTS.into_iter().map(Code::number).chain(asked).collect();
        codes.into_iter().map(|code| (code, texts::result(self.frame.t, code))).collect()
    }

    fn is_chosen(&self, code: &u32) -> bool {
        self.query.get("code").parse() == Ok(*code)
    }
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let frame = visitor.frame(Section::Setup);
    let found = match wanted(&visitor, &query) {
        Ok(filter) => {
            let (t, now) = (frame.t, console.node().now());
            let changes = move |listed: Listed<AuditEvent>| listed.map(|event| Change::new(t, now, event));
            console.operations.audit(filter, Pager::page_of(&query), changes).await
        }
        Err(refusal) => Err(refusal),
    };
    match found {
        Ok(listed) => {
            let pager = Pager::new("/ui/audit", &query, &listed);
            page(&Trail { frame, query, rows: listed.rows, pager })
        }
        Err(refusal) => {
            let pager = Pager::new("/ui/audit", &query, &Listed::<()>::amount(0));
            let trail = Trail { frame: frame.refused(&refusal), query, rows: Vec::new(), pager };
            page_unproven(refusal.code, &trail)
        }
    }
}

fn wanted(visitor: &SessionUser, query: &Fields) -> Result<Filter, Refusal> {
    visitor.caller.check_everywhere(crate::model::grant::Verb::Manage)?;
    let name = |key| query.given(key).map(|text| NameFilter::parse(&text));
    let time = |key| query.given(key).map(|text| Timestamp::parse(&text).ok_or_else(|| not_a_time(key))).transpose();
    Ok(Filter {
        user: name("user"),
        kind: query.given("kind"),
        namespace: name("namespace"),
        name: name("name"),
        code: query.given("code").map(|text| text.parse().map_err(|_| not_a_code())).transpose()?,
        since: time("since")?,
        until: time("until")?,
    })
}

fn not_a_code() -> Refusal {
    Refusal::new(Code::InvalidParameter, "code has to be a number of six digits")
}

fn not_a_time(key: &str) -> Refusal {
    Refusal::new(Code::InvalidParameter, format!("{key} has to be YYYY-MM-DD HH:MM:SS in UTC, or a time of RFC 3339"))
}
