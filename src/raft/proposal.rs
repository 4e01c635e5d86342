//! The byte form of a proposal.
//!
//! ```text
//! draft    = request:16 by_length:u8 by command             made by the node that gets the request
//! proposal = level:u8 epoch:u16 time_ms:u48 seed:16 draft   stamped by the leader
//! ```
//!
//! A follower forwards the draft. The leader decodes it, so that nothing reaches the log that a member cannot read, and
//! prepends the stamps. Time, epoch and seed are all that the leader decides about an entry. The epoch counts how often
//! the time of the cluster was set, as far as the leader had applied it; it is 0 in most clusters, and the time is then
//! a plain 64-bit number. The level is the command's: a reader of the log knows which level an entry needs without
//! decoding it.

use bytes::{BufMut, Bytes, BytesMut};

use crate::catalog::{Command, Ctx, RequestId};
use crate::format::level::{Level, LevelRange};
use crate::format::pack;
use crate::format::types::Proposal;
use crate::model::text::first_bytes;
use crate::model::time::Timestamp;

const STAMP_BYTES: usize = 1 + 8 + 16;
/// Bits of the time in milliseconds: enough for nine thousand years.
const TIME_BITS: u32 = 48;
const TIME_MAX: u64 = (1 << TIME_BITS) - 1;
const REQUEST_BYTES: usize = 16;
/// Capacity that most drafts fit into.
const DRAFT_BYTES_USUAL: usize = 1024;

/// A command that has not been stamped yet, and the properties that admission checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub bytes: Bytes,
    pub level: Level,
    /// True if it sets the level of the cluster. Any other command that needs a higher level is refused until then.
    pub sets_level: bool,
    /// True if it may add to the state, see [`Command::adds`].
    pub adds: bool,
}

impl Draft {
    pub fn new(request: RequestId, by: &str, command: &Command) -> Draft {
        let by = first_bytes(by, u8::MAX as usize);
        let mut out = Vec::with_capacity(DRAFT_BYTES_USUAL);
        out.put_u128(request.0);
        out.put_u8(u8::try_from(by.len()).expect("cut to 255 bytes"));
        out.put_slice(by.as_bytes());
        pack::put(command, &mut out);
        Draft::of(out.into(), command)
    }

    /// Decodes a draft from a peer. A draft that cannot be decoded here must not reach the log.
    pub fn read(bytes: Bytes) -> Result<Draft, String> {
        let command = parts(&bytes)?.command;
        Ok(Draft::of(bytes, &command))
    }

    /// Returns the id of the HTTP request that the draft belongs to, if any. Decodes the whole draft.
    pub fn asked_by(&self) -> Option<String> {
        match parts(&self.bytes).ok()?.command {
            Command::Authorized(asked) => Some(asked.request),
            _ => None,
        }
    }

    /// Returns the draft's own id, which is the same however often it is sent.
    pub fn id(&self) -> u128 {
        u128::from_be_bytes(*self.bytes.first_chunk().expect("a draft begins with its id"))
    }

    fn of(bytes: Bytes, command: &Command) -> Draft {
        let sets_level = matches!(command, Command::Bootstrap { .. } | Command::Raise { .. });
        Draft { bytes, level: command.level(), sets_level, adds: command.adds() }
    }
}

/// Prepends the leader's stamps to a draft.
pub fn stamp(time: Timestamp, epoch: u16, seed: [u8; 16], draft: &Draft) -> Proposal {
    let mut out = BytesMut::with_capacity(STAMP_BYTES + draft.bytes.len());
    out.put_u8(draft.level.0);
    out.put_u64(u64::from(epoch) << TIME_BITS | time.0 & TIME_MAX);
    out.put_slice(&seed);
    out.put_slice(&draft.bytes);
    Proposal(out.freeze())
}

/// Decodes the proposal of the entry at `index`.
pub fn open(index: u64, proposal: &Proposal) -> Result<(Ctx, Command), String> {
    let bytes = &proposal.0[..];
    let (stamps, draft) = bytes.split_at_checked(STAMP_BYTES).ok_or("shorter than its stamps")?;
    if !LevelRange::OWN.contains(proposal.level()) {
        return Err(format!("level {}, this binary reads {}", proposal.level(), LevelRange::OWN));
    }
    let stamped = u64::from_be_bytes(stamps[1..9].try_into().expect("eight bytes"));
    let (time, epoch) = (Timestamp(stamped & TIME_MAX), (stamped >> TIME_BITS) as u16);
    let seed = stamps[9..].try_into().expect("sixteen bytes");
    let Parts { request, by, command } = parts(draft)?;
    let mut ctx = Ctx::new(index, time, seed, request, by);
    ctx.epoch = epoch;
    Ok((ctx, command))
}

struct Parts<'a> {
    request: RequestId,
    by: &'a str,
    command: Command,
}

fn parts(draft: &[u8]) -> Result<Parts<'_>, String> {
    let (request, rest) = draft.split_at_checked(REQUEST_BYTES).ok_or("no request id")?;
    let request = RequestId(u128::from_be_bytes(request.try_into().expect("sixteen bytes")));
    let (by_length, rest) = rest.split_first().ok_or("no proposer")?;
    let (by, command) = rest.split_at_checked(usize::from(*by_length)).ok_or("a cut proposer")?;
    let by = str::from_utf8(by).map_err(|error| error.to_string())?;
    let command = pack::from_bytes(command).map_err(|error| error.to_string())?;
    Ok(Parts { request, by, command })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{AuthorizedCommand, Credential};

    #[test]
    fn what_is_stamped_comes_out_again() {
        let command = Command::Forget { node_id: 7 };
        let draft = Draft::new(RequestId(5), "admin", &command);
        let proposal = stamp(Timestamp(1000), 0, [9; 16], &draft);
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
        let whole = stamp(Timestamp(1), 0, [0; 16], &Draft::new(RequestId(1), "ä", &Command::Forget { node_id: 1 })).0;
        for length in 0..whole.len() {
            assert!(open(1, &Proposal(whole.slice(..length))).is_err(), "cut to {length} bytes");
        }
    }

    #[test]
    fn a_draft_is_read_before_it_is_taken() {
        let draft = Draft::new(RequestId(1), "admin", &Command::Raise { level: Level(2) });
        assert_eq!(draft.level, Level(2));
        assert_eq!(Draft::read(draft.bytes.clone()), Ok(draft.clone()));
        assert_eq!(draft.id(), 1);
        assert_eq!(stamp(Timestamp(1), 0, [0; 16], &draft).level(), Level(2), "an entry says what reads it");
        let mut foreign = BytesMut::from(&draft.bytes[..17 + 5]);
        foreign.put_slice(&pack::to_bytes(&serde_json::json!({"OfAnotherTime": 1})));
        assert!(Draft::read(foreign.freeze()).is_err());
    }

    /// Runs on a thread with the stack size of the threads that serve peers.
    #[test]
    fn commands_within_commands_are_not_followed_to_the_end_of_the_stack() {
        let asked = |command| AuthorizedCommand {
            credential: Credential::Login,
            address: None,
            request: String::new(),
            self_registration: false,
            mutes_refusals: false,
            command,
        };
        let innermost = Command::Forget { node_id: 1 };
        let (inner, shell) =
            (pack::to_bytes(&innermost), pack::to_bytes(&Command::Authorized(asked(innermost).into())));
        let shell = shell.strip_suffix(&inner[..]).expect("the command is the last field");
        let nested = |times: usize| [&[0; REQUEST_BYTES + 1][..], &shell.repeat(times), &inner].concat();
        let read = Draft::read(nested(1).into()).expect("as every request has it");
        assert_eq!(read.asked_by().as_deref(), Some(""));
        let deep = nested(1000);
        let read = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(move || Draft::read(deep.into()));
        let refused = read.expect("a thread").join().expect("no panic").expect_err("too deep");
        assert!(refused.contains("depth"), "{refused}");
    }

    #[test]
    fn an_entry_above_the_own_levels_is_refused() {
        let draft = Draft::new(RequestId(1), "admin", &Command::Raise { level: Level(Level::NEWEST.0 + 1) });
        let refused = open(1, &stamp(Timestamp(1), 0, [0; 16], &draft)).expect_err("too new");
        let words = format!("level {}, this binary reads {}", Level::NEWEST.0 + 1, LevelRange::OWN);
        assert!(refused.starts_with(&words), "{refused}");
    }

    #[test]
    fn a_long_proposer_is_cut_at_a_character() {
        assert_eq!(first_bytes("aä", 2), "a");
        assert_eq!(first_bytes("aä", 3), "aä");
        assert_eq!(first_bytes("", 255), "");
    }
}
