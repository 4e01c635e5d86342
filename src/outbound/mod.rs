//! Clients for HTTP to others: receivers of webhooks, the collector of traces, nodes that the command line asks, and
//! Prometheus.

pub(crate) mod prometheus;

use std::error::Error;
use std::path::Path;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};

use crate::tls::{self, TlsError};

const AGENT: &str = concat!("thuban/", env!("CARGO_PKG_VERSION"));

/// Client that follows no redirect. Where it `is_secure`, the authorities in `ca_file` vouch for servers, or else those
/// that the system trusts; where not, it speaks no TLS. Blocks on the disk.
pub(crate) fn client(is_secure: bool, ca_file: Option<&Path>) -> Result<ClientBuilder, TlsError> {
    let tls = if is_secure { tls::trusting(ca_file)? } else { tls::trusting_nobody()? };
    #[expect(clippy::disallowed_methods, reason = "this is the place that gives it its TLS")]
    let builder = Client::builder();
    // A redirection could send a password where nobody has vouched for anything.
    Ok(builder.tls_backend_preconfigured(tls).redirect(Policy::none()))
}

/// The same for a node that posts to one server again and again, over one connection and past all proxies.
pub(crate) fn posting_client(is_secure: bool, ca_file: Option<&Path>) -> Result<ClientBuilder, String> {
    let builder = client(is_secure, ca_file).map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(builder.no_proxy().http1_only().user_agent(AGENT).pool_max_idle_per_host(1))
}

/// The innermost cause of an error: those around it repeat the URL, which may hold secrets.
pub(crate) fn in_words(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if error.is_connect() { format!("cannot connect: {cause}") } else { cause.to_string() }
}
