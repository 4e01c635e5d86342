//! The byte form of log entries, the same on disk and between nodes.
//!
//! ```text
//! entry   = version:u8 kind:u8 term:u64 index:u64 payload      (integers big-endian)
//! kind 0  = blank, no payload
//! kind 1  = normal, payload is the proposal, unchanged
//! kind 2  = membership, payload is MessagePack with field names
//! ```
//!
//! The layout is pinned by golden bytes in the tests below: a newer binary must read existing disks. A new layout gets
//! a new version number and a level, and its binary still reads the old one.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use openraft::EntryPayload;
use serde::de::DeserializeOwned;

use super::level::Level;
use super::types::{CommittedLeaderId, Entry, LogId, Proposal};

/// Version of the entry layout.
const ENTRY_VERSION: u8 = 1;
/// Bytes before the payload.
const HEADER_BYTES: usize = 1 + 1 + 8 + 8;

const KIND_BLANK: u8 = 0;
const KIND_NORMAL: u8 = 1;
const KIND_MEMBERSHIP: u8 = 2;

/// Appends the byte form of `entry` to `out`.
pub fn put_entry(out: &mut BytesMut, entry: &Entry) {
    out.reserve(HEADER_BYTES + entry_payload_bytes(entry));
    out.put_u8(ENTRY_VERSION);
    let (kind, payload) = match &entry.payload {
        EntryPayload::Blank => (KIND_BLANK, Bytes::new()),
        EntryPayload::Normal(proposal) => (KIND_NORMAL, proposal.0.clone()),
        EntryPayload::Membership(membership) => (KIND_MEMBERSHIP, to_bytes(membership).into()),
    };
    out.put_u8(kind);
    out.put_u64(entry.log_id.leader_id.term);
    out.put_u64(entry.log_id.index);
    out.put_slice(&payload);
}

/// Returns the byte form of one entry.
pub fn entry_to_bytes(entry: &Entry) -> Bytes {
    let mut out = BytesMut::new();
    put_entry(&mut out, entry);
    out.freeze()
}

/// Reads one entry; the payload shares the memory of `bytes`.
pub fn entry_from_bytes(bytes: Bytes) -> io::Result<Entry> {
    if bytes.len() < HEADER_BYTES {
        return Err(corrupt("a log entry is shorter than its header"));
    }
    if bytes[0] != ENTRY_VERSION {
        return Err(corrupt(&format!(
            "a log entry has layout version {}, this binary reads {ENTRY_VERSION}",
            bytes[0]
        )));
    }
    let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let log_id = LogId::new(CommittedLeaderId::new(number(2)), number(10));
    let payload = match bytes[1] {
        KIND_BLANK => EntryPayload::Blank,
        KIND_NORMAL => EntryPayload::Normal(Proposal(bytes.slice(HEADER_BYTES..))),
        KIND_MEMBERSHIP => EntryPayload::Membership(from_bytes(&bytes[HEADER_BYTES..])?),
        other => return Err(corrupt(&format!("a log entry has the unknown kind {other}"))),
    };
    Ok(Entry { log_id, payload })
}

/// Returns the level that a reader of `entry` needs.
pub fn entry_level(entry: &Entry) -> Level {
    match &entry.payload {
        EntryPayload::Normal(proposal) => proposal.level(),
        EntryPayload::Blank | EntryPayload::Membership(_) => Level::FIRST,
    }
}

/// Returns the size of the payload in bytes, for limits on memory and messages.
pub fn entry_payload_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(proposal) => proposal.0.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    }
}

/// MessagePack with field names, see [`crate::format::pack`].
pub use crate::format::pack::to_bytes;

/// Decodes [`to_bytes`]. Damage is an I/O error, which stops the node.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    crate::format::pack::from_bytes(bytes).map_err(|error| corrupt(&error.to_string()))
}

fn corrupt(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use openraft::Membership;

    use super::*;
    use crate::format::types::Member;

    fn log_id(term: u64, index: u64) -> LogId {
        LogId::new(CommittedLeaderId::new(term), index)
    }

    fn members() -> Membership<u64, Member> {
        let nodes = BTreeMap::from([(1, Member { peer: "n1:8190".into() })]);
        Membership::new(vec![BTreeSet::from([1])], nodes).expect("one voter that is a member")
    }

    /// The bytes of each kind of entry, as the first release wrote them. They never change.
    #[test]
    fn golden_bytes_of_every_kind() {
        let rows = [
            (EntryPayload::Blank, "010000000000000000030000000000000007"),
            (EntryPayload::Normal(Proposal(Bytes::from_static(b"abc"))), "010100000000000000030000000000000007616263"),
            (
                EntryPayload::Membership(members()),
                "01020000000000000003000000000000000782a7636f6e66696773919101a56e6f646573810181a470656572a76e313a38313\
                 930",
            ),
        ];
        for (payload, golden) in rows {
            let entry = Entry { log_id: log_id(3, 7), payload };
            assert_eq!(hex::encode(entry_to_bytes(&entry)), golden);
            let read = entry_from_bytes(hex::decode(golden).expect("hex").into()).expect("readable");
            assert_eq!(read, entry);
        }
    }

    #[test]
    fn damaged_entries_are_refused() {
        for bytes in
            [&b""[..], &b"\x01\x00short"[..], &[9; 40][..], &[1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..]]
        {
            assert!(entry_from_bytes(Bytes::copy_from_slice(bytes)).is_err());
        }
    }
}
