//! The page that explains a request: what clients see, what is saved, and what only some clients see.

use serde_json::json;

use super::visit::Visit;
use crate::harness::{ADMIN_PASSWORD, Cluster};

#[tokio::test(flavor = "multi_thread")]
async fn a_gray_release_is_told_of_to_who_asks_for_a_client_that_does_not_see_it() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let rule = json!([{"namespace": "shop", "name": "limit", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let mut visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let path = "/ui/rules/ratelimits/explain?namespace=shop&service=pay";
    let none = visit.page(path).await;
    assert!(!none.contains("Gray releases") && !none.contains("card gray"), "there is none yet: {none}");
    assert!(none.contains("no rule of this family applies: none is for shop/pay"), "as released: {none}");
    assert!(none.contains("every call → limit 1 per 1 s, shared by all callers (limit, draft)"), "as saved: {none}");
    assert!(none.contains("Enforced by: Envoy sidecar"), "{none}");

    let labels = json!([{"key": "zone", "value": {"type": "IN", "value": "a,<b>"}}]);
    let gray = json!([{"rule_name": "limit", "release_name": "some", "release_type": "gray", "client_labels": labels,
        "client_percent": {"by": "zone", "percent": 60}}]);
    api.post("/naming/v1/ratelimits/releases", &gray).await.expect_code(200_000);
    // Number 30 of 100 is c, and number 50 is a.
    let (outside, inside) = ("&client_labels=zone%3Dc", "&client_labels=zone%3Da");
    for (labels, badge, words) in [
        ("", "not matched", &["the client has no label zone"][..]),
        (
            outside,
            "not matched",
            &["client label zone is c: does not meet IN a,", "number 30 of 100: is in the first 60"],
        ),
        (inside, "In force", &["the client sees it", "client label zone is a: meets IN a,"]),
    ] {
        let page = visit.page(&format!("{path}{labels}")).await;
        let (_, grays) = page.split_once("Gray releases: what only some clients see").expect("a heading");
        assert_eq!(page.matches("card gray").count(), 1, "what is saved is for nobody yet: {page}");
        assert!(grays.contains(&format!("\">{badge}</span>")) && grays.contains("some v1"), "{labels}: {grays}");
        for words in words {
            assert!(grays.contains(words), "{labels}: no {words:?} in {grays}");
        }
        assert!(!page.contains("<b>"), "text is shown as text");
    }
    visit.cookie.push_str("; thuban_language=zh");
    let page = visit.page(path).await;
    assert!(page.contains("所有调用 → 限制为每 1 秒 1 次，所有调用方共用（limit、草稿）"), "{page}");
    assert!(page.contains("灰度发布：仅部分客户端可见") && page.contains("\">不匹配</span>"), "{page}");
}
