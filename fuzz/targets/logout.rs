//! Logout tokens of identity providers.
#![no_main]

thuban_fuzz::target!("logout");
