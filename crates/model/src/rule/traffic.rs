//! Parts of a request to which conditions of all families apply.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::matching::MatchString;
use crate::model::wire::{Words, wire_enum};

/// HTTP verbs, as they occur in conditions on METHOD.
pub const HTTP_VERBS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
/// Verb of every call of gRPC.
pub const GRPC_VERB: &str = "POST";

wire_enum! {
    /// Part of a request to which a condition applies.
    pub enum ArgumentType {
        Custom = "CUSTOM",
        Method = "METHOD",
        Header = "HEADER",
        Query = "QUERY",
        CallerIp = "CALLER_IP",
        Path = "PATH",
        Cookie = "COOKIE",
        CallerMetadata = "CALLER_METADATA",
        CallerService = "CALLER_SERVICE",
    }
}

wire_enum! {
    /// [`ArgumentType`] with the numbers that the Polaris family gives it in rate limits.
    pub enum LimitArgumentType {
        Custom = "CUSTOM",
        Method = "METHOD",
        Header = "HEADER",
        Query = "QUERY",
        CallerService = "CALLER_SERVICE",
        CallerIp = "CALLER_IP",
        CallerMetadata = "CALLER_METADATA",
        Path = "PATH",
        Cookie = "COOKIE",
    }
}

impl From<LimitArgumentType> for ArgumentType {
    fn from(kind: LimitArgumentType) -> Self {
        match kind {
            LimitArgumentType::Custom => ArgumentType::Custom,
            LimitArgumentType::Method => ArgumentType::Method,
            LimitArgumentType::Header => ArgumentType::Header,
            LimitArgumentType::Query => ArgumentType::Query,
            LimitArgumentType::CallerService => ArgumentType::CallerService,
            LimitArgumentType::CallerIp => ArgumentType::CallerIp,
            LimitArgumentType::CallerMetadata => ArgumentType::CallerMetadata,
            LimitArgumentType::Path => ArgumentType::Path,
            LimitArgumentType::Cookie => ArgumentType::Cookie,
        }
    }
}

/// A condition on a part of the request; without a value the part must only be present.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "{T}Condition")]
pub struct Argument<T: Default> {
    #[serde(rename = "type")]
    pub kind: T,
    /// Name of the header, query parameter, cookie, …
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<MatchString>,
}

impl ArgumentType {
    /// Reports whether the key of a condition names the part of the request. METHOD, PATH and CALLER_IP are single
    /// parts; the key of CALLER_SERVICE is the namespace of the caller, and an empty one stands for all.
    fn is_named_by_key(self) -> bool {
        !matches!(
            self,
            ArgumentType::Method | ArgumentType::Path | ArgumentType::CallerIp | ArgumentType::CallerService
        )
    }
}

impl<T: Copy + Default + Into<ArgumentType>> Argument<T> {
    /// Refuses a condition that no request could meet, as it names no part, or whose value cannot be evaluated.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let kind: ArgumentType = self.kind.into();
        if kind.is_named_by_key() && self.key.trim().is_empty() {
            return Err(Fault::new("key", format!("is empty: a condition on {} needs one", kind.word())));
        }
        self.value.iter().try_for_each(|value| value.check().map_err(|fault| fault.within("value")))
    }
}

/// A service by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServiceKey {
    pub service: String,
    pub namespace: String,
}

/// An interface of a service; `*` or nothing for all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Api {
    pub protocol: String,
    pub method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<MatchString>,
}

impl Api {
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.path.iter().try_for_each(|path| path.check().map_err(|fault| fault.within("path")))
    }
}
