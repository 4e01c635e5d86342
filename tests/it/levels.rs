//! Versions beside each other: when the cluster's level rises, who is refused once it has, and that the
//! directories of all earlier levels are still opened.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Answer, Api, Cluster, Ports, Process, eventually, member_flags};

const LIMIT: Duration = Duration::from_secs(20);
/// The newest level of this build.
pub(crate) const NEWEST: u64 = 9;
const HELD: &[&str] = &["--level-max", "1"];

async fn level(api: &Api) -> Result<u64, String> {
    api.cluster().await.map(|view| view.body["level"].as_u64().expect("a level"))
}

async fn await_level(cluster: &Cluster, wanted: u64) {
    for id in cluster.running() {
        let api = cluster.api(id);
        eventually(LIMIT, &format!("node {id} is at level {wanted}"), || async {
            match level(&api).await? {
                level if level == wanted => Ok(()),
                other => Err(format!("level {other}")),
            }
        })
        .await;
    }
}

fn member(view: &Answer, id: u64) -> Value {
    let members = view.body["members"].as_array().expect("members");
    members.iter().find(|member| member["id"] == id).cloned().expect("a member")
}

/// The level stays where it is until the last member can read the next one, and comes to stay then.
#[tokio::test(flavor = "multi_thread")]
async fn the_level_rises_with_the_last_member() {
    let mut cluster = Cluster::start_with(3, HELD).await;
    await_level(&cluster, 1).await;
    cluster.set_options(&[]);
    for id in [1, 2] {
        cluster.terminate(id).await;
        cluster.restart(id).await;
    }
    let service = json!([{"namespace": "n", "name": "s"}]);
    cluster.api(1).post("/naming/v1/services", &service).await.expect_code(200_000);
    let view = cluster.api(1).cluster().await.expect("a view");
    assert_eq!(view.body["level"], 1, "node 3 reads no other: {view}");
    eventually(LIMIT, "node 1 knows what node 3 reads", || async {
        let view = cluster.api(1).cluster().await?;
        let (own, other) = (member(&view, 1), member(&view, 3));
        let is_told = own["level_max"] == NEWEST && other["level_max"] == 1 && other["version"].is_string();
        if is_told { Ok(()) } else { Err(view.to_string()) }
    })
    .await;

    cluster.terminate(3).await;
    cluster.restart(3).await;
    await_level(&cluster, NEWEST).await;
    cluster.api(3).put("/naming/v1/services", &json!([{"namespace": "n", "name": "s", "comment": "c"}])).await;
    cluster.expect_equal_state().await;

    cluster.terminate(2).await;
    cluster.set_options(HELD);
    let refused = cluster.launch(2).await.err().expect("its directory holds what it cannot read");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let words = format!("holds data of level {NEWEST}, this node reads levels 1 to 1");
    assert!(refused.log.contains(&words), "{}", refused.log);
}

/// A family of rules that came with a level is known below it, and nothing of it is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_family_waits_for_its_level() {
    let mut cluster = Cluster::start_with(1, &["--level-max", "3"]).await;
    let (api, path) = (cluster.api(1), "/naming/v1/circuitbreakers");
    let rule = json!([{"name": "r", "namespace": "shop", "rule_matcher": {"destination": {"service": "pay"}}}]);
    api.post(path, &rule).await.expect_code(503_003);
    api.post(&format!("{path}/releases"), &json!([{"rule_name": "r"}])).await.expect_code(503_003);
    api.put(&format!("{path}/releases/rollback"), &json!([{"id": "x"}])).await.expect_code(503_003);
    assert_eq!(api.get(path).await.expect_code(200_000).amount(), 0);
    let question = json!({"type": "CIRCUIT_BREAKER", "service": {"namespace": "shop", "name": "pay"}});
    api.post("/v1/Discover", &question).await.expect_code(200_000);
    cluster.set_options(&[]);
    cluster.terminate(1).await;
    cluster.restart(1).await;
    await_level(&cluster, NEWEST).await;
    cluster.api(1).post(path, &rule).await.expect_code(200_000);
}

/// A node that cannot read what the cluster speaks does not get in, and says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_level_gone_by_cannot_join() {
    let mut cluster = Cluster::start(1).await;
    await_level(&cluster, NEWEST).await;
    cluster.set_options(HELD);
    cluster.start_outsider(4).await;
    let peer = cluster.ports(4).peer;
    let answer = cluster.api(1).post("/admin/v1/cluster/add", &json!({"id": 4, "peer": peer})).await;
    let log = cluster.log(4);
    if answer.code() == 200_000 {
        // Added before it was met: it ends by itself as soon as it is.
        eventually(LIMIT, "the node says why it cannot take part", || async {
            let text = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
            let words = format!("speaks level {NEWEST}, this node reads 1 to 1");
            if text.contains(&words) { Ok(()) } else { Err(text) }
        })
        .await;
    } else {
        assert_eq!(answer.code(), 400_000, "{answer}");
        assert!(answer.to_string().contains("reads 1 to 1"), "{answer}");
    }
}

fn kept(level: u64) -> (PathBuf, Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/levels");
    let text = std::fs::read(folder.join(format!("{level}.json"))).expect("every level keeps what it wrote");
    (folder.join(format!("{level}.tar.gz")), serde_json::from_slice(&text).expect("JSON"))
}

/// With the password that the directory was made with.
async fn log_in(process: &Process, kept: &Value) -> Api {
    let api = Api::new(process.announced.api);
    let password = kept["password"].as_str().expect("a password");
    let token = eventually(LIMIT, "the administrator logs in", || api.login(password)).await;
    api.with_token(&token)
}

/// Data of each level is read, counted, served, and carried to the newest level.
#[tokio::test(flavor = "multi_thread")]
async fn directories_of_all_levels_are_opened() {
    for written in 1..=NEWEST {
        let (archive, kept) = kept(written);
        let directory = TempDir::with_prefix("thuban-level-").expect("a temporary directory can be made");
        let unpacked = Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(directory.path()).status();
        assert!(unpacked.expect("tar runs").success());
        let data = directory.path().join("data");
        let mut flags = member_flags(1, data.to_str().expect("the path is text"), Ports::reserve());
        flags.extend(["--initial-cluster".to_owned(), "1=127.0.0.1:8190".to_owned()]);
        let held = [flags.clone(), vec!["--level-max".to_owned(), written.to_string()]].concat();
        let log = directory.path().join("log");
        let process = Process::start(&held, &log).await.unwrap_or_else(|exited| panic!("level {written}: {exited:?}"));
        let api = log_in(&process, &kept).await;
        assert_eq!(level(&api).await, Ok(written));
        for (path, amount) in kept["amounts"].as_object().expect("amounts") {
            assert_eq!(api.get(path).await.amount(), amount.as_u64().expect("a number"), "level {written}: {path}");
        }
        assert!(process.terminate().await.success());

        let process = Process::start(&flags, &log).await.unwrap_or_else(|exited| panic!("level {written}: {exited:?}"));
        let api = log_in(&process, &kept).await;
        eventually(LIMIT, "the level is the newest", || async {
            match level(&api).await? {
                NEWEST => Ok(()),
                other => Err(format!("level {other}")),
            }
        })
        .await;
        for (path, amount) in kept["amounts"].as_object().expect("amounts") {
            assert_eq!(api.get(path).await.amount(), amount.as_u64().expect("a number"), "level {written}: {path}");
        }
        assert!(process.terminate().await.success());
    }
}
