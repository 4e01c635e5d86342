//! What a node proves itself with to its peers: the cluster secret, two while one is exchanged for the
//! other, and the TLS of this start.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use sha2::Sha256;

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
}

impl Credentials {
    /// `shown` is what this node proves itself with when it dials; it takes callers that know it, or the
    /// `other`. Makes a key pair and a certificate for this start.
    pub fn new(shown: &[u8], other: Option<&[u8]>) -> Result<Self, TlsError> {
        let shown = Secret::new(shown);
        let taken = std::iter::once(shown.clone()).chain(other.map(Secret::new)).collect();
        Ok(Credentials { shown, taken, tls: Ephemeral::generate()? })
    }

    pub(super) fn shown(&self) -> &Secret {
        &self.shown
    }

    pub(super) fn taken(&self) -> &[Secret] {
        &self.taken
    }

    pub(super) fn tls(&self) -> &Ephemeral {
        &self.tls
    }
}
