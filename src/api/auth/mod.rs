//! `/auth/v1`, and login and logout under `/core/v1`: users, sessions, service tokens, access keys.

pub(crate) mod access_keys;
pub(crate) mod identities;
pub(crate) mod login;
pub(crate) mod oneself;
pub(crate) mod providers;
pub(crate) mod sso;
pub(crate) mod tokens;
pub(crate) mod users;
