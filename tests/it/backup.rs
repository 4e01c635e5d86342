//! Recovery of a lost cluster: a new cluster from a backup, and a cluster of one from the last node. Clients of the old
//! one continue.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Api, Apollo, Cluster, Load, eventually, report, thuban};
use crate::polls::hold;

const WITHIN: Duration = Duration::from_secs(30);
/// Steps of versions and of the log index.
const LEAP: u64 = 1_000_000;
const INDEX_LEAP: u64 = 1 << 32;
/// Start of new notification ids: in the lower half of those that clients can hold.
const STARTS: std::ops::Range<i64> = 1_000_000..1 << 30;
const FAMILIES: [&str; 4] = ["faultdetectors", "ratelimits", "routings", "circuitbreakers"];
const BACKUP_ROUTE: &str = "/admin/v1/backup";

pub(crate) async fn run(arguments: &[&str]) -> Output {
    let ended = tokio::time::timeout(WITHIN, thuban().args(arguments).output()).await;
    ended.unwrap_or_else(|_| panic!("{arguments:?} takes longer than {WITHIN:?}")).expect("the binary can be run")
}

/// Output of a command that succeeds.
pub(crate) async fn done(arguments: &[&str]) -> String {
    let output = run(arguments).await;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

/// Error of a command that refuses with this exit code.
pub(crate) async fn refused(code: i32, arguments: &[&str]) -> String {
    let output = run(arguments).await;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
    told
}

pub(crate) async fn inspected(path: &Path) -> Value {
    serde_json::from_str(&done(&["inspect", text(path), "-o", "json"]).await).expect("JSON")
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path is text")
}

pub(crate) async fn take_backup(cluster: &Cluster, node: u64, out: &Path) -> String {
    let endpoint = format!("http://{}", cluster.ports(node).api);
    done(&["backup", "--endpoint", &endpoint, "--token", cluster.token(), "--out", text(out)]).await
}

/// Every node's directory anew: the first one out of the backup, the others out of what that has left for them.
pub(crate) async fn restore_all(cluster: &Cluster, from: &Path) {
    let reborn = PathBuf::from(format!("{}.reborn", text(from)));
    restore_by(cluster, from, &reborn).await;
}

/// The same with the file for the others in a place of its own.
pub(crate) async fn restore_by(cluster: &Cluster, from: &Path, reborn: &Path) {
    for id in cluster.ids() {
        let data = cluster.data(id);
        std::fs::remove_dir_all(&data).expect("the directory of a node that ended");
        match reborn.exists() {
            true => restore_copy(reborn, &data, id).await,
            false => restore_first(cluster, from, reborn, &data, id).await,
        }
    }
}

/// Makes a cluster of a backup, and the directory of its first node.
pub(crate) async fn restore_first(cluster: &Cluster, from: &Path, reborn: &Path, data: &Path, id: u64) {
    let (id, list) = (id.to_string(), cluster.initial_cluster());
    let arguments = ["restore", "--from", text(from), "--data-dir", text(data), "--node-id", &id];
    let told = done(&[&arguments[..], &["--initial-cluster", &list, "--reborn-out", text(reborn)]].concat()).await;
    assert!(told.contains(text(reborn)), "{told}");
}

pub(crate) async fn restore_copy(reborn: &Path, data: &Path, id: u64) {
    done(&["restore", "--from", text(reborn), "--data-dir", text(data), "--node-id", &id.to_string()]).await;
}

/// The release key of `application`, up to the mark of the cluster, which begins its id.
fn expect_key(key: &Value, version: u64, cluster_id: &Value) {
    let mark = &cluster_id.as_str().expect("an id")[..8];
    assert_eq!(*key, format!("shop-app-application-{version}.{mark}"));
}

/// Services, instances, aliases, rules of all families with releases and a gray one, config files with
/// releases and a gray one, all in the namespace `shop`.
async fn fill(api: &Api) {
    let services: Vec<Value> = (0..20).map(|n| json!({"namespace": "shop", "name": format!("s{n}")})).collect();
    api.post("/naming/v1/services", &json!(services)).await.expect_code(200_000);
    let instance = json!([{"namespace": "shop", "service": "s1", "host": "10.0.0.1", "port": 80, "weight": 7}]);
    api.post("/naming/v1/instances", &instance).await.expect_code(200_000);
    let alias = json!([{"namespace": "shop", "service": "s1", "alias": "one", "alias_namespace": "shop"}]);
    api.post("/naming/v1/service/alias", &alias).await.expect_code(200_000);
    for family in FAMILIES {
        let path = format!("/naming/v1/{family}");
        let mut rule = json!([{"name": "r", "namespace": "shop", "service": "s1"}]);
        match family {
            "faultdetectors" => rule[0]["target_service"] = json!({"service": "s1", "namespace": "shop"}),
            "routings" => rule[0]["routing_config"] = json!({"callee": {"service": "s1", "namespace": "shop"}}),
            "circuitbreakers" => {
                rule[0]["rule_matcher"] = json!({"destination": {"service": "s1", "namespace": "shop"}})
            }
            _ => {}
        }
        api.post(&path, &rule).await.expect_code(200_000);
        let labels = json!([{"key": "zone", "value": {"type": "IN", "value": "a"}}]);
        for release in [
            json!([{"rule_name": "r", "namespace": "shop", "release_name": "one"}]),
            json!([{"rule_name": "r", "namespace": "shop", "release_name": "two"}]),
            json!([{"rule_name": "r", "namespace": "shop", "release_name": "g", "release_type": "gray",
                "client_labels": labels}]),
        ] {
            api.post(&format!("{path}/releases"), &release).await.expect_code(200_000);
        }
    }
    for number in 0..2 {
        api.publish("shop", "app", "application", &format!("v={number}")).await;
        api.publish("shop", "app", "gray", &format!("v={number}")).await;
    }
    let labels = json!([{"key": "zone", "value": {"type": "IN", "value": "a"}}]);
    let gray = json!({"namespace": "shop", "group": "app", "file_name": "gray", "name": "g", "releaseType": "gray",
        "betaLabels": labels});
    api.post("/config/v1/configfiles/release", &gray).await.expect_code(200_000);
}

/// Every list that a caller can read of what [`fill`] has made.
async fn everything(api: &Api) -> Vec<(String, Value)> {
    let mut paths = vec![
        "/naming/v1/namespaces?name=shop".to_owned(),
        "/naming/v1/services?namespace=shop".to_owned(),
        "/naming/v1/instances?namespace=shop&service=s1".to_owned(),
        "/naming/v1/service/aliases?namespace=shop".to_owned(),
        "/config/v1/configfilegroups?namespace=shop".to_owned(),
        "/config/v1/configfiles/search?namespace=shop".to_owned(),
        "/config/v1/configfiles/releases?namespace=shop".to_owned(),
    ];
    for family in FAMILIES {
        paths.push(format!("/naming/v1/{family}/detail?namespace=shop"));
        paths.push(format!("/naming/v1/{family}/releases?rule_name=r&namespace=shop"));
    }
    let mut lists = Vec::new();
    for path in paths {
        let answer = api.get(&path).await.expect_code(200_000);
        assert!(answer.amount() > 0, "{path} is empty");
        lists.push((path, answer.body));
    }
    lists
}

/// The same with every version moved on; returns how many there were.
fn move_versions(value: &mut Value) -> usize {
    match value {
        Value::Object(members) => members
            .iter_mut()
            .map(|(name, member)| match member.as_u64().filter(|_| name == "version") {
                Some(version) => {
                    *member = json!(version + LEAP);
                    1
                }
                None => move_versions(member),
            })
            .sum(),
        Value::Array(items) => items.iter_mut().map(move_versions).sum(),
        _ => 0,
    }
}

fn moved(mut lists: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let versions: usize = lists.iter_mut().map(|(_, list)| move_versions(list)).sum();
    assert_eq!(versions, 3 * FAMILIES.len() + 5, "releases of rules and of files");
    lists
}

/// Query text of a pull that names the newest id and the release that its client has.
fn naming(id: u64, release_key: &str) -> String {
    let messages = json!({"details": {"app+shop+application": id}}).to_string();
    let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("messages={}&releaseKey={}", encoded(&messages), encoded(release_key))
}

async fn pull(apollo: &Apollo, query: &str) -> Value {
    let pulled = apollo.get(&format!("/configs/app/shop/application?{query}")).await;
    assert_eq!(pulled.status, 200, "{query}: {pulled:?}");
    serde_json::from_str(&pulled.text).expect("a config is JSON")
}

async fn discovered_index(api: &Api, named: u64) -> u64 {
    let question = json!({"type": "ROUTING", "service": {"namespace": "shop", "name": "s1"}, "applied_index": named});
    let answer = api.post("/v1/Discover", &question).await.expect_code(200_000);
    answer.body["applied_index"].as_u64().expect("an index")
}

/// Checks clients of the old cluster, and clients of one that was far ahead of the backup, on this node.
async fn expect_clients_go_on(cluster: &Cluster, node: u64, lost: &Lost, cluster_id: &Value) {
    let (apollo, api) = (cluster.apollo(node), cluster.api(node));
    let foreign = "shop-app-application-9000000000";
    let queries = [
        naming(lost.id, &lost.release_key),
        naming(2_100_000_000, foreign),
        naming(lost.id + LEAP + 1000, "-1"),
        naming(1, &format!("shop-app-application-{}", LEAP + 1000)),
    ];
    for query in queries {
        let config = pull(&apollo, &query).await;
        assert_eq!(config["configurations"]["v"], "1", "node {node}, {query}");
        expect_key(&config["releaseKey"], LEAP + 2, cluster_id);
    }
    let current = apollo.current_id("app", "shop", "application").await;
    for named in [lost.id as i64, 2_100_000_000] {
        let polled = apollo.poll("app", "shop", &[("application", named)]).await.expect("answered");
        assert_eq!(polled.id_of("application"), Some(current), "node {node}, {named}: {polled:?}");
    }
    assert!(current as u64 > lost.id && STARTS.contains(&current), "ids go up: {current}");
    for named in [lost.index, u64::MAX / 2] {
        assert!(discovered_index(&api, named).await > lost.index, "node {node}, {named}");
    }
}

/// State of clients that the backup does not know.
struct Lost {
    id: u64,
    release_key: String,
    index: u64,
}

impl Lost {
    /// Publishes after the backup.
    async fn by_publishing(cluster: &Cluster) -> Lost {
        for number in 0..3 {
            cluster.api(2).publish("shop", "app", "application", &format!("v=lost-{number}")).await;
        }
        let config = cluster.apollo(2).config("app", "shop", "application").await;
        assert_eq!(config["configurations"]["v"], "lost-2");
        Lost {
            id: cluster.apollo(2).current_id("app", "shop", "application").await as u64,
            release_key: config["releaseKey"].as_str().expect("a key").to_owned(),
            index: discovered_index(&cluster.api(2), 0).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_taken_under_load_becomes_a_new_cluster() {
    let mut cluster = Cluster::start(3).await;
    fill(&cluster.api(1)).await;
    let before = everything(&cluster.api(1)).await;
    let load = Load::start("load", 4, cluster.ids().into_iter().map(|id| (id, cluster.api(id))).collect());
    load.flows(WITHIN, 40).await;
    let follower = cluster.followers().await[0];
    let out = cluster.file("state.backup");
    let began = Instant::now();
    let told = take_backup(&cluster, follower, &out).await;
    report(format!("backup under load after {:?}: {}", began.elapsed(), told.trim()));
    load.flows(WITHIN, 20).await;
    let journal = load.stop().await;
    let lost = Lost::by_publishing(&cluster).await;
    expect_doors(&cluster, &out).await;

    let old_token = cluster.token().to_owned();
    cluster.kill_all().await;
    let file = inspected(&out).await;
    assert_eq!(
        (&file["rules"], &file["config_files"], &file["kind"]),
        (&json!(FAMILIES.len()), &json!(2), &json!("file"))
    );
    restore_all(&cluster, &out).await;
    let data = inspected(&cluster.data(2)).await;
    for same in ["services", "rules", "config_files", "level"] {
        assert_eq!(data[same], file[same], "{same}");
    }
    assert_ne!(data["cluster_id"], file["cluster_id"]);
    assert_eq!(
        (data["index"].as_u64(), &data["node_id"]),
        (file["index"].as_u64().map(|index| index + INDEX_LEAP), &json!(2))
    );
    cluster.restart_all().await;
    Api::new(cluster.ports(1).api).with_token(&old_token).get("/naming/v1/services").await.expect_code(401_004);
    cluster.log_in_again().await;
    cluster.expect_equal_state().await;
    let expected = moved(before);
    for id in cluster.ids() {
        assert_eq!(everything(&cluster.api(id)).await, expected, "node {id}");
        expect_clients_go_on(&cluster, id, &lost, &data["cluster_id"]).await;
    }
    // All that was acknowledged before it began is in the backup, and of each writer's later ones a beginning.
    let services = cluster.api(1).get("/naming/v1/services/all?namespace=load").await.expect_code(200_000);
    let kept: std::collections::BTreeSet<&str> =
        services.body["services"].as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    for (key, is_first) in journal.acknowledged().map(|attempt| (attempt.key.as_str(), attempt.ended < began)) {
        assert!(!is_first || kept.contains(key), "{key} was acknowledged before the backup and is not in it");
        let (worker, number) = key.rsplit_once('-').expect("a key of the load");
        let earlier = (0..number.parse().expect("a number")).map(|number: u32| format!("{worker}-{number}"));
        assert!(
            !kept.contains(key) || earlier.into_iter().all(|key| kept.contains(key.as_str())),
            "a hole before {key}"
        );
    }
    let current = cluster.apollo(3).current_id("app", "shop", "application").await;
    let held = hold(&cluster, 3, "app", "shop", current).await;
    cluster.api(1).publish("shop", "app", "application", "v=new").await;
    let polled = held.await.expect("no panic");
    assert!(polled.id_of("application").is_some_and(|id| id > current), "{polled:?}");
    let config = cluster.apollo(3).config("app", "shop", "application").await;
    assert_eq!(config["configurations"]["v"], "new");
    expect_key(&config["releaseKey"], LEAP + 3, &data["cluster_id"]);
}

/// Refusals of a backup, on both ends, and their answers.
async fn expect_doors(cluster: &Cluster, out: &Path) {
    let endpoint = format!("http://{}", cluster.ports(1).api);
    let backup = |token: &str, out: &Path| {
        ["backup", "--endpoint", &endpoint, "--token", token, "--out", text(out)].map(str::to_owned)
    };
    let size = std::fs::metadata(out).expect("a file").len();
    let again = backup(cluster.token(), out);
    let told = refused(1, &again.each_ref().map(String::as_str)).await;
    assert!(told.contains("does not overwrite"), "{told}");
    let other = cluster.file("other.backup");
    let told = refused(1, &backup("a guess", &other).each_ref().map(String::as_str)).await;
    assert!(told.contains("401004"), "{told}");
    assert_eq!(std::fs::metadata(out).expect("a file").len(), size);
    assert!(!other.exists() && !with_part(&other).exists() && !with_part(out).exists(), "something is left behind");
    Api::new(cluster.ports(1).api).get(BACKUP_ROUTE).await.expect_code(401_002);
    let response = cluster.api(1).request(reqwest::Method::GET, BACKUP_ROUTE).send().await.expect("an answer");
    let header = |name: &str| response.headers()[name].to_str().expect("text").to_owned();
    assert_eq!(header("content-type"), "application/octet-stream");
    assert!(header("content-disposition").starts_with("attachment; filename=\"thuban-"));
    assert_eq!(header("x-thuban-consistency"), "linearizable");
    let told = refused(1, &["inspect", text(&cluster.data(1))]).await;
    assert!(told.contains("in use by another process"), "{told}");
    let data = cluster.file("none");
    let restore = ["restore", "--from", text(out), "--data-dir", text(&data), "--node-id"];
    let told = refused(2, &[&restore[..], &["4", "--initial-cluster", "1=a:1"]].concat()).await;
    assert!(told.contains("does not name this node"), "{told}");
    let busy =
        ["restore", "--from", text(out), "--data-dir", text(&cluster.data(1)), "--node-id", "1"].map(str::to_owned);
    let told = refused(1, &[&busy.each_ref().map(String::as_str)[..], &["--initial-cluster", "1=a:1"]].concat()).await;
    assert!(told.contains("already holds something"), "{told}");
    let told = refused(2, &[&restore[..], &["1"]].concat()).await;
    assert!(told.contains("--initial-cluster has to name the members"), "{told}");
    assert!(!data.exists() && !PathBuf::from(format!("{}.reborn", text(out))).exists());
}

fn with_part(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.part", text(path)))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_that_is_left_goes_on_alone_and_new_ones_join() {
    let mut cluster = Cluster::start(3).await;
    fill(&cluster.api(1)).await;
    let before = everything(&cluster.api(1)).await;
    cluster.expect_equal_state().await;
    let survivor = cluster.followers().await[0];
    let data = cluster.data(survivor);
    let lost: Vec<u64> = cluster.ids().into_iter().filter(|id| *id != survivor).collect();
    for id in &lost {
        cluster.kill(*id).await;
        std::fs::remove_dir_all(cluster.data(*id)).expect("the directory of a node that ended");
    }
    let (id, other) = (survivor.to_string(), lost[0].to_string());
    let arguments = ["recover", "--data-dir", text(&data), "--node-id", &id];
    assert!(refused(1, &arguments).await.contains("in use by another process"));
    cluster.terminate(survivor).await;
    let held = inspected(&data).await;
    assert!(refused(1, &arguments).await.contains("needs a confirmation"));
    let wrong = ["recover", "--data-dir", text(&data), "--node-id", &other, "--yes"];
    assert!(refused(1, &wrong).await.contains("is the directory of node"));
    assert_eq!(inspected(&data).await["cluster_id"], held["cluster_id"], "nothing has happened yet");
    let told = done(&[&arguments[..], &["--yes"]].concat()).await;
    assert!(told.contains("may be lost"), "{told}");
    let told = done(&arguments).await;
    assert!(told.contains("the only member"), "{told}");
    let alone = inspected(&data).await;
    assert_ne!(alone["cluster_id"], held["cluster_id"]);
    assert_eq!(alone["voters"], json!([survivor]));

    cluster.restart(survivor).await;
    cluster.log_in_again_at(survivor).await;
    let api = cluster.api(survivor);
    assert_eq!(everything(&api).await, moved(before));
    for new in [4, 5] {
        cluster.start_outsider(new).await;
        let peer = cluster.ports(new).peer.to_string();
        order(&api, "add", json!({"id": new, "peer": peer})).await;
        cluster.wait_ready(new).await;
        order(&api, "promote", json!({"id": new})).await;
    }
    let spent = json!({"id": lost[0], "peer": cluster.ports(lost[0]).peer.to_string()});
    api.post("/admin/v1/cluster/add", &spent).await.expect_code(400_000);
    cluster.expect_equal_state().await;
    cluster.kill(survivor).await;
    let leader = cluster.leader().await;
    cluster.api(leader).publish("shop", "app", "application", "v=new").await;
    let config = cluster.apollo(leader).config("app", "shop", "application").await;
    expect_key(&config["releaseKey"], LEAP + 3, &alone["cluster_id"]);
}

async fn order(api: &Api, verb: &str, body: Value) {
    let path = &format!("/admin/v1/cluster/{verb}");
    let body = &body;
    eventually(WITHIN, &format!("{verb} {body} is done"), || async move {
        let answer = api.post(path, body).await;
        if answer.code() == 200_000 { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
}
