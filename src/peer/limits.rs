//! Every limit of the peer wire, in one place.

use std::time::Duration;

/// Largest frame before the other end has proved that it knows the secret, in bytes.
pub const HANDSHAKE_FRAME_BYTES_MAX: usize = 8 * 1024;
/// Largest frame afterwards.
pub const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest text of a refusal, so that it fits into a handshake frame whatever else is in it.
pub(super) const REFUSAL_TEXT_BYTES_MAX: usize = 512;

/// From accepting a connection to its authenticated hello.
pub(super) const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// From dialling to the verified welcome, on the side that dials.
pub(super) const DIAL_WITHIN: Duration = Duration::from_secs(4);
/// Bytes read from a socket at once before TLS opens them: two records of the largest size.
pub(super) const TLS_READ_BYTES: usize = 32 * 1024;
/// Connections that have not authenticated yet, in all and of one address; one more takes the place of
/// another, see [`super::pending_handshakes`]: they cost strangers nothing and must not cost us memory.
pub(super) const STRANGERS_MAX: usize = 64;
pub(super) const STRANGERS_PER_ADDRESS: usize = 16;
/// Places besides for addresses from which members have come before.
pub(super) const ACQUAINTANCES_WAITING_MAX: usize = 64;
/// Authenticated connections. A node needs three a peer; the rest is headroom for reconnects.
pub(super) const CONNECTIONS_MAX: usize = 1024;

/// A control connection is pinged this often, used or not.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(1);
/// A peer counts as reachable for this long after its last pong; without one the connection is
/// dialled anew.
pub const REACHABLE_WITHIN: Duration = Duration::from_secs(5);
/// A control connection without a frame (a ping at least) for this long is closed by its server.
pub(super) const CONTROL_IDLE_MAX: Duration = Duration::from_secs(15);
/// Pause before the first redial; it doubles up to [`REDIAL_PAUSE_MAX`] while nobody has a call
/// waiting, and stays this short while somebody has.
pub(super) const REDIAL_PAUSE_MIN: Duration = Duration::from_millis(50);
pub(super) const REDIAL_PAUSE_MAX: Duration = Duration::from_secs(1);
/// A control connection that held this long was a good one: the next redial is quick again.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// A peer that is away and refuses for another reason than before is told this often at most.
pub(super) const REFUSAL_LINE_PAUSE: Duration = Duration::from_secs(60);

/// Calls waiting for the connection of one peer.
pub(super) const CALLS_QUEUED_MAX: usize = 4096;
/// Calls written to one peer and not answered yet.
pub(super) const CALLS_OUTSTANDING_MAX: usize = 16_384;
/// Forwards and read indexes served at once; more are answered with `Overloaded`.
pub(super) const WORK_IN_FLIGHT_MAX: usize = 16_384;
/// Messages of Raft served at once. They have room of their own, so that a flood of forwards never
/// costs an election.
pub(super) const RAFT_IN_FLIGHT_MAX: usize = 256;
/// Heartbeats of instances in one call; more are sent in several.
pub const BEATS_PER_CALL_MAX: usize = 4096;
/// Answers ready to be written on one control connection.
pub(super) const ANSWERS_QUEUED_MAX: usize = 1024;

/// Bytes waiting for one socket before nothing more is encoded for it. One frame may exceed it.
pub(super) const OUTBOX_BYTES_MAX: usize = 1024 * 1024;
/// The same of calls on a control connection that are not Raft's own: an election waits for no more than this.
pub(super) const CALLS_BYTES_MAX: usize = 64 * 1024;
/// A call with a larger body has a connection of its own, and so many of them at a time.
pub(super) const CALL_BYTES_SHARED_MAX: usize = 64 * 1024;
pub(super) const CALLS_ALONE_MAX: usize = 16;

/// The thinnest link that is waited for: whatever is on its way has this much time a byte, beside what an answer takes.
const LINK_BYTES_PER_SECOND_MIN: usize = 64 * 1024;

/// The time that `bytes` take on the thinnest link.
pub(super) fn transfer_time(bytes: usize) -> Duration {
    // A node never has so much in one outbox that this would lose anything that matters.
    Duration::from_millis(bytes as u64 * 1000 / LINK_BYTES_PER_SECOND_MIN as u64)
}

/// The kernel tries so long to deliver while the other end acknowledges no byte. A proxy before a thin link
/// takes megabytes at once and then nothing until half of them have passed, which are half a minute of 64 KiB a second.
pub(super) const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(120);
/// A socket that takes no byte for this long is given up.
pub(super) const WRITE_STALL_MAX: Duration = Duration::from_secs(120);

/// Entries of one append frame; a larger request is cut into several, which keeps the memory of
/// both ends and the time to the next acknowledgement within bounds.
pub(super) const APPEND_FRAME_BYTES_TARGET: usize = 256 * 1024;
/// Append frames on the wire and not acknowledged.
pub(super) const APPENDS_OUTSTANDING_MAX: usize = 1024;
/// A commit index waits this long for entries to go along with, while others are on the wire and not
/// acknowledged.
pub(super) const COMMIT_HELD_MAX: Duration = Duration::from_millis(2);
/// Append frames decoded and waiting for Raft.
pub(super) const APPENDS_QUEUED_MAX: usize = 16;
/// An append is answered within this time after the last byte moved in either direction, and the time that unanswered
/// bytes take on the thinnest link. A busy disk may take long for one fsync: tearing the stream down then would send
/// the same entries again to a disk that is already behind.
pub(super) const APPEND_ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// An append connection with nothing to say sends an empty frame this often,
pub(super) const APPEND_KEEPALIVE: Duration = Duration::from_secs(5);
/// and is closed by its server when no byte came for this long.
pub(super) const APPEND_SILENCE_MAX: Duration = Duration::from_secs(20);
/// An idle append connection kept for the next session is not trusted after this long.
pub(super) const APPEND_PARKED_MAX: Duration = Duration::from_secs(10);
/// After its last answer a server goes on reading for this long, so that closing with unread input
/// does not reset the connection under that answer.
pub(super) const LINGER_MAX: Duration = Duration::from_secs(1);

/// Size of the chunks of a snapshot.
pub(super) const SNAPSHOT_CHUNK_BYTES: usize = 256 * 1024;
/// A transfer in which nothing moves for this long is given up, by either end.
pub(super) const SNAPSHOT_STALL_MAX: Duration = Duration::from_secs(60);
/// While it installs, the receiver says so this often.
pub(super) const SNAPSHOT_WORKING_INTERVAL: Duration = Duration::from_secs(1);
/// Installation of a received snapshot.
pub(super) const SNAPSHOT_INSTALL_MAX: Duration = Duration::from_secs(600);
/// Snapshots received at once.
pub(super) const SNAPSHOTS_RECEIVED_MAX: usize = 2;
