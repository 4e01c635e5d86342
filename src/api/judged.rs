//! Publishing what is well-formed, over HTTP.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::App;
use super::auth::Caller;
use super::error::ApiError;
use super::extract::Batch;
use super::query::Query;
use crate::model::config_file::ConfigFileDraft;
use crate::openapi::Param;

/// `?force=true`: what is not well-formed is published all the same.
pub(super) struct Force(pub(super) bool);

impl Force {
    pub(super) const PARAM: Param = Param::flag(
        "force",
        "Publish also what is not well-formed by its format. Properties are never published broken: clients get their pairs.",
    );
}

impl FromRequestParts<App> for Force {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        Ok(Force(query.flag(Force::PARAM.name)?.unwrap_or(false)))
    }
}

/// Notes beside each draft what keeps it from being published.
pub(super) async fn note_faults(
    app: &App,
    caller: &Caller,
    batch: Batch<ConfigFileDraft>,
) -> Result<Batch<ConfigFileDraft>, ApiError> {
    let Batch { items, is_single, mut warnings } = batch;
    let (items, faults) = app.faults(caller, items).await?;
    warnings.resize(items.len(), Vec::new());
    for (warnings, faults) in warnings.iter_mut().zip(faults) {
        warnings.extend(faults);
    }
    Ok(Batch { items, is_single, warnings })
}
