//! Messages that this program declares in addition to those that Envoy publishes.

use tempfile::NamedTempFile;
use tokio::process::Command;

use crate::harness::{client_file, python};

/// More than this has to be found, or nothing was compared.
const COMPARED_MIN: usize = 400;

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_types_are_those_of_envoy() {
    let file = NamedTempFile::new().expect("a temporary file can be made");
    std::fs::write(file.path(), thuban::proto::DESCRIPTORS).expect("a file can be written");
    let mut command = Command::new(python("xds").await);
    let output = command.arg(client_file("xds/descriptors.py")).arg(file.path()).output().await.expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let compared: usize = told.trim().parse().expect("a number alone");
    assert!(compared > COMPARED_MIN, "only {compared}");
}
