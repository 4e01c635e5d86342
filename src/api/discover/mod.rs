//! `POST /v1/Discover`: services and active rules for clients. Answered from this node's memory; with `timeout_ms` the
//! request is held until the revision differs from the client's.

mod answer;
pub(super) mod applied;
mod request;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;

use super::http::{Agent, ApiError, App, Caller, ClientAddress, Doc, Object, Shape, Waiting};
use crate::model::code::Code;
use crate::reads::{Discovery, Found, HoldEnd, Question};
use answer::{Described, answer};

pub(super) use request::DiscoverRequest;

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

/// Answers 200001 if nothing changed, after `timeout_ms` too; 503006 if this node is behind the client's
/// `applied_index`. An index that no node has reached is of another cluster and is ignored.
pub(super) async fn discover(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    caller: Caller,
    waiting: Waiting,
    Agent(agent): Agent,
    Object(request): Object<DiscoverRequest>,
) -> Result<Response, ApiError> {
    let applied_index = request.applied_index();
    let (row, question) = request.question(agent, address, caller.client_sight())?;
    let is_held = !question.hold.is_zero();
    let compressed = app.compressing(&waiting);
    let render = Arc::new(move |question: &Question, found: &Found| answer(row, question, found, &compressed));
    let discovery = Discovery::new(app.operations.clone(), caller, question, render);
    discovery.catch_up(applied_index).await?;
    if !is_held {
        return Ok(discovery.answer().await?);
    }
    let mut hold = discovery.held()?;
    if let Some(news) = hold.look().await? {
        return Ok(news);
    }
    let waited = async move {
        let end = hold.wait().await?;
        Ok::<_, ApiError>(match end {
            HoldEnd::News(news) => news,
            HoldEnd::Unchanged => hold.query.unchanged(),
            HoldEnd::Shutdown => closing(hold.query.unchanged()),
        })
    };
    Ok(waiting.for_answer(waited).await)
}

/// Makes the client reconnect, to another node.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Returns the immediate response of a catalog to a request, without a node.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn answer_of(
    catalog: &crate::catalog::Catalog,
    request: DiscoverRequest,
    read_scope: crate::model::grant::ReadScope,
) -> Result<Response, ApiError> {
    let (row, question) = request.question(String::new(), Some([192, 0, 2, 1].into()), read_scope)?;
    let render = |question: &Question, found: &Found| answer(row, question, found, &super::http::Compressing::none());
    Ok(crate::reads::discovery::answer_of(catalog, &question, &render)?)
}
