//! Malformed bodies on every kind of write: refused whole or per item, never a panic.

use reqwest::Method;
use serde_json::{Value, json};

use super::everything;
use crate::envelope::both;
use crate::harness::{Answer, Api, Cluster};

/// Writes that take a batch.
const BATCHES: [(Method, &str); 13] = [
    (Method::POST, "/naming/v1/instances"),
    (Method::POST, "/naming/v1/services"),
    (Method::PUT, "/naming/v1/services"),
    (Method::POST, "/naming/v1/namespaces"),
    (Method::POST, "/naming/v1/service/alias"),
    (Method::POST, "/naming/v1/faultdetectors"),
    (Method::PUT, "/naming/v1/ratelimits"),
    (Method::POST, "/naming/v1/routings/releases"),
    (Method::PUT, "/naming/v1/routings/releases/rollback"),
    (Method::POST, "/config/v1/configfilegroups"),
    (Method::POST, "/config/v1/configfiles"),
    (Method::POST, "/config/v1/configfiles/createandpub"),
    (Method::POST, "/config/v1/configfiles/release"),
];
const BODY_MAX: usize = 2 << 20;

/// A body with contents of config files has room for as many characters as they may have.
fn body_max(path: &str) -> usize {
    match path {
        "/config/v1/configfiles" | "/config/v1/configfiles/createandpub" => 8 << 20,
        _ => BODY_MAX,
    }
}

const LOGIN: &str = "/auth/v1/user/login";
/// Bytes of what anybody may send without a token.
const LOGIN_BODY_MAX: usize = 4 << 10;
/// Writes that take one object.
const SINGLES: [(Method, &str); 3] =
    [(Method::POST, LOGIN), (Method::POST, "/v1/Discover"), (Method::POST, "/admin/v1/cluster/remove")];

async fn send(api: &Api, method: &Method, path: &str, body: Vec<u8>) -> Answer {
    let request = api.request(method.clone(), path).header("Content-Type", "application/json").body(body);
    Answer::read(request).await.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"))
}

/// Bodies that are no batch, and the code for all of them together.
fn unreadable(bytes_max: usize) -> Vec<(&'static str, Vec<u8>, u64)> {
    let deep = |open: &str, close: &str| [open.repeat(10_000), close.repeat(10_000)].concat().into_bytes();
    let items = |item: &str, count: usize| format!("[{}]", vec![item; count].join(",")).into_bytes();
    vec![
        ("nothing", Vec::new(), 400_001),
        ("blanks", b" \r\n\t".to_vec(), 400_001),
        ("half", b"[{\"name\":\"a\"".to_vec(), 400_001),
        ("10 000 arrays", deep("[", "]"), 400_001),
        ("10 000 objects", deep("{\"a\":", "}"), 400_001),
        ("10 000 open arrays", b"[".repeat(10_000), 400_001),
        ("65 levels", [b"[".repeat(65), b"]".repeat(65)].concat(), 400_001),
        ("a byte order mark", b"\xef\xbb\xbf[{}]".to_vec(), 400_001),
        ("UTF-16", b"[\0{\0}\0]\0".to_vec(), 400_001),
        ("no UTF-8", b"[{\"name\":\"\xff\xfe\"}]".to_vec(), 400_001),
        ("overlong UTF-8", b"[{\"name\":\"\xc0\xaf\"}]".to_vec(), 400_001),
        ("a trailing comma", b"[{},]".to_vec(), 400_001),
        ("no comma", b"[{}{}]".to_vec(), 400_001),
        ("two bodies", b"[{}][{}]".to_vec(), 400_001),
        ("a comment", b"[{}] // done".to_vec(), 400_001),
        ("single quotes", b"[{'name':'a'}]".to_vec(), 400_001),
        ("NaN", b"[NaN]".to_vec(), 400_001),
        ("Infinity", b"[{\"priority\":-Infinity}]".to_vec(), 400_001),
        ("a leading zero", b"[{\"priority\":007}]".to_vec(), 400_001),
        ("a raw line break in a text", b"[{\"name\":\"a\nb\"}]".to_vec(), 400_001),
        ("a raw NUL", b"[{\"name\":\"a\0b\"}]".to_vec(), 400_001),
        ("an unknown escape", br#"[{"name":"\x41"}]"#.to_vec(), 400_001),
        ("a text", b"\"[{}]\"".to_vec(), 400_001),
        ("a number", b"1".to_vec(), 400_001),
        ("true", b"true".to_vec(), 400_001),
        ("null", b"null".to_vec(), 400_001),
        ("no items", b"[]".to_vec(), 400_002),
        ("101 items", items("{}", 101), 400_003),
        ("100 001 items", items("null", 100_001), 400_003),
        ("one byte over the limit", [vec![b' '; bytes_max], b"1".to_vec()].concat(), 413_000),
    ]
}

/// Returns items that are refused alone; another item in the batch has its own result.
fn bad_items() -> Vec<(&'static str, String)> {
    let field = |value: &str| format!(r#"{{"name":{value},"namespace":{value}}}"#);
    vec![
        ("null", "null".into()),
        ("a list", "[]".into()),
        ("a list of fields", r#"["a","b"]"#.into()),
        ("a text", r#""x""#.into()),
        ("a number", "1e400".into()),
        ("a field twice", r#"{"name":"a","namespace":"n","name":"a","namespace":"n"}"#.into()),
        ("a number as name", field("1e3")),
        ("a number out of range as name", field("1e400")),
        ("a lone high surrogate", field(r#""\ud800""#)),
        ("a lone low surrogate", field(r#""\udc00x""#)),
        ("a list as name", field(r#"["a"]"#)),
        ("an object as name", field(r#"{"a":1}"#)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_batches_are_refused_whole() {
    let cluster = Cluster::start(3).await;
    let before = everything(&cluster.api(1)).await;
    for (role, api) in both(&cluster).await {
        for (method, path) in BATCHES {
            for (title, body, code) in unreadable(body_max(path)) {
                let answer = send(&api, &method, path, body).await;
                let shown = format!("{role}, {method} {path}, {title}: {answer}");
                assert_eq!((answer.code(), u64::from(answer.status)), (code, code / 1000), "{shown}");
                assert_eq!(answer.header("content-type"), "application/json", "{shown}");
                assert_eq!(answer.body["responses"], Value::Null, "{shown}");
            }
        }
        for (method, path) in SINGLES {
            for (title, body, _) in unreadable(BODY_MAX) {
                let is_too_large = body.len() > if path == LOGIN { LOGIN_BODY_MAX } else { BODY_MAX };
                let answer = send(&api, &method, path, body).await;
                let code = if is_too_large { 413_000 } else { 400_001 };
                assert_eq!(answer.code(), code, "{role}, {method} {path}, {title}: {answer}");
            }
        }
    }
    assert_eq!(everything(&cluster.api(1)).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_items_are_refused_alone() {
    let cluster = Cluster::start(3).await;
    for (role, api) in both(&cluster).await {
        let before = everything(&api).await;
        for (method, path) in BATCHES {
            for (title, item) in bad_items() {
                let answer = send(&api, &method, path, format!("[{item},{{}}]").into_bytes()).await;
                let shown = format!("{role}, {method} {path}, {title}: {answer}");
                let codes = answer.item_codes();
                assert_eq!((codes.len(), codes[0]), (2, 400_001), "{shown}");
                assert!(codes[1] >= 400_000 && codes[1] != 400_001, "an item that says nothing is read: {shown}");
                let info = answer.body["responses"][0]["info"].as_str().unwrap_or_default();
                assert!(info.len() > "request decode failed".len(), "the reason is missing: {shown}");
            }
        }
        assert_eq!(everything(&api).await, before, "{role}");
    }
}

/// A body may fill the limit; its items are then checked as usual.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_be_as_large_as_the_limit() {
    let cluster = Cluster::start(3).await;
    for (role, api) in both(&cluster).await {
        let item = format!(r#"[{{"namespace":"large","name":"{role}"}}]"#);
        let padded = [vec![b' '; (2 << 20) - item.len()], item.into_bytes()].concat();
        send(&api, &Method::POST, "/naming/v1/services", padded).await.expect_code(200_000);
        let rule = json!([{"namespace": "large", "name": role, "routing_config": {"rules": vec![json!({}); 20_000]}}]);
        let answer = api.post("/naming/v1/routings", &rule).await.expect_code(200_000);
        let rules = &answer.body["responses"][0]["routeRule"]["routing_config"]["rules"];
        assert_eq!(rules.as_array().map(Vec::len), Some(20_000), "{role}");
        let five_mib = json!([{"namespace": "large", "name": "x", "routing_config": {"@type": "x".repeat(5 << 20)}}]);
        api.post("/naming/v1/routings", &five_mib).await.expect_code(413_000);
    }
}
