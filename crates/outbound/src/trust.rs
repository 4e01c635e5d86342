//! Trust in servers, for the command line, and for a node that sends requests to other servers: authorities from PEM
//! files and from the system.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

/// Reason why servers cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("{0}: {1}")]
    Read(PathBuf, io::Error),
    #[error("{0}: {1}")]
    Pem(PathBuf, pem::Error),
    #[error("{0} holds no certificate")]
    Empty(PathBuf),
    #[error("{0} holds a certificate that cannot be used: {1}")]
    Certificate(PathBuf, rustls::Error),
    #[error("the system trusts no certificate authority: name one with --ca-file ({0})")]
    NoRoots(String),
    #[error(transparent)]
    Setup(#[from] rustls::Error),
}

/// Trusts the authorities in `ca_file`, otherwise those of the system. Names are verified. Blocks on the disk.
pub fn trusting(ca_file: Option<&Path>) -> Result<ClientConfig, TrustError> {
    let roots = match ca_file {
        Some(path) => {
            let pem = std::fs::read(path).map_err(|error| TrustError::Read(path.to_owned(), error))?;
            authorities(path, &pem)?
        }
        None => system_authorities()?,
    };
    configure(roots)
}

/// Refuses every certificate, for clients that only use plain HTTP.
pub fn trusting_nobody() -> Result<ClientConfig, TrustError> {
    configure(RootCertStore::empty())
}

fn configure(roots: RootCertStore) -> Result<ClientConfig, TrustError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn system_authorities() -> Result<RootCertStore, TrustError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A system has hundreds of authorities; malformed ones are skipped.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(TrustError::NoRoots(why.join("; ")));
    }
    Ok(roots)
}

/// Returns the certificates in a PEM file, at least one.
pub fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(none) if none.is_empty() => Err(TrustError::Empty(path.to_owned())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(TrustError::Pem(path.to_owned(), error)),
    }
}

/// Returns the certificate authorities in a PEM file.
pub fn authorities(path: &Path, pem: &[u8]) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, pem)? {
        roots.add(certificate).map_err(|error| TrustError::Certificate(path.to_owned(), error))?;
    }
    Ok(roots)
}
