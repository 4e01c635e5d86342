//! `/admin/v1/policies`, `/admin/v1/requests` and `/admin/v1/contracts`: decisions that more than one person makes, and
//! what has to be kept whoever decides.

pub(crate) mod contracts;
pub(crate) mod policies;
pub(crate) mod requests;
