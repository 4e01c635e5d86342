//! What stands between clients and nodes in the field: a TCP balancer that goes round the nodes and
//! skips those that do not say they are ready. Connections to a node that dies, die with it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::Api;

const CHECK_LIMIT: Duration = Duration::from_millis(500);

pub(crate) struct Balancer {
    address: SocketAddr,
    open: Arc<Mutex<BTreeMap<SocketAddr, usize>>>,
    _accepting: JoinSet<()>,
}

impl Balancer {
    /// Listens on a port of its own and spreads connections over the backends.
    pub(crate) async fn start(backends: Vec<SocketAddr>) -> Balancer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("a bound listener has an address");
        let open: Arc<Mutex<BTreeMap<SocketAddr, usize>>> = Arc::default();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::new(backends), open.clone()));
        Balancer { address, open, _accepting: accepting }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The backends that carry at least one connection now.
    pub(crate) fn busy(&self) -> Vec<SocketAddr> {
        self.open.lock().iter().filter(|(_, count)| **count > 0).map(|(backend, _)| *backend).collect()
    }
}

async fn accept(listener: TcpListener, backends: Arc<Vec<SocketAddr>>, open: Arc<Mutex<BTreeMap<SocketAddr, usize>>>) {
    let turn = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(serve(client, backends.clone(), turn.clone(), open.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Carries one connection on the next ready backend; with none ready the client sees it closed.
async fn serve(
    mut client: TcpStream,
    backends: Arc<Vec<SocketAddr>>,
    turn: Arc<AtomicUsize>,
    open: Arc<Mutex<BTreeMap<SocketAddr, usize>>>,
) {
    for _ in 0..backends.len() {
        let backend = backends[turn.fetch_add(1, Ordering::Relaxed) % backends.len()];
        if !is_ready(backend).await {
            continue;
        }
        let Ok(mut server) = TcpStream::connect(backend).await else { continue };
        *open.lock().entry(backend).or_default() += 1;
        // An error is an end like any other: one side is gone.
        let _ = copy_bidirectional(&mut client, &mut server).await;
        *open.lock().entry(backend).or_default() -= 1;
        return;
    }
}

async fn is_ready(backend: SocketAddr) -> bool {
    let checked = tokio::time::timeout(CHECK_LIMIT, async { Api::unpooled(backend).health("/readyz").await }).await;
    matches!(checked, Ok(Ok((200, _))))
}
