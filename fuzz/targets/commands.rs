//! Commands as members forward them, and as the log has them.
#![no_main]

thuban_fuzz::target!("commands");
