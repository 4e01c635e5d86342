//! `?force=true` of publishes over HTTP.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::api::http::{ApiError, App, Input, Query, Sketch};
use crate::model::code::Code;
use crate::openapi::Param;

/// Value of `?force=true`: publish malformed contents as well.
pub(crate) struct Force(pub(crate) bool);

impl Force {
    const PARAM: Param = Param::flag(
        "force",
        "Publish also what is not well-formed by its format. Properties are never published broken: clients get their \
         pairs.",
    );
}

impl FromRequestParts<App> for Force {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        Ok(Force(query.flag(Force::PARAM.name)?.unwrap_or(false)))
    }
}

impl Input for Force {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.query.push(Force::PARAM);
        sketch.codes.insert(Code::InvalidParameter);
    }
}
