//! The TLS of the surfaces, which follows its files while connections go on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::TlsError;
use super::files::TlsFiles;

/// How often the files are looked at. Their contents are compared, not their times: a volume of secrets is
/// changed behind a link.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// Characters of a name in a certificate; a longer one names nobody.
const NAME_CHARS_MAX: usize = 128;

/// What new connections are taken with.
pub struct Listening {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
    /// What the files held when they were last looked at, good or not; none where they could not be read.
    seen: Mutex<Option<[u8; 32]>>,
}

impl Listening {
    /// Reads the files. Blocks on the disk.
    pub fn open(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let contents = files.read()?;
        let config = RwLock::new(Arc::new(files.configure(&contents)?));
        Ok(Arc::new(Listening { files, config, seen: Mutex::new(Some(contents.digest())) }))
    }

    /// For the next connection; those that are open keep what they began with.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.read().clone())
    }

    /// Takes over what the files hold whenever they change, for as long as it is polled.
    pub async fn follow_files(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_PAUSE).await;
            let listening = self.clone();
            let looked = tokio::task::spawn_blocking(move || listening.look_again()).await;
            match looked {
                Ok(Ok(false)) => (),
                Ok(Ok(true)) => tracing::info!(cert = %self.files.cert.display(), "new certificates are shown"),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the certificates have changed and cannot be used: the ones before stay")
                }
                Err(error) => tracing::error!(%error, "the certificates could not be looked at"),
            }
        }
    }

    /// Whether there is something new. What cannot be used is an error once, and changes nothing.
    fn look_again(&self) -> Result<bool, TlsError> {
        let read = self.files.read();
        let digest = read.as_ref().ok().map(|contents| contents.digest());
        if std::mem::replace(&mut *self.seen.lock(), digest) == digest {
            return Ok(false);
        }
        let config = self.files.configure(&read?)?;
        *self.config.write() = Arc::new(config);
        Ok(true)
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The name that a certificate is for: its only common name. None where it has several, or one that no
/// user could have.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let (name, others) = (names.next()?.as_str().ok()?, names.next());
    let is_sound = !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX && !name.chars().any(char::is_control);
    (others.is_none() && is_sound).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::{CertificateParams, DnType, KeyPair};
    use tempfile::TempDir;

    use super::*;

    /// A certificate for `names` and its key, in PEM.
    fn pair(names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        (certificate(names, &key).pem(), key.serialize_pem())
    }

    fn certificate(names: &[&str], key: &KeyPair) -> rcgen::Certificate {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        params.self_signed(key).expect("a certificate")
    }

    fn files(dir: &TempDir) -> TlsFiles {
        let path = |name: &str| dir.path().join(name);
        TlsFiles { cert: path("cert.pem"), key: path("key.pem"), client_ca: None }
    }

    fn put(path: &Path, text: &str) {
        std::fs::write(path, text).expect("writable");
    }

    #[test]
    fn files_that_change_are_taken_over_and_broken_ones_are_told_once() {
        let dir = TempDir::new().expect("a directory");
        let files = files(&dir);
        let (cert, key) = pair(&["one"]);
        put(&files.cert, &cert);
        put(&files.key, &key);
        let listening = Listening::open(files.clone()).expect("a pair");
        let first = listening.config.read().clone();
        let is_first = |listening: &Listening| Arc::ptr_eq(&first, &listening.config.read());
        assert!(!listening.look_again().expect("unchanged"));

        let (next_cert, next_key) = pair(&["two"]);
        put(&files.cert, &next_cert);
        let mismatch = listening.look_again().expect_err("the key is of the other one");
        assert!(matches!(mismatch, TlsError::Pair(..)), "{mismatch}");
        assert!(!listening.look_again().expect("told once"));
        std::fs::remove_file(&files.key).expect("there");
        assert!(matches!(listening.look_again(), Err(TlsError::Read(..))));
        assert!(!listening.look_again().expect("told once"));
        assert!(is_first(&listening), "what worked stays");

        put(&files.key, &next_key);
        assert!(listening.look_again().expect("a pair again"));
        assert!(!is_first(&listening));
    }

    #[test]
    fn what_cannot_be_used_is_told_by_file() {
        let dir = TempDir::new().expect("a directory");
        let files = TlsFiles { client_ca: Some(dir.path().join("ca.pem")), ..files(&dir) };
        let (cert, key) = pair(&["one"]);
        let rows = [
            (None, key.as_str(), cert.as_str(), "cert.pem: "),
            (Some("nothing"), key.as_str(), cert.as_str(), "cert.pem holds no certificate"),
            (Some(cert.as_str()), "nothing", cert.as_str(), "key.pem: "),
            (Some(cert.as_str()), key.as_str(), "nothing", "ca.pem holds no certificate"),
        ];
        for (cert, key, ca, words) in rows {
            match cert {
                Some(cert) => put(&files.cert, cert),
                None => drop(std::fs::remove_file(&files.cert)),
            }
            put(&files.key, key);
            put(files.client_ca.as_deref().expect("given"), ca);
            let told = Listening::open(files.clone()).expect_err("not usable").to_string();
            assert!(told.contains(words), "{told:?} says {words:?}");
        }
    }

    #[test]
    fn a_certificate_names_one_user_or_nobody() {
        let key = KeyPair::generate().expect("a key");
        let long = "x".repeat(NAME_CHARS_MAX + 1);
        let rows: [(&[&str], Option<&str>); 5] =
            [(&["ann"], Some("ann")), (&[], None), (&[""], None), (&["a\nb"], None), (&[&long], None)];
        for (names, expected) in rows {
            let made = certificate(names, &key);
            assert_eq!(common_name(made.der()).as_deref(), expected, "{names:?}");
        }
        assert_eq!(common_name(&CertificateDer::from(vec![1, 2, 3])), None);
    }
}
