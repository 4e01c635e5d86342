//! Bodies with contents of config files: their limit of bytes leaves room for the limit of characters.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::App;
use super::bodies::read_body_within;
use super::error::ApiError;
use super::extract::Batch;
use super::unknown::{Noted, Unknown};
use crate::model::limits;

/// A batch of files.
pub(super) struct Contents<T>(pub(super) Batch<T>);

/// The same, and its items answer for the fields that are not known.
pub(super) struct NotedContents<T>(pub(super) Batch<T>);

impl<T: DeserializeOwned> FromRequest<App> for Contents<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        Ok(Contents(Batch::parse(&read(request, app).await?)?))
    }
}

impl<T: DeserializeOwned> FromRequest<App> for NotedContents<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let unknown = Unknown::of(&request)?;
        let Noted(batch) = Noted::read(unknown, &read(request, app).await?)?;
        Ok(NotedContents(batch))
    }
}

async fn read(request: Request, app: &App) -> Result<Bytes, ApiError> {
    read_body_within(request, bytes_max(app.bounds.config_content_chars_max)).await
}

/// For one content of so many characters, and what is usual beside it.
fn bytes_max(content_chars_max: usize) -> usize {
    limits::BODY_BYTES_MAX + content_chars_max * limits::BODY_BYTES_PER_CHARACTER
}
