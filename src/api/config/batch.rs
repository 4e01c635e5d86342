//! Bodies with contents of config files, whose byte limit follows from the limit of characters.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::api::http::{ApiError, App, Batch, Input, Sketch, Unknown, read_body_within};
use crate::model::limits;

/// A batch of files.
pub(crate) struct FileBatch<T>(pub(crate) Batch<T>);

impl<T: DeserializeOwned> FromRequest<App> for FileBatch<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let unknown = Unknown::of(&request)?;
        Ok(FileBatch(Batch::read(unknown, &read(request, app).await?)?))
    }
}

impl<T: DeserializeOwned + JsonSchema> Input for FileBatch<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        Batch::<T>::describe(sketch);
    }
}

async fn read(request: Request, app: &App) -> Result<Bytes, ApiError> {
    read_body_within(request, bytes_max(app.operations.bounds().config_content_chars_max)).await
}

/// Returns the byte limit for one content of `content_chars_max` characters and the usual other fields.
fn bytes_max(content_chars_max: usize) -> usize {
    limits::BODY_BYTES_MAX + content_chars_max * limits::BODY_BYTES_PER_CHARACTER
}
