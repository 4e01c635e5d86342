//! `/v1/Heartbeat`: heartbeats of an instance, or of many from an agent.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::instances::{DOC, FIELDS};
use crate::api::http::{ApiResult, App, Batch, Caller, Doc, Shape, envelope};
use crate::model::code::{Code, Refusal};
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
    let beats = app.operations.expecting_beats(&caller, named).await?;
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
