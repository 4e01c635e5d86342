//! Requests of config clients: target and headers.
#![no_main]

thuban_fuzz::target!("clients");
