//! The sketch of a request: what a caller of the explanation tells of it, and how a condition finds
//! the value that it is about.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::code::{Code, Refusal};
use crate::model::rule::End;
use crate::model::rule::matching::ALL;
use crate::model::rule::traffic::{ArgumentType, GRPC_VERB, HTTP_VERBS};

/// A request as far as it is known; what is left out, it does not carry.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "RequestSketch")]
pub struct Sketch {
    /// The service that is called.
    pub service: String,
    pub namespace: String,
    pub protocol: Option<String>,
    pub method: Option<String>,
    pub path: Option<String>,
    /// Names are compared without regard to case.
    pub headers: BTreeMap<String, String>,
    pub query: BTreeMap<String, String>,
    pub cookies: BTreeMap<String, String>,
    /// Value for conditions of the type CUSTOM.
    pub labels: BTreeMap<String, String>,
    #[serde(alias = "callerIp")]
    pub caller_ip: Option<String>,
    #[serde(alias = "callerService")]
    pub caller_service: Option<String>,
    /// That of the service that is called, if absent.
    #[serde(alias = "callerNamespace")]
    pub caller_namespace: Option<String>,
    #[serde(alias = "callerMetadata", alias = "caller_labels", alias = "callerLabels")]
    pub caller_metadata: BTreeMap<String, String>,
    /// Labels of the client that asks for rules: they choose among gray releases.
    #[serde(alias = "clientLabels")]
    pub client_labels: BTreeMap<String, String>,
    /// Calls of the service are calls of gRPC; found out, not said.
    #[serde(skip)]
    pub is_grpc_called: bool,
    /// Asks about the rules as they are saved, not as they are released.
    pub draft: bool,
    /// Asks as well what would be different for this request if everything that is saved were released.
    pub diff: bool,
}

impl Sketch {
    /// Refuses a sketch that does not say who is called: 400103.
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

    /// True if one of `ends` is the service that is called.
    pub(in crate::model) fn calls_any(&self, ends: impl IntoIterator<Item = End>) -> bool {
        ends.into_iter().any(|end| end.covers(&self.namespace, &self.service))
    }

    /// True if `end` is the calling service; an unknown caller is `*` at most.
    pub(in crate::model) fn is_from(&self, end: &End) -> bool {
        end.covers(self.caller_namespace(), self.caller_service.as_deref().unwrap_or_default())
    }

    /// Method of a call of gRPC: the last part of the path, or the method that is given, unless it is a verb of HTTP.
    pub(super) fn grpc_method(&self) -> Option<&str> {
        let of_path = self.path.as_deref().and_then(|path| path.rsplit('/').next());
        of_path.or_else(|| self.method.as_deref().filter(|method| !HTTP_VERBS.contains(method)))
    }

    fn caller_namespace(&self) -> &str {
        self.caller_namespace.as_deref().unwrap_or(&self.namespace)
    }

    /// The value that a condition on `kind` and `key` looks at, if the request carries it.
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

/// The part of a request that a condition is about, as a person would say it.
pub(in crate::model) fn named(kind: ArgumentType, key: &str) -> String {
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
