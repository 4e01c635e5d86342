//! `/admin/v1/policies` and `/admin/v1/requests`: decisions that more than one person makes.

pub(crate) mod policies;
pub(crate) mod requests;
