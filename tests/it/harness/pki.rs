//! Certificates for tests, made by the program itself.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use thuban::tls::{Listening, TlsFiles};

use super::{Cluster, thuban};

/// An authority and what it has signed.
pub(crate) struct Pki(TempDir);

impl Pki {
    pub(crate) async fn new() -> Pki {
        let pki = Pki(TempDir::new().expect("a temporary directory can be made"));
        pki.sign("node=node,localhost,127.0.0.1").await;
        pki
    }

    pub(crate) async fn sign(&self, cert: &str) {
        let output = thuban().args(["certs", "--dir", &self.path(""), cert]).output().await.expect("it runs");
        assert!(output.status.success(), "{output:?}");
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.file(name).to_str().expect("the path is text").to_owned()
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    pub(crate) fn client(&self) -> tokio_rustls::rustls::ClientConfig {
        thuban::tls::trusting(Some(&self.ca())).expect("an authority")
    }

    /// Contents that the certificate `node` is shown with.
    pub(crate) fn listening(&self) -> Arc<Listening> {
        let files = TlsFiles { cert: self.file("node.pem"), key: self.file("node-key.pem"), client_ca: None };
        Listening::open(files).expect("a pair")
    }

    fn flags(&self) -> Vec<String> {
        ["--tls-cert", &self.path("node.pem"), "--tls-key", &self.path("node-key.pem")].map(str::to_owned).into()
    }

    pub(crate) async fn cluster(&self, size: u64, more: &[&str]) -> Cluster {
        let flags = self.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let mut cluster = Cluster::prepare(size, &flags);
        cluster.secure(self.client());
        cluster.restart_all().await;
        cluster.log_in_again().await;
        cluster
    }
}
