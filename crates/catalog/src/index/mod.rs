//! Containers for any kind of thing: lists in their order and by key, names, releases by thing, a queue, a digest of
//! many revisions, and pages of lists.

pub mod abandoned;
pub(super) mod archive;
pub(super) mod list_index;
pub(super) mod names;
pub mod page;
pub(super) mod queue;
mod segment;
pub mod set_digest;
