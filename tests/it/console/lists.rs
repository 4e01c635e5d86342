//! Lists, forms and refusals: what they begin with, how they are sorted, and what they say.

use reqwest::StatusCode;
use serde_json::json;

use super::visit::{Visit, place};
use crate::harness::{ADMIN_PASSWORD, Cluster};

/// Positions of texts in a page, which has all of them.
fn places(page: &str, texts: &[&str]) -> Vec<usize> {
    texts.iter().map(|text| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_searched_by_parts_sorted_and_limited_to_a_state() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let services = json!([{"namespace": "shop", "name": "cart"}, {"namespace": "shop", "name": "pay"},
        {"namespace": "other", "name": "mail"}]);
    api.post("/naming/v1/services", &services).await.expect_code(200_000);
    let instances = json!([{"namespace": "shop", "service": "pay", "host": "10.0.0.1", "port": 1, "healthy": false},
        {"namespace": "shop", "service": "cart", "host": "10.0.0.2", "port": 1}]);
    api.post("/naming/v1/instances", &instances).await.expect_code(200_000);
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let [cart, pay, mail] = ["name=cart\"", "name=pay\"", "name=mail\""];
    let page = visit.page("/ui/services").await;
    assert!(places(&page, &[cart, mail, pay]).is_sorted(), "by name: {page}");
    let page = visit.page("/ui/services?sort=-name").await;
    assert!(places(&page, &[pay, mail, cart]).is_sorted() && page.contains("aria-sort=\"descending\""), "{page}");
    let page = visit.page("/ui/services?sort=health").await;
    assert!(places(&page, &[mail, pay, cart]).is_sorted(), "{page}");
    for (query, shown) in [
        ("state=unhealthy", [false, true, false]),
        ("state=empty", [false, false, true]),
        ("state=healthy", [true, false, false]),
        ("name=a&namespace=shop", [true, true, false]),
    ] {
        let page = visit.page(&format!("/ui/services?{query}")).await;
        assert_eq!([cart, pay, mail].map(|link| page.contains(link)), shown, "{query}: {page}");
    }

    let limit = |id: &str, service: &str| {
        json!({"id": id, "namespace": "shop", "name": id, "service": service, "rules": [
            {"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]})
    };
    let rules = json!([limit("zero", "pay"), limit("alpha", "cart"), limit("mid", "pay")]);
    api.post("/naming/v1/ratelimits", &rules).await.expect_code(200_000);
    api.post("/naming/v1/ratelimits/releases", &json!([{"rule_id": "mid"}])).await.expect_code(200_000);
    let gray = json!([{"rule_id": "zero", "release_type": "gray",
        "client_labels": [{"key": "zone", "value": {"type": "EXACT", "value": "a"}}]}]);
    api.post("/naming/v1/ratelimits/releases", &gray).await.expect_code(200_000);
    let links = ["ratelimits/alpha\"", "ratelimits/mid\"", "ratelimits/zero\""];
    let page = visit.page("/ui/rules/ratelimits").await;
    assert!(places(&page, &links).is_sorted(), "{page}");
    assert!(page.contains("at most 1 per 1 s"), "each with its words: {page}");
    for (query, shown) in [
        ("service=ar", [true, false, false]),
        ("name=i", [false, true, false]),
        ("state=new", [true, false, true]),
        ("state=gray", [false, false, true]),
        ("state=draft", [false, false, false]),
        ("namespace=none", [false, false, false]),
    ] {
        let page = visit.page(&format!("/ui/rules/ratelimits?{query}")).await;
        assert_eq!(links.map(|link| page.contains(link)), shown, "{query}: {page}");
    }

    api.publish("default", "app", "b.properties", "a=1").await;
    api.publish("default", "app", "a.properties", "a=1").await;
    let draft = json!({"namespace": "default", "group": "app", "name": "b.properties", "content": "a=2"});
    api.put("/config/v1/configfiles", &draft).await.expect_code(200_000);
    let page = visit.page("/ui/config?namespace=default").await;
    assert!(places(&page, &["name=a.properties\"", "name=b.properties\""]).is_sorted(), "{page}");
    let page = visit.page("/ui/config?state=draft").await;
    assert!(page.contains("name=b.properties\"") && !page.contains("name=a.properties\""), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_begin_harmlessly_and_refusals_say_who_helps() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let users =
        json!([{"name": "eve", "password": "password of eve", "grants": [{"role": "reader", "namespace": "shop"}]}]);
    api.post("/auth/v1/users", &users).await.expect_code(200_000);
    let admin = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let token = admin.form_token().await;
    let form = admin.post("/ui/edit/users", &[("form_token", &token), ("/grants", ""), ("edit", "add:/grants")]).await;
    let form = form.text().await.expect("text");
    assert!(form.contains("<option selected>reader</option>") && !form.contains("<option selected>admin"), "{form}");
    assert!(form.contains("name=\"/password\" value=\"\" type=\"password\""), "{form}");
    assert!(admin.page("/ui/edit/accesskeys").await.contains("name=\"/secret\" value=\"\" type=\"password\""));
    assert!(admin.page("/ui/edit/templates").await.contains("<textarea name=\"/content\""));
    assert!(admin.page("/ui/cluster").await.contains("A request for approval expires after 30 days."));
    assert!(admin.page("/ui/policies").await.contains("A policy demands approvals for releases"));

    let wrong = admin.post("/ui/sign-in", &[("user", "admin"), ("password", "a guess")]).await;
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    let wrong = wrong.text().await.expect("text");
    assert!(wrong.contains("Wrong user name or password.") && !wrong.contains("401001"), "{wrong}");

    let eve = Visit::signed_in(&cluster, 1, "eve", "password of eve").await;
    let token = eve.form_token().await;
    let barred = eve.post("/ui/services", &[("form_token", &token), ("namespace", "shop"), ("name", "x")]).await;
    assert_eq!(barred.status(), StatusCode::FORBIDDEN);
    let barred = barred.text().await.expect("text");
    assert!(barred.contains("You need a role that allows it: editor or admin."), "{barred}");
    assert!(barred.contains("These users can grant it: admin.") && barred.contains("href=\"/ui/config\""), "{barred}");
    let gone = eve.get("/ui/service?namespace=shop&name=none").await;
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    let gone = gone.text().await.expect("text");
    assert!(gone.contains("may have been deleted") && gone.contains("href=\"/ui/config?namespace=shop\""), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_saved_after_another_one_shows_both_and_can_be_saved() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    api.publish("default", "app", "a.properties", "a=1").await;
    let rule = json!([{"id": "limit", "namespace": "shop", "name": "limit", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let revision = |page: &str| {
        let rest = page.split("name=\"revision\" value=\"").nth(1).expect("a revision");
        rest.split('"').next().expect("its end").to_owned()
    };
    let token = visit.form_token().await;

    let file = "/ui/config/file?namespace=default&group=app&name=a.properties";
    let before = revision(&visit.page(file).await);
    let other = json!({"namespace": "default", "group": "app", "name": "a.properties", "content": "a=2\nb=theirs"});
    api.put("/config/v1/configfiles", &other).await.expect_code(200_000);
    let save = async |revision: &str| {
        let fields = [
            ("form_token", token.as_str()),
            ("namespace", "default"),
            ("group", "app"),
            ("name", "a.properties"),
            ("revision", revision),
            ("text", "a=3"),
            ("format", "properties"),
        ];
        visit.post("/ui/config/file", &fields).await
    };
    let refused = save(&before).await;
    assert_eq!(refused.status(), StatusCode::CONFLICT);
    let page = refused.text().await.expect("text");
    assert!(page.contains("saved another draft while you edited") && page.contains("a=3</textarea>"), "{page}");
    assert!(page.contains("<span class=\"removed\">- b=theirs</span>"), "{page}");
    let saved = save(&revision(&page)).await;
    assert_eq!(saved.status(), StatusCode::SEE_OTHER, "the second attempt is for the present draft");

    let path = "/ui/rules/ratelimits/limit";
    let before = revision(&visit.page(path).await);
    let other = json!([{"id": "limit", "comment": "theirs", "priority": 7}]);
    api.put("/naming/v1/ratelimits", &other).await.expect_code(200_000);
    let save = async |revision: &str| {
        let text = json!({"namespace": "shop", "name": "limit", "service": "pay", "enable": true, "priority": 3,
            "rules": [{"amounts": [{"maxAmount": 9, "validDuration": "1s"}]}]});
        let fields =
            [("form_token", token.as_str()), ("revision", revision), ("as", "json"), ("text", &text.to_string())];
        visit.post(path, &fields).await
    };
    let refused = save(&before).await;
    assert_eq!(refused.status(), StatusCode::CONFLICT);
    let page = refused.text().await.expect("text");
    assert!(page.contains("saved another draft while you edited") && page.contains("priority&#34;: 7"), "{page}");
    assert_eq!(save(&revision(&page)).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(api.get("/naming/v1/ratelimits").await.body["data"][0]["priority"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_that_a_request_waits_and_offers_what_is_possible() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let rule = json!([{"id": "limit", "namespace": "shop", "name": "limit", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let token = visit.form_token().await;
    let path = "/ui/rules/ratelimits/limit";
    let gray = [("form_token", token.as_str()), ("type", "gray"), ("labels", "zone=a"), ("release_name", "some")];
    assert_eq!(visit.post(&format!("{path}/release"), &gray).await.status(), StatusCode::SEE_OTHER);
    api.put("/naming/v1/ratelimits", &json!([{"id": "limit", "priority": 5}])).await.expect_code(200_000);
    let page = visit.page(path).await;
    let first = page.split("primary\"").nth(1).and_then(|rest| rest.split("</").next()).expect("a primary button");
    assert!(first.contains("Promote to all"), "{first}: {page}");
    assert!(page.contains("value=\"gray\" checked") && page.contains("promote it or stop it first"), "{page}");
    let stop = [("form_token", token.as_str()), ("change", "stop"), ("release", "some")];
    assert_eq!(visit.post(&format!("{path}/change"), &stop).await.status(), StatusCode::SEE_OTHER);

    let policy = json!([{"name": "one", "namespace": "shop", "approvals": 1,
        "freezes": [{"days": ["FRI"], "from": "16:00", "until": "08:00", "offset": "+08:00"}]}]);
    api.post("/admin/v1/policies", &policy).await.expect_code(200_000);
    assert!(visit.page("/ui/policies").await.contains("Friday 16:00–08:00 (+08:00)"));
    assert!(visit.page("/ui/edit/policies?name=one").await.contains("checked> Friday</label>"));
    let ask = [("form_token", token.as_str()), ("type", "normal"), ("request", "please")];
    let asked = visit.post(&format!("{path}/release"), &ask).await;
    assert_eq!(asked.status(), StatusCode::SEE_OTHER);
    let page = visit.page(path).await;
    let id = page.split("/ui/requests/").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
    assert!(page.contains("waits for approval") && !page.contains(&format!("action=\"{path}/release\"")), "{page}");
    let again = visit.post(&format!("{path}/release"), &ask).await;
    let expected = format!("/ui/requests/{id}?done=asked_before");
    assert_eq!((again.status(), place(&again)), (StatusCode::SEE_OTHER, expected.as_str()));
    assert_eq!(api.get("/admin/v1/requests").await.amount(), 1);
    // Another draft is another request.
    api.put("/naming/v1/ratelimits", &json!([{"id": "limit", "priority": 6}])).await.expect_code(200_000);
    assert!(visit.page(path).await.contains(&format!("action=\"{path}/release\"")));
}

#[tokio::test(flavor = "multi_thread")]
async fn search_finds_what_its_visitor_may_see_with_its_state() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let grants = json!([{"role": "reader", "namespace": "shop"}]);
    let users = json!([{"name": "paymaster", "password": "password of paymaster", "grants": grants}]);
    api.post("/auth/v1/users", &users).await.expect_code(200_000);
    for namespace in ["shop", "other"] {
        let sick = json!([{"namespace": namespace, "service": "pay", "host": "10.7.0.1", "port": 1, "healthy": false}]);
        api.post("/naming/v1/instances", &sick).await.expect_code(200_000);
        let rule = json!([{"id": format!("{namespace}-limit"), "namespace": namespace, "name": "pay-limit",
            "service": "pay", "rules": [{"amounts": [{"maxAmount": 7, "validDuration": "1s"}]}]}]);
        api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
        api.publish(namespace, "app", "app.properties", "currency=paydollar").await;
        cluster.apollo(1).config_for("app", "app", &format!("ip=10.7.0.9&label=app%3Dpay-{namespace}")).await;
    }
    let admin = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let page = admin.page("/ui/search?q=pay").await;
    for words in [
        "name=pay\">other / pay</a> <span class=\"badge fault\">0 / 1 healthy",
        "<a href=\"/ui/rules/ratelimits/shop-limit\">shop / pay-limit</a> <span class=\"badge \">not released",
        "Contents of config files",
        "shop / app / app.properties</a> <span class=\"badge good\">In force",
        "<a href=\"/ui/edit/users?name=paymaster\">paymaster</a>",
    ] {
        assert!(page.contains(words), "no {words:?} in {page}");
    }
    let marked = page.matches("aria-current=\"page\"").count();
    assert!(page.contains("data-current") && marked == 1, "search is marked, and nothing else: {page}");
    assert!(admin.page("/ui/search?q=10.7.0.1").await.contains("shop / pay"), "an instance by its host");

    let eve = Visit::signed_in(&cluster, 1, "paymaster", "password of paymaster").await;
    let page = eve.page("/ui/search?q=pay").await;
    assert!(page.contains("shop / pay-limit") && page.contains("shop / app / app.properties"), "{page}");
    assert!(!page.contains("other / ") && !page.contains("/ui/edit/users"), "only what it may see: {page}");
    let empty = admin.page("/ui/search?q=nowhere").await;
    assert!(empty.contains("None match."), "{empty}");
}
