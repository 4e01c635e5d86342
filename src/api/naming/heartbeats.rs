//! `/v1/Heartbeat`: heartbeats of an instance, or of many from an agent.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::instances::{DOC, FIELDS};
use crate::api::http::{ApiError, ApiResult, App, Batch, Caller, Doc, Shape, envelope};
use crate::catalog::Catalog;
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::model::instance::InstanceDraft;

/// Instance whose heartbeat was accepted.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AliveInstance")]
struct Alive {
    id: String,
}

pub(crate) const HEARTBEAT: Doc = DOC
    .says(
        "An instance is alive, or each of an array, for an agent that speaks for many: answered when the leader knows.",
    )
    .gives(Shape::one_or_batch::<Alive>("instance"))
    .codes(&[FIELDS, &[Code::NotFoundResource, Code::HealthCheckNotOpen]]);

pub(crate) async fn heartbeat(State(app): State<App>, caller: Caller, batch: Batch<InstanceDraft>) -> ApiResult {
    let Batch { items, is_single, warnings } = batch.checked(InstanceDraft::check_named);
    let named: Vec<Result<String, Refusal>> = items.into_iter().map(|draft| Ok(draft?.instance_id())).collect();
    let beats = await_known(&app, &caller, named).await?;
    match (is_single, beats.as_slice()) {
        (true, [Err(refusal)]) => return Err(refusal.clone().into()),
        _ if beats.iter().any(Result::is_ok) => app.node().member().beat(beats.iter().flatten().cloned()).await?,
        _ => {}
    }
    let alive: Vec<_> = beats.into_iter().map(|beat| Ok(Alive { id: beat? })).collect();
    Ok(match alive.as_slice() {
        [Ok(alive)] if is_single => envelope::one_of("instance", alive, warnings.first().map_or(&[], Vec::as_slice)),
        alive => envelope::batch_of("instance", alive, &warnings),
    })
}

/// Returns the ids, or the reason of a refusal. An instance that was just registered through another node may be
/// unknown here, so a linearizable read decides.
async fn await_known(
    app: &App,
    caller: &Caller,
    named: Vec<Result<String, Refusal>>,
) -> Result<Vec<Result<String, Refusal>>, ApiError> {
    let first_look = {
        let catalog = app.node().state().catalog();
        named.iter().flatten().all(|id| expects_beats(&catalog, caller, id).is_ok())
    };
    if first_look {
        return Ok(named);
    }
    app.node().await_linearizable().await?;
    let catalog = app.node().state().catalog();
    let look = |id: String| expects_beats(&catalog, caller, &id).map(|()| id);
    Ok(named.into_iter().map(|named| named.and_then(look)).collect())
}

/// Refuses an instance without health checks, an unknown one, or one that the caller may not register.
fn expects_beats(catalog: &Catalog, caller: &Caller, id: &str) -> Result<(), Refusal> {
    match catalog.instances.get(id) {
        Some(instance) if caller.grants.may(Verb::Register, &instance.namespace, &instance.service) => {
            instance.heartbeat_ttl.map(drop).ok_or_else(|| Code::HealthCheckNotOpen.into())
        }
        _ => Err(Code::NotFoundResource.into()),
    }
}
