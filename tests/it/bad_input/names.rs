//! Names that look like others, that walk, that would be markup or code somewhere else; and what
//! one name can be taken for.

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::everything;
use crate::envelope::both;
use crate::harness::{Answer, Api, Cluster, RawAnswer};

const SERVICES: &str = "/naming/v1/services";

/// A second spelling is a second thing, or none; it is never the first one.
#[tokio::test(flavor = "multi_thread")]
async fn what_looks_alike_is_not_the_same() {
    let cluster = Cluster::start(3).await;
    let [(_, leader), (_, follower)] = both(&cluster).await;
    leader.post(SERVICES, &json!([{"namespace": "shop", "name": "order"}])).await.expect_code(200_000);
    let before = everything(&leader).await;
    for api in [&leader, &follower] {
        for namespace in [" shop", "shop ", "ｓｈｏｐ", "sh\u{200b}op", "shop\u{0}", "ѕhop", "shop\n", "sh\u{202e}op"]
        {
            let item = json!([{"namespace": namespace, "name": "order"}]);
            api.post(SERVICES, &item).await.expect_code(400_110);
            api.post("/naming/v1/namespaces", &json!([{"name": namespace}])).await.expect_code(400_110);
            api.post("/naming/v1/routings", &item).await.expect_code(400_110);
            let group = json!({"namespace": namespace, "group": "g", "file_name": "f", "content": ""});
            api.post("/config/v1/configfiles/createandpub", &group).await.expect_code(400_110);
        }
        for name in [" order", "order ", "ｏrder", "or\u{200b}der", "order\u{0}", "оrder", "order\r\n"] {
            api.post(SERVICES, &json!([{"namespace": "shop", "name": name}])).await.expect_code(400_120);
        }
    }
    assert_eq!(everything(&leader).await, before);
    // Another case is another name; taking it leaves the first as it is.
    follower.post(SERVICES, &json!([{"namespace": "SHOP", "name": "order"}])).await.expect_code(200_000);
    follower.post(SERVICES, &json!([{"namespace": "shop", "name": "Order"}])).await.expect_code(200_000);
    let exact = leader.get(&format!("{SERVICES}?namespace=shop&name=order")).await.expect_code(200_000);
    assert_eq!(exact.amount(), 1, "{exact}");
    follower
        .post(&format!("{SERVICES}/delete"), &json!([{"namespace": "SHOP", "name": "order"}]))
        .await
        .expect_code(200_000);
    assert_eq!(leader.get(&format!("{SERVICES}?namespace=shop&name=order")).await.amount(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_do_not_walk() {
    let cluster = Cluster::start(3).await;
    let [(_, leader), (_, follower)] = both(&cluster).await;
    let home = cluster.data(1).parent().expect("the data directories have a home").to_owned();
    let listed = || {
        let entries = std::fs::read_dir(&home).expect("the home can be listed");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry can be read").file_name()).collect();
        names.sort();
        names
    };
    let before = (everything(&leader).await, listed());
    let walking = [
        "../../etc/passwd",
        "..",
        ".",
        "/etc/passwd",
        "a/../../b",
        "a//b",
        "a/",
        "./a",
        "a/./b",
        "a\u{0}.json",
        "a\nb",
        "",
    ];
    for api in [&leader, &follower] {
        for file in walking {
            let item = json!({"namespace": "walk", "group": "g", "file_name": file, "content": "x"});
            api.post("/config/v1/configfiles/createandpub", &item).await.expect_code(400_802);
            let item = json!([{"namespace": "walk", "group": "g", "name": file, "content": "x"}]);
            let answer = api.post("/config/v1/configfiles", &item).await.expect_code(400_802);
            assert_eq!(answer.item_codes(), [400_802], "{file:?}: {answer}");
        }
        for group in ["a b", "..\\..\\etc", "g\u{0}", "%2e%2e", "", "g?x=y", "<script>"] {
            let item = json!({"namespace": "walk", "group": group, "file_name": "f", "content": "x"});
            api.post("/config/v1/configfiles/createandpub", &item).await.expect_code(400_801);
        }
    }
    assert_eq!((everything(&leader).await, listed()), before);
    // Where dots and slashes are allowed they have no special meaning.
    let dots = json!([{"namespace": "../../etc", "name": "../passwd"}]);
    follower.post(SERVICES, &dots).await.expect_code(200_000);
    let found = leader.get(&format!("{SERVICES}?namespace=../../etc&name=../passwd")).await.expect_code(200_000);
    assert_eq!(found.amount(), 1, "{found}");
    assert_eq!(listed(), before.1);
}

/// Text is stored as it was sent, and shown as text everywhere.
#[tokio::test(flavor = "multi_thread")]
async fn text_stays_text() {
    let cluster = Cluster::start(3).await;
    let [(_, leader), (_, follower)] = both(&cluster).await;
    let text = "<script>alert(1)</script>\u{2028}\r\nSet-Cookie: a=b\r\n\r\n\u{1b}[31m\u{0}\"'&";
    let item = json!([{"namespace": "text", "name": "s", "comment": text, "metadata": {text: text}}]);
    leader.post(SERVICES, &item).await.expect_code(200_000);
    let list = follower.get(&format!("{SERVICES}?namespace=text")).await.expect_code(200_000);
    assert_eq!(list.body["services"][0]["comment"], text);
    assert_eq!(list.body["services"][0]["metadata"], json!({text: text}));
    expect_plain(&list);
    let refused = follower.post(SERVICES, &json!([{"namespace": text, "name": text}])).await.expect_code(400_110);
    expect_plain(&refused);
    expect_plain(&follower.get("/naming/v1/%3Cscript%3E").await.expect_code(404_000));

    leader.publish("default", "text", "application", "k=<b>\\r\\nSet-Cookie: a=b\\r\\n\\r\\n\nnext=1").await;
    cluster.expect_equal_state().await;
    for id in cluster.ids() {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: thuban\r\n\r\n");
        for path in ["/configs/text/default/application", "/configfiles/text/default/application"] {
            let answer = RawAnswer::of(cluster.ports(id).compat, get(path)).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(answer.head.contains("x-content-type-options: nosniff"), "{answer:?}");
            assert!(!answer.head.contains("set-cookie") && !answer.head.contains("text/html"), "{answer:?}");
            assert!(!answer.body.contains('\r'), "{path} breaks lines that are not its own: {answer:?}");
        }
    }
}

/// Checks that no browser interprets the answer as a page, and that its headers are the server's own.
#[track_caller]
fn expect_plain(answer: &Answer) {
    assert_eq!(answer.header("content-type"), "application/json", "{answer}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff", "{answer}");
    assert_eq!(answer.header("set-cookie"), "", "{answer}");
}

/// App ids, clusters and files of a config client, each as odd as a client can write them.
#[tokio::test(flavor = "multi_thread")]
async fn config_clients_reach_nothing_by_odd_names() {
    let cluster = Cluster::start_with(3, &["--compat-auth", "required", "--long-poll-timeout-ms", "2000"]).await;
    cluster.api(1).publish("default", "app", "application", "secret=1").await;
    cluster.expect_equal_state().await;
    let (token, long) = (cluster.token(), "x".repeat(1000));
    let odd_apps =
        ["a%2Fpp", "%20app", "app%20", "App", "..", "%2e%2e", &long, "%F0%9F%98%80", "%c0%af", "app%00", "*", ""];
    let mut paths: Vec<String> = odd_apps.iter().map(|app| format!("/configs/{app}/default/application")).collect();
    for path in [
        "/configs/app/default",
        "/configs/app/default/",
        "/configs//app/default/application",
        "/configs/app/other/application%00",
        "/configs/app/default/APPLICATION.JSON",
        "/configs/app/default/..%2fapplication",
        "/configfiles/xml/app/default/application",
        "/configfiles/app/default//application",
        "/configfiles/json/app/default/",
        "/configfiles/raw/app/default/..",
        "/CONFIGS/app/default/application",
        "/notifications",
        "/notifications/v2/",
        "/notifications/v1",
        "/notifications/v2;x?appId=app&cluster=default",
        "/naming/v1/services",
        "/admin/v1/cluster",
    ] {
        paths.push(path.to_owned());
    }
    for id in cluster.ids() {
        let door = cluster.ports(id).compat;
        let get = async |path: &str, token: &str| {
            let line = format!("GET {path} HTTP/1.1\r\nHost: thuban\r\n");
            let authorization = if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
            RawAnswer::of(door, format!("{line}{authorization}\r\n")).await
        };
        let good = "/configs/app/default/application";
        assert_eq!(get(good, token).await.status, 200);
        assert_eq!(get(good, "").await.status, 401);
        for path in &paths {
            for token in ["", token] {
                let answer = get(path, token).await;
                assert!(matches!(answer.status, 400 | 401 | 404), "node {id}, {path}: {answer:?}");
                assert!(!answer.body.contains("secret"), "node {id}, {path}: {answer:?}");
            }
        }
        for list in [10_000, 300] {
            let items =
                (0..list).map(|n| json!({"namespaceName": format!("n{n}"), "notificationId": -1})).collect::<Value>();
            let encoded: String = url::form_urlencoded::byte_serialize(items.to_string().as_bytes()).collect();
            let path = format!("/notifications/v2?appId=app&cluster=default&notifications={encoded}");
            let status = get(&path, token).await.status;
            assert!(matches!(status, 400 | 414 | 431), "node {id}: {list} files are answered with {status}");
        }
        // An id that no change of this cluster had is foreign and ignored.
        let answered = cluster_poll(door, token, i64::from(i32::MAX)).await;
        assert_eq!(answered.status, 200, "node {id}: {answered:?}");
    }
}

async fn cluster_poll(door: std::net::SocketAddr, token: &str, id: i64) -> RawAnswer {
    let path = crate::harness::apollo::poll_path("app", "default", &[("application", id)], "");
    let request = format!("GET {path} HTTP/1.1\r\nHost: thuban\r\nAuthorization: {token}\r\n\r\n");
    RawAnswer::of(door, request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_stand_for_services_only() {
    let cluster = Cluster::start(3).await;
    for (role, api) in both(&cluster).await {
        let alias = |alias: &str, of: &str| {
            json!([{"namespace": role, "service": of, "alias_namespace": role,
                "alias": alias}])
        };
        let services = json!([{"namespace": role, "name": "real"}, {"namespace": role, "name": "other"}]);
        api.post(SERVICES, &services).await.expect_code(200_000);
        api.post("/naming/v1/service/alias", &alias("first", "real")).await.expect_code(200_000);
        let before = everything(&api).await;
        let cases = [
            ("to itself", alias("real", "real"), 400_201),
            ("over a service", alias("other", "real"), 400_201),
            ("over an alias", alias("first", "other"), 400_201),
            ("of an alias", alias("second", "first"), 400_504),
            ("of itself", alias("first", "first"), 400_504),
            ("of nothing", alias("second", "nothing"), 400_301),
            ("without a name", alias("", "real"), 400_133),
            ("with a blank", alias("se cond", "real"), 400_133),
        ];
        for (title, item, code) in cases {
            let answer = api.post("/naming/v1/service/alias", &item).await;
            assert_eq!(answer.item_codes(), [code], "{role}, {title}: {answer}");
        }
        let loops = json!([{"alias_namespace": role, "alias": "first", "namespace": role, "service": "first"}]);
        let answer = api.put("/naming/v1/service/alias", &loops).await;
        assert_eq!(answer.item_codes(), [400_504], "{role}, moved onto itself: {answer}");
        // The name of an alias is taken for services too.
        api.post(SERVICES, &json!([{"namespace": role, "name": "first"}])).await.expect_code(400_201);
        assert_eq!(everything(&api).await, before, "{role}");
    }
}

/// Through two nodes at once, and again after a lost answer: one object, and one answer that reports it.
#[tokio::test(flavor = "multi_thread")]
async fn one_name_is_created_once() {
    const ROUNDS: usize = 10;
    let cluster = Cluster::start(3).await;
    let [(_, leader), (_, follower)] = both(&cluster).await;
    for round in 0..ROUNDS {
        let service = json!([{"namespace": "once", "name": format!("s{round}")}]);
        let namespace = json!([{"name": format!("n{round}")}]);
        let alias = json!([{"namespace": "once", "service": format!("s{round}"), "alias": format!("a{round}"),
            "alias_namespace": "once"}]);
        let group = json!([{"namespace": "once", "name": format!("g{round}")}]);
        for (path, item) in [
            (SERVICES, &service),
            ("/naming/v1/namespaces", &namespace),
            ("/naming/v1/service/alias", &alias),
            ("/config/v1/configfilegroups", &group),
        ] {
            let (one, two) = tokio::join!(leader.post(path, item), follower.post(path, item));
            let mut codes = [one.code(), two.code()];
            codes.sort_unstable();
            assert_eq!(codes, [200_000, 400_201], "{path}: {one}\n{two}");
            same_request_again(&follower, path, item).await;
        }
    }
    cluster.expect_equal_state().await;
    assert_eq!(leader.get(&format!("{SERVICES}?namespace=once")).await.amount(), ROUNDS as u64);
}

/// The id of a request names it in logs; it is no ticket for the answer of an earlier one.
async fn same_request_again(api: &Api, path: &str, item: &Value) {
    for _ in 0..2 {
        let request = api.request(reqwest::Method::POST, path).header("Request-Id", "the same").json(item);
        let answer = Answer::read(request).await.expect("the request is answered").expect_code(400_201);
        assert_eq!(answer.header("request-id"), "the same", "{answer}");
    }
}

/// Addresses inside of rules are for clients: this server never calls them.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_in_rules_are_data() {
    let cluster = Cluster::start(3).await;
    let trap = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = format!("http://{}/admin", trap.local_addr().expect("a bound listener has an address"));
    let probe = json!({"protocol": "HTTP", "interval": 1, "http_config": {"method": "GET", "url": url}});
    let item = json!([{"namespace": "trap", "name": "trap", "target_service": {"service": "*"}, "rules": [probe]}]);
    cluster.api(1).post("/naming/v1/faultdetectors", &item).await.expect_code(200_000);
    cluster
        .api(2)
        .post("/naming/v1/faultdetectors/releases", &json!([{"rule_name": "trap"}]))
        .await
        .expect_code(200_000);
    for id in cluster.ids() {
        let shown = cluster.api(id).get("/naming/v1/faultdetectors?namespace=trap").await.expect_code(200_000);
        assert_eq!(shown.body["data"][0]["rules"][0]["http_config"]["url"], json!(url), "{shown}");
    }
    cluster.expect_equal_state().await;
    let caller = futures_util::FutureExt::now_or_never(trap.accept());
    assert!(caller.is_none(), "the server called {caller:?}");
}
