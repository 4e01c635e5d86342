//! Bodies of the management surface, queries and discovery; rules have a target of their own.
#![no_main]

thuban_fuzz::target!("bodies");
