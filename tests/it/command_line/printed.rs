//! What is printed of the command line is true: each command of the chapter in README.md is run.

use std::path::Path;
use std::process::Stdio;

use super::Desk;
use crate::harness::ADMIN_PASSWORD;

const README: &str = include_str!("../../../README.md");
const CHAPTER: &str = "## The command line";
/// Where the printed commands look for a node.
const PRINTED: &str = "http://127.0.0.1:8090";

/// The shell blocks of a chapter.
fn blocks<'a>(text: &'a str, chapter: &str) -> Vec<&'a str> {
    let (_, chapter) = text.split_once(&format!("\n{chapter}\n")).expect("the chapter is there");
    let chapter = chapter.split("\n## ").next().unwrap_or(chapter);
    chapter.split("```sh\n").skip(1).map(|rest| rest.split("\n```").next().expect("a block ends")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_readme_do_what_it_says() {
    let desk = Desk::start(1).await;
    let blocks = blocks(README, CHAPTER);
    assert!(!blocks.is_empty());
    let script = blocks.join("\n").replace(PRINTED, &desk.endpoints);
    let folder = desk.cluster.file("desk");
    std::fs::create_dir_all(&folder).expect("made");
    desk.write("desk/admin-password", ADMIN_PASSWORD);
    let binary = Path::new(env!("CARGO_BIN_EXE_thuban")).parent().expect("a folder");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut bash = tokio::process::Command::new("bash");
    // Every line that is refused ends it, and says which one it was.
    bash.args(["-euxo", "pipefail", "-c", &script]).current_dir(&folder).kill_on_drop(true);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("THUBAN_")) {
        bash.env_remove(name);
    }
    bash.env("PATH", path).env("XDG_CONFIG_HOME", &folder).stdin(Stdio::null());
    let output = bash.output().await.expect("bash runs");
    let [out, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{out}\n{error}");
    for words in ["3 to create", "gray first", "(first v1)  applies", "promote", "nothing need be released"] {
        assert!(out.contains(words), "no {words:?} in {out}");
    }
}
