//! Config files with encrypted content: it is sealed in the log, in rows, in snapshots and in backups, and replicated
//! code never needs the clear text.
//!
//! The node that receives a request seals the content under the data key before it proposes it. Apply compares sealed
//! contents like any others: equal contents of one file are sealed alike. The result depends on whether the file was
//! encrypted at that moment and, if the caller gave no content, on the content that the node found. The node records
//! both ([`Sealing`]), and apply does not accept a draft that was prepared for another state of the file.

use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::content::Content;

/// Algorithm that encrypts contents, as named in requests.
pub const ALGORITHM: &str = "XChaCha20-Poly1305";

/// Conversion that a node applied to the content of a draft.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealing {
    /// True if the content was sealed, false if it was opened.
    pub is_sealed: bool,
    /// Stored content that was converted because the caller gave none, without its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_of: Option<Content>,
}

/// Refuses an algorithm other than the one that is implemented.
pub(super) fn check_algorithm(named: Option<&str>) -> Result<(), Refusal> {
    match named.filter(|named| !named.is_empty() && !named.eq_ignore_ascii_case(ALGORITHM)) {
        Some(_) => Err(Refusal::new(Code::InvalidParameter, format!("encryptAlgo: there is {ALGORITHM} alone"))),
        None => Ok(()),
    }
}
