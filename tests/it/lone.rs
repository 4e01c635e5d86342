//! A node without its peers: it serves requests that need no majority, refuses all others at once, and participates
//! again when its peers return.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{ADMIN_PASSWORD, Api, Cluster, eventually, report};
use crate::polls::hold;

const LIMIT: Duration = Duration::from_secs(30);
/// Longest time that a caller on a cut-off node may wait for its refusal.
const REFUSAL_LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_node_alone_serves_what_it_has_and_joins_when_the_others_return() {
    let mut cluster = Cluster::start_with(3, &["--long-poll-timeout-ms", "1500"]).await;
    cluster.api(1).publish("default", "app", "application", "alone=no").await;
    let service = json!([{"namespace": "lone", "name": "kept"}]);
    cluster.api(1).post("/naming/v1/services", &service).await.expect_code(200_000);
    cluster.expect_equal_state().await;
    cluster.kill_all().await;
    cluster.relaunch(2).await;
    let api = cluster.api(2);

    let read = cluster.apollo(2).config("app", "default", "application").await;
    assert_eq!(read["configurations"], json!({"alone": "no"}), "{read}");
    let id = cluster.apollo(2).current_id("app", "default", "application").await;
    let polled = hold(&cluster, 2, "app", "default", id).await.await.expect("the poll does not panic");
    assert_eq!(polled.status, 304, "{polled:?}");

    let local = "/naming/v1/services?namespace=lone&name=kept&consistency=local";
    let answer = api.get(local).await.expect_code(200_000);
    assert_eq!((answer.amount(), answer.header("x-thuban-consistency")), (1, "local"));
    let view = api.cluster().await.expect("the cluster is shown without a majority");
    assert_eq!((&view.body["leader"], &view.body["self"]), (&Value::Null, &json!(2)), "{view}");

    let strangers = Api::new(cluster.ports(2).api);
    let login = json!({"name": "admin", "password": ADMIN_PASSWORD});
    let linearizable = "/naming/v1/services?namespace=lone";
    let service = json!([{"namespace": "lone", "name": "refused"}]);
    expect_refused("a write", api.post("/naming/v1/services", &service)).await;
    expect_refused("a linearizable read", api.get(linearizable)).await;
    expect_refused("a login", strangers.post("/auth/v1/user/login", &login)).await;
    expect_refused("an unknown token", strangers.clone().with_token("unknown").get(linearizable)).await;
    let removal = json!({"id": 3});
    expect_refused("a membership change", api.post("/admin/v1/cluster/remove", &removal)).await;

    let (status, text) = api.health("/readyz?verbose").await.expect("the node answers");
    assert_eq!(status, 503, "{text}");
    for failing in ["[-]leader failed: ", "[-]caught_up failed: ", "[+]founded ok", "[+]disk ok"] {
        assert!(text.contains(failing), "{failing:?} is not in:\n{text}");
    }
    assert_eq!(api.health("/livez").await.expect("the node answers").0, 200);

    cluster.restart_all().await;
    cluster.wait_ready(2).await;
    let service = json!([{"namespace": "lone", "name": "together"}]);
    cluster.api(2).post("/naming/v1/services", &service).await.expect_code(200_000);
    cluster.expect_equal_state().await;
}

pub(crate) async fn expect_refused(what: &str, call: impl Future<Output = crate::harness::Answer>) {
    let asked = Instant::now();
    call.await.expect_code(503_001);
    let took = asked.elapsed();
    report(format!("{what} on a node alone was refused after {took:?}"));
    assert!(took < REFUSAL_LIMIT, "{what} was refused after {took:?}");
}

/// A node that was not added yet knows no peers: it waits, and reports that.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_waits_to_be_added_waits() {
    let mut cluster = Cluster::start(1).await;
    cluster.start_outsider(2).await;
    let outsider = Api::new(cluster.ports(2).api);
    eventually(LIMIT, "the node says what it waits for", || async {
        match outsider.health("/readyz?verbose").await? {
            (503, text) if text.contains("[-]founded failed: ") => Ok(()),
            (503, text) if text.contains("[-]loaded failed: ") => Err(text),
            (status, text) => panic!("{status} {text}"),
        }
    })
    .await;
    expect_refused("a login", outsider.post("/auth/v1/user/login", &json!({"name": "admin", "password": "x"}))).await;
    let peer = cluster.ports(2).peer.to_string();
    eventually(LIMIT, "the node is added", || async {
        match cluster.api(1).post("/admin/v1/cluster/add", &json!({"id": 2, "peer": peer})).await {
            answer if answer.code() == 200_000 => Ok(()),
            answer => Err(answer.to_string()),
        }
    })
    .await;
    cluster.wait_ready(2).await;
    cluster.expect_equal_state().await;
}
