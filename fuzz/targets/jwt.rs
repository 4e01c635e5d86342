//! Tokens of identity providers.
#![no_main]

thuban_fuzz::target!("jwt");
