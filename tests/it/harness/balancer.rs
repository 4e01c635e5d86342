//! A TCP balancer as common in front of nodes: round robin, or preferring the first node; it skips nodes that are not
//! ready. Connections to a node that dies are closed. It counts answers by status, and compressed ones.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::Api;

const CHECK_LIMIT: Duration = Duration::from_millis(500);
/// Beginning of an answer; the status follows.
const HEAD: &[u8] = b"HTTP/1.1 ";
/// Field of an answer that is compressed.
const COMPRESSED: &[u8] = b"\r\ncontent-encoding: gzip\r\n";

pub(crate) struct Balancer {
    address: SocketAddr,
    told: Arc<Told>,
    _accepting: JoinSet<()>,
}

/// Counters of the balancer.
#[derive(Default)]
struct Told {
    open: Mutex<BTreeMap<SocketAddr, usize>>,
    answers: Mutex<BTreeMap<u16, usize>>,
    compressed: AtomicUsize,
}

#[derive(Clone, Copy)]
enum Order {
    Round,
    FirstReady,
}

/// Nodes behind the balancer, and its way to choose among them.
struct Backends {
    order: Order,
    addresses: Vec<SocketAddr>,
    /// Addresses of the readiness checks of the backends, in their order.
    probed: Vec<SocketAddr>,
    /// Address of its own connections, in place of what the machine chooses.
    from: Option<IpAddr>,
}

impl Backends {
    async fn connect(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        let Some(from) = self.from else { return TcpStream::connect(to).await };
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        socket.connect(to).await
    }
}

impl Balancer {
    /// Listens on a port of its own and spreads connections over the backends.
    pub(crate) async fn start(addresses: Vec<SocketAddr>) -> Balancer {
        Balancer::start_with(Order::Round, addresses.clone(), addresses, None).await
    }

    /// Starts a balancer for addresses that speak only HTTP/2: each has another address for readiness.
    pub(crate) async fn start_probing(addresses: Vec<(SocketAddr, SocketAddr)>) -> Balancer {
        let (addresses, probed) = addresses.into_iter().unzip();
        Balancer::start_with(Order::Round, addresses, probed, None).await
    }

    /// Starts a balancer that sends each connection to the first ready backend.
    pub(crate) async fn start_preferring_the_first(addresses: Vec<SocketAddr>) -> Balancer {
        Balancer::start_with(Order::FirstReady, addresses.clone(), addresses, None).await
    }

    /// The same for clients of one address of this machine: the backends know them by it.
    pub(crate) async fn start_for(from: IpAddr, addresses: Vec<SocketAddr>) -> Balancer {
        Balancer::start_with(Order::FirstReady, addresses.clone(), addresses, Some(from)).await
    }

    async fn start_with(
        order: Order,
        addresses: Vec<SocketAddr>,
        probed: Vec<SocketAddr>,
        from: Option<IpAddr>,
    ) -> Balancer {
        let backends = Backends { order, addresses, probed, from };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("a bound listener has an address");
        let told: Arc<Told> = Arc::default();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::new(backends), told.clone()));
        Balancer { address, told, _accepting: accepting }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The backends that carry at least one connection now.
    pub(crate) fn busy(&self) -> Vec<SocketAddr> {
        self.told.open.lock().iter().filter(|(_, count)| **count > 0).map(|(backend, _)| *backend).collect()
    }

    /// Number of answered requests, by status.
    pub(crate) fn answers(&self) -> BTreeMap<u16, usize> {
        self.told.answers.lock().clone()
    }

    /// Number of answers that were compressed.
    pub(crate) fn compressed(&self) -> usize {
        self.told.compressed.load(Ordering::Relaxed)
    }
}

/// Bytes of an answer, of which the last ones stay: what is looked for may lie across two pieces.
struct Looked {
    bytes: Vec<u8>,
    length: usize,
}

impl Looked {
    fn for_bytes(length: usize) -> Looked {
        Looked { bytes: Vec::new(), length }
    }

    /// All windows that end in this piece.
    fn windows(&mut self, piece: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.bytes.drain(..self.bytes.len().saturating_sub(self.length - 1));
        self.bytes.extend_from_slice(piece);
        self.bytes.windows(self.length)
    }
}

async fn accept(listener: TcpListener, backends: Arc<Backends>, told: Arc<Told>) {
    let turn = AtomicUsize::new(0);
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let first = match backends.order {
            Order::Round => turn.fetch_add(1, Ordering::Relaxed),
            Order::FirstReady => 0,
        };
        connections.spawn(serve(client, backends.clone(), first, told.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Carries one connection on the next ready backend; with none ready the client sees it closed.
async fn serve(client: TcpStream, backends: Arc<Backends>, first: usize, told: Arc<Told>) {
    let addresses = &backends.addresses;
    for number in 0..addresses.len() {
        let position = (first + number) % addresses.len();
        let backend = addresses[position];
        if !is_ready(backends.probed[position]).await {
            continue;
        }
        let Ok(server) = backends.connect(backend).await else { continue };
        *told.open.lock().entry(backend).or_default() += 1;
        let (mut questions, to_client) = client.into_split();
        let (answers, mut to_server) = server.into_split();
        let ask = async {
            // An error is an end like any other: one side is gone.
            let _ = copy(&mut questions, &mut to_server).await;
            let _ = to_server.shutdown().await;
            std::future::pending().await
        };
        tokio::select! {
            () = ask => {}
            () = carry_back(answers, to_client, &told) => {}
        }
        *told.open.lock().entry(backend).or_default() -= 1;
        return;
    }
}

async fn carry_back(mut answers: OwnedReadHalf, mut to_client: OwnedWriteHalf, told: &Told) {
    let mut piece = vec![0; 16 * 1024];
    let (mut heads, mut fields) = (Looked::for_bytes(HEAD.len() + 3), Looked::for_bytes(COMPRESSED.len()));
    while let Ok(read @ 1..) = answers.read(&mut piece).await {
        let statuses = heads.windows(&piece[..read]).filter_map(|bytes| bytes.strip_prefix(HEAD));
        let statuses = statuses.filter_map(|status| std::str::from_utf8(status).ok()?.parse::<u16>().ok());
        statuses.for_each(|status| *told.answers.lock().entry(status).or_default() += 1);
        let compressed = fields.windows(&piece[..read]).filter(|bytes| *bytes == COMPRESSED).count();
        told.compressed.fetch_add(compressed, Ordering::Relaxed);
        if to_client.write_all(&piece[..read]).await.is_err() {
            break;
        }
    }
    let _ = to_client.shutdown().await;
}

async fn is_ready(backend: SocketAddr) -> bool {
    let checked = tokio::time::timeout(CHECK_LIMIT, async { Api::unpooled(backend).health("/readyz").await }).await;
    matches!(checked, Ok(Ok((200, _))))
}
