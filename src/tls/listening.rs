//! TLS of the surfaces, which reloads its files without affecting open connections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::TlsError;
use super::certificates::Validity;
use super::files::{Configured, TlsFiles};

/// Name of HTTP/2 in a handshake.
const HTTP2: &[u8] = b"h2";
/// Maximum characters of a name in a certificate; a longer one identifies no user.
const NAME_CHARS_MAX: usize = 128;

/// TLS configuration of new connections.
pub struct Listening {
    files: TlsFiles,
    current: RwLock<Current>,
    seen: Mutex<SeenFiles>,
}

/// The files at the last check.
struct SeenFiles {
    /// Digest of the files; `None` if they could not be read.
    digest: Option<[u8; 32]>,
    /// Reason why they are not in use.
    refusal: Option<String>,
    /// True if they become valid at a later time.
    awaits_time: bool,
}

/// Configuration from the files when they were last valid.
struct Current {
    config: Arc<ServerConfig>,
    /// Configuration for HTTP/2 only.
    http2: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    dates: Dates,
    /// Counter that grows whenever new files are loaded.
    generation: u64,
}

/// Validity of the certificates in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dates {
    pub(super) own: Validity,
    /// Validity of the client authority that expires last.
    pub(super) client_ca: Option<Validity>,
}

impl Current {
    fn new(Configured { config, verifier, own, client_ca }: Configured, generation: u64) -> Current {
        let mut http2 = config.clone();
        http2.alpn_protocols = vec![HTTP2.to_vec()];
        let dates = Dates { own, client_ca };
        Current { config: Arc::new(config), http2: Arc::new(http2), verifier, dates, generation }
    }
}

impl Listening {
    /// Reads the files. An expired certificate is accepted: the node takes part in its cluster without a valid one, and
    /// loads the next one while it runs. Blocks on the disk.
    pub fn open(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let contents = files.read()?;
        let current = RwLock::new(Current::new(files.configure(&contents)?, 0));
        let seen = SeenFiles { digest: Some(contents.digest()), refusal: None, awaits_time: false };
        Ok(Arc::new(Listening { files, current, seen: Mutex::new(seen) }))
    }

    /// Returns the acceptor for new connections; open ones are not affected by later changes.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.read().config.clone())
    }

    /// Returns the acceptor of a listener with HTTP/2: gRPC clients insist on ALPN.
    pub fn http2_acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.read().http2.clone())
    }

    /// Returns the certificate from a client's handshake; `None` if it identifies no user. The client's own certificate
    /// is the first of the chain.
    pub fn client_certificate(self: &Arc<Self>, chain: &[CertificateDer<'_>]) -> Option<Shown> {
        let common_name = common_name(chain.first()?)?;
        let not_after = not_after(chain.first()?)?;
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Some(Shown { listening: self.clone(), common_name, not_after, chain, judged: Mutex::new(None) })
    }

    pub(super) fn files(&self) -> &TlsFiles {
        &self.files
    }

    pub(super) fn dates(&self) -> Dates {
        self.current.read().dates
    }

    /// Returns the reason why the files on disk are not in use; `None` while they are.
    pub(super) fn refusal(&self) -> Option<String> {
        self.seen.lock().refusal.clone()
    }

    /// Loads the files if they have changed; reports whether they were loaded. Files that cannot be used, or whose
    /// certificate is not valid at this time, are an error once and change nothing: they are tried again when they
    /// change, or when they become valid. Blocks on the disk.
    pub(super) fn look_again(&self, now: UnixTime) -> Result<bool, TlsError> {
        let read = self.files.read();
        let digest = read.as_ref().ok().map(|contents| contents.digest());
        let mut seen = self.seen.lock();
        let is_known = seen.digest == digest;
        if is_known && !seen.awaits_time {
            return Ok(false);
        }
        let configured = read.and_then(|contents| self.files.configure(&contents));
        let checked =
            configured.and_then(|configured| configured.own.check(&self.files.cert, now).map(|()| configured));
        match checked {
            Ok(configured) => {
                *seen = SeenFiles { digest, refusal: None, awaits_time: false };
                let mut current = self.current.write();
                *current = Current::new(configured, current.generation + 1);
                Ok(true)
            }
            Err(error) => {
                let awaits_time = matches!(error, TlsError::NotYet(..));
                *seen = SeenFiles { digest, refusal: Some(error.to_string()), awaits_time };
                if is_known { Ok(false) } else { Err(error) }
            }
        }
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Certificate of a client, which is valid until it expires, and while the authorities vouch for it.
pub struct Shown {
    listening: Arc<Listening>,
    common_name: String,
    not_after: UnixTime,
    chain: Vec<CertificateDer<'static>>,
    /// Generation of the files at the last verification, and its result.
    judged: Mutex<Option<(u64, bool)>>,
}

impl Shown {
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    /// Reports whether it would be accepted in a handshake now. Signatures are verified only after the files have
    /// changed.
    pub fn is_good(&self, now: UnixTime) -> bool {
        if now > self.not_after {
            return false;
        }
        let (generation, verifier) = {
            let current = self.listening.current.read();
            (current.generation, current.verifier.clone())
        };
        let mut judged = self.judged.lock();
        match *judged {
            Some((of, is_good)) if of == generation => is_good,
            _ => {
                let is_good = self.is_vouched_for(verifier.as_deref(), now);
                *judged = Some((generation, is_good));
                is_good
            }
        }
    }

    fn is_vouched_for(&self, verifier: Option<&dyn ClientCertVerifier>, now: UnixTime) -> bool {
        let Some(([own, others @ ..], verifier)) = Some(self.chain.as_slice()).zip(verifier) else { return false };
        verifier.verify_client_cert(own, others, now).is_ok()
    }
}

/// Returns the last second of a certificate's validity.
fn not_after(certificate: &CertificateDer<'_>) -> Option<UnixTime> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
    Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
}

/// Returns the name of a certificate: its only common name. `None` if it has several, or one that no user could have.
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
    use tokio_rustls::rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::tls::Authority;

    /// Returns a certificate for `names` and its key, in PEM.
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
        let first = listening.current.read().config.clone();
        let is_first = |listening: &Listening| Arc::ptr_eq(&first, &listening.current.read().config);
        assert!(!listening.look_again(UnixTime::now()).expect("unchanged"));

        let (next_cert, next_key) = pair(&["two"]);
        put(&files.cert, &next_cert);
        let mismatch = listening.look_again(UnixTime::now()).expect_err("the key is of the other one");
        assert!(matches!(mismatch, TlsError::Pair(..)), "{mismatch}");
        assert!(!listening.look_again(UnixTime::now()).expect("told once"));
        std::fs::remove_file(&files.key).expect("there");
        assert!(matches!(listening.look_again(UnixTime::now()), Err(TlsError::Read(..))));
        assert!(!listening.look_again(UnixTime::now()).expect("told once"));
        assert!(is_first(&listening), "what worked stays");

        put(&files.key, &next_key);
        assert!(listening.look_again(UnixTime::now()).expect("a pair again"));
        assert!(!is_first(&listening));
    }

    /// A connection outlives its certificate, and the authority that signed it.
    #[test]
    fn what_a_client_showed_is_good_until_it_ends_or_nobody_vouches_for_it() {
        let (dir, other) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
        for dir in [&dir, &other] {
            let authority = Authority::open(dir.path()).expect("an authority");
            assert!(authority.issue("node", &["localhost".to_owned()], 30).expect("made"));
            assert!(authority.issue("ann", &["ann".to_owned()], 1).expect("made"));
        }
        let file = |name: &str| dir.path().join(name);
        let files = TlsFiles { cert: file("node.pem"), key: file("node-key.pem"), client_ca: Some(file("ca.pem")) };
        let listening = Listening::open(files).expect("a pair");
        let show = |dir: &TempDir| {
            let shown = CertificateDer::from_pem_file(dir.path().join("ann.pem")).expect("a certificate");
            listening.client_certificate(&[shown]).expect("it names somebody")
        };
        let (ann, stranger) = (show(&dir), show(&other));
        let now = UnixTime::now();
        let in_days = |days: u64| UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs() + days * 24 * 3600));
        assert_eq!(ann.common_name(), "ann");
        assert!(ann.is_good(now) && !stranger.is_good(now));
        assert!(!ann.is_good(in_days(2)), "it has expired");
        assert!(ann.is_good(now), "and that is judged anew each time");
        std::fs::copy(other.path().join("ca.pem"), file("ca.pem")).expect("copied");
        assert!(ann.is_good(now), "nobody has looked at the files yet");
        assert!(listening.look_again(UnixTime::now()).expect("another authority"));
        assert!(!ann.is_good(now) && stranger.is_good(now));
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
