//! Commands of the binary, run to their end.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;

use super::process::thuban;

/// Output of a command, with its status.
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) error: String,
}

impl Done {
    /// Its output, or the reason of a failure.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.error);
        if code == 0 { self.out } else { self.error }
    }
}

pub(crate) async fn run(endpoint: &str, token: &str, arguments: &[&str], input: &str) -> Done {
    let mut command = thuban();
    command.env("THUBAN_ENDPOINT", endpoint).env("THUBAN_TOKEN", token).args(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // A command that fails before it reads has closed its input.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = child.wait_with_output().await.expect("it ends");
    let [out, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Done { code: output.status.code().expect("it was not killed"), out, error }
}
