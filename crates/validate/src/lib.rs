//! Validation of contents that are received, before they are proposed: syntax ([`well_formed`]), schemas and
//! expressions ([`contracts`]), archives of config files ([`bundle`]).
//!
//! Parsers and engines of others are used here alone, within limits of time, memory and depth. Another version of them
//! may decide differently, so apply, and therefore the catalog, must not know this crate; nor does this crate know the
//! catalog, a disk, a socket or Raft.

pub mod bundle;
pub mod contracts;
pub mod well_formed;

#[cfg(test)]
use thuban_base::test_seed;
use thuban_model as model;
