//! The page that explains a request: what clients see, what is saved, and what only some clients see.

use reqwest::StatusCode;
use serde_json::json;

use super::visit::{Visit, place};
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

#[tokio::test(flavor = "multi_thread")]
async fn one_page_explains_all_families_for_every_client_and_as_saved() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let limit = |amount: u32| {
        json!([{"namespace": "shop", "name": "limit", "enable": true, "service": "pay",
            "rules": [{"amounts": [{"maxAmount": amount, "validDuration": "1s"}]}]}])
    };
    api.post("/naming/v1/ratelimits", &limit(100)).await.expect_code(200_000);
    let release = json!({"rule_name": "limit", "namespace": "shop"});
    api.post("/naming/v1/ratelimits/releases", &json!([release])).await.expect_code(200_000);
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let path = "/ui/explain?namespace=shop&service=pay";
    let page = visit.page(path).await;
    assert!(page.contains("every call → limit 100 per 1 s") && page.contains("As saved: the same"), "{page}");
    assert!(page.contains("What is saved and what is released agree"), "{page}");
    assert!(page.contains("for this service: Routing, ") && !page.contains("Live: everyone else"), "{page}");

    // A canary of 50, and a draft of 20: three answers beside each other.
    api.put("/naming/v1/ratelimits", &limit(50)).await.expect_code(200_000);
    let labels = json!([{"key": "zone", "value": {"type": "EXACT", "value": "a"}}]);
    let gray = json!([{"rule_name": "limit", "namespace": "shop", "release_name": "some", "release_type": "gray",
        "client_labels": labels}]);
    api.post("/naming/v1/ratelimits/releases", &gray).await.expect_code(200_000);
    api.put("/naming/v1/ratelimits", &limit(20)).await.expect_code(200_000);
    for (labels, own, audience) in [
        ("", "limit 100 per 1 s", "This client is in no canary."),
        ("&client_labels=zone%3Da", "limit 50 per 1 s", "This client is in the canary."),
    ] {
        let page = visit.page(&format!("{path}{labels}")).await;
        let (result, sides) = page.split_once("<details><summary>Details</summary>").expect("details");
        assert!(result.contains(own) && result.contains("As saved: different"), "{result}");
        assert!(page.contains(audience) && page.contains("What is saved differs from what is released"), "{page}");
        for (side, words) in [
            ("Live: everyone else", "limit 100 per 1 s"),
            ("Canary: its clients", "zone=a → limit 50 per 1 s"),
            ("As saved", "limit 20 per 1 s"),
        ] {
            let (_, rest) = sides.split_once(&format!("{side}</h4>")).unwrap_or_else(|| panic!("no {side}: {sides}"));
            let of_side = rest.split_once("</h4>").map_or(rest, |(of_side, _)| of_side);
            assert!(of_side.contains(words), "{side}: no {words} in {of_side}");
        }
    }

    // A curl command fills the fields in; its secrets are in no address.
    let token = visit.form_token().await;
    let command = "curl -H 'x-beta: 1' -H 'Authorization: secret' 'http://pay.shop/charge?user=7'";
    let fields = [("form_token", token.as_str()), ("curl", command), ("client_labels", "zone=a")];
    let read = visit.post("/ui/explain", &fields).await;
    let place = place(&read).to_owned();
    assert!(place.starts_with("/ui/explain?service=pay&namespace=shop&"), "{place}");
    assert!(place.contains("headers=x-beta%3D1&") && place.contains("client_labels=zone%3Da"), "{place}");
    assert!(!place.contains("secret") && !place.contains("form_token"), "{place}");
    assert!(visit.page(&place).await.contains("limit 50 per 1 s"));
    let foreign = visit.post("/ui/explain", &[("curl", command)]).await;
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN, "a form without its word");
    let unread = visit.post("/ui/explain", &[("form_token", &token), ("curl", "curl -s")]).await;
    assert_eq!(unread.status(), StatusCode::BAD_REQUEST);
    assert!(unread.text().await.expect("text").contains(">curl -s</textarea>"), "what was typed is not lost");
}
