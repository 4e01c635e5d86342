//! The byte form of a proposal.
//!
//! ```text
//! draft    = request:16 by_length:u8 by command          made by the node that takes the request
//! proposal = version:u8 time_ms:u64 seed:16 draft        stamped by the leader
//! ```
//!
//! A follower forwards the draft; the leader puts its stamps in front and never decodes it. Time
//! and seed are the only things in an entry that a leader decides, and apply knows no others.

use bytes::{BufMut, Bytes, BytesMut};

use super::types::Proposal;
use crate::catalog::{Command, Ctx, RequestId};
use crate::model::time::Timestamp;
use crate::pack;

/// Version of the layout.
const PROPOSAL_VERSION: u8 = 1;
const STAMP_BYTES: usize = 1 + 8 + 16;
const REQUEST_BYTES: usize = 16;

/// A command that has not been stamped yet.
pub fn draft(request: RequestId, by: &str, command: &Command) -> Bytes {
    let command = pack::to_bytes(command);
    let by = cut_to_bytes(by, u8::MAX as usize);
    let mut out = BytesMut::with_capacity(REQUEST_BYTES + 1 + by.len() + command.len());
    out.put_u128(request.0);
    out.put_u8(u8::try_from(by.len()).expect("cut to 255 bytes"));
    out.put_slice(by.as_bytes());
    out.put_slice(&command);
    out.freeze()
}

/// The whole characters of `text` that fit into `bytes_max` bytes.
fn cut_to_bytes(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

/// Puts the leader's stamps on a draft.
pub fn stamp(time: Timestamp, seed: [u8; 16], draft: &[u8]) -> Proposal {
    let mut out = BytesMut::with_capacity(STAMP_BYTES + draft.len());
    out.put_u8(PROPOSAL_VERSION);
    out.put_u64(time.0);
    out.put_slice(&seed);
    out.put_slice(draft);
    Proposal(out.freeze())
}

/// Opens the proposal of the entry at `index`.
pub fn open(index: u64, proposal: &Proposal) -> Result<(Ctx, Command), String> {
    let bytes = &proposal.0[..];
    let (stamps, draft) = bytes.split_at_checked(STAMP_BYTES).ok_or("shorter than its stamps")?;
    if stamps[0] != PROPOSAL_VERSION {
        return Err(format!("layout version {}, this binary reads {PROPOSAL_VERSION}", stamps[0]));
    }
    let time = Timestamp(u64::from_be_bytes(stamps[1..9].try_into().expect("eight bytes")));
    let seed = stamps[9..].try_into().expect("sixteen bytes");
    let (request, rest) = draft.split_at_checked(REQUEST_BYTES).ok_or("no request id")?;
    let request = RequestId(u128::from_be_bytes(request.try_into().expect("sixteen bytes")));
    let (by_length, rest) = rest.split_first().ok_or("no proposer")?;
    let (by, command) = rest.split_at_checked(usize::from(*by_length)).ok_or("a cut proposer")?;
    let by = str::from_utf8(by).map_err(|error| error.to_string())?;
    let command = pack::from_bytes(command).map_err(|error| error.to_string())?;
    Ok((Ctx::new(index, time, seed, request, by), command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stamped_comes_out_again() {
        let command = Command::Forget { node_id: 7 };
        let draft = draft(RequestId(5), "admin", &command);
        let proposal = stamp(Timestamp(1000), [9; 16], &draft);
        assert_eq!(
            hex::encode(&proposal.0),
            "0100000000000003e80909090909090909090909090909090900000000000000000000000000000005\
             0561646d696e81a6466f7267657481a76e6f64655f696407"
        );
        let (ctx, opened) = open(42, &proposal).expect("just made");
        assert_eq!((ctx.index, ctx.time, ctx.seed, ctx.request), (42, Timestamp(1000), [9; 16], RequestId(5)));
        assert_eq!((ctx.by.as_str(), opened), ("admin", command));
    }

    #[test]
    fn damaged_proposals_are_refused() {
        let whole = stamp(Timestamp(1), [0; 16], &draft(RequestId(1), "ä", &Command::Forget { node_id: 1 })).0;
        for length in 0..whole.len() {
            assert!(open(1, &Proposal(whole.slice(..length))).is_err(), "cut to {length} bytes");
        }
    }

    #[test]
    fn a_long_proposer_is_cut_at_a_character() {
        assert_eq!(cut_to_bytes("aä", 2), "a");
        assert_eq!(cut_to_bytes("aä", 3), "aä");
        assert_eq!(cut_to_bytes("", 255), "");
    }
}
