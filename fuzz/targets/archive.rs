//! Backups and snapshots, whole.
#![no_main]

thuban_fuzz::target!("archive");
