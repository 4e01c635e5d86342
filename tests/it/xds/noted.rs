//! Worlds of rules in which clients and `explain` once differed.

use tokio::process::Command;

use crate::harness::{binary, client_file, python};

/// Seeds that `scripts/explore` noted.
#[tokio::test(flavor = "multi_thread")]
async fn clients_do_as_explain_says_in_worlds_in_which_they_once_did_not() {
    let seeds = client_file("xds/seeds.txt");
    if std::fs::read_to_string(&seeds).expect("the list of seeds can be read").trim().is_empty() {
        return;
    }
    let mut command = Command::new(python("xds").await);
    command.arg(client_file("xds/conformance.py")).args(["--binary", binary(), "--noted"]).arg(&seeds);
    let output = command.kill_on_drop(true).output().await.expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
}
