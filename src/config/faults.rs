//! Checks of single settings, and the list of faults found.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{ClusterSecret, HOLD_MS_RANGE, Hidden, SECRET_CHARS_DIFFERENT_MIN, SECRET_CHARS_MIN, Tuning};
use crate::data_key::DataKey;
use crate::model::host::{self, is_host_and_port};
use crate::model::limits;

/// Collects faults, and counts those that may disappear without a change of the settings.
#[derive(Default)]
pub(super) struct Faults(pub(super) Vec<String>, usize);

/// Faults in the settings of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingFaults {
    pub lines: Vec<String>,
    /// True if every fault is in a file that another program writes, and may be gone at the next start.
    pub may_pass: bool,
}

impl From<Faults> for SettingFaults {
    fn from(Faults(lines, passing): Faults) -> Self {
        let may_pass = passing == lines.len();
        SettingFaults { lines, may_pass }
    }
}

impl Faults {
    pub(super) fn add(&mut self, fault: impl Into<String>) {
        self.0.push(fault.into());
    }

    /// Adds a fault in a file that others write, which may be correct at the next start.
    pub(super) fn add_passing(&mut self, fault: impl Into<String>) {
        self.add(fault);
        self.1 += 1;
    }

    pub(super) fn address(&mut self, flag: &str, text: &str) -> Option<SocketAddr> {
        let address = text.parse().ok();
        if address.is_none() {
            self.add(format!("{flag} has to be IP:PORT, not {text:?}"));
        }
        address
    }

    pub(super) fn initial_cluster(&mut self, text: &str, own_id: u64) -> BTreeMap<u64, String> {
        let mut members = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let member =
                part.split_once('=').and_then(|(id, peer)| Some((id.trim().parse::<u64>().ok()?, peer.trim())));
            match member {
                Some((id, peer)) if id > 0 && is_host_and_port(peer) => {
                    if members.insert(id, peer.to_owned()).is_some() {
                        self.add(format!("--initial-cluster names node {id} twice"));
                    }
                }
                _ => self.add(format!("--initial-cluster holds {part:?}, expected ID=HOST:PORT")),
            }
        }
        if !members.is_empty() && !members.contains_key(&own_id) {
            self.add(format!("--initial-cluster does not name this node, {own_id}"));
        }
        members
    }

    /// Reads a secret from the flag or the file, not both; the final line end of a file is not part of it.
    pub(super) fn secret(
        &mut self,
        flag: &str,
        given: Option<Hidden>,
        file: Option<PathBuf>,
        chars_min: usize,
    ) -> Option<Hidden> {
        let secret = self.read_secret(flag, given, file)?;
        self.judge_secret(flag, secret, chars_min)
    }

    /// Reads one secret, or up to two from a file: the first is presented to peers, both are accepted.
    pub(super) fn cluster_secret(&mut self, given: Option<Hidden>, file: Option<PathBuf>) -> Option<ClusterSecret> {
        const FLAG: &str = "--cluster-secret";
        let may_hold_two = file.is_some();
        let text = self.read_secret(FLAG, given, file)?;
        let secrets: Vec<String> = match may_hold_two {
            true => text.lines().map(str::to_owned).collect(),
            false => vec![text],
        };
        if secrets.len() > 2 {
            self.add(format!("{FLAG}-file holds {} lines, and two secrets are the most", secrets.len()));
            return None;
        }
        let is_weak = |secret: &String| {
            let different: std::collections::BTreeSet<char> = secret.chars().collect();
            different.len() < SECRET_CHARS_DIFFERENT_MIN
        };
        // A short secret is reported as too short, below.
        if secrets.iter().any(|secret| secret.chars().count() >= SECRET_CHARS_MIN && is_weak(secret)) {
            self.add(format!(
                "{FLAG} can be guessed: it has fewer than {SECRET_CHARS_DIFFERENT_MIN} different characters; draw \
                 one, as by `openssl rand -hex 32`"
            ));
            return None;
        }
        // An empty file is read as an empty secret, which is reported as too short.
        let mut secrets = secrets.into_iter();
        let shown = self.judge_secret(FLAG, secrets.next().unwrap_or_default(), SECRET_CHARS_MIN);
        let other = secrets.next().map(|other| self.judge_secret(FLAG, other, SECRET_CHARS_MIN));
        match other {
            Some(None) => None,
            other => Some(ClusterSecret { shown: shown?, other: other.flatten() }),
        }
    }

    fn read_secret(&mut self, flag: &str, given: Option<Hidden>, file: Option<PathBuf>) -> Option<String> {
        let given = given.filter(|secret| !secret.0.is_empty());
        match (given, file) {
            (Some(_), Some(_)) => {
                self.add(format!("{flag} and {flag}-file exclude each other"));
                None
            }
            (Some(secret), None) => Some(secret.0),
            (None, Some(file)) => match std::fs::read_to_string(&file) {
                Ok(text) => Some(text.trim_end_matches(['\r', '\n']).to_owned()),
                Err(error) => {
                    self.add(format!("{flag}-file {}: {error}", file.display()));
                    None
                }
            },
            (None, None) => None,
        }
    }

    fn judge_secret(&mut self, flag: &str, secret: String, chars_min: usize) -> Option<Hidden> {
        let chars = secret.chars().count();
        if chars < chars_min || secret.chars().any(char::is_control) {
            self.add(format!("{flag} has to have at least {chars_min} characters and no control characters"));
            return None;
        }
        if chars > limits::CREDENTIAL_CHARS_MAX {
            self.add(format!("{flag} may have at most {} characters", limits::CREDENTIAL_CHARS_MAX));
            return None;
        }
        Some(Hidden(secret))
    }

    /// Reads one key, or two during a rotation: the first seals, both open.
    pub(super) fn data_keys(&mut self, file: Option<&Path>) -> Vec<DataKey> {
        let Some(file) = file.filter(|file| !file.as_os_str().is_empty()) else { return Vec::new() };
        let text = match std::fs::read_to_string(file) {
            Ok(text) => Zeroizing::new(text),
            Err(error) => {
                self.add(format!("--data-key-file {}: {error}", file.display()));
                return Vec::new();
            }
        };
        let data_keys: Option<Vec<DataKey>> =
            text.trim_end_matches(['\r', '\n']).lines().map(DataKey::of_hex).collect();
        match data_keys.as_deref() {
            Some([_]) => {}
            Some([one, other]) if one.id() != other.id() => {}
            Some([_, _]) => self.add(format!("--data-key-file {} holds the same key twice", file.display())),
            _ => {
                let what = "has to hold 64 hex digits, or two lines of them while one key takes the place of the other";
                self.add(format!("--data-key-file {} {what}", file.display()));
            }
        }
        data_keys.unwrap_or_default()
    }

    pub(super) fn tuning(&mut self, tuning: &Tuning) {
        for host in tuning.allowed_hosts.iter().filter(|host| !host.is_empty()) {
            if let Some(why) = host::fault(host) {
                self.add(format!("--allowed-hosts: {why}"));
            }
        }
        if !HOLD_MS_RANGE.contains(&tuning.long_poll_timeout_ms) {
            let (least, most) = (HOLD_MS_RANGE.start(), HOLD_MS_RANGE.end());
            self.add(format!("--long-poll-timeout-ms has to be from {least} to {most}"));
        }
        if !(1..=limits::BODY_BYTES_MAX).contains(&tuning.config_content_max) {
            self.add(format!("--config-content-max has to be from 1 to {}", limits::BODY_BYTES_MAX));
        }
        tuning.bounds.check(self);
        tuning.xds.check(self);
        if tuning.hash_check_entries == 0 {
            self.add("--hash-check-entries has to be above 0");
        }
    }
}
