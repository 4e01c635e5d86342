//! The first page, the bar, and the list of clients.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;

use super::visit::{Visit, place};
use crate::harness::{ADMIN_PASSWORD, Cluster, eventually};

const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// Returns the part of a page from a heading to the next section.
fn part<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("id=\"{heading}\"")).unwrap_or_else(|| panic!("no {heading} in {page}"));
    rest.split_once("<section").map_or(rest, |(part, _)| part)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_has_the_work_of_its_visitor() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let of = |role: &str| json!({"role": role, "namespace": "shop"});
    let user = |name: &str, grants: serde_json::Value| {
        let password = format!("password of {name}");
        json!({ "name": name, "password": password, "grants": grants })
    };
    let users = json!([
        user("rita", json!([of("releaser"), of("editor")])),
        user("abe", json!([of("approver"), of("reader")])),
        user("eve", json!([of("reader")])),
    ]);
    api.post("/auth/v1/users", &users).await.expect_code(200_000);
    let admin = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let empty = admin.page("/ui").await;
    assert!(empty.contains("Nothing waits for you") && empty.contains("href=\"/ui/clients\""), "{empty}");
    assert!(!empty.contains("The last 15 minutes") && !empty.contains("Entries behind"), "{empty}");
    let cluster_page = admin.page("/ui/cluster").await;
    assert!(cluster_page.contains("Entries behind") && cluster_page.contains("No alarms."), "{cluster_page}");

    api.publish("shop", "app", "application.properties", "v=1").await;
    api.publish("other", "app", "hidden.properties", "v=1").await;
    let gray = json!([{"namespace": "shop", "group": "app", "file_name": "application.properties", "name": "some",
        "release_type": "gray", "beta_labels": [{"key": "zone", "value": {"type": "EXACT", "value": "a"}}]}]);
    let draft = json!({"namespace": "shop", "group": "app", "name": "application.properties", "content": "v=2"});
    api.put("/config/v1/configfiles", &draft).await.expect_code(200_000);
    api.post("/config/v1/configfiles/release", &gray).await.expect_code(200_000);
    let policy = json!([{"name": "one", "namespace": "shop", "approvals": 1}]);
    api.post("/admin/v1/policies", &policy).await.expect_code(200_000);
    let rule = json!([{"id": "limit", "namespace": "shop", "name": "limit", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 7, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let sick = json!([{"namespace": "shop", "service": "pay", "host": "10.0.0.1", "port": 1, "healthy": false}]);
    api.post("/naming/v1/instances", &sick).await.expect_code(200_000);

    let rita = Visit::signed_in(&cluster, 1, "rita", "password of rita").await;
    let (path, token) = ("/ui/rules/ratelimits/limit/release", rita.form_token().await);
    let asked = rita.post(path, &[("form_token", &token), ("type", "normal"), ("request", "for <b>all")]).await;
    assert_eq!((asked.status(), place(&asked)), (StatusCode::SEE_OTHER, "/ui/rules/ratelimits/limit?done=asked"));
    let page = rita.page("/ui").await;
    assert!(!page.contains("id=\"waiting\"") && part(&page, "own").contains("release shop/limit"), "{page}");
    let work = part(&page, "under-way");
    assert!(work.contains("shop / app / application.properties") && work.contains("zone=a"), "{work}");
    assert!(work.contains("value=\"stop\"") && work.contains("value=\"some\""), "{work}");
    let attention = part(&page, "attention");
    assert!(attention.contains("shop / limit") && attention.contains("not released"), "{attention}");
    assert!(attention.contains("shop / pay</a> <span class=\"quiet\">0 / 1 healthy"), "{attention}");
    assert!(!attention.contains("application.properties"), "its draft is what some clients have: {attention}");

    let abe = Visit::signed_in(&cluster, 1, "abe", "password of abe").await;
    let page = abe.page("/ui").await;
    let waiting = part(&page, "waiting");
    assert!(waiting.contains("release shop/limit") && waiting.contains("rita, "), "{waiting}");
    assert!(waiting.contains("for &#60;b&#62;all") && waiting.contains(" UTC\">"), "{waiting}");
    assert!(abe.page("/ui/services").await.contains("Approvals <span class=\"count\">1</span>"), "every page says so");
    assert!(!part(&page, "under-way").contains("value=\"stop\""), "an approver stops nothing");

    let eve = Visit::signed_in(&cluster, 1, "eve", "password of eve").await;
    let page = eve.page("/ui").await;
    assert!(
        !page.contains("id=\"waiting\"")
            && !page.contains("id=\"own\"")
            && !page.contains("class=\"count\">1</span></a>")
    );
    let newest = part(&page, "newest");
    assert!(newest.contains("admin released to some clients <a") && !newest.contains("hidden.properties"), "{newest}");
    assert!(!part(&page, "under-way").contains("<form"), "a reader changes nothing: {page}");

    let link = waiting.split("/ui/requests/").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
    let token = abe.form_token().await;
    let decided = abe.post(&format!("/ui/requests/{link}"), &[("form_token", &token), ("change", "approve")]).await;
    assert_eq!(decided.status(), StatusCode::SEE_OTHER);
    let page = abe.page("/ui").await;
    assert!(
        !page.contains("id=\"waiting\"")
            && part(&page, "newest").contains("released <a href=\"/ui/rules/ratelimits/limit\""),
        "{page}"
    );

    // The namespace of the address limits the page, stands in the title, and goes along with the links of the bar.
    let page = admin.page("/ui?namespace=other").await;
    assert!(part(&page, "newest").contains("hidden.properties") && !part(&page, "newest").contains("shop /"), "{page}");
    assert!(page.contains("<title>Home · other · Thuban</title>"), "{page}");
    assert!(page.contains("<option selected>other</option>") && page.contains("<option>shop</option>"), "{page}");
    assert!(page.contains("href=\"/ui/services?namespace=other\""), "{page}");
    assert!(!eve.page("/ui").await.contains("<option>other</option>"), "a reader of one namespace sees that one");
    let page = admin.page("/ui/rules/ratelimits/limit").await;
    assert!(page.contains("<title>limit · shop · Thuban</title>"), "{page}");
    assert!(page.contains("class=\"switch\" action=\"/ui/rules/ratelimits\""), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_found_by_address_and_label_with_the_releases_that_they_have() {
    let cluster = Cluster::start(2).await;
    let api = cluster.api(1);
    let grants = json!([{"role": "reader", "namespace": "shop"}]);
    let users = json!([{"name": "eve", "password": "password of eve", "grants": grants}]);
    api.post("/auth/v1/users", &users).await.expect_code(200_000);
    let rule = json!([{"id": "limit", "namespace": "shop", "name": "limit", "service": "pay", "enable": true, "rules": [
        {"amounts": [{"maxAmount": 7, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    api.post("/naming/v1/ratelimits/releases", &json!([{"rule_id": "limit"}])).await.expect_code(200_000);
    api.publish("default", "app", "application.properties", "v=1").await;
    cluster.expect_equal_state().await;
    let pulled = cluster.apollo(1).config_for("app", "application", "ip=10.5.0.1&label=zone%3DBerlin").await;
    let refusal = Some("bad <b>port");
    cluster.apollo(1).say_applied(("app", "application"), "10.5.0.1", &pulled["releaseKey"], refusal).await;
    let question = json!({ "type": "RATE_LIMIT", "service": { "namespace": "shop", "name": "pay" },
        "filter": { "caller": { "labels": { "CLIENT_IP": "10.5.0.2" } } } });
    cluster.api(2).post("/v1/Discover", &question).await.expect_code(200_000);

    let admin = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let page = eventually(SEEN_WITHIN, "both clients are listed", async || {
        let page = admin.page("/ui/clients").await;
        if page.contains("10.5.0.1") && page.contains("10.5.0.2") { Ok(page) } else { Err(page) }
    })
    .await;
    for words in [
        ">default / app / application.properties</a> v1 <span class=\"badge fault\">refused</span><br>bad &#60;",
        "<a href=\"/ui/rules/ratelimits/limit\">shop / limit</a> v1",
        "<td>Apollo</td>",
        "<td>Discover</td>",
    ] {
        assert!(page.contains(words), "no {words:?} in {page}");
    }
    for (query, is_first, is_second) in [
        ("q=10.5.0.1", true, false),
        ("q=zone%3Dberlin", true, false),
        ("q=10.5.0.2", false, true),
        ("state=refused", true, false),
        ("protocol=discover", false, true),
        ("namespace=shop", false, true),
        ("q=nowhere", false, false),
    ] {
        let page = admin.page(&format!("/ui/clients?{query}")).await;
        let (_, rows) = page.split_once("<tbody>").expect("a table");
        assert_eq!((rows.contains("10.5.0.1"), rows.contains("10.5.0.2")), (is_first, is_second), "{query}: {page}");
    }
    let home = admin.page("/ui").await;
    assert!(
        part(&home, "attention").contains("Clients that refused what they were sent: 1<")
            && home.contains("bad &#60;b&#62;port"),
        "{home}"
    );
    // A reader sees the clients of what it may read, and nothing else about them.
    let eve = Visit::signed_in(&cluster, 1, "eve", "password of eve").await;
    let page = eve.page("/ui/clients").await;
    assert!(page.contains("10.5.0.2") && !page.contains("10.5.0.1") && !page.contains("bad "), "{page}");
    assert!(!eve.page("/ui").await.contains("bad "));
}
