//! Revisions of mapped rules.

use prost::Message;
use sha2::{Digest, Sha256};

use crate::v1;

/// Number of this mapping. A change of what is sent for the same rule changes it, so that clients take the new form.
const MAPPING: &str = "1";
const SEPARATOR: char = '-';

/// Returns the revision of one mapped message: equal for equal content, on every node.
pub(crate) fn of_message(message: &impl Message) -> String {
    hex::encode(&Sha256::digest(message.encode_to_vec())[..16])
}

/// Returns the revision of a list of files.
pub fn of_files(files: &[v1::ClientConfigFileInfo]) -> String {
    let mut hash = Sha256::new();
    for file in files {
        hash.update(file.encode_length_delimited_to_vec());
    }
    hex::encode(&hash.finalize()[..16])
}

/// Returns the revision of an answer with rules, for the revision of the rules themselves.
pub fn of_rules(revision: &str) -> String {
    format!("{revision}{SEPARATOR}{MAPPING}")
}

/// Returns the revision of the rules that a client has; empty if another mapping made its answer.
pub fn rules_of(given: &str) -> &str {
    given.rsplit_once(SEPARATOR).filter(|(_, mapping)| *mapping == MAPPING).map_or("", |(revision, _)| revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_of_another_mapping_is_none() {
        assert_eq!(rules_of(&of_rules("abc")), "abc");
        for other in ["", "abc", "abc-0", "-"] {
            assert_eq!(rules_of(other), "", "{other}");
        }
    }
}
