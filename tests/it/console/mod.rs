//! The console: what it lets in, what it shows whom, and a day of a person in a real browser.

mod acts;
mod addresses;
mod axe;
mod barred;
mod book;
mod day;
mod explaining;
mod home;
mod lists;
mod oneself;
mod pictures;
mod requests;
mod rollouts;
mod three_people;
mod times;
mod visit;
mod words;

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{COOKIE, HeaderMap, SET_COOKIE};
use serde_json::json;

use crate::harness::{ADMIN_PASSWORD, Balancer, Cluster, Kind, RealClient, http};
use day::Day;
use visit::{Visit, place};

const SEEN_LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_but_by_the_console_s_own_cookie_and_forms() {
    let cluster = Cluster::start(1).await;
    let stranger = Visit::of(&cluster, 1);
    let root = stranger.get("/").await;
    assert_eq!((root.status(), place(&root)), (StatusCode::SEE_OTHER, "/ui"));
    let asked = stranger.get("/ui/services?name=a%26b").await;
    let wanted = "/ui/sign-in?to=%2Fui%2Fservices%3Fname%3Da%2526b";
    assert_eq!((asked.status(), place(&asked)), (StatusCode::SEE_OTHER, wanted));
    let wrong = stranger.post("/ui/sign-in", &[("user", "admin"), ("password", "a guess")]).await;
    assert_eq!((wrong.status(), wrong.headers().get(SET_COOKIE)), (StatusCode::UNAUTHORIZED, None));

    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let form_token = visit.form_token().await;
    // The API accepts no cookie, and the console no token in a header.
    let api = visit.get("/naming/v1/services").await;
    assert_eq!(api.status(), StatusCode::UNAUTHORIZED);
    let by_header = visit.client.get(format!("{}/ui", visit.base)).header("authorization", cluster.token());
    assert_eq!(by_header.send().await.expect("an answer").status(), StatusCode::SEE_OTHER);
    // A form of another page, or of another site, does nothing.
    let service = [("namespace", "shop"), ("name", "pay")];
    for token in ["", "another"] {
        let refused = visit.post("/ui/services", &[service[0], service[1], ("form_token", token)]).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    }
    let foreign = visit.client.post(format!("{}/ui/services", visit.base)).header(COOKIE, &visit.cookie);
    let body = format!("namespace=shop&name=pay&form_token={form_token}");
    let foreign = foreign.header("sec-fetch-site", "cross-site").body(body).send().await.expect("an answer");
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
    assert_eq!(cluster.api(1).get("/naming/v1/services/count").await.amount(), 0);
    let made = visit.post("/ui/services", &[service[0], service[1], ("form_token", &form_token)]).await;
    assert_eq!(
        (made.status(), place(&made)),
        (StatusCode::SEE_OTHER, "/ui/service?namespace=shop&name=pay&done=created")
    );

    // Out means out, on every page.
    let out = visit.post("/ui/sign-out", &[("form_token", &form_token)]).await;
    assert_eq!(place(&out), "/ui/sign-in");
    assert_eq!(visit.get("/ui").await.status(), StatusCode::SEE_OTHER);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_tell_browsers_what_they_may_do_and_show_text_as_text() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let evil = "<script>alert(1)</script>";
    api.post("/naming/v1/services", &json!([{"namespace": "shop", "name": "pay", "comment": evil}]))
        .await
        .expect_code(200_000);
    let rule = json!([{"namespace": "shop", "name": "<b>\"'&", "description": evil, "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    api.publish("default", "app", "application.properties", "a=</textarea><script>alert(1)</script>").await;
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let pages = [
        "/ui",
        "/ui/services",
        "/ui/map",
        "/ui/service?namespace=shop&name=pay",
        "/ui/rules/ratelimits",
        "/ui/rules/routings/new",
        "/ui/rules/ratelimits/explain?namespace=shop&service=pay",
        "/ui/explain",
        "/ui/explain?namespace=shop&service=pay&headers=%3Cscript%3Ealert(1)%3C/script%3E%3D1",
        "/ui/config",
        "/ui/config?namespace=default&group=app",
        "/ui/config/file?namespace=default&group=app&name=application.properties",
        "/ui/audit",
        "/ui/accounts",
        "/ui/account",
        "/ui/cluster",
        "/ui/clients",
        "/ui/proxies",
        "/ui/namespaces",
        "/ui/templates",
        "/ui/webhooks",
        "/ui/contracts",
        "/ui/policies",
        "/ui/edit/policies",
        "/ui/edit/contracts",
        "/ui/edit/namespaces?name=shop",
        "/ui/edit/aliases",
        "/ui/edit/groups?namespace=default&name=app",
        "/ui/edit/services?namespace=shop&name=pay",
        "/ui/edit/templates",
        "/ui/edit/users?name=admin",
        "/ui/edit/tokens",
        "/ui/edit/accesskeys",
        "/ui/edit/webhooks",
        "/ui/edit/providers",
        "/ui/providers",
        "/ui/identities",
        "/ui/sessions?user=admin",
        "/ui/edit/settings",
        "/ui/rules/routings/new?as=json",
        "/ui/config/file?namespace=default&group=app&name=application.properties&as=table",
        "/ui/search?q=%3Cscript%3Ealert(1)%3C/script%3E",
        &format!("/ui/rules/ratelimits/{}", rules_id(&cluster).await),
    ];
    for path in pages {
        let answer = visit.get(path).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        expect_manners(answer.headers(), path);
        let text = answer.text().await.expect("text");
        assert!(!text.contains("alert(1)</script>"), "{path}: {text}");
        assert!(text.contains("href=\"/ui/book\""), "{path} leads to the book");
        // Nothing inline: the policy would forbid it anyway.
        assert!(!text.contains(" style=") && !text.contains(" onclick=") && !text.contains("<script>"), "{path}");
        for asset in text.split("/ui/assets/").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert_eq!(visit.get(&format!("/ui/assets/{asset}")).await.status(), StatusCode::OK, "{asset}");
        }
    }
    for gone in [
        "/ui/rules/none",
        "/ui/edit/none",
        "/ui/edit/users?name=nobody",
        "/ui/assets/none.js",
        "/ui/rules/ratelimits/none",
    ] {
        assert_eq!(visit.get(gone).await.status(), StatusCode::NOT_FOUND, "{gone}");
    }
}

async fn rules_id(cluster: &Cluster) -> String {
    let rules = cluster.api(1).get("/naming/v1/ratelimits").await;
    rules.body["data"][0]["id"].as_str().expect("an id").to_owned()
}

fn expect_manners(headers: &HeaderMap, path: &str) {
    let of = |name: &str| headers.get(name).map_or("", |value| value.to_str().expect("text"));
    assert!(of("content-security-policy").contains("default-src 'none'"), "{path}");
    assert_eq!((of("x-frame-options"), of("cache-control")), ("DENY", "no-store"), "{path}");
    assert_eq!((of("x-content-type-options"), of("request-id").is_empty()), ("nosniff", false), "{path}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_what_it_may_and_changes_nothing() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let users =
        json!([{"name": "eva", "password": "a password of eva", "grants": [{"role": "reader", "namespace": "shop"}]}]);
    api.post("/auth/v1/users", &users).await.expect_code(200_000);
    for namespace in ["shop", "other"] {
        api.post("/naming/v1/services", &json!([{"namespace": namespace, "name": format!("{namespace}-pay")}])).await;
        api.publish(namespace, "app", "application.properties", "a=1").await;
    }
    let visit = Visit::of(&cluster, 1);
    let signed = visit.post("/ui/sign-in", &[("user", "eva"), ("password", "a password of eva")]).await;
    let cookie = signed.headers()[SET_COOKIE].to_str().expect("text").split(';').next().expect("a pair").to_owned();
    let visit = Visit { cookie, ..visit };
    let services = visit.page("/ui/services").await;
    assert!(services.contains("shop-pay") && !services.contains("other-pay"));
    let files = visit.page("/ui/config").await;
    assert!(files.contains("namespace=shop") && !files.contains("namespace=other"));
    for path in [
        "/ui/service?namespace=other&name=other-pay",
        "/ui/config/file?namespace=other&group=app&name=application.properties",
    ] {
        assert_eq!(visit.get(path).await.status(), StatusCode::NOT_FOUND, "{path}: as if it were not there");
    }
    let managed = ["/ui/webhooks", "/ui/edit/users?name=admin", "/ui/edit/accesskeys", "/ui/edit/settings"];
    for path in ["/ui/audit", "/ui/accounts", "/ui/cluster", "/ui/proxies"].into_iter().chain(managed) {
        let refused = visit.get(path).await;
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert!(!refused.text().await.expect("text").contains("200000"), "{path}");
    }
    // A button that is not shown can be pressed all the same.
    let token = visit.form_token().await;
    let key =
        [("namespace", "shop"), ("group", "app"), ("name", "application.properties"), ("form_token", token.as_str())];
    for (path, more) in [
        ("/ui/config/file", ("text", "a=2")),
        ("/ui/config/file/release", ("type", "normal")),
        ("/ui/config/file/delete", ("", "")),
        ("/ui/cluster/backup", ("", "")),
    ] {
        let fields = [key.as_slice(), &[more]].concat();
        assert_eq!(visit.post(path, &fields).await.status(), StatusCode::FORBIDDEN, "{path}");
    }
    let edited = [
        "users",
        "tokens",
        "accesskeys",
        "webhooks",
        "settings",
        "templates",
        "services",
        "namespaces",
        "aliases",
        "groups",
    ];
    let edited: Vec<_> = edited.iter().map(|sort| format!("/ui/edit/{sort}")).collect();
    for path in &edited {
        let fields = [
            ("form_token", token.as_str()),
            ("/name", "mine"),
            ("/namespace", "other"),
            ("/alias", "mine"),
            ("/alias_namespace", "other"),
            ("/service", "other-pay"),
            ("/releases_kept", "7"),
        ];
        assert_eq!(visit.post(path, &fields).await.status(), StatusCode::FORBIDDEN, "{path}");
    }
    for (path, change) in [("/ui/accounts", "disable"), ("/ui/cluster", "snapshot")] {
        let fields = [("form_token", token.as_str()), ("change", change), ("name", "admin"), ("id", "1")];
        assert_eq!(visit.post(path, &fields).await.status(), StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(
        api.get("/config/v1/configfiles?namespace=shop&group=app&name=application.properties").await.body["configFile"]
            ["content"],
        "a=1"
    );
}

/// Things with a form of their own and no page besides, made, changed and deleted by it.
#[tokio::test(flavor = "multi_thread")]
async fn small_things_are_edited_in_forms() {
    let cluster = Cluster::start_with_data_key(1, &[]).await;
    let (api, visit) = (cluster.api(1), Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await);
    let token = visit.form_token().await;
    let send = async |path: &str, fields: &[(&str, &str)]| {
        let fields = [fields, &[("form_token", token.as_str())]].concat();
        let answer = visit.post(path, &fields).await;
        (answer.status(), place(&answer).to_owned(), answer.text().await.expect("text"))
    };
    let done = |answer: &(StatusCode, String, String), place: &str| {
        assert_eq!((answer.0, answer.1.as_str()), (StatusCode::SEE_OTHER, place), "{}", answer.2);
    };
    let shown_once = |answer: &(StatusCode, String, String)| {
        assert_eq!(answer.0, StatusCode::OK, "{}", answer.2);
        let rest = answer.2.split("<code>").nth(1).expect("it is shown").to_owned();
        rest.split('<').next().expect("it ends").to_owned()
    };

    let hook = [
        ("/name", "ci"),
        ("/url", "http://127.0.0.1:9/hook"),
        ("/events", ""),
        ("/events/publish", "true"),
        ("/allow_private", "true"),
    ];
    assert!(shown_once(&send("/ui/edit/webhooks", &hook).await).len() >= 16);
    let page = visit.page("/ui/edit/webhooks?name=ci").await;
    assert!(page.contains("name=\"/events/publish\" value=\"true\" checked") && !page.contains("/name\""), "{page}");
    done(
        &send("/ui/edit/webhooks", &[("name", "ci"), ("/url", "http://127.0.0.1:9/other")]).await,
        "/ui/webhooks?done=saved",
    );
    assert!(visit.page("/ui/webhooks").await.contains("http://127.0.0.1:9/other"));
    let hooks = api.get("/admin/v1/webhooks").await;
    assert_eq!(hooks.body["data"][0]["events"], json!(["publish"]), "what is not said stays");
    done(&send("/ui/edit/webhooks", &[("name", "ci"), ("change", "delete")]).await, "/ui/webhooks?done=deleted");
    assert_eq!(api.get("/admin/v1/webhooks").await.amount(), 0);
    let refused = send("/ui/edit/webhooks", &[("/name", "ci"), ("/url", "ftp://x")]).await;
    assert!(refused.0.is_client_error() && refused.2.contains("value=\"ftp://x\" aria-invalid"), "{}", refused.2);

    let secret = shown_once(
        &send("/ui/edit/accesskeys", &[("/app_id", "app"), ("/name", "one"), ("/mode", "observe"), ("/secret", "")])
            .await,
    );
    assert!(!visit.page("/ui/edit/accesskeys?app_id=app&name=one").await.contains(&secret));
    done(
        &send("/ui/edit/accesskeys", &[("app_id", "app"), ("name", "one"), ("/mode", "enforce")]).await,
        "/ui/accounts?done=saved",
    );
    assert_eq!(api.get("/auth/v1/accesskeys").await.body["data"][0]["mode"], "enforce");

    let template = [("/name", "spring"), ("/content", "a: 1\r\nb: 2\r\n"), ("/format", "yaml")];
    done(&send("/ui/edit/templates", &template).await, "/ui/templates?done=created");
    let file = [("namespace", "default"), ("group", "app"), ("name", "made.yaml"), ("template", "spring")];
    assert_eq!(send("/ui/config", &file).await.0, StatusCode::SEE_OTHER);
    let made = api.get("/config/v1/configfiles?namespace=default&group=app&name=made.yaml").await;
    assert_eq!(made.body["configFile"]["content"], "a: 1\nb: 2\n");

    let token_of_ci = shown_once(
        &send(
            "/ui/edit/tokens",
            &[
                ("/name", "ci"),
                ("/grants/0", ""),
                ("/grants/0/role", "reader"),
                ("/grants/0/namespace", "shop"),
                ("/grants/0/name", "*"),
                ("/networks/0", "127.0.0.0/8"),
            ],
        )
        .await,
    );
    let by_it = http().build().expect("a client").get(format!("{}/naming/v1/services", visit.base));
    assert_eq!(by_it.header("authorization", token_of_ci).send().await.expect("an answer").status(), StatusCode::OK);

    done(
        &send("/ui/edit/namespaces", &[("/name", "shop"), ("/comment", "sells")]).await,
        "/ui/namespaces?done=created",
    );
    assert!(visit.page("/ui/namespaces?name=sho").await.contains("sells"));
    done(
        &send("/ui/services", &[("namespace", "shop"), ("name", "pay")]).await,
        "/ui/service?namespace=shop&name=pay&done=created",
    );
    let pairs = [
        ("namespace", "shop"),
        ("name", "pay"),
        ("/metadata/0", ""),
        ("/metadata/0/key", "tier"),
        ("/metadata/0/value", "gold"),
    ];
    done(
        &send("/ui/edit/services", &[pairs.as_slice(), &[("/metadata", "")]].concat()).await,
        "/ui/service?namespace=shop&name=pay&done=saved",
    );
    let alias = [("/alias", "cash"), ("/alias_namespace", "shop"), ("/service", "pay"), ("/namespace", "shop")];
    done(&send("/ui/edit/aliases", &alias).await, "/ui/services?done=created");
    let service = visit.page("/ui/service?namespace=shop&name=pay").await;
    assert!(service.contains("gold") && service.contains("alias_namespace=shop&amp;alias=cash"), "{service}");
    done(
        &send("/ui/edit/groups", &[("namespace", "default"), ("name", "app"), ("/comment", "ours")]).await,
        "/ui/config?done=saved",
    );

    done(&send("/ui/edit/settings", &[("/releases_kept", "7")]).await, "/ui/cluster?done=saved");
    assert_eq!(api.get("/admin/v1/settings").await.body["settings"]["releases_kept"], 7);
    let refused = send("/ui/edit/settings", &[("/releases_kept", "none")]).await;
    assert!(
        refused.0.is_client_error() && refused.2.contains("name=\"/releases_kept\" value=\"none\""),
        "{}",
        refused.2
    );

    // A link from elsewhere begins none.
    let linked = visit.get("/ui/cluster/backup").await;
    assert_eq!((linked.status(), place(&linked)), (StatusCode::SEE_OTHER, "/ui/cluster"));
    assert_ne!(visit.post("/ui/cluster/backup", &[]).await.status(), StatusCode::OK, "a form of another page");
    let backup = visit.post("/ui/cluster/backup", &[("form_token", &visit.form_token().await)]).await;
    assert!(
        backup.headers()["content-disposition"].to_str().expect("text").starts_with("attachment; filename=\"thuban-")
    );
    assert!(backup.bytes().await.expect("the file").len() > 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_console_where_none_is_wanted() {
    let cluster = Cluster::start_with(1, &["--ui", "off"]).await;
    let stranger = Visit::of(&cluster, 1);
    for path in ["/ui", "/", "/ui/sign-in"] {
        assert_eq!(stranger.get(path).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
}

/// Signs in, makes a service and a rule, explains, releases to a tenth, promotes, rolls back; the leader dies; edits a
/// config file with a mistake, mends and publishes it; finds it in the audit; as a reader is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_a_person() {
    let mut cluster = Cluster::start(3).await;
    let backends = cluster.ids().into_iter().map(|id| cluster.ports(id).api).collect();
    let balancer = Balancer::start(backends).await;
    let mut day = Day::start("day.py", &[&format!("http://{}", balancer.address()), ADMIN_PASSWORD]).await;
    day.comes_to("half").await;
    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    cluster.leader().await;
    day.go_on().await;
    day.comes_to("published").await;
    let alive = cluster.running()[0];
    let mut client = RealClient::start(Kind::Python, cluster.ports(alive).compat, "app", "application").await;
    client.holds(SEEN_LIMIT, "number", "7").await;
    day.go_on().await;
    day.comes_to("done").await;
    day.ends().await;
}
