//! Common parts of every management call: the envelope, its codes, batches, tokens and limits.
//!
//! Rows, run on the leader and on a follower: which node answers must not matter.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{ADMIN_PASSWORD, Answer, Api, Cluster};

const SERVICES: &str = "/naming/v1/services";

/// The management surface of the leader and of a follower.
pub(crate) async fn both(cluster: &Cluster) -> [(&'static str, Api); 2] {
    let leader = cluster.leader().await;
    let follower = cluster.followers().await[0];
    [("leader", cluster.api(leader)), ("follower", cluster.api(follower))]
}

async fn send_raw(api: &Api, method: Method, path: &str, body: String) -> Answer {
    let request = api.request(method, path).header("Content-Type", "application/json").body(body);
    Answer::read(request).await.expect("the request is answered")
}

/// Bodies and routes that are refused as a whole, and with which code.
fn refusals() -> Vec<(&'static str, Method, &'static str, String, u64)> {
    let many = |count: usize| {
        let items: Vec<Value> = (0..count).map(|n| json!({"namespace": "limits", "name": format!("s{n}")})).collect();
        Value::Array(items).to_string()
    };
    let large = format!(r#"[{{"namespace":"limits","name":"large","comment":"{}"}}]"#, "x".repeat(3 << 20));
    let deep = format!("{}{}", "[".repeat(80), "]".repeat(80));
    vec![
        ("no JSON", Method::POST, SERVICES, "[{".into(), 400_001),
        ("empty body", Method::POST, SERVICES, String::new(), 400_001),
        ("a scalar", Method::POST, SERVICES, "7".into(), 400_001),
        ("lone surrogate", Method::POST, SERVICES, r#"[{"namespace":"n","name":"\ud800"}]"#.into(), 400_001),
        ("nested too deep", Method::POST, SERVICES, deep, 400_001),
        ("empty batch", Method::POST, SERVICES, "[]".into(), 400_002),
        ("101 items", Method::POST, SERVICES, many(101), 400_003),
        ("3 MiB", Method::POST, SERVICES, large, 413_000),
        ("unknown route", Method::GET, "/naming/v1/nothing", String::new(), 404_000),
        ("route of the other surface", Method::GET, "/configs/app/default/application", String::new(), 404_000),
        ("wrong method", Method::DELETE, SERVICES, String::new(), 405_000),
        ("negative offset", Method::GET, "/naming/v1/services?offset=-1", String::new(), 400_103),
        ("limit no number", Method::GET, "/naming/v1/services?limit=ten", String::new(), 400_103),
    ]
}

/// Single services that are refused, and with which code.
fn bad_items() -> Vec<(&'static str, Value, u64)> {
    let many: serde_json::Map<String, Value> = (0..65).map(|n| (format!("k{n}"), json!("v"))).collect();
    vec![
        ("no name", json!({"namespace": "limits"}), 400_120),
        ("name of 129", json!({"namespace": "limits", "name": "n".repeat(129)}), 400_120),
        ("name with a space", json!({"namespace": "limits", "name": "a b"}), 400_120),
        ("no namespace", json!({"name": "s"}), 400_110),
        ("namespace of 65", json!({"namespace": "n".repeat(65), "name": "s"}), 400_110),
        ("name as number", json!({"namespace": "limits", "name": 7}), 400_001),
        ("65 metadata", json!({"namespace": "limits", "name": "s", "metadata": many}), 400_150),
        (
            "metadata key of 129",
            json!({"namespace": "limits", "name": "s", "metadata": {"k".repeat(129): "v"}}),
            400_150,
        ),
        ("comment of 1025", json!({"namespace": "limits", "name": "s", "comment": "é".repeat(1025)}), 400_128),
        ("business of 129", json!({"namespace": "limits", "name": "s", "business": "b".repeat(129)}), 400_125),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_refused_in_the_envelope() {
    let cluster = Cluster::start(3).await;
    for (role, api) in both(&cluster).await {
        for (title, method, path, body, code) in refusals() {
            let answer = send_raw(&api, method, path, body).await;
            assert_eq!(answer.code(), code, "{role}, {title}: {answer}");
            assert_eq!(u64::from(answer.status), code / 1000, "{role}, {title}: {answer}");
            assert_eq!(answer.header("content-type"), "application/json", "{role}, {title}");
            assert!(answer.body["info"].as_str().is_some_and(|info| !info.is_empty()), "{role}, {title}: {answer}");
            assert!(!answer.header("request-id").is_empty(), "{role}, {title}");
            // The rest of the body was not read: a next request cannot follow on this connection.
            let is_closed = answer.header("connection").eq_ignore_ascii_case("close");
            assert_eq!(is_closed, code == 413_000, "{role}, {title}: {:?}", answer.headers);
        }
        for (title, item, code) in bad_items() {
            let answer = api.post(SERVICES, &json!([item])).await;
            assert_eq!((answer.code(), answer.item_codes()), (code, vec![code]), "{role}, {title}: {answer}");
        }
        let none = api.get("/naming/v1/services?namespace=limits").await.expect_code(200_000);
        assert_eq!(none.amount(), 0, "a refused request left something: {none}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn items_of_a_batch_succeed_or_fail_on_their_own() {
    let cluster = Cluster::start(3).await;
    for (role, api) in both(&cluster).await {
        let namespace = format!("batch-{role}");
        let item = |name: &str| json!({"namespace": namespace, "name": name});
        let mixed = json!([item("a"), item("b b"), item("c"), item("a")]);
        let answer = api.post(SERVICES, &mixed).await.expect_code(400_201);
        assert_eq!(answer.item_codes(), [200_000, 400_120, 200_000, 400_201], "{role}: {answer}");
        assert_eq!((answer.amount(), &answer.body["size"]), (4, &json!(4)), "{role}: {answer}");
        let list = api.get(&format!("{SERVICES}?namespace={namespace}")).await.expect_code(200_000);
        assert_eq!(list.amount(), 2, "{role}: {list}");

        let single = api.post(SERVICES, &item("alone")).await.expect_code(200_000);
        assert_eq!(single.item_codes(), [200_000], "{role}: {single}");
        assert_eq!(single.body["responses"][0]["service"]["name"], "alone", "{role}: {single}");

        let hundred: Vec<Value> = (0..100).map(|n| item(&format!("many-{n}"))).collect();
        let answer = api.post(SERVICES, &Value::Array(hundred)).await.expect_code(200_000);
        assert_eq!(answer.item_codes(), vec![200_000; 100], "{role}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_passwords_are_judged() {
    let cluster = Cluster::start(3).await;
    for (role, api) in both(&cluster).await {
        let bare = api.clone().without_token();
        bare.get(SERVICES).await.expect_code(401_002);
        bare.post(SERVICES, &json!([{"namespace": "n", "name": "s"}])).await.expect_code(401_002);
        bare.get("/admin/v1/cluster").await.expect_code(401_002);
        bare.clone().with_token("not a token").get(SERVICES).await.expect_code(401_004);
        let token = bare.login(ADMIN_PASSWORD).await.expect("the right password logs in");
        let bearer = bare.clone().with_token(&format!("Bearer {token}"));
        bearer.get(SERVICES).await.expect_code(200_000);
        let header = bare.request(Method::GET, SERVICES).header("X-Polaris-Token", &token);
        Answer::read(header).await.expect("the request is answered").expect_code(200_000);

        let wrong = |name: &str| json!({"name": name, "password": "wrong"});
        let [known, unknown] = [
            bare.post("/core/v1/user/login", &wrong("admin")).await,
            bare.post("/core/v1/user/login", &wrong("nobody")).await,
        ];
        let [known, unknown] = [known.expect_code(401_001), unknown.expect_code(401_001)];
        assert_eq!(known.body["info"], unknown.body["info"], "{role}: the answer tells which names exist");

        bare.clone().with_token(&token).post("/auth/v1/user/logout", &json!({})).await.expect_code(200_000);
        bare.clone().with_token(&token).get(SERVICES).await.expect_code(401_004);
    }
}

/// A token is good on every node from the moment it was issued.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_hold_on_every_node_at_once_and_guessing_is_slowed() {
    let cluster = Cluster::start(3).await;
    let bare = |id| Api::new(cluster.ports(id).api);
    for round in 0..6_usize {
        let ids = cluster.ids();
        let token = bare(ids[round % 3]).login(ADMIN_PASSWORD).await.expect("the right password logs in");
        for id in ids {
            bare(id).with_token(&token).get(SERVICES).await.expect_code(200_000);
        }
    }
    let mut codes = Vec::new();
    for _ in 0..8 {
        let answer = bare(1).post("/auth/v1/user/login", &json!({"name": "guess", "password": "wrong"})).await;
        codes.push(answer.code());
        if answer.code() == 429_002 {
            assert!(!answer.header("retry-after").is_empty(), "{answer}");
        }
    }
    assert_eq!(codes, [vec![401_001; 5], vec![429_002; 3]].concat(), "more than 5 failures a minute are refused");
}

/// Whatever prevents an item is named in its answer, also in a batch, and also if the item before it took the name.
#[tokio::test(flavor = "multi_thread")]
async fn what_prevents_an_item_is_named() {
    let cluster = Cluster::start_with_data_key(1, &[]).await;
    let api = cluster.api(1);
    let file = json!({"namespace": "n", "group": "g", "name": "a.yaml", "content": "a: 1"});
    let rule = json!({"namespace": "n", "name": "r", "callee": {"namespace": "n", "service": "s"},
        "rules": [{"apis": [{"path": {"type": "EXACT", "value": "/a"}}],
            "amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]});
    let account = json!({"name": "ann", "password": "a password of ann"});
    let webhook = json!({"name": "h", "url": "https://hooks.example.com/x"});
    let mut other = rule.clone();
    other["name"] = json!("other");
    let rows = [
        ("/naming/v1/namespaces", json!({"name": "n"}), "namespace/n"),
        (SERVICES, json!({"namespace": "n", "name": "s"}), "service/s in n"),
        (
            "/naming/v1/service/alias",
            json!({"namespace": "n", "service": "s", "alias": "l", "alias_namespace": "n"}),
            "alias/l in n",
        ),
        ("/config/v1/configfilegroups", json!({"namespace": "n", "name": "g"}), "configgroup/g in n"),
        ("/config/v1/configfiles", file, "configfile/g/a.yaml in n"),
        ("/config/v1/configfiletemplates", json!({"name": "t", "content": "x"}), "configtemplate/t"),
        ("/naming/v1/ratelimits", rule.clone(), "ratelimit/r in n"),
        ("/auth/v1/users", account, "user/ann"),
        ("/auth/v1/tokens", json!({"name": "ci"}), "token/ci"),
        ("/auth/v1/accesskeys", json!({"app_id": "app", "name": "k"}), "accesskey/app/k"),
        ("/admin/v1/webhooks", webhook, "webhook/h"),
        ("/admin/v1/policies", json!({"name": "p", "namespace": "nowhere"}), "policy/p"),
        (
            "/admin/v1/contracts",
            json!({"name": "c", "namespace": "nowhere", "rules": [{"expression": "true"}]}),
            "contract/c",
        ),
    ];
    for (path, item, name) in rows {
        let answer = api.post(path, &json!([item, item])).await;
        let codes = answer.item_codes();
        assert!(matches!(codes[..], [200_000 | 400_201, 400_201]), "{path}: {answer}");
        let info = &answer.body["responses"][1]["info"];
        assert_eq!(*info, format!("existed resource: {name} exists already"), "{path}: {answer}");
    }

    // Names that another kind has, and ids.
    let info = async |path: &str, item: Value, code: u64| {
        let answer = api.post(path, &json!([item])).await.expect_code(code);
        answer.body["responses"][0]["info"].as_str().unwrap_or_default().to_owned()
    };
    let told = info(SERVICES, json!({"namespace": "n", "name": "l"}), 400_201).await;
    assert_eq!(told, "existed resource: alias/l in n exists already");
    let alias = json!({"namespace": "n", "service": "s", "alias": "s", "alias_namespace": "n"});
    let told = info("/naming/v1/service/alias", alias, 400_201).await;
    assert_eq!(told, "existed resource: service/s in n exists already");
    let alias = json!({"namespace": "n", "service": "none", "alias": "x", "alias_namespace": "n"});
    let told = info("/naming/v1/service/alias", alias, 400_301).await;
    assert_eq!(told, "not found service: there is no service/none in n");
    let listed = api.get("/naming/v1/ratelimits?namespace=n&name=r").await.expect_code(200_000);
    other["id"] = listed.body["data"][0]["id"].clone();
    let told = info("/naming/v1/ratelimits", other.clone(), 400_201).await;
    assert_eq!(told, "existed resource: ratelimit/r in n has this id already");
    // A rename to a name that is taken.
    other.as_object_mut().expect("an object").remove("id");
    api.post("/naming/v1/ratelimits", &json!([other])).await.expect_code(200_000);
    let mut renamed = listed.body["data"][0].clone();
    renamed["name"] = json!("other");
    let answer = api.put("/naming/v1/ratelimits", &json!([renamed])).await.expect_code(400_201);
    let told = &answer.body["responses"][0]["info"];
    assert_eq!(*told, "existed resource: ratelimit/other in n exists already", "{answer}");
    // Releases.
    let named = json!({"namespace": "n", "rule_name": "r", "release_name": "v"});
    api.post("/naming/v1/ratelimits/releases", &json!([named])).await.expect_code(200_000);
    let told = info("/naming/v1/ratelimits/releases", named, 400_201).await;
    assert_eq!(told, "existed resource: release v of ratelimit/r in n exists already");
    let named = json!({"namespace": "n", "group": "g", "file_name": "a.yaml", "name": "v"});
    api.post("/config/v1/configfiles/release", &json!([named])).await.expect_code(200_000);
    let told = info("/config/v1/configfiles/release", named, 400_201).await;
    assert_eq!(told, "existed resource: release v of configfile/g/a.yaml in n exists already");

    // What is not empty is not deleted.
    let instance = json!({"namespace": "n", "service": "s", "host": "10.0.0.1", "port": 80});
    api.post("/naming/v1/instances", &json!([instance])).await.expect_code(200_000);
    for (path, item, code, words) in [
        ("/naming/v1/namespaces/delete", json!({"name": "n"}), 400_203, "namespace/n still has services"),
        (
            "/naming/v1/services/delete",
            json!({"namespace": "n", "name": "s"}),
            400_204,
            "service/s in n still has instances",
        ),
        (
            "/config/v1/configfilegroups/delete",
            json!({"namespace": "n", "name": "g"}),
            400_201,
            "configgroup/g in n still has config files",
        ),
    ] {
        let told = info(path, item, code).await;
        assert!(told.ends_with(&format!(": {words}")), "{path}: {told}");
    }
}
