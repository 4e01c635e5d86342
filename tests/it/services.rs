//! Services and namespaces: change, filters, paging and the rules of deletion.

use serde_json::{Value, json};

use crate::envelope::both;
use crate::harness::{Api, Cluster};

pub(crate) const SERVICES: &str = "/naming/v1/services";

pub(crate) async fn names(api: &Api, query: &str) -> Vec<String> {
    let answer = api.get(&format!("{SERVICES}?{query}")).await.expect_code(200_000);
    let list = answer.body["services"].as_array().expect("a list of services");
    let mut names: Vec<String> = list.iter().map(|s| s["name"].as_str().expect("a name").to_owned()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_filter_and_page() {
    let cluster = Cluster::start(3).await;
    let [(_, leader), (_, follower)] = both(&cluster).await;
    let items = json!([
        {"namespace": "shop", "name": "order-api", "business": "sales", "department": "one",
          "metadata": {"tier": "gold"}},
        {"namespace": "shop", "name": "order-db", "business": "sales", "department": "two"},
        {"namespace": "shop", "name": "Cart", "metadata": {"tier": "tin"}},
        {"namespace": "stage", "name": "order-api"},
    ]);
    leader.post(SERVICES, &items).await.expect_code(200_000);
    let cases: [(&str, &[&str]); 12] = [
        ("namespace=shop", &["Cart", "order-api", "order-db"]),
        ("name=order-api", &["order-api", "order-api"]),
        ("name=order*&namespace=shop", &["order-api", "order-db"]),
        ("name=ORDER*&namespace=shop", &["order-api", "order-db"]),
        ("name=*api&namespace=s*", &["order-api", "order-api"]),
        ("name=order", &[]),
        ("name=*&namespace=st*", &["order-api"]),
        ("business=sales&department=two", &["order-db"]),
        ("keys=tier&values=gold", &["order-api"]),
        ("keys=tier&values=lead", &[]),
        ("namespace=shop&limit=0", &[]),
        ("namespace=shop&offset=3", &[]),
    ];
    for (query, expected) in cases {
        for api in [&leader, &follower] {
            assert_eq!(names(api, query).await, expected, "{query}");
        }
    }
    let page = follower.get(&format!("{SERVICES}?namespace=shop&offset=1&limit=1")).await.expect_code(200_000);
    assert_eq!((page.amount(), &page.body["size"]), (3, &json!(1)), "{page}");
    let empty = follower.get(&format!("{SERVICES}?namespace=shop&limit=0")).await.expect_code(200_000);
    assert_eq!(empty.amount(), 3, "{empty}");
    assert_eq!(follower.get("/naming/v1/services/count").await.expect_code(200_000).amount(), 4);
    let all = follower.get("/naming/v1/services/all?namespace=shop").await.expect_code(200_000);
    assert_eq!(all.body["services"].as_array().map(Vec::len), Some(3), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_clamped_and_together_hold_everything_once() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    for batch in 0..3 {
        let items: Vec<Value> =
            (0..50).map(|n| json!({"namespace": "pages", "name": format!("s-{batch}-{n}")})).collect();
        api.post(SERVICES, &Value::Array(items)).await.expect_code(200_000);
    }
    let clamped = api.get(&format!("{SERVICES}?namespace=pages&limit=1000")).await.expect_code(200_000);
    assert_eq!((clamped.amount(), &clamped.body["size"]), (150, &json!(100)));
    let mut seen = Vec::new();
    for offset in (0..150).step_by(40) {
        seen.extend(names(&api, &format!("namespace=pages&offset={offset}&limit=40")).await);
    }
    seen.sort();
    let total = seen.len();
    seen.dedup();
    assert_eq!((total, seen.len()), (150, 150), "pages overlap or leave gaps");
}

/// The first service of a write answer.
fn service(body: &Value) -> &Value {
    &body["responses"][0]["service"]
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_compare_and_deletes_are_idempotent() {
    let cluster = Cluster::start(3).await;
    for (role, api) in both(&cluster).await {
        let item = |more: Value| {
            let mut item = json!({"namespace": "change", "name": format!("s-{role}")});
            item.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            json!([item])
        };
        let created = api.post(SERVICES, &item(json!({"comment": "one"}))).await.expect_code(200_000);
        let first = service(&created.body)["revision"].clone();
        assert!(first.as_str().is_some_and(|revision| !revision.is_empty()), "{created}");
        api.post(SERVICES, &item(json!({}))).await.expect_code(400_201);
        api.put(SERVICES, &item(json!({"comment": "one"}))).await.expect_code(200_002);
        let changed = api.put(SERVICES, &item(json!({"comment": "two", "revision": first}))).await.expect_code(200_000);
        assert_ne!(service(&changed.body)["revision"], first, "{changed}");
        api.put(SERVICES, &item(json!({"comment": "three", "revision": first}))).await.expect_code(409_000);
        api.put(SERVICES, &item(json!({"comment": "two", "revision": first}))).await.expect_code(409_000);
        let list = api.get(&format!("{SERVICES}?namespace=change&name=s-{role}")).await.expect_code(200_000);
        assert_eq!(list.body["services"][0]["comment"], "two", "{list}");
        assert_eq!(list.body["services"][0]["token"].as_str().unwrap_or(""), "", "a list shows tokens: {list}");

        for _ in 0..2 {
            let gone = api.post("/naming/v1/services/delete", &item(json!({}))).await.expect_code(200_000);
            assert_eq!(service(&gone.body).get("token"), None, "what is gone has no token: {gone}");
        }
        api.put(SERVICES, &item(json!({"comment": "late"}))).await.expect_code(400_202);
    }
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn namespaces_guard_what_they_hold() {
    let cluster = Cluster::start(3).await;
    let [(_, leader), (_, follower)] = both(&cluster).await;
    let item = json!([{"namespace": "held", "name": "inside"}]);
    leader.post(SERVICES, &item).await.expect_code(200_000);
    leader.post("/naming/v1/namespaces/delete", &json!([{"name": "held"}])).await.expect_code(400_203);
    leader.post("/naming/v1/services/delete", &item).await.expect_code(200_000);

    leader.publish("held", "group", "file.json", "{}").await;
    leader.post("/naming/v1/namespaces/delete", &json!([{"name": "held"}])).await.expect_code(400_219);
    follower.post("/core/v1/namespaces", &json!([{"name": "held"}])).await.expect_code(400_201);
    follower.post("/core/v1/namespaces", &json!([{"name": "not a name"}])).await.expect_code(400_110);
    follower.put("/core/v1/namespaces", &json!([{"name": "none", "comment": "x"}])).await.expect_code(400_202);
    let list = follower.get("/naming/v1/namespaces?name=hel*").await.expect_code(200_000);
    assert_eq!(list.body["namespaces"][0]["name"], "held", "{list}");
    for _ in 0..2 {
        follower.post("/core/v1/namespaces", &json!([{"name": "brief"}])).await.expect_code(200_000);
        leader.post("/core/v1/namespaces/delete", &json!([{"name": "brief"}])).await.expect_code(200_000);
        leader.post("/core/v1/namespaces/delete", &json!([{"name": "brief"}])).await.expect_code(200_000);
    }
}
