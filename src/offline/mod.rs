//! What is done to a data directory or a backup while no node runs: looking at it ([`inspect`]), a
//! directory of a new cluster out of a backup ([`restore`]), a cluster of one out of the node that is
//! left ([`recover`]), a new password ([`reset`]).
//!
//! [`restore`] and [`recover`] end alike ([`founding`]): the state as it was goes through the catalog's one function of
//! rebirth into a snapshot file, which takes the place of all that the directory held. Everything is
//! read and judged before the first byte is written.

mod founding;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub mod inspect;
pub(crate) mod part;
pub mod recover;
pub mod reset;
pub mod restore;
mod survey;
#[cfg(test)]
mod tests;

pub use founding::Founded;
pub use survey::TableSize;
