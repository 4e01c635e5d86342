//! OpenID Connect, the half of a relying party: tokens and their checks, keys, discovery documents, requests to a
//! provider and the reading of its responses.
//!
//! Knows nothing of Thuban and does no I/O: time, randomness and responses are arguments. Every input has a maximum
//! length, and every error is a sentence that names the field.
//!
//! A token passes three steps: [`Jwt::parse`] reads it, [`KeySet::verify`] verifies its signature, and one of
//! [`check_id_token`], [`check_bearer`] and [`check_logout_token`] checks its claims. Only verified tokens have claims
//! to check, so no step can be left out.

mod address;
mod algorithm;
mod claims;
mod expected;
mod fault;
mod flows;
mod json;
mod jwt;
mod keys;
mod metadata;
mod pkce;
mod responses;

#[cfg(any(test, feature = "test-support"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(any(test, feature = "test-support"))]
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use address::is_safe_address;
pub use algorithm::Algorithm;
pub use claims::fill_missing;
pub use expected::{Checked, Expected, LogoutToken, check_bearer, check_id_token, check_logout_token};
pub use fault::{FaultCause, OidcFault};
pub use flows::{AuthorizationRequest, ClientAccount, EndSession, FormRequest, authorization_address};
pub use flows::{code_form, device_form, device_token_form, end_session_address, refresh_form};
pub use jwt::{Jwt, SignedJwt, TOKEN_BYTES_MAX, has_jwt_form};
pub use keys::{KEYS_MAX, KeySet, LeftOutKey};
pub use metadata::{ClientAuthentication, Metadata, discovery_address};
pub use pkce::CodeVerifier;
pub use responses::{
    Callback, DevicePoll, DeviceStart, EndpointRefusal, IssuedTokens, read_callback, read_device_poll,
    read_device_start, read_tokens, read_userinfo,
};

/// Maximum length of a document or a response of a provider.
pub const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
