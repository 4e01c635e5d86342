//! Bodies of frames, and their encoding.
//!
//! ```text
//! call    = kind:u8 id:u64 body          control connection, client → server
//! answer  = status:u8 id:u64 body        control connection, server → client
//! append  = length:u32 header (length:u32 entry)*
//! ```
//!
//! Bodies are MessagePack with field names, so that a later version may add a field. There are two exceptions: a
//! forward is the unchanged command, and an append has its entries in the byte form of the log ([`codec`]), which
//! neither end encodes again.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use openraft::raft::AppendEntriesRequest;
use serde::{Deserialize, Serialize};

use crate::format::codec;
use crate::format::pack::hash_bytes;
use crate::format::types::{Entry, LogId, NodeId, TypeConfig, Vote};
use crate::peer::limits::APPEND_FRAME_BYTES_TARGET;

/// Type of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Ping = 1,
    Vote = 2,
    PreVote = 3,
    Append = 4,
    TransferLeader = 5,
    Forward = 6,
    ReadIndex = 7,
    Progress = 8,
    Beats = 9,
    Subscribers = 10,
    Fleet = 11,
    /// Call of the level that exists in tests.
    #[cfg(feature = "next-level")]
    NextLevel = 255,
}

/// Call that the room above consensus answers; the wire knows neither its body nor its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionCall {
    /// Heartbeats of instances, for the leader.
    Beats,
    /// Clients that have a release.
    Subscribers,
    /// Any other question about clients.
    Fleet,
}

impl ExtensionCall {
    pub(super) fn kind(self) -> Kind {
        match self {
            ExtensionCall::Beats => Kind::Beats,
            ExtensionCall::Subscribers => Kind::Subscribers,
            ExtensionCall::Fleet => Kind::Fleet,
        }
    }
}

impl Kind {
    const ALL: &[Kind] = &[
        Kind::Ping,
        Kind::Vote,
        Kind::PreVote,
        Kind::Append,
        Kind::TransferLeader,
        Kind::Forward,
        Kind::ReadIndex,
        Kind::Progress,
        Kind::Beats,
        Kind::Subscribers,
        Kind::Fleet,
        #[cfg(feature = "next-level")]
        Kind::NextLevel,
    ];

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| *kind as u8 == byte)
    }

    /// Reports whether the call is one of Raft's own, which are sent first.
    pub(super) fn is_urgent(self) -> bool {
        matches!(self, Kind::Vote | Kind::PreVote | Kind::Append | Kind::TransferLeader)
    }
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Status {
    /// The body is the answer.
    Answered = 128,
    /// Not performed; the body is a text.
    Refused = 129,
    /// Possibly performed; the body is a text.
    Failed = 130,
}

impl Status {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Status::Answered, Status::Refused, Status::Failed].into_iter().find(|status| *status as u8 == byte)
    }
}

/// Appends a call or an answer: `first` is its kind or status.
pub(super) fn put_call(out: &mut BytesMut, first: u8, id: u64, body: &[u8]) {
    out.put_u8(first);
    out.put_u64(id);
    out.put_slice(body);
}

/// Decodes what [`put_call`] encodes.
pub(super) fn read_call(mut frame: Bytes) -> io::Result<(u8, u64, Bytes)> {
    let first = frame.try_get_u8().map_err(short)?;
    let id = frame.try_get_u64().map_err(short)?;
    Ok((first, id, frame))
}

/// The leader's answer to a forwarded command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForwardAnswer {
    /// Committed as the entry with this index.
    Done { log_index: u64 },
    /// Not appended, because this node does not lead; the leader, if known.
    NotLeader { leader: Option<NodeId> },
    /// Possibly appended, possibly committed.
    Unknown { text: String },
    /// Not appended, because too many calls are in flight.
    Overloaded,
    /// Not appended, and a retry would not help. The text has the reason; the business code is absent from nodes that
    /// send none.
    Refused {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<u32>,
    },
}

/// The leader's answer with the index that a linearizable read has to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadIndexAnswer {
    /// A reader that has applied this index sees everything acknowledged before its request.
    Ready {
        log_index: u64,
    },
    NotLeader {
        leader: Option<NodeId>,
    },
    /// The node leads as far as it knows, but could not confirm it.
    Unconfirmed {
        text: String,
    },
    Overloaded,
}

/// Hash of a node's state at an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub index: u64,
    #[serde(with = "hash_bytes")]
    pub hash: [u8; 32],
}

/// Progress of a node, as it reports itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerProgress {
    /// Index of its last log entry.
    pub last_log: u64,
    /// Index of the last entry that it applied.
    pub applied: u64,
    /// Cluster time in milliseconds; `None` if the node does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Milliseconds by which the time was set, as far as the node has applied it; `None` if it was never set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_shift_ms: Option<i64>,
    /// Wall clock of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Its state hashes at checkpoint indexes; empty for versions that do not compare them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Checkpoint>,
    /// Its disk; `None` for versions that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskRoom>,
    /// Its memory; `None` if it has no known limit, and for versions that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryRoom>,
    /// True if a majority acknowledges the node as leader; `None` for a node that does not lead, and for versions that
    /// do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_acknowledged: Option<bool>,
    /// Commit index of a leader. `None` before it has committed an entry of its own term, because the previous leader
    /// may have acknowledged more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed: Option<u64>,
    /// Reason why it does not reach the node that asks; `None` if it does, and for versions that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asker_problem: Option<String>,
    /// Age of its state in milliseconds: entries committed within this time may not be applied there. `None` if it had
    /// no contact since its start, and for versions that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh_ms: Option<u64>,
    /// Its alarms that no other member can find; empty for versions that do not report them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<MemberAlarm>,
}

/// Alarm of the reporting member about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberAlarm {
    pub kind: String,
    pub subject: String,
    pub text: String,
}

/// Free space on a node's disk, and the node's own assessment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskRoom {
    pub free_bytes: u64,
    pub reserve_bytes: u64,
    pub shortage: Shortage,
}

/// Memory of a node, and the node's own assessment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRoom {
    pub used_bytes: u64,
    pub limit_bytes: u64,
    pub is_short: bool,
}

/// Degree of shortage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortage {
    #[default]
    None,
    /// Below the reserve: nothing may be added.
    Short,
    /// Below the last part of the reserve: nothing is proposed at all.
    Exhausted,
}

/// Fields of an append request except its entries.
#[derive(Serialize, Deserialize)]
struct AppendHeader {
    vote: Vote,
    prev_log_id: Option<LogId>,
    leader_commit: Option<LogId>,
}

/// Appends the encoding of a request with only the given part of its entries.
fn put_append(out: &mut BytesMut, request: &AppendEntriesRequest<TypeConfig>, prev: Option<LogId>, entries: &[Entry]) {
    let header = AppendHeader { vote: request.vote, prev_log_id: prev, leader_commit: request.leader_commit };
    put_with_length(out, |out| out.put_slice(&codec::to_bytes(&header)));
    for entry in entries {
        put_with_length(out, |out| codec::put_entry(out, entry));
    }
}

fn put_with_length(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u32(0);
    write(out);
    // The length would overflow above 4 GiB, but the frame is refused for its size long before.
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// A request cut into frames of bounded size, each of them a request.
pub(super) struct AppendParts<'a> {
    request: &'a AppendEntriesRequest<TypeConfig>,
    taken: usize,
    finished: bool,
}

impl<'a> AppendParts<'a> {
    pub(super) fn new(request: &'a AppendEntriesRequest<TypeConfig>) -> Self {
        AppendParts { request, taken: 0, finished: false }
    }

    /// Returns the writer of the next part and the last log id that it covers; `None` at the end. A request without
    /// entries is one part: a heartbeat or a commit index.
    pub(super) fn next(&mut self) -> Option<(impl FnOnce(&mut BytesMut) + use<'a>, Option<LogId>)> {
        if self.finished {
            return None;
        }
        let request = self.request;
        let rest = &request.entries[self.taken..];
        let part = &rest[..rest.len().min(entries_of_one_frame(rest))];
        let prev = match self.taken {
            0 => request.prev_log_id,
            taken => Some(request.entries[taken - 1].log_id),
        };
        self.taken += part.len();
        self.finished = self.taken == request.entries.len();
        let last = part.last().map(|entry| entry.log_id).or(prev);
        Some((move |out: &mut BytesMut| put_append(out, request, prev, part), last))
    }

    /// Reports whether no part is left.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }
}

/// Returns the number of `entries` that fit into a frame; at least one, as an entry cannot be cut.
fn entries_of_one_frame(entries: &[Entry]) -> usize {
    let mut bytes = 0;
    let fitting = entries.iter().take_while(|entry| {
        bytes += codec::entry_payload_bytes(entry);
        bytes <= APPEND_FRAME_BYTES_TARGET
    });
    fitting.count().max(1)
}

/// Decodes an append; the payloads share the memory of the frame.
pub(super) fn read_append(mut frame: Bytes) -> io::Result<AppendEntriesRequest<TypeConfig>> {
    let header: AppendHeader = codec::from_bytes(&take_with_length(&mut frame)?)?;
    let mut entries = Vec::new();
    while frame.has_remaining() {
        entries.push(codec::entry_from_bytes(take_with_length(&mut frame)?)?);
    }
    let AppendHeader { vote, prev_log_id, leader_commit } = header;
    Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
}

fn take_with_length(frame: &mut Bytes) -> io::Result<Bytes> {
    let length = frame.try_get_u32().map_err(short)? as usize;
    if length > frame.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a part is longer than its frame"));
    }
    Ok(frame.split_to(length))
}

fn short(error: bytes::TryGetError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod golden;
