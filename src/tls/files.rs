//! PEM files of a surface, and the rustls configuration from them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use thuban_outbound::trust::{authorities, certificates};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

use super::certificates::Validity;
use super::{TlsError, provider};

/// The protocol of the surfaces.
const ALPN: &[u8] = b"http/1.1";

/// Paths of certificate and key.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate chain, starting with the own certificate.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Authorities of client certificates; `None` if no certificates are requested from clients.
    pub client_ca: Option<PathBuf>,
}

/// TLS configuration from the files.
pub(super) struct Configured {
    pub(super) config: ServerConfig,
    /// Verifier of client certificates, if they are requested.
    pub(super) verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// Validity of the own certificate, the first of its file.
    pub(super) own: Validity,
    /// Validity of the client authority that expires last.
    pub(super) client_ca: Option<Validity>,
}

/// Contents of the files at one time.
pub(super) struct PemContents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl TlsFiles {
    /// Reads the files. Blocks on the disk.
    pub(super) fn read(&self) -> Result<PemContents, TlsError> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| TlsError::Read(path.to_owned(), error));
        let (cert, key) = (read(&self.cert)?, read(&self.key)?);
        Ok(PemContents { cert, key, client_ca: self.client_ca.as_deref().map(read).transpose()? })
    }

    /// Configures TLS 1.2 and 1.3 for HTTP/1.1.
    pub(super) fn configure(&self, contents: &PemContents) -> Result<Configured, TlsError> {
        let chain = certificates(&self.cert, &contents.cert)?;
        let own = Validity::of(&self.cert, &chain[0])?;
        let key = PrivateKeyDer::from_pem_slice(&contents.key);
        let key = key.map_err(|error| TlsError::Pem(self.key.clone(), error))?;
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let (verifier, client_ca) = match self.client_ca.as_deref().zip(contents.client_ca.as_deref()) {
            None => (None, None),
            Some((path, pem)) => {
                let longest = Validity::longest(path, pem)?;
                let roots = Arc::new(authorities(path, pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let verifier = verifier.allow_unauthenticated().build();
                let verifier = verifier.map_err(|error| TlsError::ClientCa(path.to_owned(), error))?;
                (Some(verifier), Some(longest))
            }
        };
        let builder = match verifier.clone() {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let configured = builder.with_single_cert(chain, key);
        let mut config = configured.map_err(|error| TlsError::Pair(self.cert.clone(), self.key.clone(), error))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Configured { config, verifier, own, client_ca })
    }
}

impl PemContents {
    /// Returns a digest for detecting changes of the files, without retaining the key.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for part in [&self.cert, &self.key, self.client_ca.as_ref().unwrap_or(&Vec::new())] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}
