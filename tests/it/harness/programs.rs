//! Programs on published clients in Go, Java and Node, as tests/clients/LANGUAGE/build makes them.

use tokio::process::Command;

use super::clients::client_file;
use super::report;

/// Exit codes of the build scripts: a tool of the language is missing, its registry does not answer.
const MISSING: i32 = 69;
const NO_ANSWER: i32 = 75;

/// Returns the path of a program of a variant that tests/clients/programs lists. Without the language, or the registry
/// of its packages, it prints a line and returns `None`. `THUBAN_CLIENT=LANGUAGE/PROGRAM/VARIANT`, set by
/// scripts/clients, makes a missing language a failure, and skips all other clients.
pub(crate) async fn program(language: &str, name: &str, variant: &str) -> Option<String> {
    let client = format!("{language}/{name}/{variant}");
    let asked = asked_client();
    if asked.as_ref().is_some_and(|asked| *asked != client) {
        return None;
    }
    let script = client_file(language).join("build");
    let output = Command::new(&script).args([name, variant]).output().await.expect("the script can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {
            // scripts/clients counts only cases that have run their client.
            report(format!("{} runs {client}", std::thread::current().name().unwrap_or_default()));
            return Some(String::from_utf8(output.stdout).expect("a path is text").trim().to_owned());
        }
        Some(NO_ANSWER) => {}
        Some(MISSING) if asked.is_none() => {}
        _ => panic!("{script:?} {name} {variant} failed:\n{errors}"),
    }
    report(format!("the client {client} is left out: {}", errors.lines().last().unwrap_or_default()));
    None
}

/// The only client that is to run.
pub(crate) fn asked_client() -> Option<String> {
    std::env::var("THUBAN_CLIENT").ok()
}
