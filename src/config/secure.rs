//! Settings of TLS for clients. TLS between nodes has no settings, see [`crate::peer`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

use super::faults::Faults;
use crate::tls::{Listening, TlsFiles};

/// Default days before the expiry of a certificate from which an alarm is raised.
pub(super) const CERTIFICATE_WARN_DAYS: u16 = 30;

/// Settings of TLS.
#[derive(Args, Clone, Debug)]
pub struct TlsArgs {
    /// File with the certificate of both surfaces and its chain (PEM); reloaded when it changes
    #[arg(long, env = "THUBAN_TLS_CERT", requires = "tls_key", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// File with its key (PEM)
    #[arg(long, env = "THUBAN_TLS_KEY", requires = "tls_cert", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// File with authorities (PEM) for client certificates: the common name of a certificate that they signed is the
    /// user. A client without a certificate is served as before
    #[arg(long, env = "THUBAN_TLS_CLIENT_CA", requires = "tls_cert", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,

    /// Days before its expiry from which a certificate is an alarm and one log line a day; 0 for none before its expiry
    #[arg(long, env = "THUBAN_CERTIFICATE_WARN_DAYS", default_value_t = CERTIFICATE_WARN_DAYS, value_name = "DAYS")]
    pub certificate_warn_days: u16,

    /// Serve the management API without TLS on an address that others reach: passwords and tokens can be read on the
    /// network
    #[arg(long, env = "THUBAN_INSECURE_HTTP", value_parser = BoolishValueParser::new(), action = ArgAction::SetTrue)]
    pub insecure_http: bool,
}

impl TlsArgs {
    /// Reads the files and returns the TLS settings of both surfaces; none for plain HTTP.
    pub(super) fn check(self, api_addr: Option<SocketAddr>, faults: &mut Faults) -> Option<Arc<Listening>> {
        let Some((cert, key)) = self.tls_cert.zip(self.tls_key) else {
            let open = api_addr.filter(|address| !address.ip().to_canonical().is_loopback());
            if let Some(address) = open.filter(|_| !self.insecure_http) {
                faults.add(format!(
                    "--api-addr {address} can be reached by others: give --tls-cert and --tls-key, or \
                     --insecure-http to let passwords and tokens cross the network readable"
                ));
            }
            return None;
        };
        if self.insecure_http {
            faults.add("--insecure-http and --tls-cert exclude each other");
        }
        let opened = Listening::open(TlsFiles { cert, key, client_ca: self.tls_client_ca });
        opened.map_err(|error| faults.add_passing(format!("TLS cannot be set up: {error}"))).ok()
    }
}
