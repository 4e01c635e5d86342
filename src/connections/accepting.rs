//! Connections as they come in: which get a place, and until when.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ending::{self, Ending, REST_WITHIN};
use super::{Caller, ConnectionLimiter, Listener, Protocol, attend};
use crate::address;
use crate::log_once::LogOnce;
use crate::origin::Origin;
use crate::tasks;
use crate::tls::Listening;

/// After an accept that failed, out of descriptors mostly: they do not come back faster by asking.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Between two lines about connections that were turned away; all are counted.
const LINE_PAUSE: Duration = Duration::from_secs(60);

/// Accepts until `closing`, then lets what is open finish.
pub async fn serve(door: Listener, places: Arc<ConnectionLimiter>, closing: CancellationToken) {
    let ending = Ending { accepted: closing.clone(), closing, ..Ending::default() };
    serve_until(door, places, ending).await;
}

/// Accepts and serves until the steps of `ending`. A connection that the kernel had completed by then is served too:
/// what the client sent on it would be lost with the queue of a listener that is closed.
pub async fn serve_until(door: Listener, places: Arc<ConnectionLimiter>, ending: Ending) {
    let Listener { name, listener, router, tls, protocol, proxies } = door;
    let accepted = ending.accepted.clone();
    let log = LogOnce::every(LINE_PAUSE);
    let door = Door { name, router, tls, protocol, proxies, places, ending, connections: TaskTracker::new(), log };
    while let Some(next) = accepted.run_until_cancelled(listener.accept()).await {
        door.take(next).await;
    }
    ending::refuse_new(&listener);
    let end = Instant::now() + REST_WITHIN;
    while let Ok(next) = timeout_at(end, listener.accept()).await {
        door.take(next).await;
    }
    drop(listener);
    door.connections.close();
    door.connections.wait().await;
}

/// A listener without its socket.
struct Door {
    name: &'static str,
    router: Router,
    tls: Option<Arc<Listening>>,
    protocol: Protocol,
    proxies: Arc<[IpNet]>,
    places: Arc<ConnectionLimiter>,
    ending: Ending,
    connections: TaskTracker,
    log: LogOnce<()>,
}

impl Door {
    /// Serves a connection on a task of its own, if it was accepted and has a place.
    async fn take(&self, next: io::Result<(TcpStream, SocketAddr)>) {
        let name = self.name;
        match next {
            Ok((stream, peer)) => match self.places.take(name, Origin::of(peer.ip())) {
                Ok(place) => {
                    let caller = Caller {
                        peer,
                        is_forwarded: false,
                        certificate: None,
                        router: self.router.clone(),
                        protocol: self.protocol,
                        leaving: self.ending.leaving.clone(),
                    };
                    let is_proxy = address::is_within(peer.ip(), &self.proxies);
                    let closing = self.ending.closing.clone();
                    let attended = attend(stream, caller, place, is_proxy, self.tls.clone(), closing);
                    let places = self.places.clone();
                    tasks::errand_in(&self.connections, async move {
                        if let Err(turned) = attended.await {
                            places.count_refusal(name, turned);
                        }
                    });
                }
                Err(full) => log_refusal(&self.log, name, &full),
            },
            Err(error) => {
                if is_out_of_descriptors(&error) {
                    self.places.count_refusal(name, "descriptors");
                }
                log_refusal(&self.log, name, &error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let number = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].into_iter().any(|errno| number == Some(errno.raw_os_error()))
}

/// Logs refused connections, once in a while: a flood must not fill the log.
fn log_refusal(log: &LogOnce, door: &str, reason: &dyn Display) {
    if log.is_due(()) {
        tracing::warn!(door, %reason, "connections are refused");
    }
}
