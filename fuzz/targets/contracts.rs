//! Contracts, schemas and expressions, over contents of every format: bounded in time and memory, whatever they say.
#![no_main]

thuban_fuzz::target!("contracts");
