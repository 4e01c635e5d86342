//! Contexts, several addresses, and exit codes of commands without an answer.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use super::{Desk, path_text};
use crate::harness::{ADMIN_PASSWORD, Done, Ports, binary, run, thuban};

/// A command with these contexts, and with nothing else to know a cluster by.
async fn bare(contexts: &std::path::Path, arguments: &str) -> Done {
    let mut command = thuban();
    command.env("THUBAN_CONTEXTS_FILE", contexts).args(arguments.split_whitespace());
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().await.expect("it runs");
    let [out, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Done { code: output.status.code().expect("it was not killed"), out, error }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_holds_where_and_who() {
    let desk = Desk::start(1).await;
    let contexts = desk.cluster.file("config/contexts.json");
    let none = bare(&contexts, "get services").await.expect(2);
    assert!(none.contains("thuban login --save"), "{none}");
    let password = desk.write("password", ADMIN_PASSWORD);

    let set = format!("context set desk --server {} --namespace shop", desk.endpoints);
    bare(&contexts, &set).await.expect(0);
    let told = bare(&contexts, &format!("login --save --password-file {}", path_text(&password))).await.expect(0);
    assert!(told.contains("kept in the context desk"), "{told}");
    let mode = std::fs::metadata(&contexts).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    desk.run(&["apply", "-f", "-"], "kind: service\nnamespace: shop\nname: mine\n").await.expect(0);
    assert_eq!(bare(&contexts, "get services -o name").await.expect(0), "service/mine\n");

    // The token is for the servers of its context, and for no other.
    let elsewhere = bare(&contexts, "get services --endpoint http://127.0.0.1:1").await.expect(2);
    assert!(elsewhere.contains("no token") && elsewhere.contains("to its own alone"), "{elsewhere}");
    bare(&contexts, "context set other --server http://127.0.0.1:1").await.expect(0);
    let listed = bare(&contexts, "context list").await.expect(0);
    assert!(listed.contains("*  desk") && listed.contains("other"), "{listed}");
    assert!(!listed.contains(desk.cluster.token()), "a list shows no token");
    bare(&contexts, "get services --context other").await.expect(2);
    bare(&contexts, "context use other").await.expect(0);
    bare(&contexts, "get services").await.expect(2);
    bare(&contexts, "get services --context desk").await.expect(0);
    let unknown = bare(&contexts, "get services --context nobody").await.expect(2);
    assert!(unknown.contains("there are desk, other"), "{unknown}");
    bare(&contexts, "context delete desk").await.expect(0);
    bare(&contexts, "get services --context desk").await.expect(2);

    std::fs::set_permissions(&contexts, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let open = bare(&contexts, "context list").await.expect(2);
    assert!(open.contains("chmod 600"), "{open}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_node_is_asked_where_one_does_not_answer() {
    let mut desk = Desk::start(3).await;
    desk.run(&["apply", "-f", "-"], "kind: service\nname: s\n").await.expect(0);
    // The token of a context goes to each of its servers, also if only some are named.
    let contexts = desk.cluster.file("config/contexts.json");
    bare(&contexts, &format!("context set three --server {}", desk.endpoints)).await.expect(0);
    let password = desk.write("password", ADMIN_PASSWORD);
    bare(&contexts, &format!("login --save --password-file {}", path_text(&password))).await.expect(0);
    let second = format!("get services -o name --endpoint http://{}/", desk.cluster.ports(2).api);
    assert_eq!(bare(&contexts, &second).await.expect(0), "service/s\n");

    desk.cluster.kill(1).await;
    desk.cluster.leader().await;
    let listed = desk.line("get services -o name").await.expect(0);
    assert_eq!(listed, "service/s\n");
    desk.run(&["apply", "-f", "-"], "kind: service\nname: t\n").await.expect(0);

    let nobody = format!("http://{}", Ports::reserve().api);
    for line in ["get services", "apply -f -", "release rl/a", "who rl/a", "audit", "cluster status"] {
        let words: Vec<_> = line.split(' ').collect();
        let told = run(&nobody, "token", &words, "kind: service\nname: s\n").await.expect(4);
        assert!(told.contains(&nobody) && told.contains("is the node running"), "{line}: {told}");
    }
    let wrong =
        run(&format!("http://{}", desk.cluster.ports(2).api), "wrong", &["get", "services"], "").await.expect(3);
    assert!(wrong.contains("401004") && wrong.contains("thuban login"), "{wrong}");

    // What a node without a majority answers says more than that the others do not answer.
    desk.cluster.kill(3).await;
    let told = desk.line("get services").await.expect(4);
    assert!(told.contains("(503") && !told.contains("no answer from"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_is_the_choice_of_who_reads() {
    let mut command = tokio::process::Command::new("bash");
    let line = format!("set -o pipefail; {} man | head -1", binary());
    let output = command.args(["-c", &line]).output().await.expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{error}");
}
