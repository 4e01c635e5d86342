//! HTTP clients for requests to others: webhook receivers, the trace collector, nodes that the command line talks to,
//! and Prometheus; and the certificate authorities by which they verify servers ([`trust`]).
//!
//! Knows nothing of servers of our own: no listener, no certificate of a node, no API.

pub mod prometheus;
pub mod trust;

use std::error::Error;
use std::path::Path;

use reqwest::header::{ACCEPT, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, Url};

use trust::{TrustError, trusting, trusting_nobody};

const AGENT: &str = concat!("thuban/", env!("CARGO_PKG_VERSION"));
/// Maximum number of redirects that [`get_json`] follows.
const REDIRECTS_MAX: usize = 3;

/// Returns a client that follows no redirects. If `is_secure`, servers are verified by the authorities in `ca_file`, or
/// by those of the system; otherwise the client does not support TLS. Blocks on the disk.
pub fn client(is_secure: bool, ca_file: Option<&Path>) -> Result<ClientBuilder, TrustError> {
    let tls = if is_secure { trusting(ca_file)? } else { trusting_nobody()? };
    #[expect(clippy::disallowed_methods, reason = "this is the place that gives it its TLS")]
    let builder = Client::builder();
    // A redirect could send a password to an unverified server.
    Ok(builder.tls_backend_preconfigured(tls).redirect(Policy::none()))
}

/// Returns a client that repeatedly posts to one server, over one connection and without proxies.
pub fn posting_client(is_secure: bool, ca_file: Option<&Path>) -> Result<ClientBuilder, String> {
    let builder = client(is_secure, ca_file).map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(builder.no_proxy().http1_only().user_agent(AGENT).pool_max_idle_per_host(1))
}

/// Requests a JSON document. Redirects are followed within the origin of the address. The error is short.
pub async fn get_json(client: &Client, mut address: Url) -> Result<Response, String> {
    for _ in 0..=REDIRECTS_MAX {
        let sent = client.get(address.clone()).header(ACCEPT, "application/json").send().await;
        let response = sent.map_err(|error| in_words(&error))?;
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(response);
        }
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let location = location.ok_or_else(|| format!("{address} redirects to nowhere"))?;
        let next = address.join(location).map_err(|_| format!("{address} redirects to no address"))?;
        if next.origin() != address.origin() {
            return Err(format!("{address} redirects to another host, {}", next.origin().ascii_serialization()));
        }
        address = next;
    }
    Err(format!("{address} redirects again and again"))
}

/// Reads the body of a response; `None` if it is longer than this.
pub async fn read_limited(mut response: Response, bytes_max: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > bytes_max {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Returns the innermost cause of an error. The outer ones repeat the URL, which may contain secrets.
pub fn in_words(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if error.is_connect() { format!("cannot connect: {cause}") } else { cause.to_string() }
}
