//! Limits of the peer wire.

use std::time::Duration;

/// Maximum bytes of a frame before the other end has proved that it knows the secret.
pub const HANDSHAKE_FRAME_BYTES_MAX: usize = 8 * 1024;
/// Maximum bytes of a frame afterwards.
pub const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum bytes of a refusal's text, so that it fits into a handshake frame with everything else.
pub(super) const REFUSAL_TEXT_BYTES_MAX: usize = 512;

/// Time limit from accepting a connection to its authenticated hello.
pub(super) const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// Time limit from dialling to the verified welcome, on the dialling side.
pub(super) const DIAL_WITHIN: Duration = Duration::from_secs(4);
/// Bytes read from a socket at once before TLS decrypts them: two records of the largest size.
pub(super) const TLS_READ_BYTES: usize = 32 * 1024;
/// Maximum number of connections that are not authenticated yet, in total and per address. A further one replaces
/// another, see [`super::pending_handshakes`]: they are free for strangers and must not cost this node memory.
pub(super) const STRANGERS_MAX: usize = 64;
pub(super) const STRANGERS_PER_ADDRESS: usize = 16;
/// Separate maximum for addresses from which members have connected before.
pub(super) const ACQUAINTANCES_WAITING_MAX: usize = 64;
/// Maximum number of authenticated connections. A node needs three per peer; the rest is for reconnects.
pub(super) const CONNECTIONS_MAX: usize = 1024;

/// Interval between the pings on a control connection.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(1);
/// Time after its last pong for which a peer counts as reachable; after it the connection is dialled again.
pub const REACHABLE_WITHIN: Duration = Duration::from_secs(5);
/// Time without a frame (at least a ping) after which the server closes a control connection.
pub(super) const CONTROL_IDLE_MAX: Duration = Duration::from_secs(15);
/// Pause before the first redial. It doubles up to [`REDIAL_PAUSE_MAX`], but a waiting call shortens it to this one.
pub(super) const REDIAL_PAUSE_MIN: Duration = Duration::from_millis(50);
pub(super) const REDIAL_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Age from which on a lost control connection is redialled after the shortest pause.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// Minimum time between two log lines about different refusals by a peer that is away.
pub(super) const REFUSAL_LINE_PAUSE: Duration = Duration::from_secs(60);

/// Maximum number of calls that wait for the connection of one peer.
pub(super) const CALLS_QUEUED_MAX: usize = 4096;
/// Maximum number of unanswered calls to one peer.
pub(super) const CALLS_OUTSTANDING_MAX: usize = 16_384;
/// Maximum number of forwards and read indexes served at once; further ones are answered with `Overloaded`.
pub(super) const WORK_IN_FLIGHT_MAX: usize = 16_384;
/// Maximum number of Raft messages served at once. It is separate, so that a flood of forwards cannot prevent an
/// election.
pub(super) const RAFT_IN_FLIGHT_MAX: usize = 256;
/// Maximum number of answers queued on one control connection.
pub(super) const ANSWERS_QUEUED_MAX: usize = 1024;

/// Bytes queued for one socket from which on nothing more is encoded for it. A single frame may exceed them.
pub(super) const OUTBOX_BYTES_MAX: usize = 1024 * 1024;
/// The same limit for calls other than Raft's own on a control connection: an election waits for no more than this.
pub(super) const CALLS_BYTES_MAX: usize = 64 * 1024;
/// Size of a body above which a call gets its own connection, and the maximum number of these.
pub(super) const CALL_BYTES_SHARED_MAX: usize = 64 * 1024;
pub(super) const CALLS_ALONE_MAX: usize = 16;

/// Speed of the slowest supported link, which gives the transfer time of bytes in addition to the time of an answer.
const LINK_BYTES_PER_SECOND_MIN: usize = 64 * 1024;

/// Returns the transfer time of `bytes` over the slowest supported link.
pub(super) fn transfer_time(bytes: usize) -> Duration {
    // An outbox never has enough bytes to overflow this.
    Duration::from_millis(bytes as u64 * 1000 / LINK_BYTES_PER_SECOND_MIN as u64)
}

/// Time for which the kernel retries while the other end acknowledges no byte. A proxy in front of a slow link accepts
/// megabytes at once and then nothing until half of them have passed, which takes half a minute at 64 KiB a second.
pub(super) const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(120);
/// Time after which a socket that accepts no byte is closed.
pub(super) const WRITE_STALL_MAX: Duration = Duration::from_secs(120);

/// Target size of an append frame. A larger request is cut into several frames, which bounds the memory of both ends
/// and the time to the next acknowledgement.
pub(super) const APPEND_FRAME_BYTES_TARGET: usize = 256 * 1024;
/// Maximum number of append frames that are sent and not acknowledged.
pub(super) const APPENDS_OUTSTANDING_MAX: usize = 1024;
/// Time for which a commit index waits to be sent with entries, while others are not acknowledged.
pub(super) const COMMIT_HELD_MAX: Duration = Duration::from_millis(2);
/// Maximum number of append frames decoded and waiting for Raft.
pub(super) const APPENDS_QUEUED_MAX: usize = 16;
/// Time limit for the answer to an append after the last byte moved in either direction, in addition to the transfer
/// time of unanswered bytes. A busy disk may take long for one fsync: closing the stream would send the same entries
/// again to a disk that is already slow.
pub(super) const APPEND_ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// Interval of the empty frames on an idle append connection.
pub(super) const APPEND_KEEPALIVE: Duration = Duration::from_secs(5);
/// Time without a byte after which the server closes an append connection.
pub(super) const APPEND_SILENCE_MAX: Duration = Duration::from_secs(20);
/// Age after which an idle append connection is not reused.
pub(super) const APPEND_PARKED_MAX: Duration = Duration::from_secs(10);
/// Time for which a server continues to read after its last answer: closing with unread input could reset the
/// connection before the answer is read.
pub(super) const LINGER_MAX: Duration = Duration::from_secs(1);

/// Bytes of a chunk of a snapshot.
pub(super) const SNAPSHOT_CHUNK_BYTES: usize = 256 * 1024;
/// Time without progress after which either end gives up a transfer.
pub(super) const SNAPSHOT_STALL_MAX: Duration = Duration::from_secs(60);
/// Interval of the receiver's progress messages while it installs.
pub(super) const SNAPSHOT_WORKING_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for the installation of a received snapshot.
pub(super) const SNAPSHOT_INSTALL_MAX: Duration = Duration::from_secs(600);
/// Maximum number of snapshots received at once.
pub(super) const SNAPSHOTS_RECEIVED_MAX: usize = 2;
