//! Commands whose reader has ended, as `thuban get … | head` has.

use std::io::pipe;
use std::process::Stdio;

use tempfile::TempDir;

use crate::harness::thuban;

/// Exit code of a program that SIGPIPE has ended, as a shell has it.
const NO_READER: i32 = 141;

/// Runs a command without a reader; returns its status and checks that it prints no error.
async fn unread(arguments: &[&str]) -> Option<i32> {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let child = thuban().args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().expect("it starts");
    let done = child.wait_with_output().await.expect("it ends");
    assert!(done.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    done.status.code()
}

#[tokio::test]
async fn a_command_that_only_reads_ends_in_silence_when_its_reader_has_ended() {
    for arguments in [&["man"][..], &["completion", "bash"]] {
        assert_eq!(unread(arguments).await, Some(NO_READER), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_command_that_changes_something_comes_to_its_end_without_a_reader() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().to_str().expect("a path is text");
    assert_eq!(unread(&["certs", "--dir", path, "node=localhost"]).await, Some(0));
    assert!(dir.path().join("node.pem").exists());
}
