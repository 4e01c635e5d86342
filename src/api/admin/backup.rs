//! `GET /admin/v1/backup`: the whole state as one file, while writes continue.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;

use crate::api::http::{ApiResult, App, Caller, Doc, Fresh};
use crate::model::code::Code;

const OCTETS: &str = "application/octet-stream";

pub(crate) const BACKUP: Doc = Doc::new("Cluster")
    .says("The whole state of this node as one file, for `thuban restore`.")
    .gives_raw(&[(200, OCTETS, "The file; it ends with its checksum, without which it is not whole.")])
    .codes(&[&[Code::TooManyWaiters, Code::StoreLayerException]]);

/// Streams a backup for as long as the client reads it; a client that stops reading is disconnected.
pub(crate) async fn backup(State(app): State<App>, caller: Caller, _: Fresh) -> ApiResult {
    let (name, chunks) = app.operations.backup(&caller).await?;
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [(CONTENT_TYPE, OCTETS), (CONTENT_DISPOSITION, &disposition)];
    Ok((headers, Body::from_stream(chunks)).into_response())
}
