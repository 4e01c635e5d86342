//! Digest of a set of revisions, updated with every change. The check "is this revision still current?" costs the same
//! for one thing and for a hundred thousand.

use std::iter::Sum;

use sha2::{Digest, Sha256};

/// XOR of a digest of each thing's id and revision: independent of the order of insertions, and undone by removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetDigest(u128);

impl SetDigest {
    /// Returns the digest of one thing, its contribution to the set.
    pub fn of(id: &str, revision: &str) -> SetDigest {
        let digest = Sha256::new().chain_update(id).chain_update([0]).chain_update(revision).finalize();
        SetDigest(u128::from_be_bytes(digest[..16].try_into().expect("sixteen bytes")))
    }

    /// Adds a thing to the set, or removes it if it is a member.
    pub(crate) fn toggle(&mut self, thing: SetDigest) {
        self.0 ^= thing.0;
    }

    /// Returns the digest as 32 hex digits.
    pub fn text(self) -> String {
        format!("{:032x}", self.0)
    }
}

impl Sum for SetDigest {
    fn sum<I: Iterator<Item = SetDigest>>(folds: I) -> SetDigest {
        SetDigest(folds.fold(0, |sum, fold| sum ^ fold.0))
    }
}
