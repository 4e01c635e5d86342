//! Request lines and headers: credentials, paths, methods, pages.

use std::net::SocketAddr;

use reqwest::Method;
use serde_json::json;

use super::{LISTS, everything};
use crate::envelope::both;
use crate::harness::{Answer, Api, Cluster, Raw, RawAnswer};

const SERVICES: &str = "/naming/v1/services";
const BODY: &str = r#"[{"namespace":"intruder","name":"intruder"}]"#;

/// A create that would work, but for what is done to its head.
fn create(path: &str, headers: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: thuban\r\n{headers}Content-Length: {}\r\n\r\n{BODY}", BODY.len())
}

/// The addresses of the management surface of the leader and of a follower.
async fn doors(cluster: &Cluster) -> [(&'static str, SocketAddr); 2] {
    let (leader, follower) = (cluster.leader().await, cluster.followers().await[0]);
    [("leader", cluster.ports(leader).api), ("follower", cluster.ports(follower).api)]
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_a_token_opens() {
    let cluster = Cluster::start(3).await;
    let token = cluster.token();
    let before = everything(&cluster.api(1)).await;
    let cases = [
        ("none", String::new(), 401, 401_002),
        ("empty", "Authorization: \r\n".into(), 401, 401_002),
        ("blanks", "Authorization:     \r\n".into(), 401, 401_002),
        ("a scheme alone", "Authorization: Bearer \r\n".into(), 401, 401_002),
        ("another scheme", format!("Authorization: Basic {token}\r\n"), 401, 401_004),
        ("a signature", "Authorization: Apollo app:c2ln\r\n".into(), 401, 401_004),
        ("a part", format!("Authorization: {}\r\n", &token[..token.len() - 1]), 401, 401_004),
        ("more than it", format!("Authorization: {token}0\r\n"), 401, 401_004),
        ("upper case", format!("Authorization: {}\r\n", token.to_uppercase()), 401, 401_004),
        ("twice", format!("Authorization: {token}\r\nAuthorization: {token}\r\n"), 401, 401_004),
        ("a good one and a bad one", format!("Authorization: {token}\r\nAuthorization: x\r\n"), 401, 401_004),
        ("bytes", "Authorization: \u{fe}\u{ff}\r\n".into(), 401, 401_004),
        ("as a cookie", format!("Cookie: Authorization={token}\r\n"), 401, 401_002),
        ("64 KiB", format!("Authorization: {}\r\n", "x".repeat(64 << 10)), 431, 0),
        ("many headers", (0..1000).map(|n| format!("X-{n}: y\r\n")).collect(), 431, 0),
    ];
    for (role, door) in doors(&cluster).await {
        for (title, headers, status, code) in &cases {
            let answer = RawAnswer::of(door, create(SERVICES, headers)).await;
            assert_eq!((answer.status, answer.code()), (*status, *code), "{role}, {title}: {answer:?}");
        }
        for query in ["token", "Authorization", "authorization", "access_token"] {
            let answer = RawAnswer::of(door, create(&format!("{SERVICES}?{query}={token}"), "")).await;
            assert_eq!(answer.code(), 401_002, "{role}, {query} in the query: {answer:?}");
        }
    }
    assert_eq!(everything(&cluster.api(1)).await, before);
}

/// No spelling of a path leads around the check that its clean form meets.
#[tokio::test(flavor = "multi_thread")]
async fn tricks_with_the_path_lead_nowhere() {
    let cluster = Cluster::start(3).await;
    let authorization = format!("Authorization: {}\r\n", cluster.token());
    let before = everything(&cluster.api(1)).await;
    let paths = [
        "/naming/v1/services/",
        "//naming/v1/services",
        "/naming//v1/services",
        "/naming/./v1/services",
        "/./naming/v1/services",
        "/naming/v1/../v1/services",
        "/naming/v1/%2e%2e/v1/services",
        "/livez/../naming/v1/services",
        "/metrics/%2e%2e/naming/v1/services",
        "/naming/v1/services;x=y",
        "/naming;/v1/services",
        "/NAMING/v1/services",
        "/naming/V1/services",
        "/naming/v1/services%00",
        "/naming/v1/services%20",
        "/naming%2fv1%2fservices",
        "/naming/v1%5cservices",
        "/naming/v1/%73ervices",
        "/naming/v1/%c1%b3ervices",
        "/naming/v1/%c0%ae%c0%ae/services",
        "/naming/v1/services.json",
        "/naming/v1/services/%",
    ];
    for (role, door) in doors(&cluster).await {
        for path in paths {
            for headers in ["", authorization.as_str()] {
                let answer = RawAnswer::of(door, create(path, headers)).await;
                assert_eq!((answer.status, answer.code()), (404, 404_000), "{role}, {path}: {answer:?}");
            }
        }
        // The whole address in the request line is the same path.
        let absolute = create("http://elsewhere/naming/v1/services", "");
        assert_eq!(RawAnswer::of(door, absolute).await.code(), 401_002, "{role}");
        for (title, line) in [
            ("a blank in the path", "POST /naming/v1/ser vices HTTP/1.1\r\n\r\n"),
            ("no version", "POST /naming/v1/services\r\n\r\n"),
            ("another version", "POST /naming/v1/services HTTP/3.7\r\n\r\n"),
            ("no path", "POST\r\n\r\n"),
            ("bytes", "\u{1}\u{2}\u{3}\r\n\r\n"),
            ("a header without name", "GET /livez HTTP/1.1\r\n: x\r\n\r\n"),
            ("a header in two lines", "GET /livez HTTP/1.1\r\nA: b\r\n c\r\n\r\n"),
            ("two lengths", "POST /livez HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
            ("a length that is none", "POST /livez HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        ] {
            assert_eq!(RawAnswer::of(door, line).await.status, 400, "{role}, {title}");
        }
    }
    assert_eq!(everything(&cluster.api(1)).await, before);
}

/// On either port; a load balancer that speaks HTTP/1.0 asks without a name.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_http_1_1_has_one_host() {
    let cluster = Cluster::start(1).await;
    let ports = cluster.ports(1);
    for door in [ports.api, ports.compat] {
        for (head, status) in [
            ("GET /livez HTTP/1.1\r\n\r\n", 400),
            ("GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
            ("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("GET /livez HTTP/1.0\r\n\r\n", 200),
        ] {
            assert_eq!(RawAnswer::of(door, head).await.status, status, "{door} {head}");
        }
    }
    let encoded = "Host: a\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}";
    let authorization = format!("Authorization: {}\r\n", cluster.token());
    let write = format!("POST {SERVICES} HTTP/1.1\r\n{authorization}{encoded}");
    let answer = RawAnswer::of(ports.api, write).await;
    assert!(answer.status == 400 && format!("{answer:?}").contains("gzip"), "{answer:?}");
    for (path, status) in
        [("//services/config", 200), ("//configs/app/default/none", 404), ("/configs//default/a", 400)]
    {
        let answer = RawAnswer::of(ports.compat, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        assert_eq!(answer.status, status, "{path} {answer:?}");
    }
    cluster.api(1).publish("default", "app", "a.properties", "k=v").await;
    let head = "GET //configs/app/default/a HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(RawAnswer::of(ports.compat, head).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_methods_are_no_way_in() {
    let cluster = Cluster::start(3).await;
    let bare = |api: &Api| api.clone().without_token();
    let before = everything(&cluster.api(1)).await;
    for (role, api) in both(&cluster).await {
        for method in ["OPTIONS", "TRACE", "PATCH", "DELETE", "PROPFIND", "GETS"] {
            let method: Method = method.parse().expect("a method");
            for api in [api.clone(), bare(&api)] {
                let answer = api.try_send(method.clone(), SERVICES, None).await.expect("the request is answered");
                assert_eq!((answer.status, answer.code()), (405, 405_000), "{role}, {method}: {answer}");
                assert_eq!(answer.header("access-control-allow-origin"), "", "{role}, {method}");
            }
        }
        // HEAD is a GET without its body, and meets the same check.
        for (api, status) in [(api.clone(), 200), (bare(&api), 401)] {
            let answer = api.try_send(Method::HEAD, SERVICES, None).await.expect("the request is answered");
            assert_eq!((answer.status, &answer.body), (status, &json!("")), "{role}: {answer}");
        }
        // What acts is no GET.
        for verb in ["add", "promote", "remove", "transfer", "snapshot"] {
            api.get(&format!("/admin/v1/cluster/{verb}")).await.expect_code(405_000);
        }
        for verb in ["services/delete", "routings/delete", "ratelimits/releases/rollback"] {
            api.get(&format!("/naming/v1/{verb}")).await.expect_code(405_000);
        }
        api.get("/auth/v1/user/logout").await.expect_code(405_000);
        overrides_and_forms(role, &api).await;
    }
    let door = cluster.ports(cluster.leader().await).api;
    let mut tunnel = Raw::connect(door).await;
    tunnel.send("CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n").await;
    let status = tunnel.answer().await.map(|answer| answer.status);
    assert!(matches!(status, Some(400..500)), "{status:?}");
    assert_eq!(everything(&cluster.api(1)).await, before);
}

/// A page of another site can send a form from a browser, and no more than that.
async fn overrides_and_forms(role: &str, api: &Api) {
    for header in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        let request = api.request(Method::GET, SERVICES).header(header, "POST").body(BODY);
        let answer = Answer::read(request).await.expect("the request is answered").expect_code(200_000);
        assert!(answer.body["services"].is_array(), "{role}: {header} makes a GET a POST: {answer}");
    }
    let form = "application/x-www-form-urlencoded";
    let bare = api.clone().without_token();
    for path in ["/admin/v1/cluster/transfer", SERVICES, "/naming/v1/routings"] {
        let request = bare.request(Method::POST, path).header("Origin", "http://evil").header("Content-Type", form);
        let answer = Answer::read(request.body("id=1")).await.expect("the request is answered").expect_code(401_002);
        assert_eq!(answer.header("access-control-allow-origin"), "", "{role}, {path}");
        let request = api.request(Method::POST, path).header("Content-Type", form).body("id=1");
        Answer::read(request).await.expect("the request is answered").expect_code(400_001);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_limits() {
    let cluster = Cluster::start(3).await;
    for batch in ["a", "b"] {
        let items = (0..60).map(|n| json!({"namespace": format!("{batch}{n}"), "name": "s"})).collect();
        cluster.api(1).post(SERVICES, &items).await.expect_code(200_000);
    }
    let queries = [
        ("", Some(100)),
        ("limit=", Some(100)),
        ("limit=0", Some(0)),
        ("limit=1", Some(1)),
        ("limit=100", Some(100)),
        ("limit=101", Some(100)),
        ("limit=1000000000", Some(100)),
        ("limit=-1", None),
        ("limit=1.5", None),
        ("limit=abc", None),
        ("limit=1e2", None),
        ("limit=0x10", None),
        ("limit=%2B+5", None),
        ("limit=18446744073709551616", None),
        ("offset=", Some(100)),
        ("offset=1000", Some(0)),
        ("offset=9223372036854775808", Some(0)),
        ("offset=9223372036854775808&limit=9223372036854775808", Some(0)),
        ("offset=-1", None),
        ("offset=abc", None),
        ("offset=1.5", None),
        ("offset=18446744073709551616", None),
    ];
    for (role, api) in both(&cluster).await {
        for list in LISTS {
            for (query, rows) in queries {
                let answer = api.get(&format!("{list}?{query}")).await;
                let Some(rows) = rows else {
                    let key = query.split_once('=').map_or(query, |(key, _)| key);
                    let answer = answer.expect_code(400_103);
                    assert!(
                        answer.body["info"].as_str().is_some_and(|info| info.contains(key)),
                        "{role}, {list}: {answer}"
                    );
                    continue;
                };
                let answer = answer.expect_code(200_000);
                let size = answer.body["size"].as_u64().unwrap_or(u64::MAX);
                assert!(size <= rows, "{role}, {list}?{query} has {size} rows");
                assert!(list != SERVICES || size == rows, "{role}, {list}?{query} has {size} rows, not {rows}");
            }
        }
    }
}

/// A write is about the object named in its body; another name or id in its query is ignored.
#[tokio::test(flavor = "multi_thread")]
async fn the_query_of_a_write_names_nothing() {
    let cluster = Cluster::start(3).await;
    for (role, api) in both(&cluster).await {
        let of = |name: &str| json!({"namespace": role, "name": name});
        let created = api.post(SERVICES, &json!([of("meant"), of("other")])).await.expect_code(200_000);
        let other = created.body["responses"][1]["service"]["id"].as_str().expect("an id").to_owned();
        let queries = [format!("id={other}"), format!("namespace={role}&name=other"), format!("service_id={other}")];
        for (number, query) in queries.iter().enumerate() {
            let comment = format!("change {number}");
            let change = json!([{"namespace": role, "name": "meant", "comment": comment}]);
            api.put(&format!("{SERVICES}?{query}"), &change).await.expect_code(200_000);
            let listed = api.get(&format!("{SERVICES}?namespace={role}")).await.expect_code(200_000).body;
            let comment_of = |name: &str| {
                let services = listed["services"].as_array().expect("a list");
                services.iter().find(|service| service["name"] == name).expect("it is there")["comment"].clone()
            };
            assert_eq!((comment_of("meant"), comment_of("other")), (json!(comment), json!("")), "{role}, {query}");
        }
        for query in queries {
            let id = "0".repeat(32);
            let gone = json!([{"id": id, "namespace": role, "name": format!("not there {}", query.len())}]);
            api.post(&format!("{SERVICES}/delete?{query}"), &gone).await;
        }
        let left = api.get(&format!("{SERVICES}?namespace={role}")).await.expect_code(200_000);
        assert_eq!(left.amount(), 2, "{role}: {left}");
    }
}
