//! The systemd unit: valid, restricted to what a node needs, and able to start a node that becomes ready.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use super::{defaults_of_serve, stop_limit, text};
use crate::harness::{Api, Ports, Process, binary, eventually, thuban};

const UNIT: &str = "deploy/systemd/thuban.service";
const SETTINGS: &str = "deploy/systemd/thuban.env";
const READY_LIMIT: Duration = Duration::from_secs(30);
/// Maximum exposure in tenths, as `systemd-analyze security` counts: 0 for fully restricted, 100 for unrestricted.
const EXPOSURE_MAX: u32 = 15;

/// The unit in one line for each setting, without comments.
fn settings_of_unit() -> Vec<(String, String)> {
    let whole = text(UNIT).replace("\\\n", "");
    let lines = whole.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn setting(key: &str) -> String {
    let found: Vec<String> =
        settings_of_unit().into_iter().filter(|(name, _)| name == key).map(|pair| pair.1).collect();
    let [value] = found.as_slice() else { panic!("{key} is there {} times", found.len()) };
    value.clone()
}

/// Returns the settings of the file, including those that are commented out.
fn environment() -> Vec<(String, String)> {
    let text = text(SETTINGS);
    let lines =
        text.lines().map(|line| line.strip_prefix('#').unwrap_or(line)).filter(|line| line.starts_with("THUBAN_"));
    lines
        .map(|line| line.split_once('=').expect("NAME=VALUE"))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

async fn analyze(arguments: &[&str]) -> (bool, String) {
    let output = Command::new("systemd-analyze").args(arguments).env("SYSTEMD_COLORS", "0").output().await;
    let output =
        output.unwrap_or_else(|error| panic!("systemd-analyze, of the package systemd, cannot be run: {error}"));
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), told)
}

#[tokio::test]
async fn systemd_takes_the_unit_and_finds_it_closed() {
    let folder = TempDir::with_prefix("thuban-unit-").expect("a temporary directory can be made");
    let path = folder.path().join("thuban.service");
    // Path of the binary before it is installed.
    let unit = text(UNIT).replace("/usr/bin/thuban", binary());
    std::fs::write(&path, &unit).expect("a file can be written");
    let path = path.to_str().expect("a path is text");
    // What it does not understand systemd ignores, with a warning.
    assert_eq!(analyze(&["verify", "--man=no", path]).await, (true, String::new()));
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let (is_closed, told) = analyze(&["security", "--offline=true", "--no-pager", &threshold, path]).await;
    assert!(is_closed, "{told}");
    let spoilt = unit.replace("ProtectSystem=strict", "ProtectSistem=strict");
    std::fs::write(path, spoilt).expect("a file can be written");
    assert_ne!(analyze(&["verify", "--man=no", path]).await.1, "", "a fault is not seen");
}

#[test]
fn the_unit_says_how_much_memory_there_is() {
    let share = setting("MemoryMax");
    let percent = share.strip_suffix('%').and_then(|share| share.parse().ok());
    assert!(percent.is_some_and(|percent: u32| (50..=90).contains(&percent)), "{share}");
}

#[test]
fn the_unit_waits_for_a_graceful_stop() {
    let wait = Duration::from_secs(setting("TimeoutStopSec").parse().expect("seconds"));
    assert!(wait > stop_limit() && wait < stop_limit() * 2, "{wait:?} for a stop that takes {:?}", stop_limit());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_started_as_the_unit_says_is_ready() {
    let known = defaults_of_serve().await;
    let environment = environment();
    let unknown: Vec<_> = environment.iter().filter(|(name, _)| !known.contains_key(name)).collect();
    assert!(unknown.is_empty() && environment.len() > 6, "`thuban serve` does not take {unknown:?}");

    let root = TempDir::with_prefix("thuban-host-").expect("a temporary directory can be made");
    let place = |name: &str| root.path().join(name).to_str().expect("a path is text").to_owned();
    let credentials: Vec<String> = settings_of_unit()
        .into_iter()
        .filter(|(key, _)| key == "LoadCredential")
        .map(|(_, value)| value.split(':').next().expect("a name").to_owned())
        .collect();
    std::fs::create_dir(place("credentials")).expect("a folder can be made");
    for name in &credentials {
        std::fs::write(Path::new(&place("credentials")).join(name), "0123456789abcdef".repeat(4)).expect("written");
    }
    std::fs::create_dir(place("tls")).expect("a folder can be made");
    let made = thuban().args(["certs", "--dir", &place("tls"), "node=127.0.0.1"]).output().await.expect("it runs");
    assert!(made.status.success(), "{made:?}");

    let ports = Ports::reserve();
    let command = setting("ExecStart").replace("${STATE_DIRECTORY}", &place("state"));
    let command = command.replace("${CREDENTIALS_DIRECTORY}", &place("credentials"));
    let arguments: Vec<String> = command.split_whitespace().skip(1).map(str::to_owned).collect();
    let mut environment = environment;
    for (name, value) in &mut environment {
        *value = value.replace("/etc/thuban/tls", &place("tls"));
        if name == "THUBAN_INITIAL_CLUSTER" {
            *value = format!("1={}", ports.peer);
        }
    }
    for (name, address) in [("API", ports.api), ("COMPAT", ports.compat), ("PEER", ports.peer)] {
        environment.push((format!("THUBAN_{name}_ADDR"), address.to_string()));
    }
    let log = root.path().join("log");
    let node = Process::start_in(None, &arguments, &environment, &log).await;
    let node = node.unwrap_or_else(|exited| panic!("{exited:?}"));
    let tls = thuban_outbound::trust::trusting(Some(Path::new(&place("tls/ca.pem")))).expect("an authority");
    let api = Api::secure(node.announced.api, &tls);
    eventually(READY_LIMIT, "the node is ready", || async {
        match api.health("/readyz").await? {
            (200, _) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(api.login(&"0123456789abcdef".repeat(4)).await.is_ok(), "the password is that of the credential");
    assert!(node.terminate().await.success());
}
