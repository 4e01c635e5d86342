//! Trust in servers, for the command line, and for a node that sends requests to other servers.

use std::path::Path;

use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::files::authorities;
use super::{TlsError, provider};

/// Trusts the authorities in `ca_file`, otherwise those of the system. Names are verified. Blocks on the disk.
pub fn trusting(ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let roots = match ca_file {
        Some(path) => {
            let pem = std::fs::read(path).map_err(|error| TlsError::Read(path.to_owned(), error))?;
            authorities(path, &pem)?
        }
        None => system_authorities()?,
    };
    configure(roots)
}

/// Refuses every certificate, for clients that only use plain HTTP.
pub fn trusting_nobody() -> Result<ClientConfig, TlsError> {
    configure(RootCertStore::empty())
}

fn configure(roots: RootCertStore) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn system_authorities() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A system has hundreds of authorities; malformed ones are skipped.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(TlsError::NoRoots(why.join("; ")));
    }
    Ok(roots)
}
