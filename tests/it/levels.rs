//! Levels: two versions in one cluster, the rise of the level, nodes that are refused afterwards, and the stored
//! directories of all levels. Level 2 exists in builds with the feature `next-level`, as those of scripts/test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Answer, Api, Cluster, Ports, Process, binary, eventually, member_flags};

const LIMIT: Duration = Duration::from_secs(20);
/// Level of the tests, one above that of releases.
pub(crate) const NEXT: u64 = 2;
/// Options of the new version.
pub(crate) const UPGRADED: &[&str] = &["--level-max", "2"];

/// Reports whether the binary has the level of the tests, and prints a line if not.
pub(crate) fn has_next_level() -> bool {
    let tried = Command::new(binary()).args(["serve", "--level-max", "2"]).output().expect("the binary runs");
    let has_it = !String::from_utf8_lossy(&tried.stderr).contains("invalid value '2' for '--level-max");
    if !has_it {
        eprintln!("left out: this binary is built without the feature next-level");
    }
    has_it
}

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

/// The level is unchanged until the last member can read the next one, and is then raised for good.
#[tokio::test(flavor = "multi_thread")]
async fn the_level_rises_with_the_last_member() {
    if !has_next_level() {
        return;
    }
    let mut cluster = Cluster::start(3).await;
    await_level(&cluster, 1).await;
    cluster.set_options(UPGRADED);
    for id in [1, 2] {
        cluster.terminate(id).await;
        cluster.restart(id).await;
    }
    let service = json!([{"namespace": "n", "name": "s"}]);
    cluster.api(1).post("/naming/v1/services", &service).await.expect_code(200_000);
    eventually(LIMIT, "node 1 knows what node 3 reads", || async {
        let view = cluster.api(1).cluster().await?;
        let (own, other) = (member(&view, 1), member(&view, 3));
        let is_known = own["level_max"] == NEXT && other["level_max"] == 1 && other["version"].is_string();
        if is_known && view.body["level"] == 1 { Ok(()) } else { Err(view.to_string()) }
    })
    .await;
    // Until then each version can replace the other.
    cluster.terminate(2).await;
    cluster.set_options(&[]);
    cluster.restart(2).await;
    cluster.api(2).put("/naming/v1/services", &json!([{"namespace": "n", "name": "s", "comment": "b"}])).await;
    cluster.expect_equal_state().await;

    cluster.set_options(UPGRADED);
    for id in [2, 3] {
        cluster.terminate(id).await;
        cluster.restart(id).await;
    }
    await_level(&cluster, NEXT).await;
    cluster.api(3).put("/naming/v1/services", &json!([{"namespace": "n", "name": "s", "comment": "c"}])).await;
    eventually(LIMIT, "the command, the row and the call of the level went through every member", || async {
        let has_line = |id| {
            let text = std::fs::read_to_string(cluster.log(id)).unwrap_or_default();
            text.contains("every member has the row of level 2")
        };
        if cluster.ids().into_iter().any(has_line) { Ok(()) } else { Err("no line".to_owned()) }
    })
    .await;
    cluster.expect_equal_state().await;

    cluster.terminate(2).await;
    cluster.set_options(&[]);
    let refused = cluster.launch(2).await.err().expect("its directory holds what it cannot read");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let words = format!("holds data of level {NEXT}, this node reads levels 1 to 1");
    assert!(refused.log.contains(&words), "{}", refused.log);
}

/// A node that cannot read the cluster's level does not join, and reports why.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_an_earlier_level_cannot_join() {
    if !has_next_level() {
        return;
    }
    let mut cluster = Cluster::start_with(1, UPGRADED).await;
    await_level(&cluster, NEXT).await;
    cluster.set_options(&[]);
    cluster.start_outsider(4).await;
    let peer = cluster.ports(4).peer;
    let answer = cluster.api(1).post("/admin/v1/cluster/add", &json!({"id": 4, "peer": peer})).await;
    let log = cluster.log(4);
    if answer.code() == 200_000 {
        // Added before it was met: it ends by itself as soon as it is.
        eventually(LIMIT, "the node says why it cannot take part", || async {
            let text = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
            let words = format!("speaks level {NEXT}, this node reads 1 to 1");
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

/// Logs in with the password with which the directory was created.
async fn log_in(process: &Process, kept: &Value) -> Api {
    let api = Api::new(process.announced.api);
    let password = kept["password"].as_str().expect("a password");
    let token = eventually(LIMIT, "the administrator logs in", || api.login(password)).await;
    api.with_token(&token)
}

/// The stored directory of a level in a temporary one, and flags of a node on it.
fn unpacked(level: u64) -> (TempDir, Value, Vec<String>) {
    let (archive, kept) = kept(level);
    let directory = TempDir::with_prefix("thuban-level-").expect("a temporary directory can be made");
    let unpacked = Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(directory.path()).status();
    assert!(unpacked.expect("tar runs").success());
    let data = directory.path().join("data");
    let mut flags = member_flags(1, data.to_str().expect("the path is text"), Ports::reserve());
    flags.extend(["--initial-cluster".to_owned(), "1=127.0.0.1:8190".to_owned()]);
    (directory, kept, flags)
}

/// Data of each level is read, counted, served, and carried to the newest level.
#[tokio::test(flavor = "multi_thread")]
async fn directories_of_all_levels_are_opened() {
    let newest = if has_next_level() { NEXT } else { 1 };
    for written in 1..=newest {
        let (directory, kept, flags) = unpacked(written);
        for at in written..=newest {
            let flags = [flags.clone(), vec!["--level-max".to_owned(), at.to_string()]].concat();
            let log = directory.path().join("log");
            let process =
                Process::start(&flags, &log).await.unwrap_or_else(|exited| panic!("level {written}: {exited:?}"));
            let api = log_in(&process, &kept).await;
            eventually(LIMIT, &format!("the level is {at}"), || async {
                match level(&api).await? {
                    level if level == at => Ok(()),
                    other => Err(format!("level {other}")),
                }
            })
            .await;
            for (path, amount) in kept["amounts"].as_object().expect("amounts") {
                assert_eq!(api.get(path).await.amount(), amount.as_u64().expect("a number"), "{written}: {path}");
            }
            assert!(process.terminate().await.success());
        }
    }
}

/// Names and bytes of all files below a folder.
fn files_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files_of(&path)),
            false => drop(found.insert(path.clone(), std::fs::read(&path).expect("readable"))),
        }
    }
    found
}

/// Two builds without a release between them may have different formats of one level.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_an_unreleased_build_is_refused_and_left_as_it_is() {
    for (field, level) in [(json!("0123456789abcdef"), 1), (Value::Null, 9)] {
        let (directory, _, flags) = unpacked(1);
        let (data, log) = (directory.path().join("data"), directory.path().join("log"));
        let path = data.join("identity.json");
        let mut identity: Value = serde_json::from_slice(&std::fs::read(&path).expect("an identity")).expect("JSON");
        (identity["format"], identity["format_version"]) = (field, json!(level));
        std::fs::write(&path, identity.to_string()).expect("written");
        std::fs::write(data.join("LOCK-thuban"), "").expect("written");
        let before = files_of(&data);
        let refused = Process::start(&flags, &log).await.err().expect("the formats are others");
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let words = format!("was written by an unreleased build of thuban (version 0.2.0, level {level})");
        assert!(refused.log.contains(&words) && refused.log.contains("`thuban apply`"), "{}", refused.log);
        assert!(before == files_of(&data), "the directory has changed");
    }
}
