//! The store as a whole: what it keeps through restarts, damage and the loss of power.

mod full_disk;
mod log;
mod power_loss;
mod recovery;
mod rows;
mod snapshot;
mod space;
mod store;
mod suite;

// The same small file systems as those of whole nodes.
#[path = "../../../tests/it/harness/small_disk.rs"]
mod small_disk;
