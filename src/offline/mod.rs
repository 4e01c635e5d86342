//! Operations on a data directory or a backup while no node runs: looking at it ([`inspect`]), a directory of a new
//! cluster out of a backup ([`restore`]), a cluster of one out of the node that is left ([`recover`]), a new password
//! ([`reset`]).
//!
//! [`restore`] and [`recover`] end alike: the state as it was goes through the catalog's one function of rebirth
//! ([`founding`]) into a file ([`seed_file`]) whose rows take the place of all that a directory held, on this node and
//! on those that the file is copied to. Everything is read and judged before the first byte of a directory is written.

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

/// Gives all that was written to the owner of the directory, also where the work failed: root may have done it, and the
/// node runs as another user.
fn owned<T>(dir: &Path, done: anyhow::Result<T>) -> anyhow::Result<T> {
    if dir.is_dir() {
        give_to_owner_of(dir).with_context(|| format!("files in {} could not be given to its owner", dir.display()))?;
    }
    done
}
