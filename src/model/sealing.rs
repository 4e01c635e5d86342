//! Config files whose content is kept encrypted: in the log, in rows, in snapshots and in backups it is sealed, and
//! what is replicated never needs to know what it says.
//!
//! The node that takes a request seals the content under the data key before it proposes anything. Apply compares
//! sealed contents as it compares any: equal ones of a file are sealed alike. What a node made of a content depends on
//! whether the file was encrypted when it looked, and on what its content was, where the caller gave none: it says so
//! ([`Sealing`]), and apply does not take what was made for another state of the file.

use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::content::Content;

/// Algorithm that encrypts contents, in the words of the field.
pub const ALGORITHM: &str = "XChaCha20-Poly1305";

/// Change that a node made to the content of a draft.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealing {
    /// The content is sealed; else it was opened.
    pub is_sealed: bool,
    /// The content that the caller did not give and that it was made of, without its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_of: Option<Content>,
}

/// A caller may name the algorithm, and is not given another one than it asks for.
pub(super) fn check_algorithm(named: Option<&str>) -> Result<(), Refusal> {
    match named.filter(|named| !named.is_empty() && !named.eq_ignore_ascii_case(ALGORITHM)) {
        Some(_) => Err(Refusal::new(Code::InvalidParameter, format!("encryptAlgo: there is {ALGORITHM} alone"))),
        None => Ok(()),
    }
}
