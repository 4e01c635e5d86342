//! Permissions: every route of this surface for every kind of caller.
//!
//! A row has the object of a route and the verbs that it requires; the expected answer to each caller follows from the
//! table of roles below, which is independent of the one in the code. A route without a row fails the test.

mod callers;
mod law;
mod oneself;
mod rows;
mod rule_rows;
mod sso_rows;
mod things;

use std::collections::BTreeSet;
use std::io::Write;

use axum::http::{Method, StatusCode};
use futures_util::future::join_all;
use serde_json::Value;

use super::{Bench, RAW};
use crate::api::routes::routes;
use crate::catalog::Catalog;
use crate::model::grant::{Role, Verb};
use callers::{Caller, Scope, Standing};
use law::{Law, Row};
use rows::rows;
use things::{Need, Thing, World};

/// Refused calls that run concurrently.
const AT_ONCE: usize = 16;
const OTHER_NAMESPACE: &str = "else";

/// Verbs of each role.
const MAY: [(Role, &[Verb]); 7] = {
    use Verb::{Approve, Discover, Edit, Manage, Operate, Read, Register, Release};
    [
        (Role::Admin, &[Read, Edit, Release, Register, Discover, Operate, Manage, Approve]),
        (Role::Operator, &[Operate]),
        (Role::Releaser, &[Read, Release]),
        (Role::Approver, &[Read, Approve]),
        (Role::Editor, &[Read, Edit]),
        (Role::Reader, &[Read]),
        (Role::Client, &[Register, Discover]),
    ]
};

/// Place of a thing, as scopes see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// One of the things that the narrowest scope covers.
    Thing,
    /// One of the same name in the other namespace.
    ThingElsewhere,
    /// The namespace of the things.
    Namespace,
    Cluster,
}

impl Scope {
    /// Reports whether a grant on this scope covers the whole place.
    fn covers(self, place: Place) -> bool {
        matches!(
            (self, place),
            (Scope::Everything, _)
                | (Scope::Namespace, Place::Thing | Place::Namespace)
                | (Scope::Thing, Place::Thing)
                | (Scope::OtherNamespace, Place::ThingElsewhere)
        )
    }

    /// Reports whether the scope includes something at the place.
    fn touches(self, place: Place) -> bool {
        let is_within = matches!(self, Scope::Namespace | Scope::Thing | Scope::OtherName);
        self.covers(place) || (place == Place::Namespace && is_within) || place == Place::Cluster
    }
}

impl Caller {
    fn may(&self, verb: Verb, in_scope: impl Fn(Scope) -> bool) -> bool {
        let Standing::Holds(grants) = &self.standing else { return false };
        let lets = |role: Role| MAY.iter().any(|(one, verbs)| *one == role && verbs.contains(&verb));
        grants.iter().any(|(role, scope)| lets(*role) && in_scope(*scope))
    }

    fn may_do(&self, verbs: &[Verb], place: Place) -> bool {
        verbs.iter().all(|verb| self.may(*verb, |scope| scope.covers(place)))
    }

    fn sees(&self, verbs: &[Verb], place: Place) -> bool {
        place == Place::Cluster || verbs.iter().any(|verb| self.may(*verb, |scope| scope.touches(place)))
    }
}

/// Expected answer to a caller.
#[derive(Debug, PartialEq)]
struct Expected {
    code: u64,
    /// True if the change is made.
    done: bool,
    /// True if the thing is shown or counted; `None` if that is not checked.
    shown: Option<bool>,
    /// True if the caller may know of it.
    known: bool,
}

impl Expected {
    fn refused(code: u64) -> Expected {
        Expected { code, done: false, shown: None, known: false }
    }

    fn of(row: &Row, caller: &Caller) -> Expected {
        let refused = |code, known| Expected { known, ..Expected::refused(code) };
        let done = |code| Expected { code, done: true, shown: None, known: true };
        if let Law::Open(code) = row.law {
            return Expected { done: false, ..done(code) };
        }
        match caller.standing {
            Standing::Silent => return Expected::refused(401_002),
            Standing::Unknown => return Expected::refused(401_004),
            Standing::Holds(_) => {}
        }
        let seeing = [Verb::Read, Verb::Discover];
        match &row.law {
            Law::Open(code) | Law::Holder(code) => done(*code),
            Law::Whole(verb, code) if caller.may_do(&[*verb], Place::Cluster) => done(*code),
            Law::Whole(..) => Expected::refused(401_001),
            Law::Write { verbs, stands, goes, missing, code } => {
                let is_seen = |place| {
                    let is_felt = row.is_felt_elsewhere && caller.sees(&seeing, Place::ThingElsewhere);
                    caller.sees(&seeing, place) || (place == Place::Thing && is_felt)
                };
                let known = stands.iter().chain(goes).all(|place| is_seen(*place));
                if !row.asks.unwrap_or(verbs).iter().all(|verb| caller.may(*verb, |_| true)) {
                    return refused(401_001, known);
                }
                if let Some(place) = stands.filter(|place| !caller.may_do(verbs, *place)) {
                    let seen = is_seen(place);
                    return refused(if seen { 401_001 } else { *missing }, seen);
                }
                match goes.iter().all(|place| caller.may_do(verbs, *place)) {
                    true => done(*code),
                    false => refused(401_001, known),
                }
            }
            Law::Read { verbs, place, missing } => {
                let shown = caller.sees(verbs, *place);
                let code = if shown { 200_000 } else { *missing };
                Expected { code, done: false, shown: Some(shown), known: shown }
            }
            Law::Beat => match caller.may_do(&[Verb::Register], Place::Thing) {
                true => Expected { done: false, ..done(400_140) },
                false => Expected::refused(400_202),
            },
        }
    }
}

/// Returns the state that is compared before and after a refusal.
fn kept(catalog: &Catalog) -> impl PartialEq + use<> {
    let all = catalog.view();
    let registry = (all.namespaces, all.services, all.aliases, all.instances);
    (registry, all.configs, all.templates, all.rules, all.access, all.settings)
}

struct Cell<'a> {
    row: &'a Row,
    caller: &'a Caller,
    expected: Expected,
}

impl Cell<'_> {
    /// Makes the call about a thing; returns the fault of the answer, if any.
    async fn check(&self, bench: &Bench, thing: &Thing) -> Option<String> {
        let Cell { row, caller, expected } = self;
        let ask = (row.ask)(thing);
        let uri = format!("{}{}", row.path, ask.query);
        let (status, text) =
            bench.send_raw(caller.address, row.method.as_str(), &uri, caller.token.as_deref(), ask.body.clone()).await;
        let answer = serde_json::from_str(&text).unwrap_or(Value::Null);
        let code = answer["code"].as_u64().unwrap_or_else(|| u64::from(status.as_u16()) * 1000);
        let mut wrong = Vec::new();
        if code != expected.code || u64::from(status.as_u16()) != expected.code / 1000 {
            wrong.push(format!("answered {code}, not {}", expected.code));
        }
        let asked = format!("{uri} {}", ask.body);
        let told: Vec<_> =
            thing.signs().filter(|sign| text.contains(sign.as_str()) && !asked.contains(sign.as_str())).collect();
        let number = answer["amount"].as_u64().or_else(|| answer["diff"]["from"]["version"].as_u64());
        let counted = number.is_some_and(|number| number > 0 && row.is_count);
        if !expected.known && (!told.is_empty() || counted) {
            wrong.push(format!("told of {told:?}"));
        }
        if expected.shown == Some(true) && told.is_empty() && !counted && !row.is_nameless {
            wrong.push("did not show it".to_owned());
        }
        let shown = format!("{} {} {} as {}", row.method, row.path, row.case, caller.title);
        (!wrong.is_empty()).then(|| format!("{shown}: {}: {text:.600}", wrong.join(" and ")))
    }
}

async fn try_row(bench: &Bench, world: &mut World, row: &Row, callers: &[Caller]) -> Vec<String> {
    let cells: Vec<_> =
        callers.iter().map(|caller| Cell { row, caller, expected: Expected::of(row, caller) }).collect();
    let (done, refused): (Vec<_>, Vec<_>) = cells.into_iter().partition(|cell| cell.expected.done);
    let of_refused = match row.need {
        Need::RuleAbroad(_) => world.make(bench, row.need).await,
        _ => world.kept.clone(),
    };
    let before = kept(&bench.node.state().catalog());
    let mut wrong = Vec::new();
    for some in refused.chunks(AT_ONCE) {
        let checks = some.iter().map(|cell| cell.check(bench, &of_refused));
        wrong.extend(join_all(checks).await.into_iter().flatten());
    }
    let after = kept(&bench.node.state().catalog());
    if after != before {
        wrong.push(format!("{} {} {}: what was refused has changed something", row.method, row.path, row.case));
    }
    for cell in done {
        let thing = world.make(bench, row.need).await;
        wrong.extend(cell.check(bench, &thing).await);
        if row.ends_token {
            cell.caller.log_in_again(bench).await;
        }
    }
    wrong
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_every_kind_of_caller_as_the_roles_say() {
    let rows = rows();
    let of_rows: BTreeSet<(String, String)> =
        rows.iter().map(|row| (row.method.to_string(), row.path.clone())).collect();
    let of_routes: BTreeSet<(String, String)> =
        routes().iter().map(|route| (route.method.to_string(), route.path.clone())).collect();
    let (unjudged, unknown): (Vec<_>, Vec<_>) =
        (of_routes.difference(&of_rows).collect(), of_rows.difference(&of_routes).collect());
    assert!(unjudged.is_empty() && unknown.is_empty(), "no row for {unjudged:?}, no route for {unknown:?}");

    let bench = Bench::start().await;
    let mut world = World::build(&bench).await;
    let callers = callers::all(&bench).await;
    let mut wrong = Vec::new();
    for row in &rows {
        wrong.extend(try_row(&bench, &mut world, row, &callers).await);
    }
    let cells = rows.len() * callers.len();
    writeln!(
        std::io::stderr(),
        "    measured: {cells} cells: {} routes in {} rows, {} callers",
        of_routes.len(),
        rows.len(),
        callers.len()
    )
    .expect("stderr is open");
    assert!(wrong.is_empty(), "{} of {cells} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
    bench.stop().await;
}

/// The documented table of roles equals the one in the code.
#[test]
fn the_roles_are_the_written_ones() {
    assert_eq!(MAY.map(|(role, verbs)| (role, verbs.to_vec())), Role::ALL.map(|role| (role, role.verbs().to_vec())));
}

/// Helpers for rows.
fn method(word: &str) -> Method {
    word.parse().expect("a method")
}

impl Bench {
    /// Sends like [`Bench::send_from`]; returns the answer as text.
    async fn send_raw(
        &self,
        client: &str,
        method: &str,
        uri: &str,
        token: Option<&str>,
        body: Value,
    ) -> (StatusCode, String) {
        let (status, bytes) = self.send_bytes(client, method, uri, token, body).await;
        (status, String::from_utf8_lossy(&bytes).into_owned())
    }
}
