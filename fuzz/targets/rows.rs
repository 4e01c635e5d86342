//! Stored rows, one at a time.
#![no_main]

thuban_fuzz::target!("rows");
