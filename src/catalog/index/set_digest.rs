//! Set digest: the revision of many things at once, as the XOR of theirs, updated with every change. A client's
//! question "is it still this one?" costs the same for one thing and for a hundred thousand.

use std::iter::Sum;

use sha2::{Digest, Sha256};

/// XOR over a digest of each thing's id and revision: the same whatever the order in which they
/// came, and what went takes itself out again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetDigest(u128);

impl SetDigest {
    /// Digest of one thing: its share in that of the set.
    pub fn of(id: &str, revision: &str) -> SetDigest {
        let digest = Sha256::new().chain_update(id).chain_update([0]).chain_update(revision).finalize();
        SetDigest(u128::from_be_bytes(digest[..16].try_into().expect("sixteen bytes")))
    }

    /// Takes a thing in that is not there, or out if it is.
    pub(in crate::catalog) fn toggle(&mut self, thing: SetDigest) {
        self.0 ^= thing.0;
    }

    /// 32 hex digits.
    pub fn text(self) -> String {
        format!("{:032x}", self.0)
    }
}

impl Sum for SetDigest {
    fn sum<I: Iterator<Item = SetDigest>>(folds: I) -> SetDigest {
        SetDigest(folds.fold(0, |sum, fold| sum ^ fold.0))
    }
}
