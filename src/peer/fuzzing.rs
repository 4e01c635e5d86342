//! Entry points for [`crate::fuzzing`]: input that a peer, or an impostor, may send.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use openraft::EntryPayload;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    VoteRequest, VoteResponse,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_util::codec::Decoder;

use super::frame;
use super::handshake::{self, Purpose};
use super::limits::{APPEND_FRAME_BYTES_TARGET, FRAME_BYTES_MAX, HANDSHAKE_FRAME_BYTES_MAX};
use super::messages::{AppendParts, Kind, Status, put_call, read_append, read_call};
use super::wire::Wire;
use super::{
    Build, Credentials, ForwardAnswer, Hello, Introductions, PeerProgress, ReadIndexAnswer, Refusal, RefusalReason,
    Welcome, snapshot,
};
use crate::catalog::history::Thing;
use crate::format::codec;
use crate::format::types::TypeConfig;
use crate::model::heartbeat::BeatsAnswer;
use crate::raft::proposal;
use crate::subscribers::Subscribed;
use crate::subscribers::fleet::{ClientQuery, ClientQueryResult};

/// Decodes an input whose first letter selects the kind; reports whether it is valid.
pub(crate) fn read_frame(input: &[u8]) -> bool {
    let Some((letter, rest)) = input.split_first() else { return false };
    match letter {
        b'f' => cut(rest, HANDSHAKE_FRAME_BYTES_MAX).is_some_and(|frames| !frames.is_empty()),
        b'c' => cut(rest, FRAME_BYTES_MAX).is_some_and(|frames| !frames.is_empty() && frames.into_iter().all(call)),
        b'n' => answer(Bytes::copy_from_slice(rest)),
        b'a' => append(Bytes::copy_from_slice(rest)),
        b'e' => entry(Bytes::copy_from_slice(rest)),
        b'r' => round_trip::<StreamAppendResult<TypeConfig>>(rest),
        b'h' => round_trip::<snapshot::Header>(rest),
        b's' => round_trip::<SnapshotResponse<TypeConfig>>(rest),
        _ => false,
    }
}

/// Returns the frames of a stream; `None` if one of them is too long.
fn cut(stream: &[u8], frame_bytes_max: usize) -> Option<Vec<Bytes>> {
    let (mut codec, mut stream, mut frames) = (frame::codec(frame_bytes_max), BytesMut::from(stream), Vec::new());
    while let Some(frame) = codec.decode(&mut stream).ok()? {
        assert!(frame.len() <= frame_bytes_max);
        frames.push(frame.freeze());
    }
    Some(frames)
}

/// Decodes a call as `serving` does.
fn call(frame: Bytes) -> bool {
    let Ok((kind, id, body)) = read_call(frame.clone()) else { return false };
    let mut again = BytesMut::new();
    put_call(&mut again, kind, id, &body);
    assert_eq!(again, frame);
    match Kind::from_byte(kind) {
        None => false,
        Some(Kind::Ping | Kind::ReadIndex | Kind::Progress) => true,
        #[cfg(feature = "next-level")]
        Some(Kind::NextLevel) => true,
        Some(Kind::Vote | Kind::PreVote) => round_trip::<VoteRequest<TypeConfig>>(&body),
        Some(Kind::TransferLeader) => round_trip::<TransferLeaderRequest<TypeConfig>>(&body),
        Some(Kind::Append) => append(body),
        Some(Kind::Forward) => proposal::Draft::read(body).is_ok(),
        Some(Kind::Beats) => round_trip::<Vec<String>>(&body),
        Some(Kind::Subscribers) => round_trip::<Thing>(&body),
        Some(Kind::Fleet) => round_trip::<ClientQuery>(&body),
    }
}

/// Decodes the answer to any call.
fn answer(frame: Bytes) -> bool {
    let Ok((status, _, body)) = read_call(frame) else { return false };
    Status::from_byte(status).is_some()
        && [
            round_trip::<ForwardAnswer>,
            round_trip::<ReadIndexAnswer>,
            round_trip::<BeatsAnswer>,
            round_trip::<PeerProgress>,
            round_trip::<Subscribed>,
            round_trip::<ClientQueryResult>,
            round_trip::<VoteResponse<TypeConfig>>,
            round_trip::<AppendEntriesResponse<TypeConfig>>,
        ]
        .into_iter()
        .fold(false, |known, read| read(&body) | known)
}

/// Decodes an append and encodes it again without a difference; returns false if it cannot be decoded.
fn append(frame: Bytes) -> bool {
    let length = frame.len();
    let Ok(request) = read_append(frame) else { return false };
    assert!(request.entries.len() <= length, "no entry without a byte");
    request.entries.iter().for_each(open);
    if length <= APPEND_FRAME_BYTES_TARGET {
        let mut parts = AppendParts::new(&request);
        let (write, _) = parts.next().expect("at least one frame");
        let mut again = BytesMut::new();
        write(&mut again);
        assert!(parts.is_finished());
        let again: AppendEntriesRequest<TypeConfig> = read_append(again.freeze()).expect("just written");
        assert_eq!(
            (again.vote, again.prev_log_id, again.leader_commit),
            (request.vote, request.prev_log_id, request.leader_commit)
        );
        assert_eq!(again.entries, request.entries);
    }
    true
}

fn entry(bytes: Bytes) -> bool {
    let Ok(entry) = codec::entry_from_bytes(bytes) else { return false };
    assert_eq!(codec::entry_from_bytes(codec::entry_to_bytes(&entry)).expect("just written"), entry);
    open(&entry);
    true
}

/// Decodes a proposal as the state machine does; one that cannot be decoded is an error.
fn open(entry: &crate::format::types::Entry) {
    if let EntryPayload::Normal(proposal) = &entry.payload {
        let _ = proposal::open(entry.log_id.index, proposal);
    }
}

fn round_trip<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> bool {
    let Ok(read) = codec::from_bytes::<T>(bytes) else { return false };
    let written = codec::to_bytes(&read);
    let again: T = codec::from_bytes(&written).expect("just written");
    assert_eq!(codec::to_bytes(&again), written, "it stays what it was");
    true
}

const SECRET: &[u8] = b"a secret of 32 characters, or so";
/// Far more than a handshake takes whose two ends answer at once.
const WITHIN: Duration = Duration::from_secs(20);

/// The two ends of a connection on this machine: a node, and one that sends the input.
pub(crate) struct Door {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    credentials: Credentials,
}

/// Introductions of node 1 of one cluster.
struct Node;

impl Introductions for Node {
    fn hello(&self, target: u64) -> Hello {
        let build = Build::default();
        Hello { cluster_id: Some("c".into()), node_id: 1, target, instance: "i".into(), build, list: None }
    }

    fn judge(&self, hello: &Hello) -> Result<Welcome, Refusal> {
        if hello.target != 1 {
            return Err(Refusal { reason: RefusalReason::OtherNode, text: hello.instance.clone() });
        }
        let (cluster_id, instance) = (hello.cluster_id.clone(), "i".to_owned());
        let build = Build::default();
        Ok(Welcome { cluster_id, node_id: 1, instance, initialized: true, knows_you: true, build, list: None })
    }

    fn accept(&self, _: &Welcome) -> Result<(), Refusal> {
        Ok(())
    }

    fn log_refused(&self, _: u64, _: &Refusal) {}
}

impl Door {
    pub(crate) fn open() -> Door {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))).expect("a port");
        let address = listener.local_addr().expect("a bound port");
        let credentials = Credentials::new(SECRET, Some(b"the other one")).expect("a certificate");
        Door { runtime, listener, address, credentials }
    }

    /// Runs a handshake with an input of a letter and the bytes of one end; reports whether the other end accepted it.
    ///
    /// `r`: raw bytes of a caller. Within TLS, `c`: everything that a caller sends; `C`: the hello of a caller that
    /// knows the secret; `s`: everything that the server sends; `S`: the verdict of a server that knows the secret.
    pub(crate) fn meet(&self, input: &[u8]) -> bool {
        let Some((letter, said)) = input.split_first() else { return false };
        self.runtime.block_on(async {
            let met = async {
                match letter {
                    b'r' => self.called_raw(said).await,
                    b'c' | b'C' => self.called(letter == &b'C', said).await,
                    b's' | b'S' => self.calling(letter == &b'S', said).await,
                    _ => Ok(false),
                }
            };
            timeout(WITHIN, met).await.expect("a handshake comes to its end").unwrap_or(false)
        })
    }

    async fn pair(&self) -> io::Result<(TcpStream, TcpStream)> {
        let (near, far) = tokio::join!(TcpStream::connect(self.address), self.listener.accept());
        let (near, (far, _)) = (near?, far?);
        // At thousands of connections a second, lingering ports would run out soon.
        near.set_zero_linger()?;
        far.set_zero_linger()?;
        Ok((near, far))
    }

    async fn called_raw(&self, said: &[u8]) -> io::Result<bool> {
        let (mut near, far) = self.pair().await?;
        let (_, received) = tokio::join!(say_all(&mut near, said), handshake::receive(far, &self.credentials, &Node));
        Ok(received.is_ok())
    }

    async fn called(&self, is_proven: bool, said: &[u8]) -> io::Result<bool> {
        let (near, far) = self.pair().await?;
        let caller = async {
            let mut wire = Wire::secured(near, self.credentials.tls()).await?;
            if is_proven {
                return handshake::introduce_with(
                    wire,
                    Purpose::Control,
                    &self.credentials,
                    Bytes::copy_from_slice(said),
                )
                .await
                .map(drop)
                .map_err(io::Error::other);
            }
            say_all(&mut wire, said).await
        };
        let (_, received) = tokio::join!(caller, handshake::receive(far, &self.credentials, &Node));
        Ok(received.is_ok())
    }

    async fn calling(&self, is_proven: bool, said: &[u8]) -> io::Result<bool> {
        let (near, far) = self.pair().await?;
        let called = async {
            let Ok(mut wire) = Wire::accepted(far, self.credentials.tls()).await else { return };
            if is_proven {
                return drop(handshake::receive_with(wire, &self.credentials, said).await);
            }
            // The caller may have hung up, which is expected here.
            let _ = say_all(&mut wire, said).await;
        };
        let hello = Node.hello(1);
        let calling = async {
            let wire = Wire::secured(near, self.credentials.tls()).await?;
            handshake::introduce(wire, Purpose::Control, &self.credentials, &hello).await
        };
        let (_, introduced) = tokio::join!(called, calling);
        Ok(introduced.is_ok())
    }
}

/// Sends all the bytes, then reads to the end.
async fn say_all(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), said: &[u8]) -> io::Result<()> {
    stream.write_all(said).await?;
    stream.flush().await?;
    stream.shutdown().await?;
    stream.read_to_end(&mut Vec::new()).await.map(drop)
}
