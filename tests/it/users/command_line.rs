//! `thuban user`, `thuban token` and `thuban role`.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{SERVICES, as_user};
use crate::harness::{Cluster, Ports, binary, eventually, run};

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn users_and_tokens_by_the_command_line() {
    let cluster = Cluster::start(1).await;
    let endpoint = format!("http://{}", cluster.ports(1).api);
    let call =
        |arguments: &'static [&'static str], input: &'static str| run(&endpoint, cluster.token(), arguments, input);

    let add = &["user", "add", "ann", "--grant", "editor,prod,pay*", "--comment", "pays", "--password-file", "-"];
    call(add, "first password\n").await.expect(0);
    let listed = call(&["user", "list"], "").await.expect(0);
    assert!(listed.contains("editor,prod,pay*") && listed.contains("pays") && !listed.contains("argon2"), "{listed}");
    let ann = as_user(&cluster, 1, "ann", "first password").await;
    ann.get(SERVICES).await.expect_code(200_000);

    call(&["user", "set", "ann", "--grant", "reader,*", "--disable"], "").await.expect(0);
    let listed = call(&["user", "list", "-o", "json"], "").await.expect(0);
    let users: Value = serde_json::from_str(&listed).expect("JSON");
    let shown = users.as_array().expect("rows").iter().find(|user| user["name"] == "ann").expect("listed");
    assert_eq!((&shown["disabled"], &shown["comment"]), (&Value::Bool(true), &Value::from("pays")), "{listed}");
    assert_eq!((&shown["grants"][0]["role"], &shown["grants"][0]["namespace"]), (&"reader".into(), &"*".into()));
    call(&["user", "set", "ann", "--enable"], "").await.expect(0);
    call(&["user", "passwd", "ann", "--password-file", "-"], "second password").await.expect(0);

    // One's own, with the old one from a file.
    let old = cluster.file("old-password");
    std::fs::write(&old, "second password\n").expect("written");
    let token = super::log_in(&cluster, 1, "ann", "second password").await.expect_code(200_000);
    let token = token.body["loginResponse"]["token"].as_str().expect("a token").to_owned();
    let own = ["user", "passwd", "--old-password-file", old.to_str().expect("text"), "--password-file", "-"];
    run(&endpoint, &token, &own, "third password").await.expect(0);
    let over = run(&endpoint, &token, &["user", "list"], "").await.expect(3);
    assert!(over.contains("401004"), "{over}");
    as_user(&cluster, 1, "ann", "third password").await;

    let create =
        &["token", "create", "ci", "--grant", "reader,prod", "--network", "127.0.0.1", "--expires-in-s", "600"];
    let secret = call(create, "").await.expect(0);
    cluster.api(1).with_token(secret.trim()).get(SERVICES).await.expect_code(200_000);
    let listed = call(&["token", "list"], "").await.expect(0);
    assert!(listed.contains("reader,prod,*") && listed.contains("127.0.0.1/32"), "{listed}");
    assert!(!listed.contains(secret.trim()), "a secret is shown once");
    let whoami = run(&endpoint, secret.trim(), &["whoami"], "").await.expect(0);
    assert!(whoami.contains("token:ci") && whoami.contains("reader,prod,*"), "{whoami}");
    let rotated = call(&["token", "rotate", "ci", "--overlap", "600"], "").await.expect(0);
    for secret in [&secret, &rotated] {
        cluster.api(1).with_token(secret.trim()).get(SERVICES).await.expect_code(200_000);
    }
    let update = &["token", "update", "ci", "--grant", "reader,test", "--any-network", "--disable", "--comment", "c"];
    call(update, "").await.expect(0);
    let listed = call(&["token", "list"], "").await.expect(0);
    assert!(listed.contains("reader,test,*") && listed.contains("disabled"), "{listed}");
    cluster.api(1).with_token(rotated.trim()).get(SERVICES).await.expect_code(401_004);
    call(&["token", "delete", "ci"], "").await.expect(0);
    cluster.api(1).with_token(secret.trim()).get(SERVICES).await.expect_code(401_004);
    let roles = call(&["role", "list"], "").await.expect(0);
    assert!(roles.contains("releaser") && roles.contains("read release"), "{roles}");
    call(&["user", "delete", "ann"], "").await.expect(0);
    super::log_in(&cluster, 1, "ann", "third password").await.expect_code(401_001);

    // How it ends when it cannot be done.
    for (arguments, input, code, words) in [
        (&["user", "add", "bob", "--grant", "owner"][..], "", 2, "is no role"),
        (&["user", "add", "bob", "--grant", "editor"], "", 2, "where is it for"),
        (&["user", "set", "ann", "--grant", "editor, "], "", 2, "is no name"),
        (&["token", "create", "ci", "--grant", "editor"], "", 2, "where is it for"),
        (&["user", "add", "bob", "--grant", "reader,*", "--password-file", "none"], "", 2, "none: "),
        (&["user", "add", "bob"], "", 2, "--password-file"),
        (&["user", "add", "bob", "--password-file", "-"], "short", 2, "8 to 128"),
        (&["user", "add", "admin", "--password-file", "-"], "long enough", 3, "400201"),
        (&["user", "set", "admin", "--no-grants"], "", 3, "403002"),
        (&["user", "set", "nobody", "--comment", "x"], "", 3, "400202"),
        (&["token", "rotate", "nobody"], "", 3, "400202"),
    ] {
        let told = call(arguments, input).await.expect(code);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    let nobody = format!("http://{}", Ports::reserve().api);
    run(&nobody, "token", &["user", "list"], "").await.expect(4);
}

/// A command on a terminal of its own, which `script` of util-linux gives it.
struct Terminal {
    script: Child,
    shown: String,
}

impl Terminal {
    fn run(endpoint: &str, token: &str, arguments: &str) -> Terminal {
        let mut command = Command::new("script");
        let line = format!("exec {} {arguments}", binary());
        command.args(["-qec", &line, "/dev/null"]).env("THUBAN_ENDPOINT", endpoint).env("THUBAN_TOKEN", token);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        Terminal { script: command.spawn().expect("script can be started"), shown: String::new() }
    }

    /// Types a line once the question is there and the terminal shows nothing of what is typed.
    async fn type_at(&mut self, question: &str, line: &str) {
        while !self.shown.ends_with(question) {
            assert!(self.read().await, "no {question:?} after {:?}", self.shown);
        }
        let script = self.script.id().expect("it runs");
        eventually(LIMIT, "the terminal shows nothing", || async move {
            let children = tokio::fs::read_to_string(format!("/proc/{script}/task/{script}/children")).await;
            let child = children.map_err(|error| error.to_string())?.trim().to_owned();
            let terminal =
                tokio::fs::read_link(format!("/proc/{child}/fd/0")).await.map_err(|error| error.to_string())?;
            let state = Command::new("stty").arg("-F").arg(&terminal).arg("-a").output().await.expect("stty runs");
            let state = String::from_utf8_lossy(&state.stdout).into_owned();
            if state.contains(" -echo ") { Ok(()) } else { Err(state) }
        })
        .await;
        let stdin = self.script.stdin.as_mut().expect("stdin is piped");
        stdin.write_all(format!("{line}\n").as_bytes()).await.expect("typed");
        self.shown.clear();
    }

    /// False at the end.
    async fn read(&mut self) -> bool {
        let mut bytes = [0; 1024];
        let stdout = self.script.stdout.as_mut().expect("stdout is piped");
        let count = timeout(LIMIT, stdout.read(&mut bytes)).await.expect("it goes on").expect("readable");
        self.shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    }

    async fn ends_with(&mut self, code: i32) {
        while self.read().await {}
        let status = timeout(LIMIT, self.script.wait()).await.expect("it ends").expect("a status");
        assert_eq!(status.code(), Some(code), "{}", self.shown);
        assert!(!self.shown.contains("typed"), "the terminal shows a password: {}", self.shown);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_are_asked_for_on_a_terminal_that_does_not_show_them() {
    let cluster = Cluster::start(1).await;
    let endpoint = format!("http://{}", cluster.ports(1).api);
    let add = |name: &str| Terminal::run(&endpoint, cluster.token(), &format!("user add {name} --grant reader,*"));

    let mut terminal = add("bob");
    terminal.type_at("New password: ", "typed at a terminal").await;
    terminal.type_at("Again: ", "typed at a terminal").await;
    terminal.ends_with(0).await;
    as_user(&cluster, 1, "bob", "typed at a terminal").await.get(SERVICES).await.expect_code(200_000);

    let mut terminal = add("eve");
    terminal.type_at("New password: ", "typed at a terminal").await;
    terminal.type_at("Again: ", "typed otherwise").await;
    terminal.ends_with(2).await;

    let mut terminal = Terminal::run(&endpoint, "", "login --name bob");
    terminal.type_at("Password: ", "typed at a terminal").await;
    terminal.ends_with(0).await;
}
