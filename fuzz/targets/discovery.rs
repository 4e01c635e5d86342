//! Discovery documents of identity providers.
#![no_main]

thuban_fuzz::target!("discovery");
