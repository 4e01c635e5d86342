//! Listening ports for nodes that must keep them over a restart.
//!
//! Port 0 will not do for them: the kernel hands such a port to any outgoing connection while its
//! node is down, and a peer that keeps dialling a dead port of that range may even connect to
//! itself. These come from below the range of outgoing connections, so only listeners can clash.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 20_000;
/// Linux gives outgoing connections ports from 32768 up.
const LAST: u16 = 32_000;

/// The addresses of a node, all on the loopback interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) api: SocketAddr,
    pub(crate) compat: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) grpc: SocketAddr,
}

impl Ports {
    pub(crate) fn reserve() -> Self {
        Ports { api: free_address(), compat: free_address(), peer: free_address(), grpc: free_address() }
    }

    /// Lets the kernel choose: for nodes that need no second start.
    pub(crate) fn any() -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Ports { api: any, compat: any, peer: any, grpc: any }
    }
}

/// A free port that this test process hands out once; processes running side by side start apart.
pub(crate) fn free_address() -> SocketAddr {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let span = LAST - FIRST;
    let start = (std::process::id() as u16).wrapping_mul(97) % span;
    for _ in 0..span {
        let offset = (start + TAKEN.fetch_add(1, Ordering::Relaxed) % span) % span;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + offset));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no free port between {FIRST} and {LAST}");
}
