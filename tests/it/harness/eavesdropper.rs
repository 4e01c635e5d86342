//! A listener on the wire between two nodes: passes every connection on, and keeps what went by.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Enough for any test, and little enough for any machine.
const KEPT_BYTES_MAX: usize = 64 << 20;

pub(crate) struct Eavesdropper {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
    _listening: JoinSet<()>,
}

impl Eavesdropper {
    /// Starts a relay to `target` on a port of its own.
    pub(crate) async fn before(target: SocketAddr) -> Eavesdropper {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (heard, mut listening) = (Arc::<Mutex<Vec<u8>>>::default(), JoinSet::new());
        let ear = heard.clone();
        listening.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((caller, _)) = listener.accept().await {
                connections.spawn(pass(caller, target, ear.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Eavesdropper { address, heard, _listening: listening }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn heard_bytes(&self) -> usize {
        self.heard.lock().len()
    }

    /// True if these bytes went by in one piece, in either direction.
    pub(crate) fn heard(&self, words: &[u8]) -> bool {
        memchr::memmem::find(&self.heard.lock(), words).is_some()
    }
}

async fn pass(caller: TcpStream, target: SocketAddr, heard: Arc<Mutex<Vec<u8>>>) {
    // A node that is down: its caller sees the connection closed.
    let Ok(node) = TcpStream::connect(target).await else { return };
    let _ = (caller.set_nodelay(true), node.set_nodelay(true));
    let ((from_caller, to_caller), (from_node, to_node)) = (caller.into_split(), node.into_split());
    tokio::join!(carry(from_caller, to_node, &heard), carry(from_node, to_caller, &heard));
}

async fn carry(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, heard: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        {
            let mut heard = heard.lock();
            if heard.len() < KEPT_BYTES_MAX {
                heard.extend_from_slice(&buffer[..length]);
            }
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
    // The end of one direction is passed on too; the other end may have gone before.
    let _ = to.shutdown().await;
}
