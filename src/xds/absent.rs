//! Errors for names of resources that do not exist.

use std::sync::Arc;

use super::names::bare;
use crate::model::mesh::resource::ResourceType;
use crate::proto::envoy::service::discovery::v3::{ResourceError, ResourceName};
use crate::proto::google::rpc::Status;

const NOT_FOUND: i32 = 5;
/// Maximum bytes of a name in an error text.
pub(super) const REPORTED_NAME_BYTES: usize = 256;

/// Returns one NOT_FOUND error per name.
pub(super) fn not_found<'a>(kind: ResourceType, names: impl Iterator<Item = &'a Arc<str>>) -> Vec<ResourceError> {
    let error = |name: &Arc<str>| ResourceError {
        resource_name: Some(ResourceName { name: name.to_string() }),
        error_detail: Some(Status { code: NOT_FOUND, message: absent_text(kind, name), details: Vec::new() }),
    };
    names.map(error).collect()
}

fn absent_text(kind: ResourceType, name: &str) -> String {
    let what = match kind {
        ResourceType::Cluster => "cluster",
        ResourceType::Endpoints => "endpoints",
        ResourceType::Listener => "listener",
        ResourceType::Route => "route configuration",
    };
    let text = crate::model::text::first_bytes(name, REPORTED_NAME_BYTES);
    let is_of_proxy = ["outbound", "inbound"].into_iter().any(|word| name.starts_with(word));
    match bare(text).split_once('/') {
        Some((namespace, service)) if !is_of_proxy && !service.contains(['|', '@']) => {
            format!("no service {service} in namespace {}", namespace.replace("%2F", "/"))
        }
        _ => format!("no {what} {text}"),
    }
}
