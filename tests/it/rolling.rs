//! Rolling restarts behind common balancers: no client notices.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::harness::{balancers, binary, report};

/// Writers, readers, config clients that pull and poll, and streams of xDS, by the script that tries larger states too.
async fn restart_behind(balancer: &str, tls: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/rolling-restart");
    let path = format!("{}:{}", balancers().await, std::env::var("PATH").expect("a path"));
    let mut command = Command::new("python3");
    // No setting of the caller's environment.
    command.env_clear().env("PATH", path);
    command.arg(script).args(["--thuban", binary(), "--mib", "0", "--balancers", balancer, "--tls", tls]);
    command.args(["--directory", std::env::temp_dir().to_str().expect("a path is text")]);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.expect("Python can be run");
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}{errors}");
    report(told);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_sees_a_planned_restart_behind_haproxy() {
    restart_behind("haproxy", "on").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_sees_a_planned_restart_behind_nginx() {
    restart_behind("nginx", "off").await;
}
