//! `thuban user`, `thuban token` and `thuban role`.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;

use super::{SERVICES, as_user};
use crate::harness::{Cluster, Ports, thuban};

/// What a command printed, with its status.
struct Done {
    code: i32,
    out: String,
    error: String,
}

impl Done {
    #[track_caller]
    fn expect(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.error);
        if code == 0 { self.out } else { self.error }
    }
}

async fn run(endpoint: &str, token: &str, arguments: &[&str], input: &str) -> Done {
    let mut command = thuban();
    command.env("THUBAN_ENDPOINT", endpoint).env("THUBAN_TOKEN", token).args(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // One that is refused before it reads has closed its end.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = child.wait_with_output().await.expect("it ends");
    let [out, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Done { code: output.status.code().expect("it was not killed"), out, error }
}

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

    call(&["user", "set", "ann", "--grant", "reader", "--disable"], "").await.expect(0);
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
    call(&["token", "delete", "ci"], "").await.expect(0);
    cluster.api(1).with_token(secret.trim()).get(SERVICES).await.expect_code(401_004);
    let roles = call(&["role", "list"], "").await.expect(0);
    assert!(roles.contains("releaser") && roles.contains("read release"), "{roles}");
    call(&["user", "delete", "ann"], "").await.expect(0);
    super::log_in(&cluster, 1, "ann", "third password").await.expect_code(401_001);

    // How it ends when it cannot be done.
    for (arguments, input, code, words) in [
        (&["user", "add", "bob", "--grant", "owner"][..], "", 2, "is no role"),
        (&["user", "add", "bob"], "", 2, "--password-file"),
        (&["user", "add", "bob", "--password-file", "-"], "short", 2, "8 to 128"),
        (&["user", "add", "admin", "--password-file", "-"], "long enough", 3, "400201"),
        (&["user", "set", "admin", "--no-grants"], "", 3, "403002"),
        (&["user", "set", "nobody", "--comment", "x"], "", 3, "400202"),
    ] {
        let told = call(arguments, input).await.expect(code);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    let nobody = format!("http://{}", Ports::reserve().api);
    run(&nobody, "token", &["user", "list"], "").await.expect(4);
}
