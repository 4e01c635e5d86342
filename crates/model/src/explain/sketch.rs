//! Sketch of a request, which a caller describes for an explanation, and the lookup of values for conditions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::code::{Code, Refusal};
use crate::model::rule::End;
use crate::model::rule::matching::ALL;
use crate::model::rule::traffic::{ArgumentType, GRPC_VERB, HTTP_VERBS};

/// A partial description of a request; it has no values other than those given.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "RequestSketch")]
pub struct Sketch {
    /// Called service.
    pub service: String,
    pub namespace: String,
    pub protocol: Option<String>,
    pub method: Option<String>,
    pub path: Option<String>,
    /// Headers; their names are compared without regard to case.
    pub headers: BTreeMap<String, String>,
    pub query: BTreeMap<String, String>,
    pub cookies: BTreeMap<String, String>,
    /// Values for conditions of the type CUSTOM.
    pub labels: BTreeMap<String, String>,
    #[serde(alias = "callerIp")]
    pub caller_ip: Option<String>,
    #[serde(alias = "callerService")]
    pub caller_service: Option<String>,
    /// Namespace of the caller; that of the called service if absent.
    #[serde(alias = "callerNamespace")]
    pub caller_namespace: Option<String>,
    #[serde(alias = "callerMetadata", alias = "caller_labels", alias = "callerLabels")]
    pub caller_metadata: BTreeMap<String, String>,
    /// Labels of the client that fetches the rules; they select gray releases.
    #[serde(alias = "clientLabels")]
    pub client_labels: BTreeMap<String, String>,
    /// True if calls of the service use gRPC; derived, not given.
    #[serde(skip)]
    pub is_grpc_called: bool,
    /// True to evaluate the rules as saved instead of as released.
    pub draft: bool,
    /// True to add the differences for this request if everything saved were released.
    pub diff: bool,
}

impl Sketch {
    /// Refuses a sketch without the called service with 400103.
    pub fn check(&self) -> Result<(), Refusal> {
        let missing = [("service", &self.service), ("namespace", &self.namespace)];
        match missing.into_iter().find(|(_, value)| value.is_empty()) {
            Some((field, _)) => Err(Refusal::new(Code::InvalidParameter, format!("{field} is required"))),
            None => Ok(()),
        }
    }

    pub fn client_label(&self, key: &str) -> Option<&str> {
        self.client_labels.get(key).map(String::as_str)
    }

    /// Reports whether one of `ends` is the called service.
    pub(crate) fn calls_any(&self, ends: impl IntoIterator<Item = End>) -> bool {
        ends.into_iter().any(|end| end.covers(&self.namespace, &self.service))
    }

    /// Reports whether `end` covers the calling service; only `*` covers an unknown caller.
    pub(crate) fn is_from(&self, end: &End) -> bool {
        end.covers(self.caller_namespace(), self.caller_service.as_deref().unwrap_or_default())
    }

    /// Returns the method of a gRPC call: the last part of the path, or the given method unless it is an HTTP verb.
    pub(super) fn grpc_method(&self) -> Option<&str> {
        let of_path = self.path.as_deref().and_then(|path| path.rsplit('/').next());
        of_path.or_else(|| self.method.as_deref().filter(|method| !HTTP_VERBS.contains(method)))
    }

    fn caller_namespace(&self) -> &str {
        self.caller_namespace.as_deref().unwrap_or(&self.namespace)
    }

    /// Returns the value to which a condition on `kind` and `key` applies, if the request has it.
    pub(super) fn value(&self, kind: ArgumentType, key: &str) -> Option<&str> {
        match kind {
            ArgumentType::Custom => self.labels.get(key).map(String::as_str),
            ArgumentType::Method if self.is_grpc_called => Some(self.grpc_method().unwrap_or(GRPC_VERB)),
            ArgumentType::Method => self.method.as_deref(),
            ArgumentType::Header => {
                let mut headers = self.headers.iter();
                headers.find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value.as_str())
            }
            ArgumentType::Query => self.query.get(key).map(String::as_str),
            ArgumentType::CallerIp => self.caller_ip.as_deref(),
            ArgumentType::Path => self.path.as_deref(),
            ArgumentType::Cookie => self.cookies.get(key).map(String::as_str),
            ArgumentType::CallerMetadata => self.caller_metadata.get(key).map(String::as_str),
            ArgumentType::CallerService => {
                let is_there = key.is_empty() || key == ALL || key == self.caller_namespace();
                self.caller_service.as_deref().filter(|_| is_there)
            }
        }
    }
}

/// Describes the part of a request that a condition concerns.
pub(crate) fn named(kind: ArgumentType, key: &str) -> String {
    match kind {
        ArgumentType::Custom => format!("label {key}"),
        ArgumentType::Method => "method".into(),
        ArgumentType::Header => format!("header {key}"),
        ArgumentType::Query => format!("query parameter {key}"),
        ArgumentType::CallerIp => "caller address".into(),
        ArgumentType::Path => "path".into(),
        ArgumentType::Cookie => format!("cookie {key}"),
        ArgumentType::CallerMetadata => format!("caller label {key}"),
        ArgumentType::CallerService if key.is_empty() || key == ALL => "caller".into(),
        ArgumentType::CallerService => format!("caller of namespace {key}"),
    }
}
