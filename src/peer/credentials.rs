//! Credentials of a node towards its peers: the cluster secret, two of them during a rotation, and the TLS key of this
//! process.

use std::net::IpAddr;
use std::sync::Arc;
use std::{fmt, io};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use tokio::net::{TcpSocket, TcpStream, lookup_host};

use crate::tls::{Ephemeral, TlsError};

/// The cluster secret. Its `Debug` does not reveal it, and its only use is in a MAC.
#[derive(Clone)]
pub(super) struct Secret(Hmac<Sha256>);

impl Secret {
    pub(super) fn new(secret: &[u8]) -> Self {
        Secret(Hmac::new_from_slice(secret).expect("HMAC takes a key of any length"))
    }

    /// Returns the MAC of `parts`, each prefixed by its length, so that no two sequences of parts are ambiguous.
    pub(super) fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Credentials of a node in a handshake. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Credentials {
    shown: Secret,
    taken: Arc<[Secret]>,
    tls: Ephemeral,
    dials_from: Option<IpAddr>,
}

impl Credentials {
    /// Creates credentials with a key pair and a certificate for this process. The node proves itself with `shown` when
    /// it dials, and accepts callers that know `shown` or `other`.
    pub fn new(shown: &[u8], other: Option<&[u8]>) -> Result<Self, TlsError> {
        let shown = Secret::new(shown);
        let taken = std::iter::once(shown.clone()).chain(other.map(Secret::new)).collect();
        Ok(Credentials { shown, taken, tls: Ephemeral::generate()?, dials_from: None })
    }

    /// Sets the local address of connections to peers; `None` leaves the choice to the system.
    pub(crate) fn dialling_from(self, dials_from: Option<IpAddr>) -> Self {
        Credentials { dials_from, ..self }
    }

    /// Opens a connection to a peer, which is not authenticated yet.
    pub(super) async fn open(&self, address: &str) -> io::Result<TcpStream> {
        let Some(from) = self.dials_from else { return TcpStream::connect(address).await };
        let to = lookup_host(address).await?.find(|to| to.is_ipv4() == from.is_ipv4());
        let to = to.ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
        let socket = if from.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind((from, 0).into())?;
        socket.connect(to).await
    }

    pub(super) fn presented(&self) -> &Secret {
        &self.shown
    }

    pub(super) fn taken(&self) -> &[Secret] {
        &self.taken
    }

    pub(super) fn tls(&self) -> &Ephemeral {
        &self.tls
    }
}
