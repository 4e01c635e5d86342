//! Levels: one number for the version of everything that is stored or sent.
//!
//! Commands, rows, snapshots, frames between nodes and fields whose absence means something belong to the level that
//! introduced them. A binary reads and writes a [`LevelRange`]; the level of the cluster is replicated, and nothing
//! above it is proposed. The previous version of the binary can therefore run next to the new one, and can come back,
//! until the level is raised.
//!
//! There is one level, that of the first release. A change of a format adds a level: a constant here, its golden bytes
//! and their digest in [`DIGESTS`], and a small data directory in `tests/levels`. Until the first release is out, level
//! 1 is extended in place instead: its golden bytes and [`DIGESTS`] change, and a data directory of a build with
//! another digest is refused at the start (`store::identity`).
//!
//! The feature `next-level` adds level 2 for tests: one command, one row and one call between nodes. Upgrades, mixed
//! clusters and the way back are tested through it.
//!
//! `controllers::levels` raises the level of a cluster.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Level of the stored and sent formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Level(pub u8);

impl Level {
    /// Level of the first release.
    pub const FIRST: Level = Level(1);
    /// Level that exists only in tests.
    #[cfg(feature = "next-level")]
    pub const NEXT: Level = Level(2);
    /// Highest level that this binary can read and write.
    pub const NEWEST: Level = Level(DIGESTS.len() as u8);

    /// Returns the digest of the formats of this level: empty if this binary does not know the level.
    pub fn digest(self) -> &'static str {
        usize::from(self.0).checked_sub(1).and_then(|index| DIGESTS.get(index)).copied().unwrap_or_default()
    }

    /// Reports whether this is the first level, which fields omit.
    pub fn is_first(&self) -> bool {
        *self == Level::FIRST
    }
}

/// Digests of the golden bytes of each level, starting with the first: the beginning of a SHA-256 in hex.
/// `catalog::tests::golden` computes them.
pub const DIGESTS: &[&str] = &[
    "6134b0ef7cbc3139",
    #[cfg(feature = "next-level")]
    "next-level",
];

/// The first level, for data that names none.
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

/// Levels that a binary reads and writes, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelRange {
    pub min: Level,
    pub max: Level,
}

impl LevelRange {
    /// All levels that this binary can read and write.
    pub const OWN: LevelRange = LevelRange { min: Level::FIRST, max: Level::NEWEST };
    /// Levels that a node supports unless `--level-max` is set: those of releases.
    pub const RELEASED: LevelRange = LevelRange { min: Level::FIRST, max: Level::FIRST };

    pub fn contains(self, level: Level) -> bool {
        (self.min..=self.max).contains(&level)
    }

    /// Returns the same range with an upper end of at most `max`.
    pub fn up_to(self, max: Level) -> LevelRange {
        LevelRange { max: self.max.min(max), ..self }
    }
}

impl fmt::Display for LevelRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}
