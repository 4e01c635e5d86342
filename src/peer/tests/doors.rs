//! Admission: valid handshakes, and everything else.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::harness::{LIMIT, Names, Node, credentials, eventually, introduce, secret};
use crate::format::codec;
use crate::peer::handshake::PROTOCOL_VERSION;
use crate::peer::limits::{HANDSHAKE_FRAME_BYTES_MAX, STRANGERS_PER_ADDRESS};
use crate::peer::wire::Wire;
use crate::peer::{Build, CallError, Hello, IntroduceError, Introductions, Refusal, RefusalReason, Welcome};

/// First bytes of a node within TLS.
const PREAMBLE: &[u8] = b"THUBAN\x00\x01\x01";

/// Returns everything that the server sends until it closes; a reset counts as closed.
async fn read_to_close(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut said = Vec::new();
    let _ = timeout(LIMIT, stream.read_to_end(&mut said)).await.expect("the server closes");
    said
}

/// Returns everything that the server sends in response to `bytes`. It may close before it has read all of them.
async fn say(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), bytes: &[u8]) -> Vec<u8> {
    let _ = stream.write_all(bytes).await;
    let _ = stream.flush().await;
    read_to_close(stream).await
}

#[tokio::test]
async fn the_right_secret_and_name_are_welcome() {
    let node = Node::start(1).await;
    let welcome = introduce(&node.address, &secret(), 1).await.expect("welcome");
    assert_eq!((welcome.node_id, welcome.instance.as_str(), welcome.knows_you), (1, "data of 1", true));
}

#[tokio::test]
async fn a_wrong_secret_is_told_and_counted_and_the_hello_never_judged() {
    let node = Node::start(1).await;
    *node.names.refusal.lock() = Some(RefusalReason::Removed);
    let met = introduce(&node.address, &credentials(b"another", None), 1).await;
    assert_eq!(met, Err(IntroduceError::BadSecret));
    assert_eq!((node.refused("secret"), node.refused("removed")), (1, 0));
}

#[tokio::test]
async fn a_refusal_carries_its_reason() {
    let node = Node::start(1).await;
    let rows = [
        (RefusalReason::OtherCluster, "cluster"),
        (RefusalReason::OtherInstance, "instance"),
        (RefusalReason::Removed, "removed"),
    ];
    for (reason, label) in rows {
        *node.names.refusal.lock() = Some(reason);
        let met = introduce(&node.address, &secret(), 1).await;
        let refusal = Refusal { reason, text: format!("{reason:?}") };
        assert_eq!(met, Err(IntroduceError::Refused(refusal)));
        assert_eq!(node.refused(label), 1, "{label}");
    }
    *node.names.refusal.lock() = None;
    let met = introduce(&node.address, &secret(), 2).await;
    assert!(matches!(met, Err(IntroduceError::Refused(Refusal { reason: RefusalReason::OtherNode, .. }))), "{met:?}");
}

/// A stranger that does not start with TLS gets no byte.
#[tokio::test]
async fn whatever_is_not_tls_is_closed_without_a_byte_and_counted() {
    let mut random: Vec<u8> = std::iter::repeat_with(rand::random).take(4096).collect();
    // Any byte but the first one of TLS.
    random[0] = 0x80;
    let rows: [&[u8]; 4] = [PREAMBLE, b"THU", b"GET / HTTP/1.1\r\nHost: thuban\r\n\r\n", &random];
    let node = Node::start(1).await;
    for bytes in rows {
        let before = node.refused("tls");
        assert_eq!(say(&mut node.connect().await, bytes).await, b"", "{bytes:.8?}");
        eventually("it is counted", || node.refused("tls") == before + 1).await;
    }
    // It starts like TLS but is invalid: rustls answers with an alert.
    say(&mut node.connect().await, b"\x16\x03\x01\x00\x05hello").await;
    eventually("it is counted", || node.refused("tls") == rows.len() as u64 + 1).await;
    introduce(&node.address, &secret(), 1).await.expect("the node still serves");
}

#[tokio::test]
async fn whatever_is_not_a_handshake_is_closed_and_counted() {
    let huge = [PREAMBLE, &u32::MAX.to_be_bytes()[..]].concat();
    let longer = vec![0; HANDSHAKE_FRAME_BYTES_MAX + 1];
    let above_the_limit = [PREAMBLE, &u32::try_from(longer.len()).expect("small").to_be_bytes()[..], &longer].concat();
    let too_short = [PREAMBLE, &[0, 0, 0, 4, 1, 2, 3, 4][..]].concat();
    let forged = [PREAMBLE, &100u32.to_be_bytes()[..], &[7; 100]].concat();
    let random: Vec<u8> = std::iter::repeat_with(rand::random).take(4096).collect();
    let rows: [(&[u8], &str); 9] = [
        (&random, "magic"),
        (b"GET / HTTP/1.1\r\nHost: thuban\r\n\r\n", "magic"),
        (b"THUBAN\x00\x02\x01", "version"),
        (b"THUBAN\x00\x01\x09", "purpose"),
        (&huge, "frame"),
        (&above_the_limit, "frame"),
        (&too_short, "frame"),
        (&forged, "secret"),
        (b"THU", "gone"),
    ];
    let node = Node::start(1).await;
    for (bytes, reason) in rows {
        let before = node.refused(reason);
        let mut wire = node.connect_secured().await;
        // The server may have closed before it read everything.
        let _ = wire.write_all(bytes).await;
        let _ = wire.flush().await;
        if reason == "gone" {
            wire.shutdown().await.expect("open");
        }
        let said = read_to_close(&mut wire).await;
        assert!(said.is_empty() || !["magic", "gone"].contains(&reason), "{reason}: {said:?}");
        eventually(reason, || node.refused(reason) == before + 1).await;
    }
    let mut silent = node.connect().await;
    silent.shutdown().await.expect("open");
    eventually("one that says nothing is gone", || node.refused("gone") == 2).await;
    introduce(&node.address, &secret(), 1).await.expect("the node still serves");
}

#[tokio::test]
async fn a_huge_or_garbled_frame_after_the_handshake_ends_the_connection() {
    let node = Node::start(1).await;
    for bytes in [&u32::MAX.to_be_bytes()[..], &[0, 0, 0, 1, 2][..]] {
        let before = node.refused("frame");
        let mut stream = authenticated(&node, 1).await;
        stream.write_all(bytes).await.expect("open");
        stream.flush().await.expect("open");
        read_to_close(&mut stream).await;
        eventually("the frame is counted", || node.refused("frame") == before + 1).await;
    }
    let mut stream = authenticated(&node, 2).await;
    stream.write_all(&[0, 0, 0, 5, 0, 0, 0, 1, 0xc1]).await.expect("open");
    stream.flush().await.expect("open");
    read_to_close(&mut stream).await;
    eventually("the append is counted", || node.refused("frame") == 3).await;
    assert!(node.metrics_now().running_state.is_ok());
}

/// Returns a connection whose handshake is done; bytes written to it count as a peer's.
async fn authenticated(node: &Node, purpose: u8) -> Wire {
    use crate::peer::handshake::{Purpose, dial_as};
    let purpose = [Purpose::Control, Purpose::Append][usize::from(purpose) - 1];
    let (connection, _) = dial_as(&*Names::of(9), &secret(), &node.address, 1, purpose).await.expect("welcome");
    connection.into_wire()
}

#[tokio::test]
async fn a_slow_handshake_ends_at_its_deadline() {
    let node = Node::start(1).await;
    node.close_door().await;
    // Much longer than a TLS handshake takes.
    let limit = Duration::from_secs(1);
    node.open_with(node.server().with_handshake_within(limit));
    let started = tokio::time::Instant::now();
    say(&mut node.connect().await, b"\x16\x03\x01").await;
    assert!(started.elapsed() >= limit);
    eventually("slow within the handshake of TLS", || node.refused("slow") == 1).await;
    for (slow, counted) in [(&b"THU"[..], 2), (PREAMBLE, 3)] {
        say(&mut node.connect_secured().await, slow).await;
        eventually("slow after it", || node.refused("slow") == counted).await;
    }
}

#[tokio::test]
async fn silent_strangers_are_bounded_in_number_and_keep_nobody_out() {
    let node = Node::start(1).await;
    let mut peer = authenticated(&node, 1).await;
    let mut waiting = Vec::new();
    for number in 0..2 * STRANGERS_PER_ADDRESS as u64 {
        let mut stream = node.connect_secured().await;
        stream.write_all(PREAMBLE).await.expect("open");
        stream.flush().await.expect("open");
        // The greeting shows that it occupies one of the places.
        stream.read_exact(&mut [0; 4]).await.expect("a greeting");
        waiting.push(stream);
        let sent_away = (number + 1).saturating_sub(STRANGERS_PER_ADDRESS as u64);
        eventually("the oldest is sent away", || node.refused("crowded") == sent_away).await;
    }
    let mut oldest = waiting.remove(0);
    read_to_close(&mut oldest).await;
    introduce(&node.address, &secret(), 1).await.expect("who means it is welcome meanwhile");
    assert!(peer.read(&mut [0; 1]).now_or_never().is_none(), "who is in is no stranger, and stays");
    assert_eq!(node.refused("crowded"), STRANGERS_PER_ADDRESS as u64 + 1);
}

#[tokio::test]
async fn a_server_that_does_not_know_the_secret_is_refused() {
    let welcome = Welcome {
        cluster_id: None,
        node_id: 1,
        instance: "fake".into(),
        initialized: true,
        knows_you: true,
        build: Build::default(),
        list: None,
    };
    let verdict = codec::to_bytes(&Ok::<_, Refusal>(welcome));
    let address = fake_server([&[0; 33], &verdict[..]].concat(), PROTOCOL_VERSION).await;
    assert_eq!(introduce(&address, &secret(), 1).await, Err(IntroduceError::BadSecret));
}

#[tokio::test]
async fn a_server_of_another_version_is_told_apart() {
    let address = fake_server(vec![], 3).await;
    let met = introduce(&address, &secret(), 1).await;
    assert_eq!(met, Err(IntroduceError::Version { theirs: 3, ours: PROTOCOL_VERSION }));
}

/// Starts a server that greets with `version` and answers any hello with `answer`.
async fn fake_server(answer: Vec<u8>, version: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a caller");
        let mut stream = Wire::accepted(stream, secret().tls()).await.expect("TLS");
        let mut preamble = [0; 9];
        stream.read_exact(&mut preamble).await.expect("a preamble");
        let mut out = BytesMut::new();
        out.put_u32(35);
        out.put_u16(version);
        out.put_slice(&[0; 33]);
        stream.write_all(&out).await.expect("open");
        stream.flush().await.expect("open");
        if let Ok(length) = stream.read_u32().await {
            stream.read_exact(&mut vec![0; length as usize]).await.expect("a hello");
            stream.write_u32(answer.len() as u32).await.expect("open");
            stream.write_all(&answer).await.expect("open");
            stream.flush().await.expect("open");
        }
    });
    address
}

#[tokio::test]
async fn a_recorded_handshake_cannot_be_played_again() {
    let node = Node::start(1).await;
    let (relay, recording) = recording_relay(node.address.clone()).await;
    introduce(&relay, &secret(), 1).await.expect("welcome");
    let recorded = recording.await.expect("a recording");
    assert!(recorded.len() > 256, "TLS and a hello: {} bytes", recorded.len());
    say(&mut node.connect().await, &recorded).await;
    eventually("the replay is refused", || node.refused("tls") == 1).await;
}

/// Forwards one connection to `target`; returns what the caller sent.
pub(super) async fn recording_relay(target: String) -> (String, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let recording = tokio::spawn(async move {
        let (caller, _) = listener.accept().await.expect("a caller");
        let (mut from_caller, mut to_caller) = caller.into_split();
        let node = TcpStream::connect(target).await.expect("listening");
        let (mut from_node, mut to_node) = node.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_node, &mut to_caller).await });
        let mut recorded = Vec::new();
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = from_caller.read(&mut buffer).await {
            recorded.extend_from_slice(&buffer[..length]);
            to_node.write_all(&buffer[..length]).await.expect("open");
        }
        recorded
    });
    (address, recording)
}

/// A peer that came back with another data directory is refused by the dialling side, too.
#[tokio::test]
async fn the_dialling_side_judges_as_well() {
    struct Suspicious(Arc<Names>);
    impl Introductions for Suspicious {
        fn hello(&self, target: u64) -> Hello {
            self.0.hello(target)
        }
        fn judge(&self, hello: &Hello) -> Result<Welcome, Refusal> {
            self.0.judge(hello)
        }
        fn accept(&self, _: &Welcome) -> Result<(), Refusal> {
            Err(Refusal { reason: RefusalReason::OtherInstance, text: "wiped".into() })
        }
    }
    let node = Node::start(1).await;
    let metrics = Arc::new(crate::metrics::Metrics::new().expect("metrics"));
    let peers = super::super::Peers::new(9, secret(), Arc::new(Suspicious(Names::of(9))), metrics);
    peers.set_members(&[(1, node.address.clone())].into());
    let asked = peers.read_index(1, Duration::from_secs(5)).await;
    assert_eq!(asked, Err(CallError::NotSent("refused: wiped".into())));
}
