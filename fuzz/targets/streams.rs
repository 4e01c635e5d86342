//! Requests of clients of xDS on one stream.
#![no_main]

thuban_fuzz::target!("streams");
