//! What a peer sends once it has proved the cluster secret.
#![no_main]

thuban_fuzz::target!("frames");
