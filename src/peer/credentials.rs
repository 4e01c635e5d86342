//! Credentials of a node towards its peers: the cluster secret, two while one is exchanged for the other, and the TLS
//! of this start.

use std::net::IpAddr;
use std::sync::Arc;
use std::{fmt, io};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use tokio::net::{TcpSocket, TcpStream, lookup_host};

use crate::tls::{Ephemeral, TlsError};

/// The cluster secret. It has no `Debug` that shows it and no way out but into a MAC.
#[derive(Clone)]
pub(super) struct Secret(Hmac<Sha256>);

impl Secret {
    pub(super) fn new(secret: &[u8]) -> Self {
        Secret(Hmac::new_from_slice(secret).expect("HMAC takes a key of any length"))
    }

    /// The MAC of `parts`, each with its length in front: no two sequences of parts look alike.
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

/// Everything a node brings into a handshake. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Credentials {
    shown: Secret,
    taken: Arc<[Secret]>,
    tls: Ephemeral,
    dials_from: Option<IpAddr>,
}

impl Credentials {
    /// `shown` is what this node proves itself with when it dials; it takes callers that know it, or the
    /// `other`. Makes a key pair and a certificate for this start.
    pub fn new(shown: &[u8], other: Option<&[u8]>) -> Result<Self, TlsError> {
        let shown = Secret::new(shown);
        let taken = std::iter::once(shown.clone()).chain(other.map(Secret::new)).collect();
        Ok(Credentials { shown, taken, tls: Ephemeral::generate()?, dials_from: None })
    }

    /// Sets the local address of connections to peers; without one the system chooses.
    pub(crate) fn dialling_from(self, dials_from: Option<IpAddr>) -> Self {
        Credentials { dials_from, ..self }
    }

    /// A connection to a peer, of which nothing is known yet.
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
