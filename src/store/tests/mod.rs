//! The whole store: restarts, damage and loss of power.

mod full_disk;
mod log;
mod power_loss;
mod recovery;
mod rows;
mod snapshot;
mod space;
mod store;
mod suite;

// The small filesystems of the tests of whole nodes.
#[path = "../../../tests/it/harness/small_disk.rs"]
mod small_disk;
