//! The two bulk connections in isolation: what openraft gets when the other end reports a conflict, falls silent or
//! fails.

use std::io::{self, Cursor};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use openraft::EntryPayload;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{AppendEntriesRequest, StreamAppendError, StreamAppendResult};
use openraft::type_config::alias::SnapshotOf;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::doors::recording_relay;
use super::harness::{LIMIT, Names, Node, secret};
use super::memory::MemoryPort;
use crate::format::codec;
use crate::format::types::{CommittedLeaderId, Entry, LogId, Member, Proposal, SnapshotMeta, TypeConfig, Vote};
use crate::metrics::Metrics;
use crate::peer::append::{Parking, Route, Session};
use crate::peer::frame::Connection;
use crate::peer::handshake::{Purpose, dial_as, receive};
use crate::peer::messages::read_append;
use crate::peer::{PeerClient, PeerNetwork, Peers, SnapshotPort, snapshot};

fn log_id(index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(5), index)
}

/// Returns an append of leader 9 in term 5 with one large entry after `prev`.
fn append(prev: Option<u64>) -> AppendEntriesRequest<TypeConfig> {
    let payload = EntryPayload::Normal(Proposal(Bytes::from(vec![7; 64 * 1024])));
    AppendEntriesRequest {
        vote: Vote::new_committed(5, 9),
        prev_log_id: prev.map(log_id),
        entries: vec![Entry { log_id: log_id(prev.map_or(0, |prev| prev + 1)), payload }],
        leader_commit: None,
    }
}

async fn client<P: SnapshotPort>(address: &str, port: P) -> PeerClient<P> {
    let peers = Peers::new(9, secret(), Names::of(9), Arc::new(Metrics::new().expect("metrics")));
    PeerNetwork::new(peers, port).new_client(1, &Member { peer: address.to_owned() }).await
}

/// Returns both ends of a connection; the test drives the second one.
async fn pair(purpose: Purpose) -> (Connection, Connection) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let (names, secret) = (Names::of(9), secret());
    let dialled = dial_as(&*names, &secret, &address, 1, purpose);
    let server = Names::of(1);
    let accepted = async { receive(listener.accept().await.expect("a caller").0, &secret, &*server).await };
    let (dialled, accepted) = tokio::join!(dialled, accepted);
    (dialled.expect("welcome").0, accepted.expect("met").0)
}

fn session<S>(connection: Connection, input: S, patience: Duration) -> Session<S>
where
    S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
{
    Session::new(connection, input, patience, Parking::default(), Route { from: 9, to: 1 })
}

/// The answer arrives although much more was in flight than the follower would ever read.
#[tokio::test]
async fn a_conflict_in_a_full_pipeline_reaches_the_leader() {
    let node = Node::start(1).await;
    let requests = stream::iter((0..500).map(|number| append(Some(number + 40))));
    let mut client = client(&node.address, MemoryPort).await;
    let answers = client.stream_append(requests, RPCOption::new(LIMIT)).await.expect("a session");
    let answers: Vec<_> = answers.collect().await;
    assert!(matches!(answers[..], [Ok(Err(StreamAppendError::Conflict(_)))]), "{answers:?}");
}

/// The relay forwards only one connection: a second one would find no peer.
#[tokio::test]
async fn the_next_session_uses_the_same_connection() {
    let node = Node::start(1).await;
    let (relay, _recording) = recording_relay(node.address.clone()).await;
    let peers = Peers::new(9, secret(), Names::of(9), Arc::new(Metrics::new().expect("metrics")));
    let (connection, _) = dial_as(&*Names::of(9), &secret(), &relay, 1, Purpose::Append).await.expect("welcome");
    let parking = Parking::default();
    let route = Route { from: peers.local.node_id, to: 1 };
    let mut connection = Some(connection);
    for prev in [None, Some(0), Some(1)] {
        let connection = connection.take().or_else(|| parking.take()).expect("parked by the last session");
        let input = stream::iter([append(prev)]);
        let answers: Vec<_> = Session::new(connection, input, LIMIT, parking.clone(), route).answers().collect().await;
        let last = Some(log_id(prev.map_or(0, |prev| prev + 1)));
        assert!(matches!(&answers[..], [Ok(Ok(acknowledged))] if *acknowledged == last), "{answers:?}");
    }
}

#[tokio::test]
async fn an_append_without_an_answer_times_out() {
    let (leader, _follower) = pair(Purpose::Append).await;
    let patience = Duration::from_millis(50);
    let session = session(leader, stream::iter([append(None)]).chain(stream::pending()), patience);
    let answers =
        tokio::time::timeout(LIMIT, session.answers().collect::<Vec<_>>()).await.expect("patience has an end");
    assert!(matches!(answers[..], [Err(RPCError::Timeout(_))]), "{answers:?}");
}

#[tokio::test]
async fn an_append_whose_connection_is_lost_is_worth_a_retry() {
    let (leader, follower) = pair(Purpose::Append).await;
    drop(follower);
    let session = session(leader, stream::iter([append(None)]).chain(stream::pending()), LIMIT);
    let answers: Vec<_> = session.answers().collect().await;
    assert!(matches!(answers[..], [Err(RPCError::Network(_))]), "{answers:?}");
}

/// Forwards bytes in both directions at a limited rate, one connection after the other; counts the connections.
async fn thin_relay(to: String, bytes_per_second: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let far = tokio::net::TcpStream::connect(&to).await.expect("a listener");
            let ((near_reader, near_writer), (far_reader, far_writer)) = (near.into_split(), far.into_split());
            tokio::spawn(trickle(near_reader, far_writer, bytes_per_second));
            tokio::spawn(trickle(far_reader, near_writer, bytes_per_second));
        }
    });
    (address, connections)
}

async fn trickle(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, bytes_per_second: usize) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        tokio::time::sleep(Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64)).await;
        if to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}

/// One entry takes longer than the time limit of an answer: the session waits while bytes move, and sends the entry
/// once.
#[tokio::test]
async fn a_large_entry_passes_a_thin_link_on_one_connection() {
    let node = Node::start(1).await;
    let (relay, connections) = thin_relay(node.address.clone(), 256 * 1024).await;
    let patience = Duration::from_millis(500);
    let (connection, _) = dial_as(&*Names::of(9), &secret(), &relay, 1, Purpose::Append).await.expect("welcome");
    let payload = EntryPayload::Normal(Proposal(Bytes::from(vec![7; 2 * 1024 * 1024])));
    let large = AppendEntriesRequest { entries: vec![Entry { log_id: log_id(0), payload }], ..append(None) };
    let session = session(connection, stream::iter([large, append(Some(0))]), patience);
    let answers = tokio::time::timeout(LIMIT, session.answers().collect::<Vec<_>>()).await.expect("it ends");
    assert!(matches!(answers[..], [Ok(Ok(_)), Ok(Ok(_))]), "{answers:?}");
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

/// The log that the session reads is to be purged.
#[tokio::test]
async fn a_session_ends_when_it_is_cut() {
    let (leader, _follower) = pair(Purpose::Append).await;
    let cuts = tokio::sync::watch::Sender::new(0);
    let session =
        session(leader, stream::iter([append(None)]).chain(stream::pending()), LIMIT).ended_by(cuts.subscribe());
    let answers = tokio::spawn(session.answers().collect::<Vec<_>>());
    cuts.send_replace(1);
    let answers = tokio::time::timeout(LIMIT, answers).await.expect("it ends").expect("no panic");
    assert!(matches!(answers[..], [Err(RPCError::Network(_))]), "{answers:?}");
}

/// Returns an append with a commit index and no entries.
fn commit(prev: u64, committed: u64) -> AppendEntriesRequest<TypeConfig> {
    AppendEntriesRequest { entries: Vec::new(), leader_commit: Some(log_id(committed)), ..append(Some(prev)) }
}

/// Returns the next request at the other end: the index of its last entry, if it has any, and its commit index.
async fn next_seen(follower: &mut Connection) -> (Option<u64>, Option<u64>) {
    let frame = tokio::time::timeout(LIMIT, follower.expect()).await.expect("a frame in time").expect("a frame");
    let request = read_append(frame).expect("a request");
    (request.entries.last().map(|entry| entry.log_id.index), request.leader_commit.map(|id| id.index))
}

async fn acknowledge(follower: &mut Connection, index: u64) {
    let answer: StreamAppendResult<TypeConfig> = Ok(Some(log_id(index)));
    follower.send(&codec::to_bytes(&answer)).await.expect("taken");
}

/// Starts a session; returns the sender of its requests, the other end of its connection, and the task that counts its
/// answers.
async fn driven(
    held_max: Duration,
) -> (UnboundedSender<AppendEntriesRequest<TypeConfig>>, Connection, JoinHandle<usize>) {
    let (leader, follower) = pair(Purpose::Append).await;
    let (requests, input) = unbounded_channel();
    let session = session(leader, UnboundedReceiverStream::new(input), LIMIT).holding_for(held_max);
    let answers = session.answers().inspect(|answer| assert!(matches!(answer, Ok(Ok(_))), "{answer:?}"));
    (requests, follower, tokio::spawn(answers.count()))
}

#[tokio::test]
async fn a_commit_index_goes_along_with_the_entries_that_follow_it() {
    let (requests, mut follower, answers) = driven(LIMIT).await;
    let send = |request| requests.send(request).expect("the session runs");
    send(commit(0, 0));
    assert_eq!(next_seen(&mut follower).await, (None, Some(0)), "there is nothing to wait for");
    acknowledge(&mut follower, 0).await;
    send(append(Some(0)));
    send(commit(1, 0));
    send(AppendEntriesRequest { leader_commit: Some(log_id(1)), ..append(Some(1)) });
    assert_eq!(next_seen(&mut follower).await, (Some(1), None));
    assert_eq!(next_seen(&mut follower).await, (Some(2), Some(1)), "the one before is said with it");
    send(commit(2, 2));
    acknowledge(&mut follower, 1).await;
    acknowledge(&mut follower, 2).await;
    assert_eq!(next_seen(&mut follower).await, (None, Some(2)), "all is acknowledged, and nothing follows");
    send(append(Some(2)));
    send(commit(3, 3));
    drop(requests);
    assert_eq!(next_seen(&mut follower).await, (Some(3), None));
    assert_eq!(next_seen(&mut follower).await, (None, Some(3)), "nothing will follow");
    for _ in 0..3 {
        acknowledge(&mut follower, 3).await;
    }
    let answers = tokio::time::timeout(LIMIT, answers).await.expect("the session ends");
    assert_eq!(answers.expect("no panic"), 6);
}

#[tokio::test]
async fn a_commit_index_does_not_wait_for_a_slow_follower() {
    let (requests, mut follower, _answers) = driven(Duration::from_millis(5)).await;
    requests.send(append(None)).expect("the session runs");
    assert_eq!(next_seen(&mut follower).await, (Some(0), None));
    requests.send(commit(0, 0)).expect("the session runs");
    assert_eq!(next_seen(&mut follower).await, (None, Some(0)), "although nothing was acknowledged");
}

fn shipment(bytes: usize) -> SnapshotOf<TypeConfig, Vec<u8>> {
    let meta = SnapshotMeta { last_log_id: Some(log_id(3)), last_membership: Default::default() };
    SnapshotOf::<TypeConfig, _> { meta, snapshot: vec![1; bytes] }
}

/// Snapshot storage without space.
#[derive(Clone)]
struct Full;

impl SnapshotPort for Full {
    type Data = Vec<u8>;
    type Source = Cursor<Vec<u8>>;
    type Sink = ();

    async fn open(&self, data: &Vec<u8>) -> io::Result<(Cursor<Vec<u8>>, u64)> {
        MemoryPort.open(data).await
    }

    async fn create(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    async fn write(&self, _sink: &mut (), _chunk: Bytes) -> io::Result<()> {
        Err(io::Error::other("the disk is full"))
    }

    async fn seal(&self, _sink: ()) -> io::Result<Vec<u8>> {
        Err(io::Error::other("nothing was written"))
    }
}

/// Much more is left to send than the buffers of two sockets hold when the receiver fails.
#[tokio::test]
async fn a_receiver_that_gives_up_says_why() {
    let (sender, receiver) = pair(Purpose::Snapshot).await;
    let sending = snapshot::send(sender, &MemoryPort, Vote::new_committed(5, 9), shipment(64 * 1024 * 1024));
    let receiving = snapshot::receive(receiver, &Full, |_, _| async { unreachable!("nothing to install") });
    let (sent, received) = tokio::join!(sending, receiving);
    assert_eq!(sent.expect_err("given up").to_string(), "the disk is full");
    assert_eq!(received.expect_err("given up").to_string(), "the disk is full");
}

#[tokio::test]
async fn a_snapshot_that_is_cancelled_is_closed() {
    // Accepts the connection, but never reads.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let mut client = client(&address, MemoryPort).await;
    let cancel = async { ReplicationClosed::new("the test says so") };
    let vote = Vote::new_committed(5, 9);
    let sent = client.full_snapshot(vote, shipment(1), cancel, RPCOption::new(LIMIT)).await;
    assert!(matches!(sent, Err(StreamingError::Closed(_))), "{sent:?}");
}
