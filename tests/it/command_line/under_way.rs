//! Releases that are half-way out, and commands that wait for them: `rollout list`, `wait`, `draft reset`,
//! `who --client`, and approvals in a freeze.

use serde_json::{Value, json};

use super::Desk;
use crate::harness::{ADMIN_PASSWORD, Done, run};

const FILE: &str = "configfile/app/one.properties";

fn document(value: &str) -> String {
    json!({ "kind": "configfile", "name": "app/one.properties", "spec": { "content": format!("a={value}\n") } })
        .to_string()
}

const LIMIT: &str = "kind: ratelimit\nnamespace: shop\nname: pay-limit\n\
    spec:\n  callee: {service: pay, namespace: shop}\n  rules:\n  - \
    apis: [{path: {type: EXACT, value: /charge}}]\n    amounts: [{maxAmount: 100, validDuration: 1s}]\n";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_half_way_out_is_listed() {
    let desk = Desk::start(1).await;
    assert_eq!(desk.line("rollout list").await.expect(0), "nothing is half-way out\n");
    desk.run(&["apply", "-f", "-"], &document("1")).await.expect(0);
    desk.run(&["apply", "-f", "-", "--release"], LIMIT).await.expect(0);
    desk.line(&format!("release {FILE} --gray zone=a --name some")).await.expect(0);
    desk.line("release ratelimit/pay-limit -n shop --plan 5%:30m,100% --no-guards --name steps").await.expect(0);
    let told = desk.line("rollout list").await.expect(0);
    let row = |word: &str| told.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("{word}: {told}"));
    let canary = row("one.properties");
    assert!(canary.contains(" some ") && canary.contains(" canary ") && canary.contains("zone=a"), "{canary}");
    let rollout = row("pay-limit");
    assert!(rollout.contains(" steps ") && rollout.contains("  running  "), "{rollout}");
    let (_, detail) = rollout.rsplit_once("  ").expect("columns");
    assert!(detail.starts_with("5 %, step 1 of 2, running, next step at"), "the sentence is the last column: {told}");
    assert!(told.lines().next().is_some_and(|heads| heads.ends_with("  detail")), "{told}");
    assert_eq!(told.lines().count(), 3, "{told}");
    let shop = desk.line("rollouts list -n shop -o json").await.expect(0);
    let shop: Value = serde_json::from_str(&shop).expect("JSON");
    assert_eq!((shop.as_array().map(Vec::len), &shop[0]["rollout"]["state"]), (Some(1), &json!("running")), "{shop}");
    desk.line(&format!("promote {FILE}")).await.expect(0);
    for (action, words) in [
        ("pause", "the rollout is paused: steps, version 2, 5 %, step 1 of 2, paused; for 5 % by CLIENT_IP"),
        ("resume", "the rollout goes on: steps, version 2, 5 %, step 1 of 2, running, next step at "),
        ("stop", "the rollout is stopped, clients of steps, version 2 get the normal release again"),
    ] {
        let told = desk.line(&format!("rollout {action} ratelimit/pay-limit -n shop")).await.expect(0);
        assert!(told.contains(&format!("ratelimit/pay-limit in shop: {words}")), "{told}");
    }
    assert_eq!(desk.line("rollout list").await.expect(0), "nothing is half-way out\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_it_is_live_too_late_or_lost() {
    let desk = Desk::start(1).await;
    let apollo = desk.cluster.apollo(1);
    let none = desk.line(&format!("wait {FILE}")).await.expect(3);
    assert!(none.contains("there is no configfile/app/one.properties in default"), "{none}");
    desk.run(&["apply", "-f", "-"], &document("1")).await.expect(0);
    let none = desk.line(&format!("wait {FILE}")).await.expect(3);
    assert!(none.contains("there is no release of configfile/app/one.properties in default"), "{none}");

    // The command is there before the release.
    let line = format!("wait {FILE} --release one --timeout 60s");
    let (waits, _) = tokio::join!(desk.line(&line), async {
        desk.line(&format!("release {FILE} --name one")).await.expect(0);
    });
    assert!(waits.expect(0).ends_with(&format!("{FILE} in default: one is live\n")));

    let late = desk.line(&format!("wait {FILE} --clients 50% --timeout 1s")).await.expect(7);
    assert!(late.contains("one has no clients"), "{late}");
    apollo.config("app", "default", "one.properties").await;
    let told = desk.line(&format!("wait {FILE} --clients 100% --timeout 60s")).await.expect(0);
    assert!(told.contains("1 of 1 clients have one"), "{told}");

    desk.run(&["apply", "-f", "-"], &document("2")).await.expect(0);
    desk.line(&format!("release {FILE} --name two")).await.expect(0);
    let late = desk.line(&format!("wait {FILE} --release two --clients 50% --timeout 1s")).await.expect(7);
    assert!(late.contains("0 of 1 clients have two"), "{late}");
    let lost = desk.line(&format!("wait {FILE} --release one")).await.expect(8);
    assert!(lost.contains("one is not live any more"), "{lost}");
    desk.line(&format!("rollback {FILE}")).await.expect(0);
    let lost = desk.line(&format!("wait {FILE} --release two --clients 50%")).await.expect(8);
    assert!(lost.contains("two is not live any more"), "{lost}");

    // A client that refuses it counts against it, and the share cannot be reached.
    let pulled = apollo.config("app", "default", "one.properties").await;
    let key = &pulled["releaseKey"];
    apollo.say_applied(("app", "one.properties"), "127.0.0.1", key, Some("no such port")).await;
    let lost = desk.line(&format!("wait {FILE} --clients 50%")).await.expect(8);
    assert!(lost.contains("1 refused it: no such port"), "{lost}");

    // A rollout is waited for until it is with all, or stopped.
    desk.run(&["apply", "-f", "-"], &document("3")).await.expect(0);
    desk.line(&format!("release {FILE} --plan 5%:30m,100% --no-guards --name steps")).await.expect(0);
    let late = desk.line(&format!("wait {FILE} --timeout 1s")).await.expect(7);
    assert!(late.contains("steps 5 %, step 1 of 2, running"), "{late}");
    let told = desk.line(&format!("rollout advance {FILE}")).await.expect(0);
    assert!(told.contains(&format!("{FILE} in default: promoted, all clients get ")), "{told}");
    desk.line(&format!("wait {FILE} --release steps --timeout 60s")).await.expect(0);
    desk.run(&["apply", "-f", "-"], &document("4")).await.expect(0);
    desk.line(&format!("release {FILE} --plan 5%:30m,100% --no-guards --name again")).await.expect(0);
    desk.line(&format!("rollout stop {FILE} --comment errors")).await.expect(0);
    let lost = desk.line(&format!("wait {FILE} --release again")).await.expect(8);
    assert!(lost.contains("the rollout of again was stopped"), "{lost}");
    for line in
        ["wait", "wait services/pay", &format!("wait {FILE} --clients 0%"), &format!("wait {FILE} --timeout 1y")]
    {
        desk.line(line).await.expect(2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_is_made_what_is_live() {
    let desk = Desk::start(1).await;
    desk.run(&["apply", "-f", "-", "--release"], &[&document("1"), LIMIT].join("\n---\n")).await.expect(0);
    let changed = [document("2"), LIMIT.replace("100", "200")].join("\n---\n");
    desk.run(&["apply", "-f", "-"], &changed).await.expect(0);
    for (what, before, after) in
        [(format!("{FILE} -n default"), "a=2", "a=1"), ("ratelimit/pay-limit -n shop".to_owned(), "200", "100")]
    {
        assert_eq!(desk.line(&format!("diff {what}")).await.code, 1, "{what}");
        let dry = desk.line(&format!("draft reset {what} --dry-run")).await;
        assert!(dry.code == 1 && dry.out.contains(before) && dry.out.contains(after), "{}{}", dry.out, dry.error);
        assert_eq!(desk.line(&format!("diff {what}")).await.code, 1, "a dry run changes nothing");
        let told = desk.line(&format!("draft reset {what}")).await.expect(0);
        assert!(told.contains(after) && told.contains("the draft equals release"), "{told}");
        desk.line(&format!("diff {what}")).await.expect(0);
        let again = desk.line(&format!("draft reset {what}")).await.expect(0);
        assert!(again.contains("already"), "{again}");
    }
    // To another release: after a rollback the draft is as it was.
    desk.run(&["apply", "-f", "-", "--release"], &changed).await.expect(0);
    for what in [format!("{FILE} -n default"), "ratelimit/pay-limit -n shop".to_owned()] {
        let told = desk.line(&format!("rollback {what}")).await.expect(0);
        let (_, hint) = told.split_once('`').expect("a hint");
        let (hint, _) = hint.split_once('`').expect("a hint");
        desk.line(hint.strip_prefix("thuban ").expect("a command")).await.expect(0);
        desk.line(&format!("diff {what}")).await.expect(0);
        let rows = desk.line(&format!("history {what} -o json")).await.expect(0);
        let rows: Value = serde_json::from_str(&rows).expect("JSON");
        let newest = rows.as_array().expect("rows").iter().find(|row| row["version"] == 2).expect("the second");
        let name = newest["release_name"].as_str().expect("a name");
        desk.line(&format!("draft reset {what} --to {name}")).await.expect(0);
        assert_eq!(desk.line(&format!("diff {what}")).await.code, 1, "{what}");
        desk.line(&format!("draft reset {what} --to none")).await.expect(3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_one_client_has_is_shown() {
    let desk = Desk::start(3).await;
    let two = "kind: configfile\nname: app/two.properties\nspec: { content: 'b=1' }\n";
    let service = "kind: service\nnamespace: shop\nname: pay\n";
    let all = [&document("1"), two, service, LIMIT].join("\n---\n");
    desk.run(&["apply", "-f", "-", "--release"], &all).await.expect(0);
    desk.cluster.expect_equal_state().await;
    // Its config comes from one node, its rules from another.
    desk.cluster.apollo(2).config_for("app", "one.properties", "ip=10.7.0.1").await;
    desk.cluster.apollo(2).config_for("app", "two.properties", "ip=10.7.0.2").await;
    let question = json!({ "type": "RATE_LIMIT", "service": { "namespace": "shop", "name": "pay" },
        "filter": { "caller": { "labels": { "CLIENT_IP": "10.7.0.1" } } } });
    desk.cluster.api(3).post("/v1/Discover", &question).await.expect_code(200_000);
    let told = desk.line("who --client 10.7.0.1").await.expect(0);
    assert!(told.contains("app/one.properties") && told.contains("pay-limit"), "{told}");
    assert!(!told.contains("two.properties") && told.ends_with("2 of 2 are up to date\n"), "{told}");

    desk.run(&["apply", "-f", "-", "--release"], &document("2")).await.expect(0);
    desk.cluster.expect_equal_state().await;
    let told = desk.line("who --client 10.7.0.1").await.expect(0);
    assert!(told.ends_with("1 of 2 are up to date\n"), "{told}");
    let shop = desk.line("who --client 10.7.0.1 -n shop -o json").await.expect(0);
    let shop: Value = serde_json::from_str(&shop).expect("JSON");
    let row = &shop["data"][0];
    assert_eq!((&row["kind"], &row["name"], &row["current"]), (&json!("ratelimit"), &json!("pay-limit"), &json!(true)));
    assert_eq!(shop["data"].as_array().map(Vec::len), Some(1), "{shop}");
    assert!(desk.line("who --client 10.7.0.9").await.expect(0).contains("no client at 10.7.0.9 is known"));
    desk.line("who --client 10.7.0.1 ratelimit/pay-limit").await.expect(2);
    desk.line("who").await.expect(2);

    // A reader of one namespace sees what is in it.
    desk.run(&["user", "add", "ann", "--grant", "reader,shop", "--password-file", "-"], "a password of ann\n")
        .await
        .expect(0);
    let login = ["login", "--name", "ann", "--password-file", "-"];
    let token = run(&desk.endpoints, "", &login, "a password of ann\n").await.expect(0);
    let told = run(&desk.endpoints, token.trim(), &["who", "--client", "10.7.0.1"], "").await.expect(0);
    assert!(told.contains("pay-limit") && !told.contains("one.properties"), "{told}");
}

/// The last approval comes in a freeze: nothing is done, and the answer says for what it waits and until when.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_in_a_freeze_says_what_it_waits_for() {
    let desk = Desk::start(1).await;
    let as_user = async |name: &str, line: &str| -> Done {
        let password = if name == "admin" { ADMIN_PASSWORD.to_owned() } else { format!("password of {name}") };
        let login = ["login", "--name", name, "--password-file", "-"];
        let token = run(&desk.endpoints, "", &login, &password).await.expect(0);
        run(&desk.endpoints, token.trim(), &line.split_whitespace().collect::<Vec<_>>(), "").await
    };
    for (name, roles) in [("rita", &["releaser,default", "editor,default"][..]), ("abe", &["approver,default"][..])] {
        let mut words = vec!["user", "add", name, "--password-file", "-"];
        words.extend(roles.iter().flat_map(|role| ["--grant", role]));
        desk.run(&words, &format!("password of {name}")).await.expect(0);
    }
    desk.run(&["apply", "-f", "-"], &document("1")).await.expect(0);
    let freeze = r#"[{"from":"2020-01-01T00:00:00Z","until":"2099-01-01T00:00:00Z"}]"#;
    let policy = ["policy", "set", "ice", "--for-namespace", "default", "--approvals", "1", "--freezes", freeze];
    desk.run(&policy, "").await.expect(0);
    let asked = as_user("rita", &format!("release {FILE} --name v1 --request why")).await.expect(0);
    assert!(asked.contains("approval is asked for, nothing changes before others run: thuban approve "), "{asked}");
    let id = asked.trim_end().rsplit(' ').next().expect("an id").to_owned();
    let listed = desk.line("requests").await.expect(0);
    assert!(listed.contains("0 of 1"), "{listed}");
    let half = desk.line("rollout list").await.expect(0);
    assert!(half.contains("publish: ") && half.contains(" v1 "), "{half}");

    let told = as_user("abe", &format!("approve {id}")).await.expect(0);
    let waits = "approved 1 of 1; nothing is changed yet; it waits for the freeze of ice, which ends at \
                 2099-01-01T00:00:00Z";
    assert!(told.contains(waits), "{told}");
    let half = desk.line("rollout list").await.expect(0);
    assert!(half.contains(&format!("publish: {waits}")) && half.contains("  approved  "), "{half}");
    let listed = desk.line("policy list").await.expect(0);
    assert!(listed.contains("now, until 2099-01-01 00:00"), "{listed}");
    let late = desk.line(&format!("wait {FILE} --release v1 --timeout 1s")).await.expect(7);
    assert!(late.contains(&format!("the request for v1: {waits}")), "{late}");
    let frozen = as_user("rita", &format!("requests --run {id}")).await.expect(3);
    assert!(frozen.contains("frozen by ice until 2099-01-01T00:00:00Z"), "{frozen}");
    let step = format!("once that time has come, `thuban requests --run {id}` carries it out (409002)");
    assert!(frozen.trim_end().ends_with(&step), "{frozen}");

    desk.run(&["policy", "set", "ice", "--freezes", "[]"], "").await.expect(0);
    let done = as_user("rita", &format!("requests --run {id}")).await.expect(0);
    assert!(done.contains("publish of configfile default/app/one.properties"), "{done}");
    desk.line(&format!("wait {FILE} --release v1")).await.expect(0);
}
