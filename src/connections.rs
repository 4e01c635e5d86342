//! Connections of clients: who gets in, how long each may do nothing, and how they end.
//!
//! Both surfaces share one number of places, below the descriptors of the process ([`crate::descriptors`]).
//! Whoever comes beyond it, or beyond what one address may have, is closed at once and counted: a client
//! that is turned away asks another node, where one that waits in the queue of the kernel would not. A
//! place is not kept by silence either, see [`patient`].

mod patient;
mod places;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::model::limits;
use crate::origin::Origin;
use patient::Patient;
use places::Place;

pub use places::Places;

/// After an accept that failed, out of descriptors mostly: they do not come back faster by asking.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Between two lines about connections that were turned away; all are counted.
const LINE_PAUSE: Duration = Duration::from_secs(60);

/// One surface that listens.
pub struct Door {
    /// Its name on metrics.
    pub name: &'static str,
    pub listener: TcpListener,
    pub router: Router,
}

/// Accepts until `closing`, then lets what is open finish.
pub async fn serve(door: Door, places: Arc<Places>, closing: CancellationToken) {
    let Door { name, listener, router } = door;
    let connections = GracefulShutdown::new();
    let mut crier = Crier { door: name, last_line: None };
    while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => match places.take(name, Origin::of(peer.ip())) {
                Ok(place) => attend(stream, peer, place, &router, &connections),
                Err(full) => crier.cry(&full),
            },
            Err(error) => {
                if is_out_of_descriptors(&error) {
                    places.count_refusal(name, "descriptors");
                }
                crier.cry(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let number = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].into_iter().any(|errno| number == Some(errno.raw_os_error()))
}

/// Says that connections are turned away, but not each time: whoever floods must not fill the log.
struct Crier {
    door: &'static str,
    last_line: Option<Instant>,
}

impl Crier {
    fn cry(&mut self, reason: &dyn std::fmt::Display) {
        if self.last_line.is_none_or(|last| last.elapsed() > LINE_PAUSE) {
            self.last_line = Some(Instant::now());
            tracing::warn!(door = self.door, %reason, "connections are turned away");
        }
    }
}

fn attend(stream: TcpStream, peer: SocketAddr, place: Place, router: &Router, connections: &GracefulShutdown) {
    // A small answer must not wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let (stream, pulse) = Patient::new(stream);
    let router = router.clone();
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let serving = pulse.serving();
        let answer = router.clone().oneshot(request);
        async move {
            let answer = answer.await;
            drop(serving);
            answer
        }
    });
    let connection = http1::Builder::new()
        // The stream's own patience tells an idle connection from a request that dribbles.
        .header_read_timeout(None)
        .max_buf_size(limits::REQUEST_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let connection = connections.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, %peer, "a connection ended early");
        }
        drop(place);
    });
}
