//! Security-relevant objects: accounts, grants, policies and receivers of events. An unknown field is refused, whatever
//! `?unknown=` says: a field that was dropped silently would leave open what its author meant to close.

use std::marker::PhantomData;

use axum::extract::{FromRequest, Request};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use thuban_documents::parse_noting_all_but;

use super::app::App;
use super::bodies::read_body;
use super::doc::{Input, Sketch};
use super::error::ApiError;
use super::extract::{Batch, parse_object_by};
use super::unknown::Unknown;
use crate::model::access_key::AccessKeyRequest;
use crate::model::approval::RequestDraft;
use crate::model::code::Refusal;
use crate::model::contract::ContractDraft;
use crate::model::policy::PolicyDraft;
use crate::model::service_token::{RotationRequest, ServiceTokenRequest};
use crate::model::sso::{IdentityRequest, ProviderRequest};
use crate::model::webhook::WebhookRequest;
use crate::openapi::schema_of;
use crate::operations::accounts::{PasswordRequest, UserRequest};
use crate::operations::oneself::SessionRequest;

/// Input for a security-relevant object.
pub(crate) trait OfTrust: DeserializeOwned {
    /// Fields that only answers have; a caller that edits a read object sends them back.
    const SHOWN: &'static [&'static str];
}

impl OfTrust for UserRequest {
    const SHOWN: &'static [&'static str] = &["id", "ctime", "mtime"];
}

impl OfTrust for ServiceTokenRequest {
    const SHOWN: &'static [&'static str] =
        &["id", "ctime", "create_by", "mtime", "modify_by", "expires", "previous_until", "secret"];
}

impl OfTrust for RotationRequest {
    const SHOWN: &'static [&'static str] = &[];
}

impl OfTrust for AccessKeyRequest {
    const SHOWN: &'static [&'static str] = &["ctime", "create_by", "mtime", "modify_by"];
}

impl OfTrust for PolicyDraft {
    const SHOWN: &'static [&'static str] = &["ctime", "create_by", "mtime", "modify_by"];
}

impl OfTrust for ContractDraft {
    const SHOWN: &'static [&'static str] = &["ctime", "create_by", "mtime", "modify_by"];
}

impl OfTrust for RequestDraft {
    const SHOWN: &'static [&'static str] = &[];
}

impl OfTrust for WebhookRequest {
    const SHOWN: &'static [&'static str] = &[
        "delivered",
        "pending",
        "dropped",
        "last_success",
        "last_error",
        "last_error_time",
        "failing_since",
        "ctime",
        "create_by",
        "mtime",
        "modify_by",
    ];
}

impl OfTrust for ProviderRequest {
    const SHOWN: &'static [&'static str] = &["has_client_secret", "ctime", "create_by", "mtime", "modify_by"];
}

impl OfTrust for IdentityRequest {
    const SHOWN: &'static [&'static str] = &["name", "ctime", "last_seen"];
}

impl OfTrust for SessionRequest {
    const SHOWN: &'static [&'static str] = &["since", "until", "address", "agent"];
}

impl OfTrust for PasswordRequest {
    const SHOWN: &'static [&'static str] = &[];
}

fn read<T: OfTrust>(raw: &RawValue) -> Result<T, Refusal> {
    let (item, fields) = parse_noting_all_but(T::SHOWN, PhantomData::<T>, raw);
    Unknown::Refuse.judge(item, fields).0
}

/// A batch of security-relevant objects.
pub(crate) struct Strict<T>(pub(crate) Batch<T>);

impl<T: OfTrust> FromRequest<App> for Strict<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let body = read_body(request).await?;
        Ok(Strict(Batch::parse_noting(&body, |raw| (read(raw), Vec::new()))?))
    }
}

impl<T: JsonSchema> Input for Strict<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.batch(schema_of::<T>());
    }
}

/// A body with one security-relevant object.
pub(crate) struct StrictObject<T>(pub(crate) T);

impl<T: OfTrust> FromRequest<App> for StrictObject<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        Ok(StrictObject(parse_object_by(&read_body(request).await?, read)?))
    }
}

impl<T: JsonSchema> Input for StrictObject<T> {
    fn describe(sketch: &mut Sketch<'_>) {
        sketch.object::<T>();
    }
}
