//! Service of an authenticated connection: calls, or a pipeline of appends.

use std::io;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use futures_util::StreamExt;
use openraft::errors::RaftError;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, StreamAppendError};
use openraft::storage::RaftStateMachine;
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;

use super::frame::{Connection, FrameReader, FrameWriter, Outbox};
use super::limits::{
    ANSWERS_QUEUED_MAX, APPEND_SILENCE_MAX, APPENDS_QUEUED_MAX, CONTROL_IDLE_MAX, LINGER_MAX, OUTBOX_BYTES_MAX,
};
use super::messages::{ExtensionCall, ForwardAnswer, Kind, ReadIndexAnswer, Status, put_call, read_append, read_call};
use super::server::{PeerService, ServerContext};
use super::snapshot::SnapshotPort;
use crate::format::codec;
use crate::format::types::{NodeId, TypeConfig};
use crate::model::heartbeat::BeatsAnswer;
use crate::tasks;

/// Status and body of an answer.
type Outcome = (Status, Bytes);

struct Answer {
    id: u64,
    outcome: Outcome,
}

/// Serves calls until the peer closes the connection or falls silent. Each call runs on its own task: a slow forward
/// delays neither a vote nor a pong.
pub(super) async fn control<SM, S, P>(
    context: &Arc<ServerContext<SM, S, P>>,
    peer: NodeId,
    connection: Connection,
) -> io::Result<()>
where
    SM: RaftStateMachine<TypeConfig, SnapshotData = P::Data>,
    S: PeerService,
    P: SnapshotPort,
{
    let Connection { mut reader, mut writer } = connection;
    let (answers, mut answered) = mpsc::channel(ANSWERS_QUEUED_MAX);
    let mut outbox = Outbox::default();
    loop {
        let silent_at = reader.last_byte() + CONTROL_IDLE_MAX;
        let has_room = outbox.len() < OUTBOX_BYTES_MAX;
        tokio::select! {
            frame = reader.next(), if has_room => {
                let Some(frame) = frame else { return Ok(()) };
                if let Some(answer) = take_call(context, peer, frame?, &answers)? {
                    put_answer(&mut outbox, answer)?;
                }
            }
            answer = answered.recv(), if has_room => {
                put_answer(&mut outbox, answer.expect("this function holds a sender"))?;
                // Answers that are ready leave in the same system call.
                while outbox.len() < OUTBOX_BYTES_MAX && let Ok(answer) = answered.try_recv() {
                    put_answer(&mut outbox, answer)?;
                }
            }
            written = outbox.write_some(&mut writer), if !outbox.is_empty() => written?,
            () = sleep_until(silent_at) => {
                if reader.last_byte().elapsed() >= CONTROL_IDLE_MAX {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer fell silent"));
                }
            }
        }
    }
}

fn put_answer(outbox: &mut Outbox, Answer { id, outcome: (status, body) }: Answer) -> io::Result<()> {
    outbox.put(|out| put_call(out, status as u8, id, &body))
}

/// Starts a call, or returns the answer if it needs no work.
fn take_call<SM, S, P>(
    context: &Arc<ServerContext<SM, S, P>>,
    peer: NodeId,
    frame: Bytes,
    answers: &mpsc::Sender<Answer>,
) -> io::Result<Option<Answer>>
where
    SM: RaftStateMachine<TypeConfig, SnapshotData = P::Data>,
    S: PeerService,
    P: SnapshotPort,
{
    let (kind, id, body) = read_call(frame)?;
    let room = match Kind::from_byte(kind) {
        None => Err(refused("this call is not known here")),
        // The peer dials again and is refused with the reason.
        Some(Kind::Ping) if context.introductions.is_removed(peer) => {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the peer was removed from the cluster"));
        }
        Some(Kind::Ping) => Err((Status::Answered, Bytes::new())),
        Some(kind) => admit(context, kind).map(|permit| (kind, permit)),
    };
    match room {
        Err(outcome) => Ok(Some(Answer { id, outcome })),
        Ok((kind, permit)) => {
            let (context, answers) = (context.clone(), answers.clone());
            tasks::errand_in(&context.calls.clone(), async move {
                let outcome = perform(&context, peer, kind, body).await;
                drop(permit);
                // Fails if the connection is closed, and the caller with it.
                let _ = answers.send(Answer { id, outcome }).await;
            });
            Ok(None)
        }
    }
}

fn admit<SM, S, P>(context: &ServerContext<SM, S, P>, kind: Kind) -> Result<OwnedSemaphorePermit, Outcome>
where
    SM: RaftStateMachine<TypeConfig>,
{
    let is_work = matches!(kind, Kind::Forward | Kind::ReadIndex | Kind::Beats | Kind::Subscribers | Kind::Fleet);
    let room = if is_work { &context.work } else { &context.raft_calls };
    room.clone().try_acquire_owned().map_err(|_| match kind {
        Kind::Forward => answered(&ForwardAnswer::Overloaded),
        Kind::ReadIndex => answered(&ReadIndexAnswer::Overloaded),
        Kind::Beats => answered(&BeatsAnswer::Overloaded),
        _ => refused("too many calls in flight"),
    })
}

async fn perform<SM, S, P>(context: &ServerContext<SM, S, P>, peer: NodeId, kind: Kind, body: Bytes) -> Outcome
where
    SM: RaftStateMachine<TypeConfig, SnapshotData = P::Data>,
    S: PeerService,
    P: SnapshotPort,
{
    let raft = &context.raft;
    match kind {
        Kind::Ping => (Status::Answered, Bytes::new()),
        Kind::Vote => of_raft(codec::from_bytes(&body), |request| raft.vote(request)).await,
        Kind::PreVote => of_raft(codec::from_bytes(&body), |request| raft.pre_vote(request)).await,
        Kind::Append => of_raft(read_append(body), |request| heartbeat(context, request)).await,
        Kind::TransferLeader => of_raft(codec::from_bytes(&body), |request| raft.handle_transfer_leader(request)).await,
        Kind::Forward => answered(&context.service.forward(body).await),
        Kind::ReadIndex => answered(&context.service.read_index().await),
        Kind::Progress => answered(&context.service.progress(peer)),
        #[cfg(feature = "next-level")]
        Kind::NextLevel => answered(&context.service.has_next_level()),
        Kind::Beats => extension(context, ExtensionCall::Beats, body).await,
        Kind::Subscribers => extension(context, ExtensionCall::Subscribers, body).await,
        Kind::Fleet => extension(context, ExtensionCall::Fleet, body).await,
    }
}

async fn extension<SM, S, P>(context: &ServerContext<SM, S, P>, call: ExtensionCall, body: Bytes) -> Outcome
where
    SM: RaftStateMachine<TypeConfig>,
    S: PeerService,
{
    match context.service.extension(call, body).await {
        Ok(answer) => (Status::Answered, answer),
        Err(why) => refused(&why),
    }
}

async fn heartbeat<SM, S, P>(
    context: &ServerContext<SM, S, P>,
    request: AppendEntriesRequest<TypeConfig>,
) -> Result<AppendEntriesResponse<TypeConfig>, RaftError<TypeConfig>>
where
    SM: RaftStateMachine<TypeConfig, SnapshotData = P::Data>,
    S: PeerService,
    P: SnapshotPort,
{
    let answer = context.raft.append_entries(request).await?;
    // A node with an outdated vote is not the leader of this node.
    if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
        context.service.hear_leader();
    }
    Ok(answer)
}

/// Performs a message of Raft. An error of openraft means that its core has stopped.
async fn of_raft<Q, A, E, F>(request: io::Result<Q>, handle: impl FnOnce(Q) -> F) -> Outcome
where
    A: Serialize,
    E: std::fmt::Display,
    F: Future<Output = Result<A, E>>,
{
    match request {
        Err(error) => refused(&format!("the call cannot be read: {error}")),
        Ok(request) => match handle(request).await {
            Ok(answer) => answered(&answer),
            Err(error) => (Status::Failed, error.to_string().into()),
        },
    }
}

fn answered(answer: &impl Serialize) -> Outcome {
    (Status::Answered, codec::to_bytes(answer).into())
}

fn refused(text: &str) -> Outcome {
    (Status::Refused, Bytes::copy_from_slice(text.as_bytes()))
}

/// Feeds appends to Raft and returns its answers in order, until either end stops.
pub(super) async fn append<SM, S, P>(
    context: &Arc<ServerContext<SM, S, P>>,
    peer: NodeId,
    connection: Connection,
) -> io::Result<()>
where
    SM: RaftStateMachine<TypeConfig, SnapshotData = P::Data>,
    S: PeerService,
    P: SnapshotPort,
{
    let Connection { mut reader, mut writer } = connection;
    let hearing = context.clone();
    reader.on_bytes(move || hearing.service.hear_bytes_of(peer));
    let (requests, queue) = mpsc::channel(APPENDS_QUEUED_MAX);
    let mut answers = std::pin::pin!(context.raft.stream_append(ReceiverStream::new(queue)));
    let mut outbox = Outbox::default();
    let mut parked: Option<AppendEntriesRequest<TypeConfig>> = None;
    loop {
        let silent_at = reader.last_byte() + APPEND_SILENCE_MAX;
        tokio::select! {
            frame = reader.next(), if parked.is_none() => {
                let Some(frame) = frame else { return Ok(()) };
                let frame = frame?;
                // An empty frame only shows that the leader is alive.
                if !frame.is_empty() {
                    parked = Some(read_append(frame)?);
                }
            }
            room = requests.reserve(), if parked.is_some() => {
                let Ok(room) = room else { break };
                room.send(parked.take().expect("this branch has one"));
            }
            answer = answers.next() => match answer {
                Some(Ok(answer)) => {
                    if !matches!(answer, Err(StreamAppendError::HigherVote(_))) {
                        context.service.hear_leader();
                    }
                    outbox.put(|out| out.put_slice(&codec::to_bytes(&answer)))?;
                }
                // Raft ends the session after a conflict or a higher vote, which it has answered.
                Some(Err(_)) | None => break,
            },
            written = outbox.write_some(&mut writer), if !outbox.is_empty() => written?,
            () = sleep_until(silent_at), if parked.is_none() => {
                if reader.last_byte().elapsed() >= APPEND_SILENCE_MAX {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the leader fell silent"));
                }
            }
        }
    }
    outbox.flush(&mut writer).await?;
    close(reader, writer).await;
    Ok(())
}

/// Closes a connection so that the last answer arrives: closing a socket with unread input resets it, and the other end
/// loses what it has not read yet.
pub(super) async fn close(mut reader: FrameReader, mut writer: FrameWriter) {
    if writer.shutdown().await.is_ok() {
        // The outcome does not matter: either way the connection ends.
        let _ = timeout(LINGER_MAX, reader.drain()).await;
    }
}
