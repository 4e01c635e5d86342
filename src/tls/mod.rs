//! TLS of four kinds, all with rustls and ring:
//!
//! | between | certificate | verified by |
//! |---|---|---|
//! | nodes ([`Ephemeral`]) | a new one at every start | not verified: the connection proves the cluster secret (`peer`)
//! |
//! | clients and a node's surfaces ([`Listening`]) | files, reloaded when they change | the clients |
//! | the command line and a node ([`trust`]) | the node's | `--ca-file`, else the system's authorities |
//! | a node and receivers of HTTPS ([`trust`]) | theirs | `--webhook-ca-file`, `--otlp-ca-file`, else the system's |
//!
//! A client may present a certificate; `--tls-client-ca` names the authorities that may have signed it. [`Authority`]
//! creates certificates where there is no other authority (`thuban certs`).
//!
//! Knows nothing of HTTP, of the peer protocol, or of users.
//!
//! [`trust`]: thuban_outbound::trust

mod authority;
mod certificates;
mod ephemeral;
mod files;
mod listening;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thuban_outbound::trust::TrustError;
use tokio::net::TcpStream;
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem;
use tokio_rustls::rustls::server::VerifierBuilderError;

pub use authority::Authority;
pub use certificates::{CertificateUse, Certificates};
pub use ephemeral::Ephemeral;
pub use files::TlsFiles;
pub use listening::{Listening, Shown, common_name};

/// First byte of a TLS connection: a handshake record.
const HANDSHAKE_RECORD: u8 = 0x16;

/// Reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("no certificate could be made: {0}")]
    Generate(#[from] rcgen::Error),
    #[error("{0}: {1}")]
    Read(PathBuf, io::Error),
    #[error("{0}: {1}")]
    Pem(PathBuf, pem::Error),
    #[error("{0} and {1} do not work together: {2}")]
    Pair(PathBuf, PathBuf, rustls::Error),
    #[error("{0} cannot be used: {1}")]
    ClientCa(PathBuf, VerifierBuilderError),
    #[error("{0} holds a certificate that cannot be read")]
    Unreadable(PathBuf),
    #[error("the certificate in {0} has ended at {1}")]
    Ended(PathBuf, String),
    #[error("the certificate in {0} is not valid before {1}")]
    NotYet(PathBuf, String),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Setup(#[from] rustls::Error),
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Reports whether the other end begins with TLS; waits for its first byte without reading it. The end of the stream
/// before that is an error.
pub async fn begins_with_tls(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0] == HANDSHAKE_RECORD),
    }
}
