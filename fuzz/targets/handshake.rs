//! What either end of a connection between nodes says until then.
#![no_main]

thuban_fuzz::target!("handshake");
