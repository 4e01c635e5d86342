//! TLS between nodes: relays in between, and two secrets at a time.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::harness::{LIMIT, Names, Node, SECRET, credentials, eventually, introduce, secret};
use crate::peer::wire::Wire;
use crate::peer::{Credentials, IntroduceError, Peers};

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    (listener, address)
}

/// Starts a relay that terminates the caller's TLS, opens its own TLS to `target`, and forwards what it reads.
async fn relay_that_ends_tls(target: String) -> (String, tokio::task::JoinHandle<(u64, u64)>) {
    let (listener, address) = listen().await;
    let relay = tokio::spawn(async move {
        let (caller, _) = listener.accept().await.expect("a caller");
        let own = secret();
        let mut caller = Wire::accepted(caller, own.tls()).await.expect("a caller that takes any certificate");
        let node = TcpStream::connect(target).await.expect("listening");
        let mut node = Wire::secured(node, own.tls()).await.expect("a server that shows a certificate");
        // Ends with an error when either end hangs up; both were served before.
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

/// The relay removes TLS, and forwards to the node what the caller sends within it.
#[tokio::test]
async fn a_relay_that_takes_tls_off_gets_nowhere() {
    let node = Node::start(1).await;
    let (listener, relay) = listen().await;
    let target = node.address.clone();
    let heard = tokio::spawn(async move {
        let (caller, _) = listener.accept().await.expect("a caller");
        let mut caller = Wire::accepted(caller, secret().tls()).await.expect("a caller that takes any certificate");
        let mut node = TcpStream::connect(target).await.expect("listening");
        let mut preamble = [0; 9];
        caller.read_exact(&mut preamble).await.expect("a preamble");
        node.write_all(&preamble).await.expect("open");
        let mut heard = Vec::new();
        // A reset is as good as an end.
        let _ = node.read_to_end(&mut heard).await;
        heard
    });
    let met = introduce(&relay, &secret(), 1).await;
    assert!(matches!(met, Err(IntroduceError::Unreachable(_))), "{met:?}");
    assert_eq!(heard.await.expect("the relay has ended"), b"");
    eventually("the node closes", || node.refused("tls") == 1).await;
}

/// A caller does not retry without TLS when the other end closes during TLS.
#[tokio::test]
async fn a_caller_whose_tls_is_broken_off_says_nothing_without_it() {
    let (listener, relay) = listen().await;
    let first_bytes = tokio::spawn(async move {
        let mut first_bytes = Vec::new();
        loop {
            let (mut caller, _) = listener.accept().await.expect("a caller");
            first_bytes.push(caller.read_u8().await.expect("a byte"));
            drop(caller);
            if first_bytes.len() == 2 {
                return first_bytes;
            }
        }
    });
    for _ in 0..2 {
        let met = introduce(&relay, &secret(), 1).await;
        assert!(matches!(&met, Err(IntroduceError::Unreachable(why)) if why.contains("no TLS")), "{met:?}");
    }
    // Each of the two came from a separate call.
    assert_eq!(first_bytes.await.expect("two callers"), [0x16, 0x16]);
}

#[tokio::test]
async fn of_two_secrets_the_first_is_shown_and_both_are_taken() {
    const NEXT: &[u8] = b"the next secret of the test, 36 chars";
    let [old, both_old, both_new, new]: [Credentials; 4] =
        [(SECRET, None), (SECRET, Some(NEXT)), (NEXT, Some(SECRET)), (NEXT, None)]
            .map(|(shown, other)| credentials(shown, other));
    // By server: whether it accepts a caller with the old secret, with both in either order, and with the new one.
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

/// The third step of a rotation: links that were made under the previous secret stay open.
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
