//! `/admin/v1/policies`, `/admin/v1/requests` and `/admin/v1/contracts`: approvals by several people, and checks of
//! contents.

pub(crate) mod contracts;
pub(crate) mod policies;
pub(crate) mod requests;
