//! Operations on a data directory or a backup while no node runs: its inspection ([`inspect`]), a directory of a new
//! cluster from a backup ([`restore`]), a new cluster from the remaining node ([`recover`]), a new password
//! ([`reset`]).
//!
//! [`restore`] and [`recover`] end in the same way: the catalog's function for rebirth ([`founding`]) transforms the
//! state into a file ([`seed_file`]), whose rows replace everything in the directory, on this node and on those that
//! the file is copied to. All input is read and checked before the first byte of a directory is written.

pub(crate) mod atomic_file;
mod founding;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub mod inspect;
pub mod recover;
pub mod reset;
pub mod restore;
mod seed_file;
mod state_scan;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::Context;

use crate::store::give_to_owner_of;

pub use founding::Founded;
pub use state_scan::TableSize;

/// Changes the owner of all written files to the owner of the directory, even if the work failed: the command may run
/// as root, and the node as another user.
fn owned<T>(dir: &Path, done: anyhow::Result<T>) -> anyhow::Result<T> {
    if dir.is_dir() {
        give_to_owner_of(dir).with_context(|| format!("files in {} could not be given to its owner", dir.display()))?;
    }
    done
}
