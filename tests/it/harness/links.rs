//! A slow or long link before a node: connections of its peers pass through it, in each direction at a rate that all
//! connections share, and with a delay. Both can be changed while connections are open. The link can be cut too.
//!
//! Connections are served in turn, in small pieces, and waiting bytes stay with the sender: the link buffers no more
//! than a router does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Cluster;

/// Bytes that pass before another connection has its turn.
const PIECE_BYTES: usize = 4 * 1024;
/// Bytes that the kernel buffers before the link.
const BUFFER_BYTES: u32 = 64 * 1024;
const WAITING_MAX: u32 = 64;
/// On a long link; a thin one hands each over at once.
const PIECES_UNDER_WAY_MAX: usize = 256;

pub(crate) struct ThinLink {
    address: SocketAddr,
    there: Arc<Lane>,
    back: Arc<Lane>,
    _passing: JoinSet<()>,
}

/// One direction.
#[derive(Default)]
struct Lane {
    /// Bytes a second; 0 is without a limit.
    rate: AtomicU64,
    /// Milliseconds that a piece is on its way, at any rate.
    delay: AtomicU64,
    /// The moment at which all that has been let in so far has passed.
    free_at: Mutex<Option<Instant>>,
    passed: AtomicU64,
    is_cut: watch::Sender<bool>,
}

impl ThinLink {
    /// Starts a link to `target` on a port of its own, without a limit at first.
    pub(crate) fn before(target: SocketAddr) -> ThinLink {
        let socket = small_socket();
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port is free");
        let listener = socket.listen(WAITING_MAX).expect("a bound socket can listen");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (there, back) = (Arc::<Lane>::default(), Arc::<Lane>::default());
        let mut passing = JoinSet::new();
        passing.spawn(accept(listener, target, there.clone(), back.clone()));
        ThinLink { address, there, back, _passing: passing }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the rate in each direction; 0 for no limit.
    pub(crate) fn set_rate(&self, bytes_a_second: u64) {
        for lane in [&self.there, &self.back] {
            lane.rate.store(bytes_a_second, Ordering::Relaxed);
        }
    }

    /// Sets the delay of each byte, in each direction.
    pub(crate) fn set_delay(&self, delay: Duration) {
        for lane in [&self.there, &self.back] {
            lane.delay.store(delay.as_millis() as u64, Ordering::Relaxed);
        }
    }

    /// Cuts the link without closing connections; waiting bytes are delivered when it is restored.
    pub(crate) fn set_cut(&self, is_cut: bool) {
        for lane in [&self.there, &self.back] {
            lane.is_cut.send_replace(is_cut);
        }
    }

    /// Bytes that have passed in both directions.
    pub(crate) fn passed_bytes(&self) -> u64 {
        [&self.there, &self.back].iter().map(|lane| lane.passed.load(Ordering::Relaxed)).sum()
    }
}

/// A cluster with a link before each node.
pub(crate) async fn linked(size: u64, options: &[&str]) -> (Cluster, Vec<ThinLink>) {
    let mut cluster = Cluster::prepare(size, options);
    let links: Vec<ThinLink> = cluster.ids().iter().map(|id| ThinLink::before(cluster.ports(*id).peer)).collect();
    let list: Vec<String> =
        cluster.ids().iter().zip(&links).map(|(id, link)| format!("{id}={}", link.address())).collect();
    cluster.set_initial_cluster(&list.join(","));
    cluster.restart_all().await;
    cluster.log_in_again().await;
    (cluster, links)
}

impl Lane {
    /// Waits until this many bytes have passed, after those admitted before.
    async fn pass(&self, bytes: usize) {
        // It fails only when the lane is gone.
        let _ = self.is_cut.subscribe().wait_for(|is_cut| !is_cut).await;
        self.passed.fetch_add(bytes as u64, Ordering::Relaxed);
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return;
        }
        let passed_at = {
            let (now, mut free_at) = (Instant::now(), self.free_at.lock());
            let begins = free_at.map_or(now, |free_at| free_at.max(now));
            *free_at.insert(begins + Duration::from_secs_f64(bytes as f64 / rate as f64))
        };
        sleep_until(passed_at).await;
    }
}

/// By default the kernel would buffer megabytes that the sender considers sent.
fn small_socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(BUFFER_BYTES).expect("a new socket takes a size");
    socket
}

async fn accept(listener: TcpListener, target: SocketAddr, there: Arc<Lane>, back: Arc<Lane>) {
    let mut connections = JoinSet::new();
    while let Ok((caller, _)) = listener.accept().await {
        connections.spawn(carry_both(caller, target, there.clone(), back.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn carry_both(caller: TcpStream, target: SocketAddr, there: Arc<Lane>, back: Arc<Lane>) {
    // A node that is down: its caller sees the connection closed.
    let Ok(node) = small_socket().connect(target).await else { return };
    let _ = (caller.set_nodelay(true), node.set_nodelay(true));
    let ((from_caller, to_caller), (from_node, to_node)) = (caller.into_split(), node.into_split());
    tokio::join!(carry(from_caller, to_node, &there), carry(from_node, to_caller, &back));
}

async fn carry(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, lane: &Lane) {
    let (under_way, mut arriving) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_UNDER_WAY_MAX);
    let take = async move {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(length @ 1..) = from.read(&mut piece).await {
            lane.pass(length).await;
            let arrives = Instant::now() + Duration::from_millis(lane.delay.load(Ordering::Relaxed));
            if under_way.send((arrives, piece[..length].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let give = async move {
        while let Some((arrives, piece)) = arriving.recv().await {
            sleep_until(arrives).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        // The end of one direction is passed on too; the other end may have gone before.
        let _ = to.shutdown().await;
    };
    tokio::join!(take, give);
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 64 * 1024;
    const RATE: u64 = 128 * 1024;

    /// Sends `BYTES` through `link` on each of `count` connections; the time until all have arrived.
    async fn send(link: &ThinLink, count: usize) -> Duration {
        let begun = Instant::now();
        let mut connections = JoinSet::new();
        for _ in 0..count {
            let address = link.address();
            connections.spawn(async move {
                let mut stream = TcpStream::connect(address).await.expect("listening");
                stream.write_all(&vec![7; BYTES]).await.expect("open");
                stream.shutdown().await.expect("open");
                stream.read_to_end(&mut Vec::new()).await.expect("the other end closes when it has all");
            });
        }
        while let Some(done) = connections.join_next().await {
            done.expect("no panic");
        }
        begun.elapsed()
    }

    #[tokio::test]
    async fn all_connections_share_the_rate() {
        let sink = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let link = ThinLink::before(sink.local_addr().expect("bound"));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = sink.accept().await {
                tokio::spawn(async move { stream.read_to_end(&mut Vec::new()).await });
            }
        });
        link.set_rate(RATE);
        let took = send(&link, 3).await;
        let least = Duration::from_secs_f64(3.0 * BYTES as f64 / RATE as f64);
        assert!(took >= least, "three times {BYTES} bytes at {RATE} a second within {took:?}");
        assert_eq!(link.passed_bytes(), 3 * BYTES as u64);
        link.set_rate(0);
        assert!(send(&link, 1).await < least, "the limit is off");
    }
}
