//! `GET /admin/v1/backup`: the whole state as one file, while writes go on.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use super::App;
use super::auth::Caller;
use super::doc::Doc;
use super::error::ApiError;
use super::query::Fresh;
use crate::format::header::StateHeader;
use crate::model::code::Code;

const OCTETS: &str = "application/octet-stream";

pub(super) const BACKUP: Doc = Doc::new("Cluster")
    .says("The whole state of this node as one file, for `thuban restore`.")
    .gives_raw(&[(200, OCTETS, "The file; it ends with its checksum, without which it is not whole.")])
    .codes(&[&[Code::TooManyWaiters, Code::StoreLayerException]]);

/// Held for as long as its reader takes; one that stops taking is cut.
pub(super) async fn backup(State(app): State<App>, caller: Caller, _: Fresh) -> Result<Response, ApiError> {
    let backup = app.node.backup().await.map_err(ApiError::from);
    let code = backup.as_ref().map_or_else(|error| error.0.code, |_| Code::ExecuteSuccess);
    app.note_done(&caller, "backup", ("cluster", ""), code);
    let backup = backup?;
    tracing::info!(by = caller.name, "a backup was begun");
    let disposition = format!("attachment; filename=\"{}\"", file_name(&backup.header));
    let headers = [(CONTENT_TYPE, OCTETS), (CONTENT_DISPOSITION, &disposition)];
    Ok((headers, Body::from_stream(backup.chunks)).into_response())
}

/// The cluster, shortened, and the log index.
fn file_name(header: &StateHeader) -> String {
    let cluster = header.cluster_id.as_deref().unwrap_or_default();
    let index = header.last_log_id.map_or(0, |id| id.index);
    format!("thuban-{}-{index}.backup", cluster.get(..8).unwrap_or(cluster))
}
