//! Expiry of the certificate files that a node uses: metrics, alarms and log lines for its operator.
//!
//! Clients verify a certificate by their wall clocks, so the node's wall clock is used here, not the time of the
//! cluster. In a file with several authorities the one that expires last counts: during a rotation, the earlier one may
//! expire.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thuban_outbound::trust::{TrustError, certificates};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::Instant;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Listening, TlsError};
use crate::metrics::Metrics;
use crate::tasks;

/// Pause between two checks of the files. Their contents are compared, not their times, because a mounted volume of
/// secrets is updated through a symbolic link.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// Number of checks of the listeners' files per check of the files with other authorities.
const LOOKS_PER_BUNDLE: u32 = 30;
/// Interval after which an unchanged problem of a file is logged again.
const LINE_PAUSE: Duration = Duration::from_secs(24 * 3600);
const DAY_SECONDS: i64 = 24 * 3600;

/// Validity of a certificate, in seconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    not_before: i64,
    not_after: i64,
}

impl Validity {
    /// Returns the validity of a certificate in `path`.
    pub(super) fn of(path: &Path, certificate: &CertificateDer<'_>) -> Result<Validity, TlsError> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| TlsError::Unreadable(path.to_owned()))?;
        let validity = parsed.validity();
        Ok(Validity { not_before: validity.not_before.timestamp(), not_after: validity.not_after.timestamp() })
    }

    /// Returns the validity of the certificate in a PEM file that expires last.
    pub(super) fn longest(path: &Path, pem: &[u8]) -> Result<Validity, TlsError> {
        let found: Result<Vec<_>, _> = certificates(path, pem)?.iter().map(|one| Validity::of(path, one)).collect();
        found?.into_iter().max_by_key(|one| one.not_after).ok_or_else(|| TrustError::Empty(path.to_owned()).into())
    }

    /// Checks that the certificate is valid now.
    pub(super) fn check(&self, path: &Path, now: UnixTime) -> Result<(), TlsError> {
        let now = seconds(now);
        if now > self.not_after {
            return Err(TlsError::Ended(path.to_owned(), date(self.not_after)));
        }
        if now < self.not_before {
            return Err(TlsError::NotYet(path.to_owned(), date(self.not_before)));
        }
        Ok(())
    }
}

fn seconds(now: UnixTime) -> i64 {
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

fn date(seconds: i64) -> String {
    let date = OffsetDateTime::from_unix_timestamp(seconds).ok().and_then(|date| date.format(&Rfc3339).ok());
    date.unwrap_or_else(|| format!("{seconds} s of Unix time"))
}

/// A file with authorities for the servers that a node calls.
#[derive(Clone, Debug)]
pub struct CertificateUse {
    /// User of the file, as a label in metrics.
    pub used_by: &'static str,
    pub file: PathBuf,
}

struct Bundle {
    of: CertificateUse,
    /// Validity at the last check, or the reason why there is none.
    found: Mutex<Result<Validity, String>>,
}

impl Bundle {
    fn look(&self) {
        let file = &self.of.file;
        let read = std::fs::read(file).map_err(|error| TlsError::Read(file.clone(), error));
        let found = read.and_then(|pem| Validity::longest(file, &pem));
        *self.found.lock() = found.map_err(|error| error.to_string());
    }
}

/// Certificate files of a node.
pub struct Certificates {
    listening: Option<Arc<Listening>>,
    /// Names of the listeners that use the certificate.
    listeners: Vec<&'static str>,
    bundles: Vec<Bundle>,
    /// Days before the expiry of a certificate from which on there is an alarm.
    warning_days: u16,
    /// Alarms that were logged, and the times.
    logged: Mutex<BTreeMap<(PathBuf, FileState), Instant>>,
}

/// Condition of a file that raises an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FileState {
    /// The certificate expires soon.
    Ending,
    Ended,
    NotYet,
    /// The file on disk is not in use, or cannot be used.
    Refused,
}

/// Alarm about a file.
struct FileFinding {
    file: PathBuf,
    state: FileState,
    text: String,
}

impl Certificates {
    /// Reads the files with other authorities once. Blocks on the disk.
    pub fn new(
        listening: Option<Arc<Listening>>,
        listeners: Vec<&'static str>,
        bundles: Vec<CertificateUse>,
        warning_days: u16,
    ) -> Self {
        let bundle = |of| Bundle { of, found: Mutex::new(Err(String::new())) };
        let bundles = bundles.into_iter().map(bundle).collect();
        let all = Certificates { listening, listeners, bundles, warning_days, logged: Mutex::default() };
        all.look_at_bundles();
        all
    }

    /// Returns the certificates of a node that uses none.
    pub fn none() -> Self {
        Certificates::new(None, Vec::new(), Vec::new(), 0)
    }

    /// Returns the alarms, each with its subject.
    pub fn alarms(&self) -> Vec<(String, String)> {
        let about = |finding: &FileFinding| format!("{} {:?}", finding.file.display(), finding.state);
        self.findings(UnixTime::now()).into_iter().map(|finding| (about(&finding), finding.text)).collect()
    }

    fn findings(&self, now: UnixTime) -> Vec<FileFinding> {
        let mut findings = Vec::new();
        if let Some(listening) = &self.listening {
            let (dates, files) = (listening.dates(), listening.files());
            findings.extend(self.judge(&files.cert, "the certificate in use, of", dates.own, now));
            if let Some((file, authorities)) = files.client_ca.as_ref().zip(dates.client_ca) {
                findings.extend(self.judge(file, "the last authority of clients in", authorities, now));
            }
            findings.extend(listening.refusal().map(|why| FileFinding {
                file: files.cert.clone(),
                state: FileState::Refused,
                text: format!("the certificate files on the disk are not those in use: {why}"),
            }));
        }
        for Bundle { of: CertificateUse { used_by, file }, found } in &self.bundles {
            match &*found.lock() {
                Ok(validity) => {
                    let what = format!("the last authority for {used_by} in");
                    findings.extend(self.judge(file, &what, *validity, now));
                }
                Err(why) => findings.push(FileFinding {
                    file: file.clone(),
                    state: FileState::Refused,
                    text: format!("the authorities for {used_by} cannot be read: {why}"),
                }),
            }
        }
        findings
    }

    fn judge(
        &self,
        file: &Path,
        what: &str,
        Validity { not_before, not_after }: Validity,
        now: UnixTime,
    ) -> Option<FileFinding> {
        let (now, shown) = (seconds(now), file.display());
        let left = not_after.saturating_sub(now);
        let (state, text) = if left < 0 {
            (
                FileState::Ended,
                format!("{what} {shown}, has ended at {}: renew it, no restart is needed", date(not_after)),
            )
        } else if now < not_before {
            (FileState::NotYet, format!("{what} {shown}, is not valid before {}", date(not_before)))
        } else if left < i64::from(self.warning_days) * DAY_SECONDS {
            let days = left / DAY_SECONDS;
            let text = format!("{what} {shown}, ends in {days} days, at {}: renew it", date(not_after));
            (FileState::Ending, text)
        } else {
            return None;
        };
        Some(FileFinding { file: file.to_owned(), state, text })
    }

    /// Updates the metrics; called when they are read.
    pub fn record(&self, metrics: &Metrics) {
        let expires = &metrics.certificate_expires;
        expires.reset();
        let set = |listener: &str, file: &Path, validity: Validity| {
            let labels = [listener, &file.display().to_string()];
            expires.with_label_values(&labels).set(validity.not_after);
        };
        if let Some(listening) = &self.listening {
            let (dates, files) = (listening.dates(), listening.files());
            let is_refused = i64::from(listening.refusal().is_some());
            for listener in &self.listeners {
                set(listener, &files.cert, dates.own);
                if let Some((file, authorities)) = files.client_ca.as_ref().zip(dates.client_ca) {
                    set(listener, file, authorities);
                }
                metrics.certificate_files_refused.with_label_values(&[listener]).set(is_refused);
            }
        }
        for Bundle { of: CertificateUse { used_by, file }, found } in &self.bundles {
            let found = found.lock();
            if let Ok(validity) = &*found {
                set(used_by, file, *validity);
            }
            metrics.certificate_files_refused.with_label_values(&[used_by]).set(i64::from(found.is_err()));
        }
    }

    /// Loads the listeners' files whenever they change, and logs problems of any file at once and then once a day. Runs
    /// for as long as it is polled.
    pub async fn follow(self: Arc<Self>) {
        if self.listening.is_none() && self.bundles.is_empty() {
            return;
        }
        let mut looks: u32 = 0;
        loop {
            self.log(UnixTime::now());
            tokio::time::sleep(LOOK_PAUSE).await;
            looks = looks.wrapping_add(1);
            let (looking, is_turn_of_bundles) = (self.clone(), looks.is_multiple_of(LOOKS_PER_BUNDLE));
            tasks::blocking(move || looking.look(is_turn_of_bundles)).await;
        }
    }

    fn look(&self, is_turn_of_bundles: bool) {
        if let Some(listening) = &self.listening {
            let cert = listening.files().cert.display();
            match listening.look_again(UnixTime::now()) {
                Ok(false) => {}
                Ok(true) => {
                    let expires = date(listening.dates().own.not_after);
                    tracing::info!(%cert, expires, "new certificates are in use");
                    // Problems of the new certificates are logged at once.
                    self.logged.lock().clear();
                }
                // A new reason is logged at once.
                Err(error) => {
                    tracing::warn!(%error, "the new certificates cannot be used: the previous ones stay in use");
                    let key = (listening.files().cert.clone(), FileState::Refused);
                    self.logged.lock().insert(key, Instant::now());
                }
            }
        }
        if is_turn_of_bundles {
            self.look_at_bundles();
        }
    }

    fn look_at_bundles(&self) {
        self.bundles.iter().for_each(Bundle::look);
    }

    fn log(&self, now: UnixTime) {
        for finding in self.due(now, Instant::now()) {
            let alarm = finding.text;
            match finding.state {
                FileState::Ended => tracing::error!(alarm, "a certificate has expired"),
                FileState::Ending | FileState::NotYet => tracing::warn!(alarm, "a certificate has to be renewed"),
                FileState::Refused => tracing::warn!(alarm, "certificate files cannot be used"),
            }
        }
    }

    /// Returns the problems that were not logged within the last day.
    fn due(&self, now: UnixTime, at: Instant) -> Vec<FileFinding> {
        let (mut findings, mut logged) = (self.findings(now), self.logged.lock());
        let key = |finding: &FileFinding| (finding.file.clone(), finding.state);
        logged.retain(|known, _| findings.iter().any(|finding| key(finding) == *known));
        findings.retain(|finding| {
            let is_due = logged.get(&key(finding)).is_none_or(|last| at.duration_since(*last) >= LINE_PAUSE);
            if is_due {
                logged.insert(key(finding), at);
            }
            is_due
        });
        findings
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;
    use crate::tls::TlsFiles;

    const START: i64 = 1_900_000_000;

    fn at(days: i64) -> UnixTime {
        let seconds = u64::try_from(START + days * DAY_SECONDS).expect("after 1970");
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    /// Writes a pair that is valid between two days; each has its own key.
    fn put(dir: &TempDir, from: i64, until: i64) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let day = |day: i64| OffsetDateTime::from_unix_timestamp(START + day * DAY_SECONDS).expect("a date");
        (params.not_before, params.not_after) = (day(from), day(until));
        let pem = params.self_signed(&key).expect("a certificate").pem();
        std::fs::write(dir.path().join("cert.pem"), pem).expect("writable");
        std::fs::write(dir.path().join("key.pem"), key.serialize_pem()).expect("writable");
    }

    fn open(dir: &TempDir, bundle: Option<&Path>) -> (Arc<Listening>, Certificates) {
        let path = |name: &str| dir.path().join(name);
        let files = TlsFiles { cert: path("cert.pem"), key: path("key.pem"), client_ca: Some(path("cert.pem")) };
        let listening = Listening::open(files).expect("a pair");
        let bundles = bundle.map(|file| CertificateUse { used_by: "webhooks", file: file.to_owned() });
        let all = Certificates::new(Some(listening.clone()), vec!["api", "compat"], Vec::from_iter(bundles), 30);
        (listening, all)
    }

    #[test]
    fn a_certificate_is_an_alarm_from_thirty_days_before_its_end() {
        let dir = TempDir::new().expect("a directory");
        put(&dir, 0, 100);
        let (_, all) = open(&dir, None);
        let states = |day| all.findings(at(day)).iter().map(|finding| finding.state).collect::<Vec<_>>();
        // Its own certificate, and that of the client authority, which is the same file here.
        for (day, expected) in [
            (-1, vec![FileState::NotYet; 2]),
            (1, vec![]),
            (69, vec![]),
            (71, vec![FileState::Ending; 2]),
            (99, vec![FileState::Ending; 2]),
            (101, vec![FileState::Ended; 2]),
        ] {
            assert_eq!(states(day), expected, "day {day}");
        }
        let text = all.findings(at(80)).remove(0).text;
        assert!(text.contains("cert.pem") && text.contains("ends in 20 days"), "{text}");
    }

    /// The refused pair raises an alarm until the files are valid.
    #[test]
    fn a_valid_pair_is_not_replaced_by_one_that_has_ended_or_is_not_valid_yet() {
        let dir = TempDir::new().expect("a directory");
        put(&dir, 0, 100);
        let (listening, all) = open(&dir, None);
        let first = listening.dates().own;
        put(&dir, -10, 5);
        assert!(matches!(listening.look_again(at(10)), Err(TlsError::Ended(..))));
        assert_eq!(listening.dates().own, first);
        assert!(!listening.look_again(at(10)).expect("it is an error once"));
        assert!(all.findings(at(10)).iter().any(|finding| finding.state == FileState::Refused));
        put(&dir, 50, 150);
        assert!(matches!(listening.look_again(at(10)), Err(TlsError::NotYet(..))));
        assert!(!listening.look_again(at(49)).expect("its time has not come"));
        assert!(listening.look_again(at(51)).expect("its time has come"), "without a change of the files");
        assert_ne!(listening.dates().own, first);
        assert!(all.findings(at(51)).is_empty());
    }

    #[test]
    fn the_log_has_each_alarm_at_once_and_daily() {
        let (dir, other) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
        put(&dir, 0, 100);
        let bundle = other.path().join("ca.pem");
        let (_, all) = open(&dir, Some(&bundle));
        let (begun, hour) = (Instant::now(), Duration::from_secs(3600));
        let lines = |day: i64, hours: u32| all.due(at(day), begun + hour * hours).len();
        assert_eq!((lines(1, 0), lines(1, 23), lines(2, 24)), (1, 0, 1), "the file of authorities is missing");
        assert_eq!((lines(80, 25), lines(80, 47), lines(81, 49)), (1, 0, 2), "one alarm for a file and a kind");
        assert_eq!(lines(101, 50), 1, "it has ended");
        std::fs::copy(dir.path().join("cert.pem"), &bundle).expect("copied");
        all.look_at_bundles();
        assert_eq!(lines(1, 51), 0);
        let metrics = Metrics::new().expect("a consistent table");
        all.record(&metrics);
        let text = String::from_utf8(metrics.render()).expect("text");
        for series in [
            format!(
                "thuban_certificate_expires_timestamp_seconds{{file=\"{}\",listener=\"webhooks\"}}",
                bundle.display()
            ),
            "thuban_certificate_files_refused{listener=\"compat\"} 0".to_owned(),
        ] {
            assert!(text.contains(&series), "{series} in {text}");
        }
    }
}
