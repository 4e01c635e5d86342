//! People: the way through the provider and back, what it refuses, and how sessions end.

use std::time::Instant;

use reqwest::Method;
use serde_json::json;

use super::{Browser, PASSWORD, SERVICES, SsoCluster, USERS, moved};
use crate::harness::{Answer, Api, http, report};

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_signs_in_through_any_nodes_and_out_again() {
    let sso = SsoCluster::start(3, &[]).await;
    let (cluster, provider) = (&sso.cluster, &sso.provider);
    let page = Browser::new().page(cluster, 2, "/ui/sign-in?to=%2Fui%2Faudit").await;
    assert!(page.text.contains("href=\"/ui/sso/company/start?to=%2Fui%2Faudit"), "{}", page.text);

    provider.seat("1", "ann", &["admins"]);
    let mut browser = sso.sign_in(1, 2).await;
    assert_eq!(provider.faults(), Vec::<String>::new());
    for id in cluster.ids() {
        let account = browser.page(cluster, id, "/ui/account").await;
        assert!(account.status == 200 && account.text.contains("company:ann"), "{account:?}");
        assert_eq!(browser.page(cluster, id, "/ui/accounts").await.status, 200, "a binding gives the right");
    }
    // The provider hears of the sign-out too.
    let account = browser.page(cluster, 3, "/ui/account").await.text;
    let token = account.split("name=\"form_token\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let out = format!("http://{}/ui/sign-out", cluster.ports(3).api);
    let answer = browser.post(&out, &[("form_token", token.expect("a form"))]).await;
    let end = format!("0; url={}/end?", provider.issuer());
    assert!(answer.status == 200 && answer.refresh.starts_with(&end), "{answer:?}");
    assert!(answer.refresh.contains("id_token_hint=ey"), "{answer:?}");
    assert_eq!(browser.page(cluster, 1, "/ui/account").await.status, 303);

    // A person of another group may read, and no more.
    provider.seat("2", "bob", &["dev-shop"]);
    let reader = sso.sign_in(2, 3).await;
    assert_eq!(reader.page(cluster, 1, "/ui/services").await.status, 200);
    assert_eq!(reader.page(cluster, 1, "/ui/accounts").await.status, 401);

    // The name is that of the first person who came with it.
    provider.seat("3", "bob", &["dev-shop"]);
    let mut other = Browser::new();
    let there = other.begin(cluster, 1, "company", "/ui").await;
    let back = other.at_provider(&there).await;
    let refused = other.get(&back).await;
    assert_eq!(refused.status, 401, "{refused:?}");

    // Who has no right is told so, and leaves a row.
    provider.seat("4", "eva", &["cooks"]);
    let there = other.begin(cluster, 1, "company", "/ui").await;
    let back = other.at_provider(&there).await;
    let refused = other.get(&back).await;
    assert!(refused.status == 401 && refused.text.contains("no binding gives it a right"), "{refused:?}");
    let rows = cluster.api(1).get("/admin/v1/audit?action=login&limit=100").await.expect_code(200_000).to_string();
    assert!(rows.contains("company:eva"), "{rows}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_taken_once_from_the_browser_that_asked() {
    let sso = SsoCluster::start(2, &[]).await;
    let (cluster, provider) = (&sso.cluster, &sso.provider);
    let other = json!([{"name": "other", "issuer": "http://127.0.0.1:1", "client_id": "thuban"}]);
    cluster.api(1).post(super::PROVIDERS, &other).await.expect_code(200_000);
    provider.seat("1", "ann", &["dev-shop"]);
    let mut browser = Browser::new();
    let there = browser.begin(cluster, 1, "company", "/ui").await;
    let back = browser.at_provider(&there).await;
    let refused = |seen: &super::browser::Seen, word: &str| {
        assert!(seen.status == 401 && seen.text.contains(word), "{word}: {seen:?}");
    };

    // Another browser, another provider, another state, issuer, or an error.
    refused(&Browser::new().get(&back).await, "has begun no sign-in");
    let elsewhere = back.replace("/sso/company/", "/sso/other/");
    refused(&browser.clone().get(&elsewhere).await, "has begun no sign-in");
    let mut misplaced = browser.clone();
    misplaced.misplace("/ui/sso/other");
    refused(&misplaced.get(&elsewhere).await, "provider: ");
    let with = |key: &str, value: &str| {
        let mut url = url::Url::parse(&back).expect("an address");
        let pairs: Vec<_> = url.query_pairs().into_owned().filter(|(name, _)| name != key).collect();
        url.query_pairs_mut().clear().extend_pairs(pairs).append_pair(key, value);
        String::from(url)
    };
    refused(&browser.clone().get(&with("state", "another")).await, "state: ");
    refused(&browser.clone().get(&with("iss", "https://evil.example")).await, "iss: ");
    let denied = browser.clone().get(&with("error", "<b>access_denied")).await;
    refused(&denied, "access_denied");
    assert!(!denied.text.contains("<b>access"), "{denied:?}");
    refused(&browser.clone().get(&with("code", "another")).await, "401004");

    // The right one, once: the cookie is gone, and with a copy of it the code is spent.
    let copy = browser.clone();
    let answer = browser.get(&back).await;
    assert_eq!((answer.status, answer.place.as_str()), (303, "/ui"), "{answer:?}");
    refused(&browser.clone().get(&back).await, "has begun no sign-in");
    let again = copy.clone().get(&moved(&back, cluster, 2)).await;
    assert_eq!(again.status, 401, "{again:?}");
    assert!(copy.page(cluster, 1, "/ui/account").await.place.starts_with("/ui/sign-in"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_leads_to_pages_of_the_console_and_back_to_its_own_address() {
    let sso = SsoCluster::start(1, &[]).await;
    let (cluster, provider) = (&sso.cluster, &sso.provider);
    provider.seat("1", "ann", &["dev-shop"]);
    for (to, expected) in [
        ("/ui/services?name=a", "/ui/services?name=a"),
        ("https://evil.example/ui", "/ui"),
        ("//evil.example/ui", "/ui"),
        ("/ui/\\\\evil.example", "/ui"),
        ("/uix", "/ui"),
        ("/ui/\r\nlocation: https://evil.example", "/ui"),
        (&format!("/ui/{}", "x".repeat(5000)), "/ui"),
    ] {
        let mut browser = Browser::new();
        let there = browser.begin(cluster, 1, "company", to).await;
        let back = browser.at_provider(&there).await;
        let answer = browser.get(&back).await;
        assert_eq!((answer.status, answer.place.as_str()), (303, expected), "{to}");
    }
    // A name that is no member's gets no codes.
    let client = http().build().expect("a client");
    let start = format!("http://{}/ui/sso/company/start", cluster.ports(1).api);
    let asked = client.get(&start).header("host", "evil").send().await.expect("an answer");
    assert_eq!(asked.status().as_u16(), 400);
    assert!(asked.text().await.expect("text").contains("--public-url"));

    // Behind a balancer it is the public address.
    let public = SsoCluster::start(1, &["--public-url", "https://thuban.example.com"]).await;
    let there = Browser::new().begin(&public.cluster, 1, "company", "/ui").await;
    let address = url::Url::parse(&there).expect("an address");
    let redirect = address.query_pairs().find(|(key, _)| key == "redirect_uri").expect("an address to return to").1;
    assert_eq!(redirect, "https://thuban.example.com/ui/sso/company/callback");
}

/// Posts the form of a back-channel logout.
async fn log_out(api: &Api, provider: &str, token: &str) -> Answer {
    let request = api.request(Method::POST, &format!("/auth/v1/sso/{provider}/logout"));
    let body: String = url::form_urlencoded::Serializer::new(String::new()).append_pair("logout_token", token).finish();
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
    Answer::read(request).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_ends_sessions_on_every_node() {
    let sso = SsoCluster::start(3, &[]).await;
    let (cluster, provider) = (&sso.cluster, &sso.provider);
    provider.seat("1", "ann", &["dev-shop"]);
    let browser = sso.sign_in(1, 1).await;
    let login = sso.log_in(2, &json!({"id_token": provider.id_token("1", "ann", &["dev-shop"])})).await;
    let command_line = login.expect_code(200_000).body["loginResponse"]["token"].as_str().expect("a token").to_owned();
    provider.seat("2", "bob", &["dev-shop"]);
    let other = sso.sign_in(1, 3).await;
    for id in cluster.ids() {
        sso.as_token(id, &command_line).get(SERVICES).await.expect_code(200_000);
    }

    let stranger = Api::new(cluster.ports(2).api);
    log_out(&stranger, "company", &provider.id_token("1", "ann", &[])).await.expect_code(401_004);
    log_out(&stranger, "none", &provider.logout_token("1")).await.expect_code(400_202);
    assert_eq!(browser.page(cluster, 3, "/ui/account").await.status, 200);
    let (logout_token, since) = (provider.logout_token("1"), Instant::now());
    log_out(&stranger, "company", &logout_token).await.expect_code(200_000);
    sso.expect_out(Some(&browser), Some(&command_line)).await;
    report(format!("sessions were over on every node {:?} after the provider said so", since.elapsed()));
    assert_eq!(other.page(cluster, 1, "/ui/account").await.status, 200, "others stay");
    let again = log_out(&stranger, "company", &logout_token).await;
    assert_eq!(again.status, 401, "a logout token is taken once: {again}");

    // A provider that is switched off ends all of its sessions and tokens.
    let bearer = provider.bearer("9", "pipeline", &["dev-shop"]);
    for id in cluster.ids() {
        sso.as_token(id, &bearer).get(SERVICES).await.expect_code(200_000);
    }
    let since = Instant::now();
    sso.change(json!({"disabled": true})).await;
    sso.expect_out(Some(&other), Some(&bearer)).await;
    report(format!("a disabled provider was out on every node after {:?}", since.elapsed()));
    for id in cluster.ids() {
        let page = Browser::new().page(cluster, id, "/ui/sign-in").await;
        assert!(!page.text.contains("/ui/sso/"), "{}", page.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_token_is_taken_once_and_passwords_may_be_for_administrators_alone() {
    let sso = SsoCluster::start(2, &[]).await;
    let (cluster, provider) = (&sso.cluster, &sso.provider);
    let id_token = provider.id_token("1", "ann", &["dev-shop"]);
    sso.log_in(1, &json!({"id_token": id_token})).await.expect_code(200_000);
    for id in cluster.ids() {
        sso.log_in(id, &json!({"id_token": id_token})).await.expect_code(401_004);
    }
    let with_nonce = |sent: Option<&str>| {
        let claims = json!({"sub": "1", "preferred_username": "ann", "groups": ["dev-shop"],
            "aud": super::provider::CLI_CLIENT, "nonce": "right", "jti": format!("{sent:?}")});
        json!({"id_token": provider.sign(&claims), "nonce": sent})
    };
    for (sent, code) in [(None, 401_004), (Some("wrong"), 401_004), (Some("right"), 200_000)] {
        sso.log_in(1, &with_nonce(sent)).await.expect_code(code);
    }
    // The claims of another audience, of a bearer token, or signed by another provider.
    sso.log_in(1, &json!({"id_token": provider.bearer("1", "ann", &["dev-shop"])})).await.expect_code(401_004);
    let stranger = super::Provider::start().await;
    sso.log_in(1, &json!({"id_token": stranger.id_token("1", "ann", &["dev-shop"])})).await.expect_code(401_004);

    let listed = Api::new(cluster.ports(2).api).get("/auth/v1/sso").await.expect_code(200_000);
    assert_eq!(listed.body["data"][0]["name"], "company");
    assert_eq!(listed.body["data"][0]["client_id"], super::provider::CLI_CLIENT);
    assert!(!listed.to_string().contains(super::provider::SECRET));

    let user = json!([{"name": "local", "password": PASSWORD, "grants": [{"role": "reader", "namespace": "*"}]}]);
    cluster.api(1).post(USERS, &user).await.expect_code(200_000);
    let password = |id: u64, name: &str, password: &str| {
        let (api, body) = (Api::new(cluster.ports(id).api), json!({"name": name, "password": password}));
        async move { api.post("/auth/v1/user/login", &body).await }
    };
    password(1, "local", PASSWORD).await.expect_code(200_000);
    cluster.api(1).put("/admin/v1/settings", &json!({"password_login": "admins"})).await.expect_code(200_000);
    for id in cluster.ids() {
        password(id, "local", PASSWORD).await.expect_code(401_001);
        password(id, "admin", crate::harness::ADMIN_PASSWORD).await.expect_code(200_000);
        let address = format!("http://{}/ui/sign-in", cluster.ports(id).api);
        let refused = Browser::new().post(&address, &[("user", "local"), ("password", PASSWORD)]).await;
        assert_eq!(refused.status, 401, "{refused:?}");
    }
}
