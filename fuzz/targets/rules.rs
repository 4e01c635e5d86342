//! Rules of every family, their releases, and explanations.
#![no_main]

thuban_fuzz::target!("rules");
