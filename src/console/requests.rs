//! Requests for approval: the inbox, and the page of a request with its changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use futures_util::future::join_all;
use thuban_documents::written;
use url::form_urlencoded;

use super::Console;
use super::drafting::compact;
use super::fields::Fields;
use super::flash::to_result;
use super::form::Form;
use super::frame::{Frame, Section, page, page_refused};
use super::listing::{Chip, chips};
use super::pager::Pager;
use super::releases::{Line, compared, lines as as_lines};
use super::request_facts::{People, canaries, people};
use super::request_words::{Fact, meant};
use super::session::SessionUser;
use super::texts::{self, Texts};
use super::time_ago::TimeAgo;
use crate::catalog::Catalog;
use crate::catalog::approvals::{Pending, ReleasedRule, RequestFilter};
use crate::catalog::history::Thing;
use crate::model::approval::{ApprovalRequest, Obstacle, RequestDraft, RequestOp, RequestStanding, RequestState};
use crate::model::code::{Refusal, placed};
use crate::model::config_file::ConfigFile;
use crate::model::grant::Verb;
use crate::model::limits;
use crate::model::policy::PolicyKind;
use crate::model::rule::EndRole;
use crate::model::rule::matching::ALL;
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;
use crate::model::wire::Words;
use crate::operations::Caller;
use crate::operations::write::one;
use crate::sentences;

const PATH: &str = "/ui/requests";
/// Maximum number of acts whose changes the page shows: all acts of a request.
const CHANGES_MAX: usize = limits::REQUEST_SET_ACTS_MAX;
/// Maximum number of acts whose clients are counted.
const COUNTED_MAX: usize = 6;
/// Time limit for the comparison.
const COMPARED_WITHIN: Duration = Duration::from_secs(2);

#[derive(Template)]
#[template(path = "requests.html")]
struct RequestsPage {
    frame: Frame,
    chips: Vec<Chip>,
    rows: Vec<RequestRow>,
    pager: Pager,
    manages: bool,
}

/// A request, as a table row and as the head of its page.
pub(super) struct RequestRow {
    pub(super) id: String,
    pub(super) badge: (&'static str, &'static str),
    pub(super) act: &'static str,
    /// Number of acts decided together.
    pub(super) acts: u64,
    kind: &'static str,
    pub(super) thing: String,
    pub(super) user: String,
    pub(super) comment: String,
    pub(super) asked: TimeAgo,
    publish_at: String,
    /// Release that the act makes or is about, with its clients and steps.
    meant: Vec<Fact>,
    approvals: Vec<String>,
    /// Numbers of valid and needed approvals.
    pub(super) given: String,
    /// Sentence on what was decided, and what it waits for.
    pub(super) standing: String,
}

#[derive(Template)]
#[template(path = "request.html")]
struct RequestPage {
    frame: Frame,
    row: RequestRow,
    /// Id of the request with which it is decided; empty if it is decided alone.
    part_of: String,
    /// Changes of the acts decided together.
    changes: Vec<RequestedChange>,
    /// Number of acts that are not shown.
    hidden: usize,
    /// True if the visitor may approve it, or one of the acts decided with it, and has not.
    approves: bool,
    refuses: bool,
    is_own: bool,
    runs: bool,
    people: People,
    /// Policies whose freeze holds now, and its end if it is known.
    freeze: Option<(String, Option<TimeAgo>)>,
}

/// Change that one act would make.
struct RequestedChange {
    row: RequestRow,
    /// Page of its object; empty if the object was deleted.
    of: String,
    /// True if it is about a rule.
    is_rule: bool,
    /// True if clients have no release of it now.
    is_first: bool,
    /// Difference of a rule from the active release to the requested one, in words.
    words: Vec<Line>,
    /// The same as JSON; the lines of a config file.
    diff: Vec<Line>,
    /// True if the time limit left no time for the comparison.
    is_left_out: bool,
    /// Services whose calls the rule changes; empty for a config file.
    acts_on: String,
    /// Page that explains a call before and after the change; empty for a config file.
    explain: String,
    /// Rule or file, if it exists.
    thing: Option<Thing>,
    /// Clients of the rule or file now; `None` if they were not counted.
    clients: Option<u64>,
    /// Gray releases now, each with its clients.
    canaries: Vec<(String, String)>,
}

impl RequestRow {
    pub(super) fn of(request: &ApprovalRequest, standing: &RequestStanding, now: Timestamp, t: &Texts) -> RequestRow {
        let (class, word) = match request.state {
            RequestState::Open => ("warn", t.open),
            RequestState::Approved => ("warn", t.approved),
            RequestState::Done => ("good", t.carried_out),
            RequestState::Refused => ("fault", t.refused),
            RequestState::Failed => ("fault", t.failed_release),
            RequestState::Withdrawn => ("", t.withdrawn),
            RequestState::Stale => ("fault", t.stale),
            RequestState::Expired => ("", t.expired),
        };
        let told = |user: &str, comment: &str| {
            if comment.is_empty() { user.to_owned() } else { format!("{user}: {comment}") }
        };
        RequestRow {
            id: request.id.clone(),
            badge: (class, word),
            act: texts::act(t, request.act),
            acts: request.parts + 1,
            kind: request.kind.word(),
            thing: format!("{}/{}", request.namespace, request.name),
            user: request.created.by.clone(),
            comment: request.comment.clone(),
            asked: TimeAgo::of(t, now, request.created.time),
            publish_at: request.publish_at.map(Timestamp::text).unwrap_or_default(),
            meant: request.payload.as_ref().map(|payload| meant(t, &payload.brief())).unwrap_or_default(),
            approvals: request.approvals.iter().map(|given| told(&given.user, &given.comment)).collect(),
            given: format!("{}/{}", standing.given, standing.needed),
            standing: sentences::standing(t.language(), standing),
        }
    }
}

pub(super) async fn list(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let state = RequestState::of_word(query.get("state"));
    let filter = RequestFilter {
        state,
        namespace: query.given("namespace").map(|text| NameFilter::parse(&text)),
        heads: true,
        read_scope: visitor.caller.read_scope(),
        ..RequestFilter::default()
    };
    let view = console.node().state().view();
    let (listed, now) = (view.approvals.list(&filter, &Pager::page_of(&query)), console.node().now());
    let frame = visitor.frame(Section::Requests);
    let t = frame.t;
    let states =
        [("", t.all), ("open", t.open), ("approved", t.approved), ("done", t.carried_out), ("refused", t.refused)];
    page(&RequestsPage {
        chips: chips(PATH, &query, &states),
        rows: listed
            .rows
            .iter()
            .map(|request| RequestRow::of(request, &view.standing(now, request), now, frame.t))
            .collect(),
        pager: Pager::new(PATH, &query, &listed),
        manages: visitor.caller.check_everywhere(Verb::Manage).is_ok(),
        frame,
    })
}

pub(super) async fn show(State(console): State<Console>, Path(id): Path<String>, visitor: SessionUser) -> Response {
    match request_page(&console, &visitor, &id).await {
        Ok(found) => page(&found),
        Err(refusal) => visitor.failed(&refusal),
    }
}

/// Carries out the decision of the submitted button.
pub(super) async fn decide(State(console): State<Console>, Path(id): Path<String>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    let word = fields.get("change");
    let Some(op) = RequestOp::ALL.into_iter().find(|op| op.word() == word) else {
        return visitor.nowhere();
    };
    let parts = fields.given("parts").and_then(|parts| parts.parse().ok()).filter(|_| op == RequestOp::Approve);
    let draft = RequestDraft { id: id.clone(), comment: fields.given("comment"), parts };
    match one(console.operations.requests(&visitor.caller, op, vec![Ok(draft)]).await) {
        Ok(_) => to_result(&format!("{PATH}/{id}")),
        Err(refusal) => match request_page(&console, &visitor, &id).await {
            Ok(found) => {
                let frame = found.frame.refused(&refusal);
                page_refused(refusal.code, &RequestPage { frame, ..found })
            }
            Err(missing) => visitor.failed(&missing),
        },
    }
}

async fn request_page(console: &Console, visitor: &SessionUser, id: &str) -> Result<RequestPage, Refusal> {
    let view = console.node().state().view();
    let found = view.approvals.get(id).cloned();
    let read_scope = visitor.caller.read_scope();
    let request = found.filter(|request| request.is_seen_by(&read_scope));
    let request = request.ok_or_else(|| Refusal::missing(&placed("request", "", id)))?;
    let set = if request.part_of.is_empty() { view.approvals.all_of_set(&request) } else { vec![request.clone()] };
    let grants = &visitor.caller.grants;
    let may = |verb: Verb, one: &ApprovalRequest| grants.may(verb, &one.namespace, one.scope_name());
    let is_approved = |one: &ApprovalRequest| one.state == RequestState::Approved;
    let (is_pending, is_own) = (request.state.is_pending(), request.created.by == visitor.caller.name);
    let (now, name) = (console.node().now(), visitor.caller.name.as_str());
    let standing = view.standing(now, &request);
    let is_frozen = standing.obstacles.iter().any(|one| matches!(one, Obstacle::Freeze { .. }));
    let runs = !is_frozen && set.iter().all(|one| is_approved(one) && may(Verb::Release, one));
    let refuses = is_pending && !is_own && view.may_approve(now, grants, &request);
    let is_new = |one: &ApprovalRequest| view.may_approve(now, grants, one) && !view.is_approved_by(now, name, one);
    let approves = refuses && set.iter().any(|one| is_new(one));
    let shown: Vec<_> = set.iter().filter(|one| one.is_seen_by(&read_scope)).take(CHANGES_MAX).cloned().collect();
    let hidden = set.len() - shown.len();
    let comparing = (console.clone(), visitor.caller.clone(), visitor.texts);
    let people = if is_pending { people(&view, now, &request, &set) } else { People::default() };
    let freeze = standing.obstacles.iter().find_map(|one| match one {
        Obstacle::Freeze { policies, until } => {
            Some((policies.join(", "), until.map(|until| TimeAgo::until(visitor.texts, now, until))))
        }
        _ => None,
    });
    let mut changes = console.operations.on_scan_turn(move || changes(&comparing, &view, &shown)).await?;
    let member = console.node().member();
    join_all(changes.iter_mut().take(COUNTED_MAX).map(async |change| {
        if let Some(thing) = &change.thing {
            change.clients = Some(member.clients_with(thing).await.amount);
        }
    }))
    .await;
    let frame = visitor.frame(Section::Requests);
    Ok(RequestPage {
        people,
        freeze,
        row: RequestRow::of(&request, &standing, now, frame.t),
        part_of: request.part_of.clone(),
        changes,
        hidden,
        approves,
        refuses,
        is_own: is_pending && is_own,
        runs,
        frame,
    })
}

/// Compares the changes of acts until the time limit.
fn changes(
    (console, caller, t): &(Console, Caller, &'static Texts),
    view: &Catalog,
    acts: &[Arc<ApprovalRequest>],
) -> Vec<RequestedChange> {
    let begun = Instant::now();
    let change = |one: &Arc<ApprovalRequest>| {
        let pending = view.pending(one);
        let (mut acts_on, mut words, mut is_first) = (String::new(), Vec::new(), false);
        if let Some(Pending::Rule { now, then }) = &pending {
            if let Some(side) = then.as_ref().or(now.as_ref()) {
                acts_on = view.effect_of(&side.rule).to_string();
            }
            let told = |side: &Option<Box<ReleasedRule>>| {
                side.as_ref().map(|side| as_lines(&sentences::rule(t.language(), &side.rule))).unwrap_or_default()
            };
            words = compared(&told(now), &told(then));
            is_first = now.is_none();
        }
        let is_left_out = begun.elapsed() > COMPARED_WITHIN;
        let thing = view.thing_of_request(one);
        RequestedChange {
            row: RequestRow::of(one, &view.standing(console.node().now(), one), console.node().now(), t),
            of: page_of(view, one),
            explain: explain_path(one, pending.as_ref()),
            diff: pending.filter(|_| !is_left_out).map(|pending| lines(console, caller, pending)).unwrap_or_default(),
            is_left_out,
            acts_on,
            is_rule: matches!(one.kind, PolicyKind::Rule(_)),
            is_first,
            words,
            canaries: thing.as_ref().map(|thing| canaries(view, thing)).unwrap_or_default(),
            thing,
            clients: None,
        }
    };
    acts.iter().map(change).collect()
}

/// Returns the changed lines; none for an encrypted content that the visitor may not read.
fn lines(console: &Console, caller: &Caller, pending: Pending) -> Vec<Line> {
    match pending {
        Pending::Rule { now, then } => {
            let text = |side: Option<Box<ReleasedRule>>| {
                side.map_or_else(String::new, |one| compact(&written(Some(&one.rule))))
            };
            compared(&text(now), &text(then))
        }
        Pending::File { key, now, then } => {
            let text = |file: ConfigFile| {
                let operations = &console.operations;
                if file.encrypted {
                    operations.needed_content(caller, &key, true, &file.content).map(|text| text.to_string())
                } else {
                    operations.whole(&file.content).map(|text| text.to_string())
                }
            };
            let [now, then] = [now, then].map(|side| side.map_or_else(|| Ok(String::new()), |one| text(one.file)));
            match (now, then) {
                (Ok(now), Ok(then)) => compared(&now, &then),
                _ => Vec::new(),
            }
        }
    }
}

/// Returns the path of the explanation for a service of the rule.
fn explain_path(request: &ApprovalRequest, pending: Option<&Pending>) -> String {
    let (PolicyKind::Rule(family), Some(Pending::Rule { now, then })) = (request.kind, pending) else {
        return String::new();
    };
    let rule = then.as_ref().or(now.as_ref()).map(|side| &side.rule);
    let mut callee = None;
    if let Some(rule) = rule {
        rule.each_role(&mut |role, namespace, service| {
            if role == EndRole::Callee && service != ALL {
                callee.get_or_insert_with(|| (namespace.to_owned(), service.to_owned()));
            }
        });
    }
    let (namespace, service) = callee.unwrap_or_default();
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("request", &request.id).append_pair("namespace", &namespace);
    if !service.is_empty() {
        query.append_pair("service", &service);
    }
    format!("/ui/rules/{}/explain?{}", family.kind(), query.finish())
}

fn page_of(catalog: &Catalog, request: &ApprovalRequest) -> String {
    match catalog.thing_of_request(request) {
        Some(Thing::Rule(family, id)) => super::links::rule(family, &id),
        Some(Thing::File(key)) => super::links::file(&key),
        None => String::new(),
    }
}
