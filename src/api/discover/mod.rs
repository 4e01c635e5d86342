//! `POST /v1/Discover`: what clients see of services and of the rules in force. Answered from this
//! node's memory; with `timeout_ms` it is held until the revision is another than the client's.
//!
//! The order is that of every held request: watch all that the answer can depend on, THEN read,
//! then wait, and read again at every wake-up.

mod found;
mod request;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use tokio::time::{Instant, timeout_at};

use super::http::{Agent, ApiError, App, Caller, ClientAddress, Doc, Object, Shape, Waiting};
use crate::catalog::Catalog;
use crate::metrics::Held;
use crate::model::code::Code;
use crate::model::config_lookup::CLIENT_ADDRESS_LABEL;
use crate::model::rule::release::RuleRelease;
use crate::operations::turns;
use crate::origin::Origin;
use crate::raft::Reached;
use crate::raft::vigil::Guard;
use crate::subscribers::Client;
use crate::watch::{Wake, Watch};
use found::{Described, Found};
use request::{Identity, Question, Wanted};

pub(super) use request::Request;

/// Time limit of a request's wait for the index that its client has seen elsewhere.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(2);

pub(super) const DISCOVER: Doc = Doc::new("Discovery")
    .says("Services, or the rules in force for one, as clients see them; with `timeout_ms`, once the revision changes.")
    .gives(Shape::whole::<Described>())
    .codes(&[&[
        Code::DataNoChange,
        Code::AnswerTooLong,
        Code::InvalidDiscoverResource,
        Code::InvalidNamespaceName,
        Code::InvalidServiceName,
        Code::NotFoundResource,
        Code::TooManyWaiters,
        Code::NodeBehind,
    ]]);

/// 200001 also after `timeout_ms` without a change; 503006 if this node is behind the `applied_index`
/// that the client names. An index that no node has reached is of another cluster, and means nothing.
pub(super) async fn discover(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    caller: Caller,
    waiting: Waiting,
    Agent(agent): Agent,
    Object(request): Object<Request>,
) -> Result<Response, ApiError> {
    let hold = request.hold();
    let seen = request.applied_index();
    let address_text = address.map(|address: IpAddr| address.to_string());
    let mut question = request.question(address_text, caller.client_sight())?;
    (question.agent, question.origin, question.hold) = (agent, Origin::of_any(address), hold);
    let question = Arc::new(question);
    match app.node.reach(CATCH_UP_WITHIN, |applied| applied.index >= seen).await {
        Reached::Here => {}
        Reached::Elsewhere => app.node.metrics().foreign_ids.inc(),
        Reached::Unknown => {
            return Err(ApiError::new(Code::NodeBehind, format!("index {seen}")));
        }
    }
    if hold.is_zero() {
        let (found, answer) = find(&app, &question).await?;
        return Ok(answer.unwrap_or_else(|| found.answer(&question)));
    }
    let held = Held::begin(app.node.metrics());
    let guard = app.node.guard(&caller.credential);
    let mut hold = Hold { deadline: held.began() + hold, app, question, caller, guard, held };
    match hold.look().await? {
        Look::Answer(answer) => Ok(answer),
        Look::Wait(seen) => {
            let caller = hold.caller.name.clone();
            Ok(waiting.for_answer(turns::of_caller(&caller, hold.wait(seen))).await)
        }
    }
}

/// A question that is held.
struct Hold {
    app: App,
    question: Arc<Question>,
    caller: Caller,
    guard: Guard,
    held: Held,
    /// Time at which the response is that nothing has changed.
    deadline: Instant,
}

enum Look {
    Answer(Response),
    Wait(Seen),
}

/// Answer that the client has already, and the watch that reports a change of it.
struct Seen {
    found: Found,
    watch: Watch,
}

impl Hold {
    async fn look(&mut self) -> Result<Look, ApiError> {
        loop {
            let state = self.app.node.state();
            let service = self.question.resolve(&state.catalog());
            let mut keys = self.question.keys(&service);
            keys.push(self.guard.key());
            let watch = state.hub().watch(self.question.origin, keys, self.question.bytes());
            let watch = watch.map_err(|full| ApiError::new(Code::TooManyWaiters, full.to_string()));
            let watch = watch.inspect_err(|_| self.held.outcome = "refused")?;
            self.again().inspect_err(|_| self.held.outcome = "refused")?;
            let read = find(&self.app, &self.question).await;
            let (found, answer) = read.inspect_err(|_| self.held.outcome = "refused")?;
            if found.service != service {
                continue;
            }
            if let Some(answer) = answer {
                self.held.outcome = "changed";
                return Ok(Look::Answer(answer));
            }
            return Ok(Look::Wait(Seen { found, watch }));
        }
    }

    /// Refuses a caller whose token is not believed any more, and takes over what the caller may see by now.
    fn again(&mut self) -> Result<(), ApiError> {
        self.caller = self.caller.again(&self.app)?;
        let read_scope = self.caller.client_sight();
        if read_scope != self.question.read_scope {
            Arc::make_mut(&mut self.question).read_scope = read_scope;
        }
        Ok(())
    }

    async fn wait(mut self, mut seen: Seen) -> Result<Response, ApiError> {
        loop {
            match timeout_at(self.deadline, seen.watch.changed()).await {
                Ok(Wake::Changed) => {}
                Ok(Wake::Closed) => {
                    self.held.outcome = "shutdown";
                    let mut response = seen.found.answer(&self.question);
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                    return Ok(response);
                }
                Err(_) => {
                    self.held.outcome = "unchanged";
                    return Ok(seen.found.answer(&self.question));
                }
            }
            // Boxed: most of those that wait are never woken.
            match Box::pin(self.look()).await? {
                Look::Answer(answer) => return Ok(answer),
                Look::Wait(next) => seen = next,
            }
        }
    }
}

/// Response of a catalog to a request at once, without a node around it.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn answer_of(
    catalog: &Catalog,
    request: Request,
    read_scope: crate::model::grant::ReadScope,
) -> Result<Response, ApiError> {
    let question = request.question(Some("192.0.2.1".into()), read_scope)?;
    assert!(question.keys(&question.resolve(catalog)).len() <= 5, "a question waits for few things");
    let found = Found::read(catalog, &question, 1)?;
    let (found, answer) = found.answered(&question);
    Ok(answer.unwrap_or_else(|| found.answer(&question)))
}

/// Returns what was found, with the response for a client that does not have it yet.
async fn find(app: &App, question: &Arc<Question>) -> Result<(Found, Option<Response>), ApiError> {
    // Read before the catalog: what is found is then at least as new as it says.
    let applied_index = app.node.state().applied().index;
    let reach = Found::reach(&app.node.state().catalog(), question);
    let (asked, answered) = (question.clone(), question.clone());
    let find = move |catalog: &Catalog| Found::read(catalog, &asked, applied_index);
    let (mut found, answer) =
        app.scan(reach, find, move |found| found.map(|found| found.answered(&answered))).await??;
    let releases = std::mem::take(&mut found.releases);
    note(app, question, &found.service, &releases);
    Ok((found, answer))
}

/// Notes that the client has these rules from here on: it gets them now or has them already.
fn note(app: &App, question: &Question, (namespace, service): &Identity, releases: &[Arc<RuleRelease>]) {
    let Wanted::Rules(family, None) = question.wanted else { return };
    // To who does not see it, it is not there.
    if !question.read_scope.sees(namespace, service) {
        return;
    }
    let client = Client {
        address: question.label(CLIENT_ADDRESS_LABEL).unwrap_or_default(),
        agent: &question.agent,
        origin: question.origin,
        hold: question.hold,
    };
    let (labels, now) = (|| question.labels(), || app.node.now());
    app.node.subscribers().discovered(client, labels, family, (namespace, service), releases, now);
}
