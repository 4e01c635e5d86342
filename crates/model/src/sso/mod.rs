//! Single sign-on: identity providers of OpenID Connect, the claims of their tokens, and the rights that follow.
//!
//! A provider binds claims to roles. The bindings in force are applied to the claims at every request, so a person has
//! no rights of its own unless an administrator grants some by hand.

mod binding;
mod claims;
mod identity;
mod pattern;
mod provider;
mod request;
#[cfg(test)]
mod tests;

pub use binding::{Binding, Condition};
pub use claims::Claims;
pub use identity::{
    Bearer, FreedIdentity, IdentityKey, IdentityRequest, SsoAuthor, SsoIdentity, SsoLogin, SsoUser, check_sub,
};
pub use provider::{Provider, ProviderDraft};
pub use request::ProviderRequest;

use super::code::{Code, Refusal};

/// Character between the provider and the name of a person. Names of local users never hold it.
pub const SEPARATOR: char = ':';

fn invalid(why: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidParameter, why)
}

/// Returns the refusal of a token whose claims do not suffice.
fn unfit(why: impl Into<String>) -> Refusal {
    Refusal::new(Code::TokenNotExisted, why)
}
