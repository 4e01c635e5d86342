//! Domain model: names, limits, codes and the objects of the registry.
//!
//! Plain Rust and serde: no I/O, no clock, no randomness, no HTTP, no Raft. A type that is both sent by a caller and
//! part of a command (a *draft*) has the field names of the wire, which the specification fixes; stored rows are
//! versioned by the table in `catalog::row`.

pub mod access;
pub mod access_key;
pub mod act_words;
pub mod alias;
pub mod approval;
pub mod audience;
pub mod code;
pub mod config_file;
pub mod config_format;
pub mod config_group;
pub mod config_lookup;
mod config_name;
pub mod config_template;
pub mod content;
pub mod contract;
pub mod diff;
mod draft;
pub mod explain;
pub mod grant;
pub mod heartbeat;
pub mod host;
pub mod instance;
pub mod limits;
pub mod mesh;
pub mod name;
pub mod namespace;
pub mod news;
pub mod percent;
pub mod policy;
pub mod properties;
pub mod release;
pub mod remote;
pub mod rollout;
pub mod rule;
pub mod sealing;
pub mod service;
pub mod service_token;
pub mod settings;
pub mod signature;
pub mod spelling;
pub mod sso;
pub mod stamp;
pub mod text;
pub mod texts;
pub mod time;
pub mod webhook;
pub mod wire;

use crate as model;
use thuban_base as format;
#[cfg(test)]
use thuban_base::test_seed;

/// Returns the first eight bytes of a digest as a big-endian number.
pub fn number_of(digest: &[u8]) -> u64 {
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Reports whether an update names a revision that is not the current one. An empty revision counts as absent.
pub fn is_stale(given: &Option<String>, current: &str) -> bool {
    given.as_deref().is_some_and(|given| !given.is_empty() && given != current)
}

/// Reports whether a text is given and not empty.
pub(crate) fn is_said(given: &Option<String>) -> bool {
    given.as_deref().is_some_and(|given| !given.is_empty())
}

/// Reports whether a text is absent or empty, for fields that are then not serialized.
pub(crate) fn is_unsaid(given: &Option<String>) -> bool {
    !is_said(given)
}

/// Reports whether a number is zero, for fields that are then not serialized.
pub fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Reports whether a flag is false, for fields that are then not serialized.
pub fn is_false(flag: &bool) -> bool {
    !flag
}
