//! A working day in real browsers: a script of tests/clients, which reports its progress and waits for this test.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::harness::{client_file, python};

/// A part of the day, on a machine that is busy with other tests.
const PART_LIMIT: Duration = Duration::from_secs(120);

pub(super) struct Day {
    browser: Child,
    stdin: ChildStdin,
    told: Lines<BufReader<ChildStdout>>,
}

impl Day {
    /// Begins with these arguments and, after them, the name of the picture of a day that ends badly.
    pub(super) async fn start(script: &str, arguments: &[&str]) -> Day {
        let name = format!("thuban-{}-{}.png", script.trim_end_matches(".py"), std::process::id());
        let mut browser = Command::new(python("browser").await)
            .arg(client_file(script))
            .args(arguments)
            .arg(std::env::temp_dir().join(name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Python can be started");
        let told = BufReader::new(browser.stdout.take().expect("piped")).lines();
        let stdin = browser.stdin.take().expect("piped");
        Day { browser, stdin, told }
    }

    /// Returns the next line of the script.
    pub(super) async fn next_line(&mut self) -> String {
        let line = tokio::time::timeout(PART_LIMIT, self.told.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("no line within {PART_LIMIT:?}"));
        line.expect("readable").expect("the script ended early, see above")
    }

    pub(super) async fn comes_to(&mut self, word: &str) {
        assert_eq!(self.line().await, word);
    }

    /// Waits for the next line.
    pub(super) async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PART_LIMIT, self.told.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("nothing was told within {PART_LIMIT:?}"));
        line.expect("readable").expect("the day ended early, see above")
    }

    pub(super) async fn go_on(&mut self) {
        self.stdin.write_all(b"go on\n").await.expect("the browser listens");
    }

    pub(super) async fn ends(mut self) {
        let ended = tokio::time::timeout(PART_LIMIT, self.browser.wait()).await.expect("the browser ends");
        assert!(ended.expect("it can be waited for").success());
    }
}
