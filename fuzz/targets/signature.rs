//! Headers of signed requests.
#![no_main]

thuban_fuzz::target!("signature");
