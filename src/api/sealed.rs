//! Config files that are kept encrypted, as the documentation tells of them.

use axum::response::Response;

use super::doc::Doc;
use super::envelope::{self, Shape};
use crate::model::code::Code;
use crate::model::sealing;

/// Codes that refuse sealing and opening.
pub(super) const CODES: &[Code] = &[Code::NoDataKey, Code::DecryptConfigFileException, Code::LevelNotReached];

/// Codes that refuse the reading of a content.
pub(super) const READ_CODES: &[Code] = &[Code::NoDataKey, Code::DecryptConfigFileException];

pub(super) const ALGORITHMS: Doc = Doc::new("Config files")
    .says("How the contents of files are encrypted that ask for it (`encrypted`).")
    .gives(Shape::single::<Vec<String>>("algorithms"));

pub(super) async fn algorithms() -> Response {
    envelope::single("algorithms", &[sealing::ALGORITHM])
}
