//! A listener with TLS: identity of clients, time limit of a handshake, and shutdown.

use axum::Extension;
use axum::routing::get;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use super::super::*;
use crate::metrics::Metrics;
use crate::tls::{Authority, TlsFiles};

struct House {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    pki: TempDir,
    closing: CancellationToken,
    serving: JoinHandle<()>,
}

/// Returns the caller.
async fn who(certificate: Option<Extension<PeerCertificate>>) -> String {
    certificate.map_or_else(|| "somebody".to_owned(), |Extension(shown)| shown.common_name)
}

async fn open() -> House {
    let pki = TempDir::new().expect("a directory");
    let authority = Authority::open(pki.path()).expect("an authority");
    for (file, name) in [("node", "localhost"), ("ann", "ann")] {
        authority.issue(file, &[name.to_owned()], 1).expect("a certificate");
    }
    let file = |name: &str| pki.path().join(name);
    let files = TlsFiles { cert: file("node.pem"), key: file("node-key.pem"), client_ca: Some(file("ca.pem")) };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let metrics = Arc::new(Metrics::new().expect("a consistent table"));
    let door = Listener {
        name: "api",
        listener,
        router: Router::new().route("/", get(who)),
        checks: &[],
        tls: Some(Listening::open(files).expect("certificates")),
        protocol: Protocol::Http1,
        proxies: Arc::default(),
    };
    let closing = CancellationToken::new();
    let serving = tokio::spawn(serve(door, ConnectionLimiter::new(10, 10, metrics.clone()), closing.clone()));
    House { address, metrics, pki, closing, serving }
}

impl House {
    fn refused(&self, reason: &str) -> u64 {
        self.metrics.connections_refused.with_label_values(&["api", reason]).get()
    }

    /// Returns the answer to a client with the certificate `name`, if any.
    async fn ask(&self, name: Option<&str>) -> String {
        let file = |name: &str| self.pki.path().join(name);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file("ca.pem")).expect("readable")).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
        let config = match name {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let cert = CertificateDer::from_pem_file(file(&format!("{name}.pem"))).expect("readable");
                let key = PrivateKeyDer::from_pem_file(file(&format!("{name}-key.pem"))).expect("readable");
                builder.with_client_auth_cert(vec![cert], key).expect("a pair")
            }
        };
        let stream = TcpStream::connect(self.address).await.expect("listening");
        let name = ServerName::try_from("localhost").expect("a name");
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake");
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.expect("open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned()
    }
}

#[tokio::test]
async fn a_request_bears_the_name_of_the_certificate_that_its_client_showed() {
    let house = open().await;
    assert_eq!(house.ask(Some("ann")).await, "ann");
    assert_eq!(house.ask(None).await, "somebody");
}

/// A silent connection ends at the deadline of the handshake, and its place is free again.
#[tokio::test(start_paused = true)]
async fn a_handshake_has_its_time_and_no_more() {
    let house = open().await;
    let began = Instant::now();
    let mut silent = TcpStream::connect(house.address).await.expect("listening");
    assert_eq!(silent.read(&mut [0; 1]).await.expect("an end"), 0);
    assert!(began.elapsed() >= HANDSHAKE_WITHIN);
    while house.refused("tls_slow") == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(house.metrics.connections.with_label_values(&["api"]).get(), 0);
}

#[tokio::test]
async fn a_door_that_closes_waits_for_no_handshake() {
    let house = open().await;
    let mut silent = TcpStream::connect(house.address).await.expect("listening");
    // It is served, so the silent connection before it was accepted too.
    assert_eq!(house.ask(None).await, "somebody");
    house.closing.cancel();
    house.serving.await.expect("it closes");
    assert_eq!(silent.read(&mut [0; 1]).await.expect("an end"), 0);
}
