//! Certificates for tests, made by the program itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use thuban::tls::{Listening, TlsFiles};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

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

    pub(crate) fn client(&self) -> ClientConfig {
        thuban_outbound::trust::trusting(Some(&self.ca())).expect("an authority")
    }

    /// A client that shows the certificate `name`.
    pub(crate) fn client_as(&self, name: &str) -> ClientConfig {
        self.shown_to(&self.ca(), name)
    }

    /// A client that shows the certificate `name`, and trusts the authority `ca`.
    pub(crate) fn shown_to(&self, ca: &Path, name: &str) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca).expect("a certificate")).expect("an authority");
        let cert = CertificateDer::from_pem_file(self.file(&format!("{name}.pem"))).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(self.file(&format!("{name}-key.pem"))).expect("a key");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
        builder.with_client_auth_cert(vec![cert], key).expect("a pair")
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
