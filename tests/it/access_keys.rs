//! Access keys of config clients on a real cluster: created and changed on one node, enforced on all.

use std::time::Duration;

use serde_json::{Value, json};

use crate::backup::{restore_all, take_backup};
use crate::harness::apollo::poll_path;
use crate::harness::{Answer, Api, Cluster, Kind, RealClient, eventually, signed};

const KEYS: &str = "/auth/v1/accesskeys";
const FILE: &str = "/configs/app/default/application?ip=10.0.0.1&label=a%2Cb";
/// From the answer of a change to its effect on every other node.
const EVERYWHERE_WITHIN: Duration = Duration::from_secs(10);
const CLIENT_LIMIT: Duration = Duration::from_secs(30);
/// Polls and pulls that were refused.
const REFUSED: [&str; 2] = [
    r#"thuban_long_polls_total{outcome="refused"}"#,
    concat!(
        r#"thuban_request_duration_seconds_count{code="401",method="GET","#,
        r#"route="/configs/{appId}/{cluster}/{*namespace}",surface="compat"}"#
    ),
];
const WOULD_REFUSE: &str = "thuban_access_key_would_refuse_total{app=\"app\"}";

/// Makes a key and returns its secret.
async fn create(api: &Api, name: &str, mode: &str) -> String {
    let created = api.post(KEYS, &json!([{"app_id": "app", "name": name, "mode": mode}])).await.expect_code(200_000);
    let key = &created.body["responses"][0]["accessKey"];
    key["secret"].as_str().unwrap_or_else(|| panic!("no secret in {created}")).to_owned()
}

async fn set(api: &Api, name: &str, mode: &str) -> Answer {
    api.put(KEYS, &json!([{"app_id": "app", "name": name, "mode": mode}])).await.expect_code(200_000)
}

/// Waits until every node answers a client that signs with `secret`, or not at all, with this status.
async fn everywhere(cluster: &Cluster, secret: Option<&str>, status: u16) {
    for id in cluster.running() {
        let apollo = cluster.apollo(id);
        eventually(EVERYWHERE_WITHIN, &format!("node {id} answers {status} to {secret:?}"), || async {
            let headers = secret.map(|secret| signed(secret, "app", FILE, 0)).into_iter().flatten().collect::<Vec<_>>();
            match apollo.get_with(FILE, &headers).await {
                pulled if pulled.status == status => Ok(()),
                pulled => Err(format!("{pulled:?}")),
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_made_listed_changed_and_deleted() {
    let cluster = Cluster::start_with_data_key(3, &[]).await;
    let (api, other) = (cluster.api(1), cluster.api(2));
    let given = "a-secret-of-another-system";
    let batch = json!([
        {"app_id": "app", "name": "one", "secret": given, "comment": "moved"},
        {"appId": "app", "name": "two", "mode": "observe"},
        {"app_id": "app", "name": "one"},
        {"app_id": "app", "name": "short", "secret": "short"},
        {"app_id": "", "name": "none"},
        {"app_id": "app", "name": "odd", "mode": "perhaps"},
    ]);
    let created = api.post(KEYS, &batch).await;
    assert_eq!(created.item_codes(), [200_000, 200_000, 400_201, 400_103, 400_103, 400_001], "{created}");
    let key = |at: usize| &created.body["responses"][at]["accessKey"];
    assert_eq!(
        (&key(0)["secret"], &key(0)["mode"], &key(0)["comment"]),
        (&json!(given), &json!("off"), &json!("moved"))
    );
    let generated = key(1)["secret"].as_str().expect("a generated secret").to_owned();
    assert!(generated.len() == 32 && generated.bytes().all(|byte| byte.is_ascii_hexdigit()), "{generated}");
    assert_eq!(key(2)["secret"], Value::Null, "who runs into a key is not shown its secret");

    let listed = other.get(&format!("{KEYS}?app_id=app")).await.expect_code(200_000);
    assert_eq!((listed.amount(), listed.body["data"].as_array().map(Vec::len)), (2, Some(2)), "{listed}");
    let one = other.get(&format!("{KEYS}?app_id=a*&name=one&limit=1")).await.expect_code(200_000);
    assert_eq!((one.amount(), &one.body["data"][0]["create_by"]), (1, &json!("admin")), "{one}");
    assert_eq!(other.get(&format!("{KEYS}?app_id=none")).await.expect_code(200_000).amount(), 0);

    let changed = set(&other, "one", "enforce").await;
    assert_eq!(changed.body["responses"][0]["accessKey"]["mode"], "enforce", "{changed}");
    other.put(KEYS, &json!({"app_id": "app", "name": "one", "mode": 2})).await.expect_code(200_002);
    let exchange = json!({"app_id": "app", "name": "one", "secret": "another-secret-of-it"});
    let exchanged = other.put(KEYS, &exchange).await.expect_code(200_000);
    other.put(KEYS, &json!([{"app_id": "app", "name": "none", "mode": "off"}])).await.expect_code(400_202);
    for answer in [&listed, &one, &changed, &exchanged] {
        let text = answer.body.to_string();
        assert!(!text.contains("secret") && !text.contains(given) && !text.contains(&generated), "{answer}");
    }
    for _ in 0..2 {
        api.post(&format!("{KEYS}/delete"), &json!([{"app_id": "app", "name": "two"}])).await.expect_code(200_000);
    }
    assert_eq!(other.get(KEYS).await.expect_code(200_000).amount(), 1);
    let many: Vec<Value> = (0..5).map(|n| json!({"app_id": "app", "name": format!("k{n}")})).collect();
    assert_eq!(api.post(KEYS, &json!(many)).await.item_codes(), [200_000, 200_000, 200_000, 200_000, 507_002]);
    cluster.expect_equal_state().await;

    // Keys require the right to manage the cluster.
    let user = json!({"name": "reader", "password": "a password of a reader",
        "grants": [{"role": "reader", "namespace": "*"}]});
    api.post("/auth/v1/users", &json!([user])).await.expect_code(200_000);
    let login = api.post("/auth/v1/user/login", &user).await.expect_code(200_000);
    let token = login.body["loginResponse"]["token"].as_str().expect("a token");
    let reader = Api::new(cluster.ports(1).api).with_token(token);
    reader.get(KEYS).await.expect_code(401_001);
    for item in [json!({"app_id": "app", "name": "mine"}), json!({"app_id": "app", "name": "one", "mode": "off"})] {
        reader.post(KEYS, &item).await.expect_code(401_001);
        reader.put(KEYS, &item).await.expect_code(401_001);
        reader.post(&format!("{KEYS}/delete"), &item).await.expect_code(401_001);
    }

    // Nothing of a secret is on any disk, in any log, or among the metrics.
    for id in cluster.ids() {
        let (_, metrics) = cluster.api(id).health("/metrics").await.expect("metrics");
        let mut places = vec![metrics.into_bytes(), std::fs::read(cluster.log(id)).expect("a log")];
        let mut open = vec![cluster.data(id)];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(std::fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
            } else if let Ok(bytes) = std::fs::read(&path) {
                places.push(bytes);
            }
        }
        for secret in [given, &generated, "another-secret-of-it"] {
            let has = |bytes: &Vec<u8>| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!places.iter().any(has), "node {id} keeps a secret in clear");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_enforced_is_judged_on_every_node_and_path() {
    let cluster = Cluster::start_with_data_key(3, &[]).await;
    let api = cluster.api(1);
    api.publish("default", "app", "application", "v=1").await;
    api.publish("default", "open", "application", "v=1").await;
    let secret = create(&api, "one", "enforce").await;
    everywhere(&cluster, Some(&secret), 200).await;
    everywhere(&cluster, None, 401).await;
    let poll = poll_path("app", "default", &[("application", -1)], "");
    for id in cluster.ids() {
        let apollo = cluster.apollo(id);
        let file = "app/default/application";
        for path in [
            &format!("/configs/{file}?ip=::1"),
            &format!("/configfiles/{file}"),
            &format!("/configfiles/json/{file}?dataCenter=%65ast"),
            &format!("/configfiles/raw/{file}?"),
            &poll,
        ] {
            // An empty query is signed as none.
            let target = path.trim_end_matches('?');
            let cases = [
                ("signed", signed(&secret, "app", target, 0).to_vec(), 200),
                ("signed a while ago", signed(&secret, "app", target, -30_000).to_vec(), 200),
                ("not signed", vec![], 401),
                ("a wrong key", signed("wrong", "app", target, 0).to_vec(), 401),
                ("no secret", signed("", "app", target, 0).to_vec(), 401),
                ("another app", signed(&secret, "open", target, 0).to_vec(), 401),
                ("another target", signed(&secret, "app", "/configs/x", 0).to_vec(), 401),
                ("too late", signed(&secret, "app", target, -90_000).to_vec(), 401),
                ("too early", signed(&secret, "app", target, 90_000).to_vec(), 401),
                ("a token", vec![("Authorization", cluster.token().to_owned())], 200),
            ];
            for (title, headers, status) in cases {
                let pulled = apollo.get_with(path, &headers).await;
                assert_eq!(pulled.status, status, "node {id}, {path}, {title}: {pulled:?}");
            }
        }
        let open = "/configs/open/default/application";
        assert_eq!(apollo.get(open).await.status, 200, "an app without keys is open");
        assert_eq!(
            apollo.get_with(open, &signed("", "open", open, 0)).await.status,
            200,
            "and to who signs with nothing"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_exchanged_while_both_are_good() {
    let cluster = Cluster::start_with_data_key(3, &[]).await;
    let api = cluster.api(2);
    api.publish("default", "app", "application", "v=1").await;
    let old = create(&api, "old", "enforce").await;
    let new = create(&api, "new", "enforce").await;
    everywhere(&cluster, Some(&old), 200).await;
    everywhere(&cluster, Some(&new), 200).await;
    set(&cluster.api(3), "old", "off").await;
    everywhere(&cluster, Some(&old), 401).await;
    everywhere(&cluster, Some(&new), 200).await;
    api.post(&format!("{KEYS}/delete"), &json!({"app_id": "app", "name": "new"})).await.expect_code(200_000);
    everywhere(&cluster, None, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_observe_would_refuse_is_let_in_counted_and_told() {
    let cluster = Cluster::start_with_data_key(1, &[]).await;
    let (api, apollo) = (cluster.api(1), cluster.apollo(1));
    api.publish("default", "app", "application", "v=1").await;
    let secret = create(&api, "one", "observe").await;
    assert_eq!(apollo.get_with(FILE, &signed(&secret, "app", FILE, 0)).await.status, 200);
    assert_eq!(api.metric(WOULD_REFUSE).await, None, "nothing to tell of");
    for headers in [vec![], signed("wrong", "app", FILE, 0).to_vec(), signed(&secret, "app", FILE, 120_000).to_vec()] {
        assert_eq!(apollo.get_with(FILE, &headers).await.status, 200, "{headers:?}");
    }
    assert_eq!(api.metric(WOULD_REFUSE).await, Some(3.0));
    let log = std::fs::read_to_string(cluster.log(1)).expect("a log can be read");
    let lines: Vec<_> = log.lines().filter(|line| line.contains("that an enforced key would refuse")).collect();
    assert!(lines.len() == 1 && lines[0].contains("127.0.0.1") && lines[0].contains("app"), "{lines:?}");
    api.post(&format!("{KEYS}/delete"), &json!({"app_id": "app", "name": "one"})).await.expect_code(200_000);
    assert_eq!(api.metric(WOULD_REFUSE).await, None, "an app without keys has no series");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_readers_have_to_prove_who_they_are_a_signature_does() {
    let cluster = Cluster::start_with_data_key(1, &["--compat-auth", "required"]).await;
    let (api, apollo) = (cluster.api(1), cluster.apollo(1));
    for app in ["app", "bare"] {
        api.publish("default", app, "application", "v=1").await;
    }
    let secret = create(&api, "one", "observe").await;
    let bare = "/configs/bare/default/application";
    let cases = [
        (FILE, signed(&secret, "app", FILE, 0).to_vec(), 200),
        (FILE, vec![("Authorization", cluster.token().to_owned())], 200),
        (FILE, vec![], 401),
        (FILE, signed("wrong", "app", FILE, 0).to_vec(), 401),
        (bare, signed(&secret, "bare", bare, 0).to_vec(), 401),
        (bare, signed("", "bare", bare, 0).to_vec(), 401),
    ];
    for (path, headers, status) in cases {
        assert_eq!(apollo.get_with(path, &headers).await.status, status, "{path} {headers:?}");
    }
    assert_eq!(api.metric(WOULD_REFUSE).await, None, "what is refused is not counted as let in");
}

/// The alarms of a node, in one text.
async fn alarms(api: &Api) -> String {
    api.cluster().await.expect("a status").body["alarms"].to_string()
}

/// Without the data key no key is created; with the wrong one, enforced keys refuse and an alarm is raised.
#[tokio::test(flavor = "multi_thread")]
async fn the_data_key_decides_over_what_can_be_made_and_read() {
    let mut cluster = Cluster::start(1).await;
    let refused = cluster.api(1).post(KEYS, &json!([{"app_id": "app", "name": "one"}])).await.expect_code(503_005);
    assert!(refused.to_string().contains("--data-key-file"), "{refused}");
    let (own, other) = (cluster.data_key_flags("a"), cluster.data_key_flags("b"));
    let restart_with = async |cluster: &mut Cluster, options: &[String]| {
        cluster.terminate(1).await;
        cluster.set_options(&options.iter().map(String::as_str).collect::<Vec<_>>());
        cluster.restart(1).await;
    };
    restart_with(&mut cluster, &own).await;
    cluster.api(1).publish("default", "app", "application", "v=1").await;
    let secret = create(&cluster.api(1), "one", "enforce").await;
    everywhere(&cluster, Some(&secret), 200).await;
    assert_eq!(alarms(&cluster.api(1)).await, "[]");
    for options in [&[][..], &other] {
        restart_with(&mut cluster, options).await;
        everywhere(&cluster, Some(&secret), 503).await;
        everywhere(&cluster, None, 401).await;
        let told = alarms(&cluster.api(1)).await;
        assert!(told.contains("1 access keys") && told.contains("--data-key-file"), "{told}");
        assert_eq!(cluster.api(1).metric("thuban_access_keys_unreadable").await, Some(1.0));
        // Changes that need no secret still succeed.
        set(&cluster.api(1), "one", "observe").await;
        everywhere(&cluster, None, 200).await;
        set(&cluster.api(1), "one", "enforce").await;
    }
    restart_with(&mut cluster, &own).await;
    everywhere(&cluster, Some(&secret), 200).await;
}

/// A backup contains the keys, which a cluster with the same data key continues to use.
#[tokio::test(flavor = "multi_thread")]
async fn keys_live_on_in_a_restored_cluster() {
    let mut cluster = Cluster::start_with_data_key(3, &[]).await;
    cluster.api(1).publish("default", "app", "application", "v=1").await;
    let secret = create(&cluster.api(1), "one", "enforce").await;
    let backup = cluster.file("backup");
    take_backup(&cluster, 1, &backup).await;
    cluster.kill_all().await;
    restore_all(&cluster, &backup).await;
    cluster.restart_all().await;
    cluster.log_in_again().await;
    everywhere(&cluster, Some(&secret), 200).await;
    everywhere(&cluster, Some("wrong"), 401).await;
    assert_eq!(cluster.api(2).get(KEYS).await.expect_code(200_000).amount(), 1);
}

/// A published client reads with its key, is served on while the secret is exchanged under it, and is
/// refused once its key is gone; one with a wrong key never sees anything.
async fn is_let_in_by_its_key(kind: Kind) {
    let cluster = Cluster::start_with_data_key(3, &[]).await;
    let api = cluster.api(1);
    let publish = async |value: &str| drop(api.publish("default", "app", "application", &format!("v={value}")).await);
    publish("first").await;
    let old = create(&api, "old", "enforce").await;
    everywhere(&cluster, Some(&old), 200).await;
    let client = |secret: Option<String>| {
        let address = cluster.ports(2).compat;
        async move { RealClient::start_with(kind, address, "app", "application", secret.as_deref()).await }
    };
    let mut right = client(Some(old.clone())).await;
    let mut wrong = client(Some("a-secret-of-nobody".to_owned())).await;
    let mut unsigned = client(None).await;
    right.holds(CLIENT_LIMIT, "v", "first").await;

    let new = create(&api, "new", "enforce").await;
    everywhere(&cluster, Some(&new), 200).await;
    publish("while two are good").await;
    right.holds(CLIENT_LIMIT, "v", "while two are good").await;
    let mut moved = client(Some(new.clone())).await;
    moved.holds(CLIENT_LIMIT, "v", "while two are good").await;

    set(&api, "old", "off").await;
    everywhere(&cluster, Some(&old), 401).await;
    right.reports();
    publish("for the new one").await;
    moved.holds(CLIENT_LIMIT, "v", "for the new one").await;
    eventually(CLIENT_LIMIT, "clients were refused", || async {
        let mut refused = Vec::new();
        for series in REFUSED {
            refused.push(cluster.api(2).metric(series).await);
        }
        if refused.iter().any(Option::is_some) { Ok(()) } else { Err(format!("{refused:?}")) }
    })
    .await;
    for (title, client) in [("a gone key", &mut right), ("a wrong key", &mut wrong), ("no key", &mut unsigned)] {
        let told = client.reports();
        let has_seen = told.iter().any(|held| held.values.get("v").is_some_and(|value| value == "for the new one"));
        assert!(!has_seen, "{title}: {told:?}");
    }
    for client in [&mut wrong, &mut unsigned] {
        assert!(client.reports().iter().all(|held| held.values.is_empty()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_is_let_in_by_its_key() {
    is_let_in_by_its_key(Kind::Python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_client_is_let_in_by_its_key() {
    is_let_in_by_its_key(Kind::Rust).await;
}

/// A key of one environment opens nothing of another one, nor of what a lookup falls back on.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_may_be_for_some_namespaces_alone() {
    let cluster = Cluster::start_with_data_key(3, &[]).await;
    let api = cluster.api(1);
    for namespace in ["dev-1", "prod", "default"] {
        api.publish(namespace, "app", "application", &format!("of={namespace}")).await;
    }
    api.publish("default", "app", "shared", "of=default").await;
    let make = |name: &'static str, namespaces: Value| {
        let key = json!([{"app_id": "app", "name": name, "mode": "enforce", "namespaces": namespaces}]);
        let api = api.clone();
        async move {
            let created = api.post(KEYS, &key).await.expect_code(200_000);
            created.body["responses"][0]["accessKey"]["secret"].as_str().expect("a secret").to_owned()
        }
    };
    let (dev, prod) = (make("dev", json!(["dev*"])).await, make("prod", json!(["prod"])).await);
    cluster.expect_equal_state().await;
    for id in cluster.ids() {
        let apollo = cluster.apollo(id);
        let poll = poll_path("app", "prod", &[("application", -1)], "");
        for (path, secret, status) in [
            ("/configs/app/dev-1/application", Some(&dev), 200),
            ("/configs/app/dev-1/application", Some(&prod), 401),
            ("/configs/app/dev-1/application", None, 401),
            ("/configs/app/prod/application", Some(&prod), 200),
            ("/configs/app/prod/application", Some(&dev), 401),
            ("/configs/app/prod/application", None, 401),
            (&poll, Some(&dev), 401),
            (&poll, Some(&prod), 200),
            // No key is for it: it is as open as an app without keys.
            ("/configs/app/default/application", None, 200),
            ("/configs/app/dev-1/shared", Some(&dev), 200),
            // Requested in one namespace, and found in another.
            ("/configs/app/dev-1/application?dataCenter=prod", Some(&dev), 200),
        ] {
            let headers = secret.map(|secret| signed(secret, "app", path, 0)).into_iter().flatten().collect::<Vec<_>>();
            let pulled = apollo.get_with(path, &headers).await;
            assert_eq!(pulled.status, status, "node {id}, {path}: {pulled:?}");
        }
    }
    // The keys of the fallback's app apply to the fallback.
    let fallback = make("default", json!(["default"])).await;
    let shared = "/configs/app/dev-1/shared";
    for id in cluster.ids() {
        eventually(EVERYWHERE_WITHIN, "the fallback is shut", || async {
            match cluster.apollo(id).get_with(shared, &signed(&dev, "app", shared, 0)).await {
                pulled if pulled.status == 404 => Ok(()),
                pulled => Err(format!("{pulled:?}")),
            }
        })
        .await;
    }
    let own = "/configs/app/default/shared";
    assert_eq!(cluster.apollo(1).get_with(own, &signed(&fallback, "app", own, 0)).await.status, 200);
    let wide = json!([{"app_id": "app", "name": "dev", "namespaces": []}]);
    let widened = api.put(KEYS, &wide).await.expect_code(200_000);
    assert_eq!(widened.body["responses"][0]["accessKey"]["namespaces"], json!([]));
    let bad = json!([{"app_id": "app", "name": "dev", "namespaces": ["a*b"]}]);
    api.put(KEYS, &bad).await.expect_code(400_103);
}
