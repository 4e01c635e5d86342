//! TLS between nodes: who stands in between, who comes without, and two secrets at a time.

use std::io;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::doors::read_to_close;
use super::harness::{LIMIT, Names, Node, SECRET, credentials, eventually, introduce, secret};
use crate::format::codec;
use crate::peer::handshake::{Purpose, dial_as};
use crate::peer::wire::Wire;
use crate::peer::{Credentials, IntroduceError, Introductions, Peers, Refusal, Welcome};

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    (listener, address)
}

/// A node of the version before TLS, made from its description: it hangs up on what does not begin as it
/// expects, proves the secret to who does, and welcomes them.
async fn node_before_tls(welcome: Welcome) -> String {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a caller");
            // How a conversation ends is told by the other end.
            let _ = speak_as_before_tls(stream, &welcome).await;
        }
    });
    address
}

async fn speak_as_before_tls(mut stream: TcpStream, welcome: &Welcome) -> io::Result<()> {
    let mut preamble = [0; 9];
    stream.read_exact(&mut preamble).await?;
    if !preamble.starts_with(b"THUBAN\x00\x01") {
        return Ok(());
    }
    let greeting = [&[0, 1, 0], &[7; 32][..]].concat();
    write_frame(&mut stream, &greeting).await?;
    let length = stream.read_u32().await?;
    let mut hello = vec![0; length as usize];
    stream.read_exact(&mut hello).await?;
    let (mac, said) = hello.split_at(32);
    let (nonce, hello) = said.split_at(32);
    let expected = proof(&[b"thuban peer client", &preamble, &greeting, nonce, hello]);
    assert_eq!(mac, expected, "the caller knows the secret");
    let verdict = codec::to_bytes(&Ok::<_, Refusal>(welcome));
    let mac = proof(&[b"thuban peer server", &preamble, &greeting, nonce, hello, &verdict]);
    write_frame(&mut stream, &[&[0], &mac[..], &verdict].concat()).await?;
    read_to_close(&mut stream).await;
    Ok(())
}

async fn write_frame(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    stream.write_u32(body.len() as u32).await?;
    stream.write_all(body).await
}

fn proof(parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).expect("a key");
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

/// The client's half without TLS.
async fn dial_plain(names: &Names, address: &str) -> Result<Welcome, IntroduceError> {
    let wire = Wire::Plain(TcpStream::connect(address).await.expect("listening"));
    let met = super::super::handshake::introduce(wire, Purpose::Control, &secret(), &names.hello(1)).await;
    met.map(|(_, welcome)| welcome)
}

/// Ends the TLS of whoever dials, opens its own to `target`, and passes on what it reads.
async fn relay_that_ends_tls(target: String) -> (String, tokio::task::JoinHandle<(u64, u64)>) {
    let (listener, address) = listen().await;
    let relay = tokio::spawn(async move {
        let (caller, _) = listener.accept().await.expect("a caller");
        let own = secret();
        let mut caller = Wire::accepted(caller, own.tls()).await.expect("a caller that takes any certificate");
        let node = TcpStream::connect(target).await.expect("listening");
        let mut node = Wire::secured(node, own.tls()).await.expect("a server that shows a certificate");
        // Ends with an error when either end hangs up; that both were served is what matters.
        copy_bidirectional(&mut caller, &mut node).await.unwrap_or_default()
    });
    (address, relay)
}

#[tokio::test]
async fn a_relay_that_ends_tls_at_both_sides_gets_nowhere() {
    let node = Node::start(1).await;
    introduce(&node.address, &secret(), 1).await.expect("welcome without a relay");
    let (relay, passed) = relay_that_ends_tls(node.address.clone()).await;
    assert_eq!(introduce(&relay, &secret(), 1).await, Err(IntroduceError::BadSecret));
    eventually("the proof is of another connection", || node.refused("secret") == 1).await;
    passed.await.expect("the relay has passed everything on");
}

/// It takes TLS off, and speaks with the node as one from before TLS would.
#[tokio::test]
async fn a_relay_that_takes_tls_off_gets_nowhere() {
    let node = Node::start(1).await;
    let (listener, relay) = listen().await;
    let target = node.address.clone();
    tokio::spawn(async move {
        let (caller, _) = listener.accept().await.expect("a caller");
        let mut caller = Wire::accepted(caller, secret().tls()).await.expect("a caller that takes any certificate");
        let mut node = TcpStream::connect(target).await.expect("listening");
        // Its hello is one of the version with TLS: neither that nor the older version is believed.
        let mut preamble = [0; 9];
        caller.read_exact(&mut preamble).await.expect("a preamble");
        preamble[7] = 1;
        node.write_all(&preamble).await.expect("open");
        let mut greeting = [0; 4 + 35];
        node.read_exact(&mut greeting).await.expect("a greeting");
        greeting[5] = 2;
        caller.write_all(&greeting).await.expect("open");
        caller.flush().await.expect("open");
        let _ = copy_bidirectional(&mut caller, &mut node).await;
    });
    assert_eq!(introduce(&relay, &secret(), 1).await, Err(IntroduceError::BadSecret));
    eventually("the proof is of another kind of connection", || node.refused("secret") == 1).await;
}

/// Whoever breaks TLS off in between does not get the two to talk without.
#[tokio::test]
async fn two_nodes_with_tls_do_not_talk_without_it_although_they_take_plain_ones() {
    let node = Node::start(1).await;
    let (listener, relay) = listen().await;
    let target = node.address.clone();
    tokio::spawn(async move {
        let (with_tls, _) = listener.accept().await.expect("a caller");
        drop(with_tls);
        let (mut plain, _) = listener.accept().await.expect("a second try");
        let mut node = TcpStream::connect(target).await.expect("listening");
        let _ = copy_bidirectional(&mut plain, &mut node).await;
    });
    let met = introduce(&relay, &secret(), 1).await;
    assert!(matches!(&met, Err(IntroduceError::Unreachable(why)) if why.contains("speaks TLS")), "{met:?}");
    eventually("the server parts too", || node.refused("plain") == 1).await;
}

#[tokio::test]
async fn a_node_from_before_tls_is_talked_to_while_that_is_allowed() {
    let node = Node::start(1).await;
    let welcome = dial_plain(&Names::before_tls(9), &node.address).await.expect("welcome");
    assert!(welcome.build.tls, "it says what it could do");
    node.names.refuse_plain();
    let met = dial_plain(&Names::before_tls(9), &node.address).await;
    assert!(matches!(&met, Err(IntroduceError::Unreachable(why)) if why.contains("newer version")), "{met:?}");
    assert_eq!(node.refused("plain"), 1);
    introduce(&node.address, &secret(), 1).await.expect("with TLS it is as before");
}

#[tokio::test]
async fn a_node_from_before_tls_is_dialled_while_that_is_allowed() {
    let names = Names::of(9);
    let welcome = Names::before_tls(1).judge(&names.hello(1)).expect("welcome");
    let address = node_before_tls(welcome).await;
    let (_, welcome) = dial_as(&*names, &secret(), &address, 1, Purpose::Control).await.expect("welcome");
    assert!(!welcome.build.tls);
    names.refuse_plain();
    let met = dial_as(&*names, &secret(), &address, 1, Purpose::Control).await.map(|(_, welcome)| welcome);
    assert!(matches!(&met, Err(IntroduceError::Unreachable(why)) if why.contains("no TLS")), "{met:?}");
}

/// Without TLS as with it: what was recorded of a node from before TLS cannot be said again.
#[tokio::test]
async fn a_recorded_plain_handshake_cannot_be_played_again() {
    let node = Node::start(1).await;
    let (relay, recording) = super::doors::recording_relay(node.address.clone()).await;
    dial_plain(&Names::before_tls(9), &relay).await.expect("welcome");
    let recorded = recording.await.expect("a recording");
    assert!(recorded.starts_with(b"THUBAN\x00\x01"));
    let mut stream = TcpStream::connect(&node.address).await.expect("listening");
    stream.write_all(&recorded).await.expect("open");
    read_to_close(&mut stream).await;
    eventually("the replay is refused", || node.refused("secret") == 1).await;
}

#[tokio::test]
async fn of_two_secrets_the_first_is_shown_and_both_are_taken() {
    const NEXT: &[u8] = b"the next secret of the test, 36 chars";
    let [old, both_old, both_new, new]: [Credentials; 4] =
        [(SECRET, None), (SECRET, Some(NEXT)), (NEXT, Some(SECRET)), (NEXT, None)]
            .map(|(shown, other)| credentials(shown, other));
    // By who serves: whether a caller with the old one, with both in either order, with the new one gets in.
    let rows = [
        ("old", &old, [true, true, false, false]),
        ("old, new", &both_old, [true; 4]),
        ("new, old", &both_new, [true; 4]),
        ("new", &new, [false, false, true, true]),
    ];
    let node = Node::start(1).await;
    for (name, serving, expected) in rows {
        node.close_door().await;
        node.open_with(node.server_with(serving.clone()));
        for (caller, welcome) in [&old, &both_old, &both_new, &new].into_iter().zip(expected) {
            let met = introduce(&node.address, caller, 1).await.map(drop);
            assert_eq!(met, if welcome { Ok(()) } else { Err(IntroduceError::BadSecret) }, "{name} serves");
        }
    }
}

/// The third step of an exchange: links that were made under the secret before live on.
#[tokio::test]
async fn a_link_follows_a_node_that_is_restarted_with_another_order_of_secrets() {
    const NEXT: &[u8] = b"the next secret of the test, 36 chars";
    let node = Node::start(1).await;
    let metrics = Arc::new(crate::metrics::Metrics::new().expect("metrics"));
    let peers = Peers::new(9, credentials(SECRET, Some(NEXT)), Names::of(9), metrics);
    peers.set_members(&[(1, node.address.clone())].into());
    eventually("node 1 is reachable", || peers.reachable(1)).await;
    node.close_door().await;
    node.open_with(node.server_with(credentials(NEXT, Some(SECRET))));
    let deadline = Instant::now() + LIMIT;
    while let Err(error) = peers.read_index(1, LIMIT).await {
        assert!(Instant::now() < deadline, "the link is not back: {error}");
    }
}
