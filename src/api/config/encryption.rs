//! Encrypted config files in the documentation of routes.

use axum::response::Response;

use crate::api::http::{Doc, Shape, envelope};
use crate::model::code::Code;
use crate::model::sealing;

/// Codes that refuse sealing and opening.
pub(crate) const CODES: &[Code] = &[Code::NoDataKey, Code::DecryptConfigFileException, Code::LevelNotReached];

/// Codes that refuse the reading of a content.
pub(crate) const READ_CODES: &[Code] = &[Code::NoDataKey, Code::DecryptConfigFileException];

pub(crate) const ALGORITHMS: Doc = Doc::new("Config files")
    .says("The algorithms for the contents of files with `encrypted`.")
    .gives(Shape::single::<Vec<String>>("algorithms"));

pub(crate) async fn algorithms() -> Response {
    envelope::single("algorithms", &[sealing::ALGORITHM])
}
