//! Single sign-on on the command line: a sign-in at an identity provider (OpenID Connect) by a code on any device or by
//! a browser on this machine, and the commands that list and test the providers of a cluster.
//!
//! The node names the provider and takes the ID token that comes of the sign-in; it alone verifies the token. The
//! command line has no secret of the provider and keeps none of its tokens.

mod commands;
mod device;
mod fault;
mod loopback;
mod provider;
mod sign_in;
#[cfg(test)]
mod tests;

pub(super) use commands::{SsoCommand, run};
pub(super) use fault::SignInFault;
pub(super) use sign_in::{SsoArgs, log_in};
