//! `?xds=`: warnings on a write about parts that xDS clients do not implement.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::doc::{Input, Sketch};
use super::error::ApiError;
use super::query::Query;
use crate::model::code::Code;
use crate::openapi::Param;
use crate::operations::XdsWarnings;

const PARAM: Param = Param::word(
    "xds",
    "`warn`: the answer has the warnings W1 to W25, of what proxies and gRPC clients without a proxy do not carry out, \
     also where none was seen in the namespace within the last day.",
    &["warn"],
);

impl FromRequestParts<App> for XdsWarnings {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Response> {
        match Query::parse(parts.uri.query().unwrap_or("")).get(PARAM.name) {
            None => Ok(XdsWarnings::WhereSeen),
            Some("warn") => Ok(XdsWarnings::Always),
            Some(_) => Err(ApiError::new(Code::InvalidParameter, "xds has to be warn").into_response()),
        }
    }
}

impl Input for XdsWarnings {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.query.push(PARAM);
        sketch.codes.insert(Code::InvalidParameter);
    }
}
