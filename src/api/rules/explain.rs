//! `POST /naming/v1/{kind}/explain`: the rule that would apply to a request, for all families.

use axum::extract::{Extension, State};

use crate::api::http::{ApiResult, App, Caller, Fresh, Object, envelope};
use crate::model::explain::Sketch;
use crate::model::rule::Family;

/// Returns the rules of the service in order, each with the verdict of its conditions, and the result. Evaluates what
/// clients with the given labels see, or with `draft` the saved rules; changes nothing.
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
