//! `POST /naming/v1/{kind}/explain`: which rule would apply to a request, once for all families.

use axum::extract::{Extension, State};

use crate::api::http::{ApiResult, App, Caller, Fresh, Object, envelope};
use crate::model::explain::Sketch;
use crate::model::rule::Family;

/// The rules of the service in order, each with the verdict of its conditions, and what comes of it.
/// Judges what clients with the sketch's labels see, with `draft` what is saved; changes nothing.
pub(crate) async fn explain(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    _: Fresh,
    caller: Caller,
    Object(sketch): Object<Sketch>,
) -> ApiResult {
    Ok(app
        .operations
        .explain(&caller, family, sketch, |explanation| envelope::single("explanation", explanation))
        .await?)
}
