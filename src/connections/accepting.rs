//! Accepting of connections: admission, and serving until they end.

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
use super::{Caller, CheckOnly, ConnectionLimiter, Listener, Protocol, attend};
use crate::address;
use crate::brief_places;
use crate::log_once::LogOnce;
use crate::origin::{Origin, Sender};
use crate::tasks;
use crate::tls::Listening;

/// Pause after a failed accept, mostly for lack of descriptors, of which a retry gives no more.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Minimum time between two log lines about refused connections; all are counted.
const LINE_PAUSE: Duration = Duration::from_secs(60);

/// Accepts connections until `closing`, then lets the open ones finish.
pub async fn serve(door: Listener, places: Arc<ConnectionLimiter>, closing: CancellationToken) {
    let ending = Ending { accepted: closing.clone(), closing, ..Ending::default() };
    serve_until(door, places, ending).await;
}

/// Accepts and serves connections through the steps of `ending`. Connections that the kernel had completed by then are
/// served too: requests on them would be lost with the queue of a closed listener.
pub async fn serve_until(door: Listener, places: Arc<ConnectionLimiter>, ending: Ending) {
    let Listener { name, listener, router, checks, tls, protocol, proxies } = door;
    let accepted = ending.accepted.clone();
    let log = LogOnce::every(LINE_PAUSE);
    let connections = TaskTracker::new();
    let door = Door { name, router, checks, tls, protocol, proxies, places, ending, connections, log };
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
    checks: &'static [&'static str],
    tls: Option<Arc<Listening>>,
    protocol: Protocol,
    proxies: Arc<[IpNet]>,
    places: Arc<ConnectionLimiter>,
    ending: Ending,
    connections: TaskTracker,
    log: LogOnce<()>,
}

impl Door {
    /// Serves an accepted connection on its own task: completely if it has a place, otherwise for health checks only.
    async fn take(&self, next: io::Result<(TcpStream, SocketAddr)>) {
        let name = self.name;
        match next {
            Ok((stream, peer)) => match self.places.take(name, Origin::of(peer.ip())) {
                Ok(place) => {
                    let (is_proxy, tls, closing) = self.beginning(peer);
                    let attended = attend(stream, self.caller(peer), place, is_proxy, tls, closing);
                    let places = self.places.clone();
                    tasks::errand_in(&self.connections, async move {
                        if let Err(turned) = attended.await {
                            places.count_refusal(name, turned);
                        }
                    });
                }
                Err(full) => {
                    log_refusal(&self.log, name, &full);
                    self.take_check(stream, peer);
                }
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

    /// Serves a connection without a place as long as it requests only checks. It counts as refused.
    fn take_check(&self, stream: TcpStream, peer: SocketAddr) {
        let sender = Sender { address: Some(peer.ip()), is_local: peer.ip().to_canonical().is_loopback() };
        let (permit, place) = self.places.take_for_check(self.name, sender);
        let other = CancellationToken::new();
        let mut caller = self.caller(peer);
        caller.only = Some(Box::new(CheckOnly { paths: self.checks, other: other.clone() }));
        // The connection ends with its one answer.
        caller.leaving = CancellationToken::new();
        caller.leaving.cancel();
        let (is_proxy, tls, closing) = self.beginning(peer);
        let attended = Box::pin(attend(stream, caller, permit, is_proxy, tls, closing));
        tasks::errand_in(&self.connections, async move {
            brief_places::check(&place, other.run_until_cancelled(attended)).await;
        });
    }

    fn caller(&self, peer: SocketAddr) -> Caller {
        Caller {
            peer,
            is_forwarded: false,
            certificate: None,
            router: self.router.clone(),
            protocol: self.protocol,
            leaving: self.ending.leaving.clone(),
            only: None,
        }
    }

    /// Returns whether the connection may begin with a proxy header, its TLS, and the token that closes it.
    fn beginning(&self, peer: SocketAddr) -> (bool, Option<Arc<Listening>>, CancellationToken) {
        let is_proxy = address::is_within(peer.ip(), &self.proxies);
        (is_proxy, self.tls.clone(), self.ending.closing.clone())
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let number = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].into_iter().any(|errno| number == Some(errno.raw_os_error()))
}

/// Logs refused connections at intervals, so that a flood does not fill the log.
fn log_refusal(log: &LogOnce, door: &str, reason: &dyn Display) {
    if log.is_due(()) {
        tracing::warn!(door, %reason, "connections are refused");
    }
}
