//! Webhooks on the command line: documents like all others, but for their secrets.

use std::time::Duration;

use serde_json::{Value, json};

use super::Desk;
use crate::harness::{Cluster, Receiver};

const TOLD_WITHIN: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_applied_shown_and_taken_away() {
    let desk = Desk::of(Cluster::start_with_data_key(1, &[]).await);
    let receiver = Receiver::start().await;
    let document = |events: Value| {
        let spec = json!({ "url": receiver.url, "allow_private": true, "events": events, "namespace": "shop" });
        json!({ "kind": "webhook", "name": "ops", "spec": spec }).to_string()
    };
    let made = desk.run(&["apply", "-f", "-"], &document(json!(["gray"]))).await.expect(0);
    let secret =
        made.lines().find_map(|line| line.strip_prefix("secret    webhook/ops: ")).unwrap_or_default().to_owned();
    assert_eq!(secret.len(), 32, "the secret that was drawn is told: {made}");
    let same = desk.run(&["apply", "-f", "-"], &document(json!(["gray"]))).await.expect(0);
    assert!(same.contains("0 to create, 0 to change, 1 the same already") && !same.contains("secret"), "{same}");
    let differs = desk.run(&["diff", "-f", "-"], &document(json!([]))).await;
    assert!(differs.code == 1 && differs.out.contains("change    webhook/ops"), "{}{}", differs.out, differs.error);
    desk.run(&["apply", "-f", "-"], &document(json!(["publish"]))).await.expect(0);

    desk.cluster.api(1).publish("shop", "app", "one.properties", "a=1").await;
    let told = receiver.wait_for(1, TOLD_WITHIN).await;
    assert_eq!((&told[0].body["event"], &told[0].body["webhook"]), (&json!("publish"), &json!("ops")));

    let listed = desk.line("get webhooks -o wide").await.expect(0);
    for words in ["ops", "shop", &receiver.url, "publish"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    let shown: Value = serde_json::from_str(&desk.line("get wh/ops -o json").await.expect(0)).expect("JSON");
    assert!(shown[0]["status"]["delivered"].is_u64() && shown[0]["spec"].get("delivered").is_none(), "{shown}");
    let exported = desk.line("export webhooks").await.expect(0);
    assert!(!exported.contains(&secret), "{exported}");
    desk.run(&["diff", "-f", "-"], &exported).await.expect(0);
    let all = desk.line("export -A").await.expect(0);
    assert!(all.contains("kind: configfile") && !all.contains("webhook"), "{all}");

    let given =
        document(json!(["publish"])).replace("\"events\"", "\"secret\":\"a-secret-of-the-receiver\",\"events\"");
    let given = given.replace("\"ops\"", "\"given\"");
    let made = desk.run(&["apply", "-f", "-"], &given).await.expect(0);
    assert!(made.contains("create    webhook/given") && !made.contains("a-secret-of"), "{made}");
    let placed = document(json!([])).replace("\"kind\"", "\"namespace\":\"shop\",\"kind\"");
    let refused = desk.run(&["apply", "-f", "-"], &placed).await.expect(2);
    assert!(refused.contains("spec.namespace"), "{refused}");
    desk.line("delete webhook/ops webhook/given --yes").await.expect(0);
    assert!(desk.line("get webhook/ops").await.expect(3).contains("there is no webhook/ops"));
}
