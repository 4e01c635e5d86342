//! Identity providers on the command line: documents like all others, but for their secrets; their tests; people.

use serde_json::{Value, json};

use super::Desk;
use crate::harness::Cluster;

const SECRET: &str = "a-secret-of-the-provider";

fn document(comment: &str, secret: Option<&str>) -> String {
    let mut spec = json!({
        // Nobody listens there.
        "issuer": "http://127.0.0.1:1", "client_id": "thuban", "cli_client_id": "thuban-cli", "comment": comment,
        "scopes": "openid groups",
        "bindings": [{ "claim": "groups", "value": "payments", "role": "editor", "namespace": "shop" }],
    });
    if let Some(secret) = secret {
        spec["client_secret"] = json!(secret);
    }
    json!({ "kind": "provider", "name": "corp", "spec": spec }).to_string()
}

/// Returns whether the provider has a secret, and its revision.
async fn status(desk: &Desk) -> (bool, String) {
    let shown: Value = serde_json::from_str(&desk.line("get provider/corp -o json").await.expect(0)).expect("JSON");
    assert!(shown[0]["spec"].get("has_client_secret").is_none(), "{shown}");
    let status = &shown[0]["status"];
    (status["has_client_secret"] == true, status["revision"].as_str().expect("a revision").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn providers_are_applied_shown_and_taken_away() {
    let desk = Desk::of(Cluster::start_with_data_key(1, &[]).await);
    let made = desk.run(&["apply", "-f", "-"], &document("one", Some(SECRET))).await.expect(0);
    assert!(made.contains("create    provider/corp") && !made.contains(SECRET), "{made}");
    let first = status(&desk).await;
    assert!(first.0);
    for secret in [None, Some(SECRET)] {
        let same = desk.run(&["apply", "-f", "-"], &document("one", secret)).await.expect(0);
        assert!(same.contains("0 to create, 0 to change, 1 the same already"), "{same}");
        assert_eq!(same.contains("its client_secret is not shown"), secret.is_some(), "{same}");
    }
    assert_eq!(status(&desk).await, first);
    desk.run(&["apply", "-f", "-"], &document("two", None)).await.expect(0);
    let second = status(&desk).await;
    assert!(second.0 && second.1 != first.1, "the secret stays: {second:?}");
    let editor = "sed -i -e '$a\\  client_secret: another-secret'";
    let edited = desk.run(&["edit", "provider/corp", "--editor", editor], "").await.expect(0);
    assert!(edited.contains("its client_secret, which is not shown") && !edited.contains("another"), "{edited}");
    assert_ne!(status(&desk).await.1, second.1);

    let listed = desk.line("get providers -o wide").await.expect(0);
    for words in ["corp", "http://127.0.0.1:1", "thuban-cli", "openid groups"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    let exported = desk.line("export idp").await.expect(0);
    assert!(exported.contains("kind: provider") && !exported.contains("secret"), "{exported}");
    desk.run(&["diff", "-f", "-"], &exported).await.expect(0);
    let all = desk.line("export -A").await.expect(0);
    assert!(!all.contains("provider"), "{all}");
    let wrong = document("two", None).replace("\"claim\"", "\"claims\"");
    let refused = desk.run(&["apply", "-f", "-"], &wrong).await.expect(3);
    assert!(refused.contains("bindings[0].claims is not known"), "{refused}");

    let listed = desk.line("sso list").await.expect(0);
    assert!(listed.contains("corp") && listed.contains("thuban-cli"), "{listed}");
    let tried = desk.line("sso test corp").await;
    assert!(tried.code == 1 && tried.out.contains('✗'), "{}{}", tried.out, tried.error);
    let away = desk.line("login --sso corp").await.expect(4);
    assert!(away.contains("identity provider corp does not answer: cannot connect"), "{away}");
    let unknown = desk.line("login --sso lab").await.expect(3);
    assert!(unknown.contains("`thuban sso list` lists the providers"), "{unknown}");

    desk.line("delete provider/corp --yes").await.expect(0);
    assert!(desk.line("get provider/corp").await.expect(3).contains("there is no provider/corp"));
    let none = desk.line("login --sso").await.expect(2);
    assert!(none.contains("has no identity provider"), "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_listed_and_taken_away() {
    let desk = Desk::of(Cluster::start_with_data_key(1, &[]).await);
    desk.run(&["apply", "-f", "-"], &document("one", None)).await.expect(0);
    for line in ["get identities", "get identity", "identity list", "identities list"] {
        let listed = desk.line(line).await.expect(0);
        assert!(listed.starts_with("name") && listed.contains("last seen"), "{line}: {listed}");
    }
    assert!(desk.line("get identity/corp/1").await.expect(3).contains("there is no identity/corp/1"));
    let gone = desk.line("identity delete corp 1 --tokens").await.expect(0);
    assert!(gone.contains("identity corp/1: "), "{gone}");
    let applied = desk.run(&["apply", "-f", "-"], "kind: identity\nname: corp/1\n").await.expect(2);
    assert!(applied.contains("identities come of sign-ins"), "{applied}");
}
