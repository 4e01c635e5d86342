//! Tests against a provider that is hostile, slow or away.

mod diagnosis;
mod fetches;
mod provider;
mod sign_in;
mod tokens;
