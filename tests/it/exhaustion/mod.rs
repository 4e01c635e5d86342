//! Attacks on resources of a node: memory, connections, descriptors, disk. Each runs against real processes, and other
//! clients are served meanwhile.
//!
//! The attacker has its own addresses (`127.0.0.9` and those that a proxy reports), so that limits per address can be
//! distinguished from total limits. `scripts/attacks` runs the same for minutes.

mod lists;
mod logins;
mod peers;
mod polls;
mod pulls;
mod surfaces;
mod under_way;
mod walks;

use std::net::SocketAddr;

use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Cluster, report};

/// Address of the attacker; the other clients use 127.0.0.1.
const ATTACKER: [u8; 4] = [127, 0, 0, 9];
const MIB: f64 = (1 << 20) as f64;

/// A connection of the attacker.
async fn dial(door: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((ATTACKER, 0)))?;
    socket.connect(door).await
}

/// Watches the memory of a node from before an attack on.
struct Memory {
    before: u64,
    highest: u64,
}

impl Memory {
    fn of(cluster: &Cluster, id: u64) -> Self {
        let before = cluster.process(id).resident_bytes();
        Memory { before, highest: before }
    }

    fn look(&mut self, cluster: &Cluster, id: u64) {
        self.highest = self.highest.max(cluster.process(id).resident_bytes());
    }

    /// Fails if the node grew by more than the given MiB.
    #[track_caller]
    fn expect_growth_below(self, mib: f64, title: &str) {
        let growth = (self.highest - self.before) as f64 / MIB;
        report(format!("{title}: {:.0} MiB before, {growth:.0} more at the most", self.before as f64 / MIB));
        assert!(growth < mib, "{title}: {growth:.0} MiB more, at most {mib:.0}");
    }
}
