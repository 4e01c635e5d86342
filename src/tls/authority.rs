//! A simple certificate authority: its certificate and key in one directory, together with the certificates that it has
//! signed.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use super::TlsError;

const CA: &str = "ca";
const CA_NAME: &str = "thuban";
const CA_DAYS: i64 = 3650;
/// Tolerance for slow clocks.
const EARLIER: Duration = Duration::hours(1);

/// Authority that signs certificates.
pub struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Opens `ca.pem` and `ca-key.pem` of the directory, or creates both, and the directory.
    pub fn open(dir: &Path) -> Result<Authority, TlsError> {
        let [cert, key] = files(dir, CA);
        let issuer = match (fs::read_to_string(&cert), fs::read_to_string(&key)) {
            (Ok(cert), Ok(key)) => Issuer::from_ca_cert_pem(&cert, KeyPair::from_pem(&key)?)?,
            (Err(error), Err(_)) if error.kind() == ErrorKind::NotFound => make_ca(dir)?,
            (Err(error), _) => return Err(TlsError::Read(cert, error)),
            (_, Err(error)) => return Err(TlsError::Read(key, error)),
        };
        Ok(Authority { dir: dir.to_owned(), issuer })
    }

    /// Creates `<file>.pem` and `<file>-key.pem` for names and addresses, the first of which is the common name, for
    /// servers and clients alike. Returns false, without a change, if the certificate exists.
    pub fn issue(&self, file: &str, names: &[String], days: u16) -> Result<bool, TlsError> {
        let [cert, _] = files(&self.dir, file);
        if cert.exists() {
            return Ok(false);
        }
        let key = KeyPair::generate()?;
        let mut params = params(names, names.first().map_or("", String::as_str), i64::from(days))?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let signed = params.signed_by(&key, &self.issuer)?;
        put(&self.dir, file, &signed.pem(), &key)?;
        Ok(true)
    }
}

fn make_ca(dir: &Path) -> Result<Issuer<'static, KeyPair>, TlsError> {
    fs::create_dir_all(dir).map_err(|error| TlsError::Read(dir.to_owned(), error))?;
    let key = KeyPair::generate()?;
    let mut params = params(&[], CA_NAME, CA_DAYS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    put(dir, CA, &params.self_signed(&key)?.pem(), &key)?;
    Ok(Issuer::new(params, key))
}

fn params(names: &[String], common_name: &str, days: i64) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - EARLIER, now + Duration::days(days));
    Ok(params)
}

fn files(dir: &Path, file: &str) -> [PathBuf; 2] {
    [dir.join(format!("{file}.pem")), dir.join(format!("{file}-key.pem"))]
}

/// Writes key and certificate. The key first, because a certificate without its key would count as existing.
fn put(dir: &Path, file: &str, cert: &str, key: &KeyPair) -> Result<(), TlsError> {
    let [cert_path, key_path] = files(dir, file);
    for (path, text, mode) in [(key_path, key.serialize_pem(), 0o600), (cert_path, cert.to_owned(), 0o644)] {
        write(&path, &text, mode).map_err(|error| TlsError::Read(path, error))?;
    }
    Ok(())
}

/// Writes a file under another name first, so that it never has its name while incomplete.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let part = path.with_extension("part");
    match fs::remove_file(&part) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => (),
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(part, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::{TlsConnector, rustls};

    use super::*;
    use thuban_outbound::trust::trusting;

    use crate::tls::{Listening, TlsFiles, common_name};

    fn open(dir: &TempDir, file: &str) -> std::sync::Arc<Listening> {
        let [cert, key] = files(dir.path(), file);
        Listening::open(TlsFiles { cert, key, client_ca: None }).expect("a pair")
    }

    /// Connects a client that trusts `ca` to a server with the certificate `file`, under the name `name`.
    async fn meet(dir: &TempDir, ca: &TempDir, file: &str, name: &'static str) -> Result<Option<String>, io::Error> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let acceptor = open(dir, file).acceptor();
        let client = trusting(Some(&files(ca.path(), CA)[0])).expect("an authority");
        let connector = TlsConnector::from(std::sync::Arc::new(client));
        let name = ServerName::try_from(name).expect("a name");
        let (asked, _served) = tokio::join!(connector.connect(name, near), acceptor.accept(far));
        let stream = asked?;
        let shown: &rustls::ClientConnection = stream.get_ref().1;
        Ok(shown.peer_certificates().and_then(|chain| common_name(&chain[0])))
    }

    #[tokio::test]
    async fn what_it_signs_is_taken_by_who_trusts_it_and_for_those_names_only() {
        let (dir, other) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
        drop(Authority::open(other.path()).expect("another authority"));
        let names = ["n1", "localhost", "127.0.0.1"].map(str::to_owned);
        assert!(Authority::open(dir.path()).expect("made").issue("node", &names, 30).expect("made"));
        // The second time it is the same authority.
        let authority = Authority::open(dir.path()).expect("read");
        assert!(!authority.issue("node", &names, 30).expect("left as it is"));
        assert!(authority.issue("ann", &["ann".to_owned()], 30).expect("made"));
        for name in ["n1", "localhost", "127.0.0.1"] {
            assert_eq!(meet(&dir, &dir, "node", name).await.expect("trusted"), Some("n1".to_owned()), "{name}");
        }
        assert!(meet(&dir, &dir, "node", "n2").await.is_err(), "not its name");
        assert!(meet(&dir, &other, "node", "n1").await.is_err(), "not its authority");
        assert_eq!(meet(&dir, &dir, "ann", "ann").await.expect("trusted"), Some("ann".to_owned()));
        for (file, mode) in [("ca.pem", 0o644), ("ca-key.pem", 0o600), ("node.pem", 0o644), ("node-key.pem", 0o600)] {
            let made = fs::metadata(dir.path().join(file)).expect("made").permissions().mode();
            assert_eq!(made & 0o777 & !mode, 0, "{file} is open to more than {mode:o}");
        }
    }

    #[test]
    fn a_key_without_its_certificate_is_not_overwritten() {
        let dir = TempDir::new().expect("a directory");
        drop(Authority::open(dir.path()).expect("made"));
        fs::remove_file(dir.path().join("ca.pem")).expect("there");
        let refused = Authority::open(dir.path()).map(drop).expect_err("half an authority").to_string();
        assert!(refused.contains("ca.pem"), "{refused}");
    }
}
