//! `POST /naming/v1/instances/drain`: isolates an instance and answers once its clients have a list without it.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::instances;
use crate::api::http::{ApiError, App, Caller, Doc, Fresh, Object, Shape, Waiting, envelope};
use crate::format::types::NodeId;
use crate::model::code::Code;
use crate::model::wire::Uint32;
use crate::operations::drain::{DrainTarget, Drained};
use crate::subscribers::Subscription;

pub(crate) const DRAIN: Doc = instances::DOC
    .says("Isolates an instance, and answers when every client that is there was given a list that does without it.")
    .gives(Shape::whole::<DrainAnswer>())
    .codes(&[&[
        Code::InvalidNamespaceName,
        Code::InvalidServiceName,
        Code::InvalidInstancePort,
        Code::InvalidParameter,
        Code::NotFoundResource,
        Code::TooManyWaiters,
        Code::DataConflict,
    ]]);

/// The body of the request.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "DrainRequest")]
pub(crate) struct DrainRequest {
    namespace: String,
    service: String,
    host: String,
    port: Uint32,
    /// Milliseconds to wait for the clients, at most 60000; 0 answers at once.
    #[serde(alias = "waitMs")]
    wait_ms: Uint32,
}

/// Result of a drain; the instance stays isolated.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Drain")]
pub(crate) struct DrainAnswer {
    code: u32,
    info: &'static str,
    /// Number of clients that received a list without the instance.
    heard: u64,
    /// Connected clients that did not receive one.
    unheard: Vec<Unheard>,
    /// Members that did not answer; their clients are missing.
    silent_nodes: Vec<NodeId>,
}

/// A client whose list includes the instance.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UnheardClient")]
struct Unheard {
    address: String,
    agent: String,
    /// Time at which the client first got its list, `YYYY-MM-DD HH:MM:SS`, UTC; for xDS clients the time of the
    /// connection.
    since: String,
}

impl Unheard {
    fn of(client: Subscription) -> Unheard {
        Unheard { address: client.address, agent: client.agent, since: client.since.text() }
    }
}

pub(crate) async fn drain(
    State(app): State<App>,
    _: Fresh,
    caller: Caller,
    waiting: Waiting,
    Object(request): Object<DrainRequest>,
) -> Result<Response, ApiError> {
    let port = u16::try_from(request.port.0).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| ApiError::new(Code::InvalidInstancePort, "port has to be 1 to 65535"))?;
    let target = DrainTarget { namespace: request.namespace, service: request.service, host: request.host, port };
    let wait = Duration::from_millis(request.wait_ms.0.into());
    let drain = app.operations.drain(&caller, target, wait).await?;
    let waited = async move {
        let Drained { heard, unheard, silent } = drain.wait().await;
        let code = Code::ExecuteSuccess;
        let body = DrainAnswer {
            code: code.number(),
            info: code.info(),
            heard,
            unheard: unheard.into_iter().map(Unheard::of).collect(),
            silent_nodes: silent,
        };
        Ok(envelope::answer(code, &body))
    };
    Ok(waiting.for_answer(waited).await)
}
