//! Answers of the listeners while the store is opened and the state is loaded, which takes a while where there is much
//! of it: that the process lives. Everything else is 503, in the shape of its surface.
//!
//! It is said on copies of the listeners, with the same queue of connections behind them. Whoever comes between the end
//! of this and the beginning of service waits in that queue, and is served; a connection that was accepted here is
//! served on from there.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response;
use axum::response::Response;
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tower::{ServiceExt, service_fn};

use crate::api;
use crate::compat;
use crate::connections::{self, ConnectionLimiter, Listener, Protocol};
use crate::grpc;
use crate::tasks;
use crate::tls::Listening;

/// One listener, and what is said there.
pub(super) struct LoadingListener<'a> {
    name: &'static str,
    listener: &'a TcpListener,
    router: Router,
    tls: Option<Arc<Listening>>,
    protocol: Protocol,
    proxies: Arc<[IpNet]>,
}

impl<'a> LoadingListener<'a> {
    pub(super) fn api(listener: &'a TcpListener, tls: Option<Arc<Listening>>) -> Self {
        LoadingListener::over("api", listener, api::loading_router(), tls)
    }

    pub(super) fn compat(listener: &'a TcpListener, tls: Option<Arc<Listening>>) -> Self {
        let router = api::loading_routes().merge(compat::loading_router());
        LoadingListener::over("compat", listener, router, tls)
    }

    pub(super) fn metrics(listener: &'a TcpListener) -> Self {
        LoadingListener::over("metrics", listener, api::loading_router(), None)
    }

    pub(super) fn grpc(listener: &'a TcpListener, tls: Option<Arc<Listening>>) -> Self {
        let door = LoadingListener::over("grpc", listener, grpc::loading_router(), tls);
        LoadingListener { protocol: Protocol::Http2, ..door }
    }

    fn over(name: &'static str, listener: &'a TcpListener, router: Router, tls: Option<Arc<Listening>>) -> Self {
        LoadingListener { name, listener, router, tls, protocol: Protocol::Http1, proxies: Arc::default() }
    }

    /// The same, with proxies that may name the client of a connection.
    pub(super) fn behind(self, proxies: &Arc<[IpNet]>) -> Self {
        LoadingListener { proxies: proxies.clone(), ..self }
    }

    fn door(self, served: Arc<OnceLock<Router>>) -> io::Result<Listener> {
        let copy = std::net::TcpListener::from(self.listener.as_fd().try_clone_to_owned()?);
        let loading = match self.protocol {
            Protocol::Http1 => self.router.layer(map_response(async |mut response: Response| {
                // The next request is to find the node itself.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                response
            })),
            Protocol::Http2 => self.router,
        };
        let router = Router::new().fallback_service(service_fn(move |request: Request| {
            served.get().unwrap_or(&loading).clone().oneshot(request)
        }));
        let listener = TcpListener::from_std(copy)?;
        let LoadingListener { name, tls, protocol, proxies, .. } = self;
        Ok(Listener { name, listener, router, tls, protocol, proxies })
    }
}

/// Listeners that answer for a node that loads its state.
pub(super) struct Loading {
    accepted: DropGuard,
    /// The routers that serve requests once the state is loaded, by the names of listeners.
    served: Vec<(&'static str, Arc<OnceLock<Router>>)>,
}

impl Loading {
    /// Leaves new connections to those who serve from now on. Those that were accepted here are served by the same
    /// routers: one that was accepted in the last moment has an answer too.
    pub(super) fn hand_over(self, doors: &[Listener]) {
        for (name, served) in self.served {
            if let Some(door) = doors.iter().find(|door| door.name == name) {
                // Nothing else sets it.
                let _ = served.set(door.router.clone());
            }
        }
        drop(self.accepted);
    }
}

/// Answers until the state is loaded. Connections that are open then go on until `closing`.
pub(super) fn answer<'a>(
    all: impl IntoIterator<Item = LoadingListener<'a>>,
    places: &Arc<ConnectionLimiter>,
    tracker: &TaskTracker,
    closing: &CancellationToken,
) -> io::Result<Loading> {
    let accepted = CancellationToken::new();
    let mut routers = Vec::new();
    for waiting in all {
        let served = Arc::new(OnceLock::new());
        routers.push((waiting.name, served.clone()));
        let (name, door) = (waiting.name, waiting.door(served)?);
        let serving = connections::serve_accepted(door, places.clone(), accepted.clone(), closing.clone());
        tasks::needed_in(tracker, name, serving);
    }
    Ok(Loading { accepted: accepted.drop_guard(), served: routers })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::metrics::Metrics;

    async fn said(mut stream: TcpStream, path: &str) -> (String, String) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("a text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned())
    }

    async fn ask(address: SocketAddr, path: &str) -> (String, String) {
        said(TcpStream::connect(address).await.expect("it listens"), path).await
    }

    #[tokio::test]
    async fn a_node_that_loads_its_state_lives_and_is_not_ready() {
        let bind = async || TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (api, compat, metrics) = (bind().await, bind().await, bind().await);
        let address = |listener: &TcpListener| listener.local_addr().expect("bound");
        let at = [&api, &compat, &metrics].map(address);
        let counted = Arc::new(Metrics::new().expect("a table"));
        let places = ConnectionLimiter::new(100, 100, counted.clone());
        let tasks = TaskTracker::new();
        let all = [
            LoadingListener::api(&api, None),
            LoadingListener::compat(&compat, None),
            LoadingListener::metrics(&metrics),
        ];
        let closing = CancellationToken::new();
        let loading = answer(all, &places, &tasks, &closing).expect("copies");
        for address in at {
            assert_eq!(ask(address, "/livez").await, ("200".to_owned(), "ok\n".to_owned()));
            let (status, body) = ask(address, "/readyz").await;
            assert!(status == "503" && body.contains("[-] loaded: ") && body.ends_with("not ready\n"), "{body}");
        }
        let (status, body) = ask(at[0], "/naming/v1/services").await;
        assert!(status == "503" && body.contains(r#""code":503001"#) && body.contains("loaded"), "{body}");
        for (path, part) in [
            ("/configs/app/default/application", r#""status":503"#),
            ("/notifications/v2?appId=app", "ServiceException"),
            ("/configfiles/app/default/application", ""),
        ] {
            let (status, body) = ask(at[1], path).await;
            assert!(status == "503" && body.contains(part) && body.is_empty() == part.is_empty(), "{path}: {body}");
        }

        // Who was accepted before the state is loaded, and asks afterwards, is served, as is who is in the queue then.
        let accepted = TcpStream::connect(at[1]).await.expect("it listens");
        while counted.connections.with_label_values(&["compat"]).get() == 0 {
            tokio::task::yield_now().await;
        }
        let router = Router::new().route("/livez", get(async || "served\n"));
        let (tls, protocol, proxies) = (None, Protocol::Http1, Arc::default());
        let door = Listener { name: "compat", listener: compat, router, tls, protocol, proxies };
        loading.hand_over(std::slice::from_ref(&door));
        let early = TcpStream::connect(at[1]).await.expect("it still listens");
        let serving = tokio::spawn(connections::serve(door, places, closing.clone()));
        for stream in [accepted, early] {
            assert_eq!(said(stream, "/livez").await, ("200".to_owned(), "served\n".to_owned()));
        }
        closing.cancel();
        serving.await.expect("it ends");
        tasks.close();
        tasks.wait().await;
    }
}
