//! Requests that the console refuses: those of the API, of callers without the right, and forms of foreign pages.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{COOKIE, SET_COOKIE};
use serde_json::{Value, json};

use super::visit::{Visit, place};
use crate::harness::{ADMIN_PASSWORD, Api, Cluster, eventually};

const PASSWORD: &str = "a password of somebody";
const LIMIT: Duration = Duration::from_secs(20);
const FILE: &str = "namespace=shop&group=app&name=application.properties";

/// A cluster with a service, a rule and a file in the namespace `shop`, and the user `eva` with these grants; with the
/// id of the rule.
async fn with_user(grants: Value) -> (Cluster, String) {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let users = json!([{"name": "eva", "password": PASSWORD, "grants": grants}]);
    api.post("/auth/v1/users", &users).await.expect_code(200_000);
    api.post("/naming/v1/services", &json!([{"namespace": "shop", "name": "pay"}])).await.expect_code(200_000);
    let rule = json!([{"namespace": "shop", "name": "limit", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    api.publish("shop", "app", "application.properties", "a=1").await;
    let rules = api.get("/naming/v1/ratelimits").await;
    let id = rules.body["data"][0]["id"].as_str().expect("an id").to_owned();
    (cluster, id)
}

/// Paths of the forms of a service, a rule and a file.
fn paths_of(rule_id: &str) -> Vec<String> {
    let rule = format!("/ui/rules/ratelimits/{rule_id}");
    let of_rule = ["", "/release", "/change", "/delete"].map(|deed| format!("{rule}{deed}"));
    let others = [
        "/ui/services",
        "/ui/service/instance",
        "/ui/config",
        "/ui/config/file",
        "/ui/config/file/release",
        "/ui/config/file/change",
        "/ui/config/file/delete",
        "/ui/accounts",
        "/ui/edit/services",
        "/ui/edit/groups",
        "/ui/edit/templates",
    ];
    of_rule.into_iter().chain(others.map(str::to_owned)).collect()
}

/// All that the forms of the console could change.
async fn state(api: &Api) -> Vec<Value> {
    let mut state = Vec::new();
    for path in [
        "/naming/v1/namespaces",
        "/naming/v1/services",
        "/naming/v1/service/aliases",
        "/naming/v1/ratelimits?brief=false",
        "/naming/v1/ratelimits/releases",
        &format!("/config/v1/configfiles?{FILE}"),
        "/config/v1/configfiles/releases",
        "/config/v1/configfilegroups",
        "/config/v1/configfiletemplates",
        "/auth/v1/users",
        "/auth/v1/tokens",
        "/auth/v1/accesskeys",
        "/auth/v1/providers",
        "/auth/v1/identities",
        "/auth/v1/sessions",
        "/admin/v1/webhooks",
        "/admin/v1/settings",
    ] {
        state.push(api.get(path).await.body);
    }
    state
}

#[tokio::test(flavor = "multi_thread")]
async fn its_cookie_is_no_token_of_the_api() {
    let cluster = Cluster::start(1).await;
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let (_, value) = visit.cookie.split_once('=').expect("a pair");
    let ask = async |path: &str, name: &str, value: &str| {
        let request = visit.client.get(format!("{}{path}", visit.base)).header(name, value);
        let answer = request.send().await.expect("an answer");
        let (status, body) = (answer.status().as_u16(), answer.text().await.expect("text"));
        let body: Value = serde_json::from_str(&body).expect("an envelope");
        (status, body["code"].as_u64().expect("a code"))
    };
    for path in ["/auth/v1/user", "/naming/v1/services", "/admin/v1/cluster", "/config/v1/configfiles/search"] {
        assert_eq!(ask(path, "cookie", &visit.cookie).await, (401, 401_002), "{path}");
        for (name, shown) in [("authorization", format!("Bearer {value}")), ("x-polaris-token", value.to_owned())] {
            assert_eq!(ask(path, name, &shown).await, (401, 401_004), "{path} {name}");
        }
        assert_eq!(ask(path, "authorization", cluster.token()).await, (200, 200_000), "{path}");
    }
    // What is written is not written by it either.
    let create = visit.client.post(format!("{}/naming/v1/services", visit.base)).header(COOKIE, &visit.cookie);
    let create = create.body(json!([{"namespace": "shop", "name": "pay"}]).to_string()).send().await;
    assert_eq!(create.expect("an answer").status(), StatusCode::UNAUTHORIZED);
    assert_eq!(cluster.api(1).get("/naming/v1/services/count").await.amount(), 0);
    // And a token of the API is no cookie.
    let by_token = Visit { cookie: format!("thuban_session={}", cluster.token()), ..visit };
    assert_eq!(by_token.get("/ui").await.status(), StatusCode::SEE_OTHER);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_is_told_so_whatever_else_is_wrong_with_a_form() {
    let (cluster, id) = with_user(json!([{"role": "reader", "namespace": "*"}])).await;
    let visit = Visit::signed_in(&cluster, 1, "eva", PASSWORD).await;
    let token = visit.form_token().await;
    let api = cluster.api(1);
    let before = state(&api).await;
    let others = [
        "/ui/rules/ratelimits/new",
        "/ui/rules/none/new",
        "/ui/rules/ratelimits/none",
        "/ui/cluster",
        "/ui/edit/namespaces",
        "/ui/edit/aliases",
        "/ui/edit/users",
        "/ui/edit/tokens",
        "/ui/edit/accesskeys",
        "/ui/edit/providers",
        "/ui/providers/none",
        "/ui/identities",
        "/ui/sessions",
        "/ui/edit/webhooks",
        "/ui/edit/settings",
        "/ui/edit/none",
    ];
    let paths = paths_of(&id).into_iter().chain(others.map(str::to_owned));
    let named = |more: &str| format!("{FILE}&form_token={token}{more}");
    let bodies = [
        ("right", named("&text=a%3D2&type=normal&%2Fname=pay&%2Fnamespace=shop")),
        ("a button of the form", named("&edit=add+%2Fgrants")),
        ("a part of the form", named("&edit=preview&part=preview&row=label")),
        ("stale", named("&revision=stale")),
        ("not to be read", named("&text=%7B&as=json&%2Freleases_kept=none&type=none&change=none")),
        ("no token", FILE.to_owned()),
        ("another token", format!("{FILE}&form_token=another")),
        ("empty", String::new()),
        ("too many fields", "=&".repeat(100_000)),
    ];
    for path in paths {
        for (what, body) in &bodies {
            let request = visit.client.post(format!("{}{path}", visit.base)).header(COOKIE, &visit.cookie);
            let answer = request.body(body.clone()).send().await.expect("an answer");
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{path}: {what}");
        }
    }
    assert_eq!(state(&api).await, before, "nothing is changed");
    // What is everybody's own stays so.
    let ended = visit.post("/ui/sign-out", &[("form_token", &token)]).await;
    assert_eq!((ended.status(), place(&ended)), (StatusCode::SEE_OTHER, "/ui/sign-in"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_editor_of_one_namespace_is_a_reader_of_another() {
    let grants = json!([
        {"role": "reader", "namespace": "shop"},
        {"role": "editor", "namespace": "mine"},
        {"role": "releaser", "namespace": "mine"},
    ]);
    let (cluster, id) = with_user(grants).await;
    let visit = Visit::signed_in(&cluster, 1, "eva", PASSWORD).await;
    let token = visit.form_token().await;
    let api = cluster.api(1);
    let before = state(&api).await;
    let file =
        [("namespace", "shop"), ("group", "app"), ("name", "application.properties"), ("form_token", token.as_str())];
    let more = [("as", "table"), ("edit", "add /pairs"), ("publish_at", "never"), ("revision", "stale")];
    let fields = [file.as_slice(), &more].concat();
    for path in paths_of(&id) {
        let fields = [fields.as_slice(), &[("change", "withdraw")]].concat();
        assert_eq!(visit.post(&path, &fields).await.status(), StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(state(&api).await, before, "nothing is changed");
    eventually(LIMIT, "the trail tells of it", || async {
        let trail = api.get("/admin/v1/audit?user=eva").await;
        let routes = ["POST /ui/config/file/release", "POST /ui/accounts"];
        let is_told = routes.iter().all(|route| trail.to_string().contains(route));
        if is_told { Ok(()) } else { Err(trail.to_string()) }
    })
    .await;
    let own = [("namespace", "mine"), ("group", "app"), ("name", "a.properties"), ("form_token", token.as_str())];
    assert_eq!(visit.post("/ui/config", &own).await.status(), StatusCode::SEE_OTHER);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_language_is_chosen_on_a_page_of_ours() {
    let (cluster, _) = with_user(json!([])).await;
    let visit = Visit::signed_in(&cluster, 1, "eva", PASSWORD).await;
    let wanted = [("language", "zh"), ("to", "/ui/services")];
    let tag = visit.page("/ui").await;
    let tag = tag.split("name=\"language\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a button");
    assert_eq!(tag, wanted[0].1);
    let stranger = Visit::of(&cluster, 1);
    for visit in [&visit, &stranger] {
        for token in ["", "another"] {
            let refused = visit.post("/ui/language", &[wanted[0], wanted[1], ("form_token", token)]).await;
            assert_eq!((refused.status(), refused.headers().get(SET_COOKIE)), (StatusCode::FORBIDDEN, None));
        }
        assert_eq!(visit.post("/ui/language", &wanted).await.status(), StatusCode::FORBIDDEN);
    }
    let token = visit.form_token().await;
    let chosen = visit.post("/ui/language", &[wanted[0], wanted[1], ("form_token", &token)]).await;
    assert_eq!((chosen.status(), place(&chosen)), (StatusCode::SEE_OTHER, "/ui/services"));
    assert!(chosen.headers()[SET_COOKIE].to_str().expect("text").starts_with("thuban_language=zh;"));
    // Before the login it is a part of the page, and stored with the login.
    let page = stranger.get("/ui/sign-in?language=zh").await;
    assert_eq!((page.status(), page.headers().get(SET_COOKIE)), (StatusCode::OK, None));
    assert!(page.text().await.expect("text").contains("name=\"language\" value=\"zh\""));
    let signed = stranger.post("/ui/sign-in", &[("user", "eva"), ("password", PASSWORD), wanted[0]]).await;
    let cookies: Vec<_> = signed.headers().get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok()).collect();
    assert!(cookies.iter().any(|cookie| cookie.starts_with("thuban_language=zh;")), "{cookies:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_is_shown_to_who_operates_it() {
    let (cluster, _) = with_user(json!([])).await;
    let api = cluster.ports(1).api.to_string();
    let operator = json!([{"name": "otto", "password": PASSWORD, "grants": [
        {"role": "operator", "namespace": "*", "name": "*"}]}]);
    cluster.api(1).post("/auth/v1/users", &operator).await.expect_code(200_000);
    for (name, expected) in [("eva", false), ("otto", true)] {
        let visit = Visit::signed_in(&cluster, 1, name, PASSWORD).await;
        let answer = visit.get("/ui/cluster").await;
        let status = if expected { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        assert_eq!(answer.status(), status, "{name}");
        let (page, home) = (answer.text().await.expect("text"), visit.page("/ui").await);
        for shown in ["id=\"members\"", "id=\"alarms\"", api.as_str(), env!("CARGO_PKG_VERSION")] {
            assert_eq!(page.contains(shown), expected, "{name}: {shown}");
            assert!(!home.contains(shown), "{name}: {shown}");
        }
        assert!(home.contains("id=\"newest\""), "{name}");
    }
}
