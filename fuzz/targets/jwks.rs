//! Key sets of identity providers.
#![no_main]

thuban_fuzz::target!("jwks");
