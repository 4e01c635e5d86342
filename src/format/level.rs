//! Levels: one number for everything that is stored or sent.
//!
//! A command, a field whose absence means something else, a row, a snapshot or a frame between nodes
//! belongs to the level in which it came into being. A binary reads and writes a [`LevelRange`]; the
//! cluster's level is replicated, and nothing above it is proposed. So yesterday's binary runs beside
//! today's for as long as the cluster stays at a level that both know, and can come back until it is
//! raised.
//!
//! Each came with:
//!
//! 1. everything up to and including the first release
//! 2. the level itself, announced by every node; settings; retention of releases; contents of config files kept once,
//!    by digest; request ids that age by the log's own time
//! 3. who asked, with every command that a request made; users with grants, service tokens, access keys, the audit
//!    trail
//! 4. circuit breaker rules; promoting, withdrawing and scheduling releases, gray ones for a percentage, their history;
//!    publishing what was judged or seen alone; TOML files
//! 5. config files that are kept encrypted, templates of files; what a service says of its dead instances; webhooks
//! 6. the revision that a change of health was judged by; the membership in the hashes that members compare
//! 7. judgement of rules by their effect; rows of refusals that count; revisions of everything that can be updated
//! 8. the address for gRPC in a node's record; policies, requests and contracts; gray releases that grow by steps
//! 9. requests that several acts share
//!
//! `controllers::levels` raises the level of a cluster, and `store::identity` says what a data directory may hold. A
//! change of any of these formats takes a new level, an item of the list above, and a small data
//! directory in `tests/levels` that every later build opens.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number of the list above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Level(pub u8);

impl Level {
    /// Level of what was written before levels existed.
    pub const FIRST: Level = Level(1);
    /// Announced levels, settings, retention.
    pub const SETTINGS: Level = Level(2);
    /// Commands that say who asked, what they may do, and what came of it.
    pub const TRUST: Level = Level(3);
    /// A fourth family of rules, and what else may become of a release.
    pub const ROLLOUT: Level = Level(4);
    /// Care for what is secret, for the dead, and for who wants to be told.
    pub const CUSTODY: Level = Level(5);
    /// A change of health names the revision it was found at; the membership is part of the compared hash.
    pub const EDGES: Level = Level(6);
    /// Rights that mean what they say: rules are judged by whom they touch, each row can be compared before it is
    /// changed.
    pub const RIGHTS: Level = Level(7);
    /// Approval by others, gray releases that grow by steps, the address for gRPC of a node.
    pub const APPROVAL: Level = Level(8);
    /// Requests for approval of several acts together.
    pub const REQUEST_SETS: Level = Level(9);
    /// The highest that this binary reads and writes.
    pub const NEWEST: Level = Level::REQUEST_SETS;

    /// For fields that are left out at the first level, so that their bytes stay what they were.
    pub fn is_first(&self) -> bool {
        *self == Level::FIRST
    }
}

/// Data that names no level was written before there were any.
impl Default for Level {
    fn default() -> Self {
        Level::FIRST
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The levels that a binary reads and writes, both ends included. The default is that of a node that
/// does not announce any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelRange {
    pub min: Level,
    pub max: Level,
}

impl LevelRange {
    /// All that this binary can do.
    pub const OWN: LevelRange = LevelRange { min: Level::FIRST, max: Level::NEWEST };

    pub fn contains(self, level: Level) -> bool {
        (self.min..=self.max).contains(&level)
    }

    /// The same, but never above `max`: a node told to hold back.
    pub fn up_to(self, max: Level) -> LevelRange {
        LevelRange { max: self.max.min(max), ..self }
    }
}

impl fmt::Display for LevelRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}
