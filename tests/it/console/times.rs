//! Words for times, results and requested releases, and labels that clients have.

use serde_json::json;

use super::visit::Visit;
use crate::harness::{ADMIN_PASSWORD, Cluster};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_s_page_has_distances_for_times_and_offers_the_labels_of_clients() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    api.publish("default", "app", "application.properties", "a=1").await;
    for (address, zone) in [("10.2.0.1", "a"), ("10.2.0.2", "b"), ("10.2.0.3", "b")] {
        let path = format!("/configs/app/default/application?ip={address}&label=zone%3D{zone}");
        assert!(cluster.apollo(1).get(&path).await.text.contains("\"a\""));
    }
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let page = visit.page("/ui/config/file?namespace=default&group=app&name=application.properties").await;
    for part in [
        "<option value=\"zone\">3 clients</option>",
        "<option value=\"b\">zone · 2 clients</option>",
        "list=\"client-labels\"",
        ">just now</time>",
        " UTC\">",
    ] {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
    assert!(page.find("zone · 2 clients") < page.find("zone · 1 clients"), "the most frequent first");
    assert!(!page.contains("<time>"), "a time without its distance: {page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn results_and_requested_releases_are_words() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let policy = json!([{"name": "two", "namespace": "shop", "approvals": 1}]);
    api.post("/admin/v1/policies", &policy).await.expect_code(200_000);
    let rule = json!([{"id": "limit", "namespace": "shop", "name": "limit", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 7, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let steps = json!([{"percent": 5, "hold_s": 600}, {"percent": 100}]);
    let plan = json!({"by": "zone", "steps": steps, "guards": [{"kind": "refused", "max_percent": 2}]});
    let label = json!([{"key": "zone", "value": {"value": "a"}}]);
    let act = json!([{"rule_name": "limit", "namespace": "shop", "request": "slowly", "release_type": "gray",
        "release_name": "careful", "plan": plan, "client_labels": label}]);
    let asked = api.post("/naming/v1/ratelimits/releases", &act).await.expect_code(202_000);
    let id = asked.body["responses"][0]["request"]["id"].as_str().expect("an id");
    api.post("/naming/v1/ratelimits/releases", &json!([{"rule_name": "limit", "namespace": "shop"}]))
        .await
        .expect_code(409_001);

    let mut visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let page = visit.page(&format!("/ui/requests/{id}")).await;
    for part in [
        "<dt>Release</dt><dd>careful</dd>",
        "<dt>To clients with</dt><dd>zone=a</dd>",
        "<dd>5 % for 10 minutes, then for everyone (counted by zone)</dd>",
        "<dd>clients that refuse it are more than 2 %</dd>",
        "What is released is this:",
        "at most 7 per 1 s",
        "Compare as JSON",
    ] {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
    let (words, json) = page.split_once("Compare as JSON").expect("JSON behind the words");
    assert!(!words.contains("maxAmount") && json.contains("maxAmount"), "{page}");

    let trail = visit.page("/ui/audit?kind=ratelimit").await;
    for part in [
        "<span class=\"badge good\">done</span> <span class=\"kind\">200000</span>",
        "<span class=\"badge warn\">waits for approval</span> <span class=\"kind\">202000</span>",
        "<span class=\"badge fault\">needs approval</span> <span class=\"kind\">409001</span>",
    ] {
        assert!(trail.contains(part), "no {part:?} in {trail}");
    }
    let refused = visit.page("/ui/audit?kind=ratelimit&code=409001").await;
    assert!(refused.contains(">409001</span>") && !refused.contains(">200000</span>"), "{refused}");
    assert!(refused.contains("<option value=\"409001\" selected>"), "{refused}");
    visit.cookie.push_str("; thuban_language=zh");
    assert!(visit.page("/ui/audit?code=409001").await.contains(">需要审批</span>"));
    let rule = visit.page("/ui/rules/ratelimits/limit").await;
    for part in ["优先级，0 最高。", "W16：由被调服务实例旁的代理执行"] {
        assert!(rule.contains(part), "no {part:?} in {rule}");
    }
    assert!(!rule.contains("a gateway counts no limits"), "{rule}");
}
