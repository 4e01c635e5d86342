//! A rule and a config file from draft to all clients and back, by the command line.

use std::time::Duration;

use serde_json::{Value, json};

use super::Desk;
use crate::harness::in_future;

const LIMIT: &str = "kind: ratelimit\nnamespace: shop\nname: pay-limit\n\
    spec:\n  callee: {service: pay, namespace: shop}\n  rules:\n  - \
    apis: [{path: {type: EXACT, value: /charge}}]\n    arguments: [{type: HEADER, key: x, value: {value: '1'}}]\n    \
    amounts: [{maxAmount: 100, validDuration: 1s}]\n";

async fn explained(desk: &Desk, more: &str) -> String {
    let line = format!("explain ratelimit --service shop/pay --path /charge --header x=1 {more}");
    desk.line(&line).await.expect(0)
}

/// Differences that `diff -o json` prints, with this exit code.
async fn changes(desk: &Desk, what: &str, code: i32) -> Vec<Value> {
    let told = desk.line(&format!("diff {what} -o json")).await;
    assert_eq!(told.code, code, "{}{}", told.out, told.error);
    serde_json::from_str(&told.out).expect("an array")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_goes_to_some_then_to_all_then_back() {
    let desk = Desk::start(1).await;
    desk.run(&["apply", "-f", "-"], LIMIT).await.expect(0);
    let rule = "ratelimits/pay-limit -n shop";
    assert!(explained(&desk, "--draft").await.contains("yes  header x is 1"), "the condition and its verdict");
    assert!(!explained(&desk, "").await.contains("pay-limit"), "nothing is released");
    let differs = desk.line(&format!("diff {rule}")).await;
    assert!(differs.code == 1 && differs.out.contains("+ /rules"), "{}{}", differs.out, differs.error);
    let rows = changes(&desk, rule, 1).await;
    let is_new =
        |row: &Value| row["path"].as_str().is_some() && row.get("after").is_some() && row.get("before").is_none();
    assert!(rows.iter().any(|row| row["path"] == "/rules") && rows.iter().all(is_new), "{rows:?}");

    let told =
        desk.line(&format!("release {rule} --gray zone=a,b --percent 100 --by zone --name first --comment why")).await;
    assert!(told.expect(0).contains("version 1 (first) is a canary for zone=a,b, 100 % by zone"));
    assert!(explained(&desk, "--client-label zone=a").await.contains("(first v1)  applies"));
    let told = explained(&desk, "--client-label zone=c").await;
    for line in [
        "  shop/pay-limit (first v1)  not_matched: client label zone is c: does not meet IN a,b",
        "      no   client label zone is c: does not meet IN a,b",
        "      yes  client label zone is c, number 30 of 100: is in the first 100",
    ] {
        assert!(told.lines().any(|one| one == line), "no {line:?} in {told}");
    }
    let none = "no rule of this family applies: pay-limit v1 is a canary for ";
    assert!(told.starts_with(none) && !told.contains(")  applies"), "another client's limit: {told}");
    let wide = desk.line("get rl -n shop -o wide").await.expect(0);
    assert!(wide.contains("gray first"), "{wide}");
    let second = desk.line(&format!("release {rule}")).await.expect(3);
    assert!(second.contains("409000"), "{second}");
    desk.line(&format!("promote {rule} --name for-all")).await.expect(0);
    assert!(explained(&desk, "").await.contains("(for-all v2)"));
    desk.line(&format!("diff {rule}")).await.expect(0);
    assert_eq!(changes(&desk, rule, 0).await, Vec::<Value>::new());
    let none = desk.line(&format!("stop {rule}")).await.expect(3);
    assert!(none.contains("active gray release"), "{none}");

    desk.run(&["apply", "-f", "-", "--release"], &LIMIT.replace("100", "200")).await.expect(0);
    assert!(explained(&desk, "").await.contains("v3)"));
    let told = desk.line(&format!("rollback {rule}")).await.expect(0);
    assert!(
        told.contains("it is live; your draft is unchanged, `thuban draft reset ratelimit/pay-limit -n shop`"),
        "{told}"
    );
    let in_force: Value = serde_json::from_str(&explained(&desk, "-o json").await).expect("JSON");
    assert_eq!(in_force["candidates"][0]["release"]["release_name"], "for-all", "{in_force}");
    let told = desk.line(&format!("rollback {rule} --to for-all")).await.expect(0);
    assert!(told.contains("for-all"), "{told}");
    let history = desk.line(&format!("history {rule}")).await.expect(0);
    for word in ["gray", "promote", "publish", "rollback", "why"] {
        assert!(history.contains(word), "no {word} in {history}");
    }
    let at = in_future(Duration::from_secs(30 * 86_400));
    let later = desk.line(&format!("release {rule} --at {at}")).await.expect(0);
    let told = format!("is scheduled for everyone at {} UTC", at.replace('T', " ").trim_end_matches('Z'));
    assert!(later.contains(&told), "{later}");
    desk.line(&format!("withdraw {rule}")).await.expect(0);
    assert!(!explained(&desk, "").await.contains("pay-limit"));

    for (line, words) in [
        ("release services/pay", "rules and of config files"),
        ("release ratelimits", "give its name"),
        ("release rl/a --gray zone", "is no label"),
        ("release rl/a --percent 0", "percent"),
        ("explain services --service a", "rules are explained"),
        ("release configfile/a", "says no group"),
    ] {
        let told = desk.line(line).await.expect(2);
        assert!(told.contains(words), "{line}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_file_is_published_and_who_has_it_is_told() {
    let desk = Desk::start(1).await;
    let file = "configfile/app/one.properties";
    let document = |value: &str| {
        json!({ "kind": "configfile", "name": "app/one.properties", "spec": { "content": format!("a={value}\n") } })
            .to_string()
    };
    desk.run(&["apply", "-f", "-"], &document("1")).await.expect(0);
    desk.line(&format!("release {file} --name one")).await.expect(0);
    let apollo = desk.cluster.apollo(1);
    let pulled = apollo.config("app", "default", "one.properties").await;
    assert_eq!(pulled["configurations"]["a"], "1", "{pulled}");
    let who = desk.line(&format!("who {file}")).await.expect(0);
    assert!(
        who.contains("one") && who.contains("1 of 1 clients are up to date with configfile/app/one.properties in"),
        "{who}"
    );
    let who: Value = serde_json::from_str(&desk.line(&format!("who {file} -o json")).await.expect(0)).expect("JSON");
    assert_eq!((&who["amount"], &who["current"]), (&json!(1), &json!(1)));

    desk.run(&["apply", "-f", "-"], &document("2")).await.expect(0);
    let differs = desk.line(&format!("diff {file}")).await;
    assert!(differs.code == 1 && differs.out.contains("- a: \"1\"\n+ a: \"2\""), "{}", differs.out);
    assert_eq!(changes(&desk, file, 1).await, [json!({ "path": "a", "before": "1", "after": "2" })]);
    desk.line("diff -f nowhere -o json").await.expect(2);
    desk.line(&format!("release {file} --percent 100")).await.expect(0);
    desk.line(&format!("stop {file}")).await.expect(0);
    desk.line(&format!("release {file} --name two")).await.expect(0);
    assert!(desk.line("get cf -o wide").await.expect(0).contains("normal"));
    desk.line(&format!("rollback {file}")).await.expect(0);
    let pulled = apollo.config("app", "default", "one.properties").await;
    assert_eq!(pulled["configurations"]["a"], "1", "{pulled}");
    desk.line(&format!("withdraw {file} --to-previous")).await.expect(0);
    let pulled = apollo.config("app", "default", "one.properties").await;
    assert_eq!(pulled["configurations"]["a"], "2", "{pulled}");
    desk.line(&format!("withdraw {file}")).await.expect(0);
    let broken = json!({ "kind": "configfile", "name": "app/x.json", "spec": { "content": "{" } }).to_string();
    desk.run(&["apply", "-f", "-"], &broken).await.expect(0);
    let refused = desk.line("release configfile/app/x.json").await.expect(3);
    assert!(refused.contains("400813"), "{refused}");
    desk.line("release configfile/app/x.json --force").await.expect(0);

    let audit = desk.line("audit --kind configfile --limit 3").await.expect(0);
    assert_eq!(audit.lines().count(), 4, "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn access_keys_are_made_and_retired() {
    let cluster = crate::harness::Cluster::start_with_data_key(1, &[]).await;
    let endpoint = format!("http://{}", cluster.ports(1).api);
    let call = |line: &'static str, input: &'static str| {
        let words: Vec<_> = line.split(' ').collect();
        let (endpoint, token) = (endpoint.clone(), cluster.token().to_owned());
        async move { crate::harness::run(&endpoint, &token, &words, input).await }
    };
    let secret = call("key create shop first-key --mode observe --comment first", "").await.expect(0);
    let listed = call("key list", "").await.expect(0);
    assert!(listed.contains("observe") && listed.contains("first") && !listed.contains(secret.trim()), "{listed}");
    let given = call("key create shop given --secret-file -", "a secret of sixteen characters-at-least\n").await;
    assert_eq!(given.code, 3, "a secret has no blanks: {}", given.out);
    let given = call("key create shop given --secret-file -", "a-secret-of-sixteen-characters\n").await.expect(0);
    assert_eq!(given, "a-secret-of-sixteen-characters\n");
    call("key set shop first-key --mode enforce", "").await.expect(0);
    assert!(call("key list -o json", "").await.expect(0).contains("\"enforce\""));
    call("key delete shop first-key", "").await.expect(0);
    assert!(!call("key list", "").await.expect(0).contains("first-key"));
}
