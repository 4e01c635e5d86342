//! Paths of services, and the size limits of their requests.

use crate::model::limits;
use crate::operations::Operations;

/// Prefix of the paths of Polaris' services, which answer refused credentials themselves.
pub(super) const POLARIS: &str = "/v1.Polaris";
/// Prefix of the paths of Polaris' config service, whose messages have contents.
const POLARIS_CONFIG: &str = "/v1.PolarisConfigGRPC/";
const BYTES_PER_CHAR_MAX: usize = 4;

/// Returns the size limit for a message of a service that is not the discovery service.
pub(super) fn request_bytes_max(path: &str, operations: &Operations) -> usize {
    match path {
        path if path.starts_with(POLARIS_CONFIG) => content_bytes_max(operations),
        path if path.starts_with(POLARIS) => limits::GRPC_REQUEST_BYTES_MAX,
        _ => limits::GRPC_QUESTION_BYTES_MAX,
    }
}

/// Returns the size limit for a message with the content of a config file.
pub(super) fn content_bytes_max(operations: &Operations) -> usize {
    let of_content = operations.bounds().config_content_chars_max.saturating_mul(BYTES_PER_CHAR_MAX);
    of_content.saturating_add(limits::GRPC_REQUEST_BYTES_MAX)
}
