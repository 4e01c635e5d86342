//! The page of a rule describes it in sentences.

use serde_json::json;

use super::visit::Visit;
use crate::harness::{ADMIN_PASSWORD, Cluster};

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_s_page_tells_its_draft_in_both_languages() {
    let cluster = Cluster::start(1).await;
    let arguments = json!({ "arguments": [{ "type": "HEADER", "key": "<b>", "value": { "value": "1" } }] });
    let version =
        |version: &str, weight: u32| json!({ "labels": { "version": { "value": version } }, "weight": weight });
    let sub_rule = json!({ "arguments": arguments, "destinations": [version("v2", 20), version("v1", 80)] });
    let config = json!({ "callee": { "service": "pay" }, "rules": [sub_rule] });
    let rule = json!([{ "id": "told", "namespace": "shop", "name": "split", "routing_config": config }]);
    cluster.api(1).post("/naming/v1/routings", &rule).await.expect_code(200_000);
    let mut visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let page = visit.page("/ui/rules/routings/told").await;
    let (_, words) = page.split_once("The draft in words</h2>").expect("a heading");
    let (words, form) = words.split_once("</section>").expect("an end");
    assert!(form.contains("<h2 id=\"edit\">"), "the words stand before the form");
    assert!(
        words.contains("Calls to shop/pay with header ") && words.contains(" = 1 go to version=v2 (20 %)"),
        "{words}"
    );
    assert!(!words.contains("<b>"), "text is shown as text: {words}");
    assert!(!visit.page("/ui/rules/routings/new").await.contains("The draft in words"));
    visit.cookie.push_str("; thuban_language=zh");
    let page = visit.page("/ui/rules/routings/told").await;
    assert!(page.contains("草稿的文字说明</h2>") && page.contains(" = 1 的，转到 version=v2（20%）"), "{page}");
}
