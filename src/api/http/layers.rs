//! Two layers around every request: id, metrics, access check, time limit, and the response after a panic. [`track`] is
//! the same for all requests, [`guard`] depends on the row of the route.

use std::any::Any;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::HttpBody;
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use ipnet::IpNet;
use tokio::time::timeout;
use tracing::{Instrument, Span};

use super::admission;
use super::app::{ApiResult, App};
use super::carried::Carried;
use super::doc::Input;
use super::error::ApiError;
use super::query::{Consistency, Freshness};
use super::route::{DISCOVER, DRAIN, LIVE, METRICS, READY, Terms, is_read};
use super::unknown::{Noticed, QueryKeys, Unknown};
use crate::address::client_address;
use crate::budget::Budget;
use crate::compression::Accepted;
use crate::connections::{Parking, later};
use crate::hosts::{self, Hosts};
use crate::logging::text_of;
use crate::metrics::OneMore;
use crate::model::code::Code;
use crate::model::limits;
use crate::operations::member::LocalMember;
use crate::operations::scan_limiter;
use crate::origin::Origin;
use crate::request_id::{self, RequestId};
use crate::traces::{self, RequestInfo};

const NODE: HeaderName = HeaderName::from_static("x-thuban-node");
const CONSISTENCY: HeaderName = HeaderName::from_static("x-thuban-consistency");
/// Name of this surface in metrics.
pub(crate) const SURFACE: &str = "api";
const CLIENTS_SURFACE: &str = "compat";
const UNKNOWN_ROUTE: &str = "unknown";
const OTHER_METHOD: &str = "other";
/// Routes that hold requests: their durations have a separate histogram, so that they do not hide the others.
const HELD_ROUTES: [&str; 3] = ["/notifications/v2", DISCOVER, DRAIN];
/// Routes that programs poll frequently: they are not traced.
const FREQUENT_ROUTES: [&str; 4] = [METRICS, LIVE, READY, "/v1/Heartbeat"];

/// Data for [`track`]: the surface's name in metrics, the node, and the host names to answer to, if the surface does
/// not check them itself.
#[derive(Clone)]
pub struct Tracked(Arc<TrackedSurface>);

struct TrackedSurface {
    surface: &'static str,
    member: LocalMember,
    hosts: Hosts,
    /// `None` if bodies and answers are not counted.
    counting: Option<Counting>,
}

/// Settings for counting bodies and answers.
#[derive(Clone)]
pub struct Counting {
    pub budget: Budget,
    /// Proxies that are trusted to report the address of a client.
    pub trusted_proxies: Vec<IpNet>,
}

impl Tracked {
    pub fn new(surface: &'static str, member: &LocalMember, hosts: Hosts, counting: Option<Counting>) -> Self {
        Tracked(Arc::new(TrackedSurface { surface, member: member.clone(), hosts, counting }))
    }
}

/// Assigns the request an id, counts and times it by route template, and adds the headers that every answer has. Opens
/// a span for the request if traces are exported or the log level includes it.
pub async fn track(State(Tracked(tracked)): State<Tracked>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let metrics = tracked.member.metrics();
    let id = RequestId::given_or_new(&request);
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let route = path.as_ref().map_or(UNKNOWN_ROUTE, MatchedPath::as_str);
    // Config clients and held requests are answered from this node's own state; no consistency is recorded for them.
    let is_read = is_read(&request);
    let freshness = (is_read && tracked.surface == SURFACE && !HELD_ROUTES.contains(&route)).then(Freshness::default);
    // The config clients' surface logs nothing per request.
    if tracked.surface != CLIENTS_SURFACE {
        request.extensions_mut().insert(id.clone());
    }
    if let Some(freshness) = &freshness {
        request.extensions_mut().insert(freshness.clone());
    }
    let carried = tracked.counting.as_ref().map(|Counting { budget, trusted_proxies }| {
        let address = client_address(request.headers(), request.extensions(), trusted_proxies);
        Carried::new(budget, Origin::of_any(address), is_read)
    });
    // The extension counts the body, and the answer for the caller.
    if let Some(carried) = &carried {
        request.extensions_mut().insert(carried.clone());
    }
    let name = id.text();
    let is_held = HELD_ROUTES.contains(&route);
    let traced = if is_held {
        Span::none()
    } else {
        traces::arrived(&RequestInfo {
            id: name,
            headers: request.headers(),
            method: Some(method_label(&method)).filter(|label| *label != OTHER_METHOD),
            route: path.as_ref().map(MatchedPath::as_str),
            is_frequent: tracked.surface == CLIENTS_SURFACE || FREQUENT_ROUTES.contains(&route),
        })
    };
    let span = if traced.is_disabled() {
        tracing::debug_span!("request", request.id = name, http.route = route, %method)
    } else {
        traced.clone()
    };
    let in_flight = (!is_held).then(|| OneMore::of(&metrics.requests_in_flight));
    let mut response = match refusal_of_host(&tracked, &request) {
        Some(refusal) => refusal,
        None if tracked.surface == CLIENTS_SURFACE && span.is_disabled() => next.run(request).await,
        None if span.is_disabled() => scan_limiter::of_request(next.run(request)).await,
        None => scan_limiter::of_request(next.run(request)).instrument(span).await,
    };
    if let Some(carried) = carried {
        response = carried.counted(response);
    }
    drop(in_flight);
    traces::answered(&traced, response.status());
    if !is_held {
        let status = response.status();
        let labels = [tracked.surface, route, method_label(&method), status.as_str()];
        metrics.request_duration.with_label_values(&labels).observe(started.elapsed().as_secs_f64());
    }
    let headers = response.headers_mut();
    headers.insert(request_id::HEADER, id.0);
    headers.insert(NODE, HeaderValue::from(tracked.member.id()));
    // Answers contain text of callers: no browser may interpret one as a page.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_read {
        let consistency = freshness.map_or(Consistency::Local, |freshness| freshness.consistency());
        headers.insert(CONSISTENCY, HeaderValue::from_static(consistency.word()));
    }
    response
}

/// Returns a label from a bounded set: unknown methods share one.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => OTHER_METHOD,
    }
}

/// Data of the layer before the handler of a route.
#[derive(Clone)]
pub(crate) struct RouteGuard {
    pub(crate) app: App,
    pub(crate) terms: Terms,
    pub(crate) query_keys: QueryKeys,
}

/// Applies all checks of a route. It is one layer, because each layer clones all inner ones for every request.
pub(crate) async fn guard(State(guard): State<RouteGuard>, mut request: Request, next: Next) -> Response {
    let (is_held, is_read) = (guard.terms.is_held, is_read(&request));
    let id = request.extensions().get::<RequestId>().cloned();
    let strange = guard.query_keys.warnings(&request);
    let noticed = (!strange.is_empty() || !request.body().is_end_stream()).then(Noticed::default);
    if let Some(noticed) = &noticed {
        noticed.note(strange);
        request.extensions_mut().insert(noticed.clone());
    }
    let answer = AssertUnwindSafe(admitted(guard, request, next)).catch_unwind();
    let limit = Duration::from_secs(limits::REQUEST_TIMEOUT_SECONDS);
    // Other requests take less time; a write that does not has an unknown outcome.
    let overdue = if is_read { Code::ReadTimedOut } else { Code::OutcomeUnknown };
    let answered = if is_held { Ok(answer.await) } else { timeout(limit, answer).await };
    match answered {
        Ok(Ok(response)) => match noticed {
            Some(noticed) => noticed.add_to(response).await,
            None => response,
        },
        Ok(Err(panic)) => after_panic(id, &*panic),
        Err(_) => ApiError::from(overdue).into_response(),
    }
}

async fn admitted(guard: RouteGuard, mut request: Request, next: Next) -> Response {
    let RouteGuard { app, terms, query_keys } = guard;
    // A node with a diverged state, or one that was removed, serves nothing from it.
    if let Some(why) = app.node().member().out_of_service().filter(|_| !terms.is_always) {
        let is_removed = app.node().member().is_removed();
        let code = if is_removed { Code::NoLeader } else { Code::StateDiverged };
        return ApiError::new(code, why).into_response();
    }
    match admission::admit(&app, terms, &mut request).await {
        Ok(()) => match refusal_of_query(&query_keys, &request) {
            Some(refusal) => refusal.into_response(),
            None => next.run(request).await,
        },
        Err(error) => {
            admission::note_refused(&app, &request, error.0.code);
            error.into_response()
        }
    }
}

/// Refuses a query with unknown keys if the request demands so.
fn refusal_of_query(query_keys: &QueryKeys, request: &Request) -> Option<ApiError> {
    let strange = query_keys.warnings(request);
    let refuses = || Unknown::of(request) == Ok(Unknown::Refuse);
    (!strange.is_empty() && refuses()).then(|| ApiError::new(Code::InvalidParameter, strange.join(", ")))
}

/// Context of a request for a handler that continues to wait.
pub(crate) struct Waiting {
    parking: Option<Parking>,
    id: Option<RequestId>,
    carried: Option<Carried>,
    noticed: Option<Noticed>,
    /// Codings of the answer that the client accepts.
    accepted: Accepted,
}

impl FromRequestParts<App> for Waiting {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let Parts { extensions, headers, .. } = parts;
        let (id, carried) = (extensions.get().cloned(), extensions.get().cloned());
        let (parking, noticed) = (extensions.get().copied(), extensions.get().cloned());
        Ok(Waiting { parking, id, carried, noticed, accepted: Accepted::of(headers) })
    }
}

impl Input for Waiting {}

impl Waiting {
    pub(super) fn accepted(&self) -> Accepted {
        self.accepted
    }

    /// Reports whether the answer gets warnings.
    pub(super) fn has_warnings(&self) -> bool {
        self.noticed.as_ref().is_some_and(|noticed| !noticed.is_empty())
    }

    /// Completes an answer that comes later, see [`later`], after the guard of the route has returned.
    pub(crate) async fn for_answer<A>(self, answer: A) -> Response
    where
        A: Future<Output = ApiResult> + Send + 'static,
    {
        let Waiting { parking, id, carried, noticed, .. } = self;
        let noticed = noticed.map(|noticed| noticed.moved());
        if let Some(carried) = &carried {
            carried.let_go();
        }
        let answer = async move {
            match AssertUnwindSafe(answer).catch_unwind().await {
                Ok(answered) => {
                    let mut response = answered.into_response();
                    if let Some(noticed) = noticed {
                        response = noticed.add_to(response).await;
                    }
                    match carried {
                        Some(carried) => carried.counted(response),
                        None => response,
                    }
                }
                Err(panic) => after_panic(id, &*panic),
            }
        };
        later(parking, answer).await
    }
}

/// Logs a panic once and answers in the envelope; the node continues.
fn after_panic(id: Option<RequestId>, panic: &(dyn Any + Send)) -> Response {
    let id = id.as_ref().map(RequestId::text).unwrap_or_default();
    tracing::error!(panic = text_of(panic), request.id = id, "a handler panicked");
    ApiError::from(Code::ExecuteException).into_response()
}

/// Refuses requests of foreign sites through a browser on this machine, see [`crate::hosts`].
fn refusal_of_host(tracked: &TrackedSurface, request: &Request) -> Option<Response> {
    // A request made within the process has no connection, and needs no host.
    let is_of_connection = request.extensions().get::<Parking>().is_some();
    if let Some(why) = hosts::fault(request.version(), request.headers()).filter(|_| is_of_connection) {
        return Some(ApiError::new(Code::BadRequest, why).into_response());
    }
    let host = tracked.hosts.stranger(request.uri(), request.headers())?;
    let why = format!("this node is not known as {host:?}, see --allowed-hosts");
    Some(ApiError::new(Code::BadRequest, why).into_response())
}
