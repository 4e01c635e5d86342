//! Behaviour of the scripts that needs no binary: waiting for the lock of apt, the forecast of a first build.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Calls a function of scripts/lib.sh, with this shell script as `apt-get`.
fn with_apt_get(script: &str, call: &str) -> Output {
    let folder = TempDir::new().expect("a temporary directory can be made");
    for (name, text) in [("apt-get", script), ("sudo", "exec \"$@\"")] {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("changed");
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let call = format!(". scripts/lib.sh; {call}");
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", &call]).current_dir(root).env("PATH", path);
    command.env("CALLS", folder.path().join("calls")).output().expect("bash can be run")
}

#[test]
fn another_holder_of_apts_lock_is_waited_for() {
    let held = "echo >>\"$CALLS\"\n[ \"$(wc -l <\"$CALLS\")\" -gt 2 ] || { \
                echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)' >&2; exit 100; \
                }";
    let output = with_apt_get(held, "apt update");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("another program holds apt's lock").count(), 1, "it is said once: {said}");

    let output = with_apt_get(held, "APT_LOCK_LIMIT_S=0; apt update");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("process 7"), "it is not waited for without end: {said}");

    let output = with_apt_get("echo 'E: Unable to locate package g++' >&2; exit 100", "apt install g++");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("Unable to locate"), "another failure is one at once: {said}");
}

/// Minutes of the first build, in words and numerals.
const MINUTES: [(&str, &str); 3] = [("eight", "8"), ("ten", "10"), ("twelve", "12")];

#[test]
fn the_readme_and_the_scripts_forecast_the_same_time() {
    let call = "CACHE=$(dirname \"$CALLS\"); nproc() { echo 2; }; forecast quick";
    let output = with_apt_get("exit 1", call);
    let said = String::from_utf8_lossy(&output.stderr);
    let (_, rest) = said.split_once("about ").unwrap_or_else(|| panic!("no forecast: {said}"));
    let (minutes, _) = rest.split_once(" minutes on 2 processors").unwrap_or_else(|| panic!("no minutes: {said}"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let word = MINUTES.iter().find(|(_, numeral)| *numeral == minutes).map_or(minutes, |(word, _)| word);
    for (page, words) in [
        ("README.md", format!("The first build takes about {word} minutes")),
        ("docs/start.md", format!("about {word} minutes on two cores")),
        ("README.zh.md", format!("首次编译约 {minutes} 分钟")),
        ("docs/zh/start.md", format!("要编译约 {minutes} 分钟")),
    ] {
        let text = std::fs::read_to_string(root.join(page)).expect("a page").replace('\n', " ");
        assert!(text.contains(&words), "{page} does not say {words:?}, as scripts/run does: {said}");
    }
}
