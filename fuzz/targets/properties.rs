//! Text of config files, and the forms in which clients get it.
#![no_main]

thuban_fuzz::target!("properties");
