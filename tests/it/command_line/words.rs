//! Words of the command line: help, names of kinds, errors, tables.

use std::process::Stdio;

use super::Desk;
use crate::harness::{Done, thuban};

/// A command without a cluster.
async fn bare(arguments: &str) -> Done {
    let mut command = thuban();
    let output = command.args(arguments.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.await.expect("it runs");
    let [out, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Done { code: output.status.code().expect("it was not killed"), out, error }
}

#[tokio::test(flavor = "multi_thread")]
async fn help_has_groups_examples_and_the_connection_last() {
    let first = bare("--help").await.expect(0);
    let lines: Vec<&str> = first.lines().collect();
    let at = |line: &str| lines.iter().position(|one| *one == line).unwrap_or_else(|| panic!("no {line} in {first}"));
    assert!(at("Start:") < at("Change:") && at("Change:") < at("Release:") && at("Release:") < at("Cluster:"));
    assert!(lines.iter().any(|line| line.starts_with("  rollback ")), "{first}");

    let release = bare("release --help").await.expect(0);
    let (options, rest) = release.split_once("\nConnection:\n").expect("options of the connection");
    assert!(options.contains("--percent") && !options.contains("--endpoint"), "{options}");
    let (connection, examples) = rest.split_once("\nExamples:\n").expect("examples");
    assert!(connection.contains("--endpoint") && connection.contains("--token"), "{connection}");
    assert_eq!(examples.lines().filter(|line| line.starts_with("  thuban release ")).count(), 2, "{examples}");

    let page = bare("man").await.expect(0);
    assert!(page.contains(".SH SUBCOMMANDS") && page.contains("thuban\\-release(1)"), "{page}");
    let script = bare("completion bash").await.expect(0);
    assert!(script.contains("rollback") && !script.contains("Examples"), "a script has options alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_named_in_singular_and_plural() {
    let desk = Desk::start(1).await;
    desk.run(&["apply", "-f", "-"], "kind: services\nname: pay\nspec: { comment: 支付 }\n").await.expect(0);
    for line in ["get service", "get services", "get svc pay", "get service/pay", "get services/pay"] {
        assert!(desk.line(line).await.expect(0).contains("pay"), "{line}");
    }
    for line in ["audit --kind service", "audit --kind services", "audit --kind svc"] {
        assert!(desk.line(line).await.expect(0).contains("pay"), "{line}");
    }
    for line in ["audit --kind users", "audit --kind user"] {
        assert!(desk.line(line).await.expect(0).contains("admin"), "{line}");
    }
    desk.line("policy set one --kind ratelimits --kind cf").await.expect(0);
    let listed = desk.line("policies list").await.expect(0);
    assert!(listed.contains("ratelimit configfile"), "{listed}");
    desk.line("contract create two --kind configfiles --rule true").await.expect(0);
    for line in ["contracts list", "users list", "tokens list", "roles list", "keys list", "requests", "request"] {
        desk.line(line).await.expect(0);
    }
    // Two columns for each character of the East.
    let table = desk.line("get services -o wide").await.expect(0);
    let comment = "comment".len() - 4 + 2;
    assert!(table.contains(&format!("支付{}- ", " ".repeat(comment))), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_object_and_the_namespace_and_end_with_the_code() {
    let desk = Desk::start(1).await;
    desk.run(&["apply", "-f", "-"], "kind: configfile\nname: app/a.properties\nspec: { content: 'a=1' }\n")
        .await
        .expect(0);
    for (line, words) in [
        ("get ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("release ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("who ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("diff ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("history ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("rollback ratelimit/pay -n shop --to v1", "there is no ratelimit/pay in shop"),
        ("rollback ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("promote ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("stop ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("withdraw ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("wait ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("rollout status ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("rollout pause ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("edit ratelimit/pay -n shop", "there is no ratelimit/pay in shop"),
        ("get ratelimit/pay -A", "there is no ratelimit/pay in any namespace"),
        (
            "get configfile/app/b.properties",
            "there is no configfile/app/b.properties in default: is it configfile/app/a.",
        ),
        ("history configfile/app/b.properties", "there is no configfile/app/b.properties in default"),
        ("diff configfile/app/a.properties --from v9", "there is no release v9 of configfile/app/a.properties in"),
        (
            "who configfile/app/a.properties -n shop",
            "there is no configfile/app/a.properties in shop: there is one in default, -n default selects it",
        ),
        (
            "release configfile/app/a.properties -n shop",
            "there is no configfile/app/a.properties in shop: there is one in default, -n default selects it",
        ),
        (
            "rollback configfile/app/a.properties -n shop",
            "there is no configfile/app/a.properties in shop: there is one in default, -n default selects it",
        ),
        ("rollback configfile/app/a.properties", "there is no earlier release of configfile/app/a.properties in"),
        ("diff configfile/app/a.properties -n shop", "there is no configfile/app/a.properties in shop"),
        (
            "rollback configfile/app/a.properties --to v1",
            "there is no release v1 of configfile/app/a.properties in default",
        ),
        (
            "draft reset configfile/app/a.properties",
            "there is no live release of configfile/app/a.properties in default",
        ),
        (
            "drain instance 10.0.0.1:80 --service pay -n shop --wait 1s",
            "no instance 10.0.0.1:80 of service/pay in shop",
        ),
        ("approve 0123", "there is no request 0123"),
        ("refuse 0123", "there is no request/0123"),
        ("user set nobody --disable", "there is no user/nobody"),
        ("token update nobody --disable", "there is no token/nobody"),
        ("contract update none --mode warn", "there is no contract/none"),
    ] {
        let told = desk.line(line).await;
        let told = if line.starts_with("drain") { told.expect(1) } else { told.expect(3) };
        assert!(told.contains(words) && told.trim_end().ends_with("(400202)"), "{line}: {told}");
    }
    let told = desk.line("explain ratelimit --service pya -n shop").await.expect(0);
    assert!(told.ends_with("warning   service/pya in shop is not registered\n"), "{told}");
    let endpoint = &desk.endpoints;
    let ended = crate::harness::run(endpoint, "nonsense", &["get", "services"], "").await.expect(3);
    assert!(ended.starts_with("thuban: the token is unknown, expired or revoked: log in"), "{ended}");
    assert!(ended.trim_end().ends_with("(401004)"), "{ended}");

    // The draft is saved, the malformed one is not published.
    let broken = "kind: configfile\nname: app/x.json\nspec: { content: '{' }\n";
    let told = desk.run(&["apply", "-f", "-", "--release"], broken).await;
    assert_eq!(told.code, 3, "{}{}", told.out, told.error);
    assert!(told.error.contains("1 of 2 were refused, the other one is done (400000)"), "{}", told.error);
    let told = desk.run(&["apply", "-f", "-", "--release"], broken).await;
    assert!(told.error.contains("it was refused, nothing was changed (400000)"), "{}", told.error);
}
