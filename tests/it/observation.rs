//! Observability: metrics that parse and are complete, and correct health checks.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::harness::{Api, Cluster, eventually};

/// The families whose absence would blind the shipped dashboards, with their types.
const FAMILIES: [(&str, &str); 24] = [
    ("thuban_request_duration_seconds", "histogram"),
    ("thuban_requests_in_flight", "gauge"),
    ("thuban_write_outcomes_total", "counter"),
    ("thuban_long_polls_held", "gauge"),
    ("thuban_raft_has_leader", "gauge"),
    ("thuban_raft_is_leader", "gauge"),
    ("thuban_raft_role", "gauge"),
    ("thuban_raft_term", "gauge"),
    ("thuban_raft_leader_changes_total", "counter"),
    ("thuban_raft_last_log_index", "gauge"),
    ("thuban_raft_committed_index", "gauge"),
    ("thuban_raft_applied_index", "gauge"),
    ("thuban_raft_snapshot_index", "gauge"),
    ("thuban_raft_purged_index", "gauge"),
    ("thuban_peer_reachable", "gauge"),
    ("thuban_proposals_pending", "gauge"),
    ("thuban_forwards_total", "counter"),
    ("thuban_log_fsync_duration_seconds", "histogram"),
    ("thuban_log_fsync_appends", "histogram"),
    ("thuban_apply_duration_seconds", "histogram"),
    ("thuban_rocksdb_live_data_size_bytes", "gauge"),
    ("thuban_catalog_objects", "gauge"),
    ("thuban_config_notification_id", "gauge"),
    ("thuban_build_info", "gauge"),
];

/// Reads Prometheus' text format strictly: every sample belongs to a family declared before it, once.
fn parse(text: &str) -> BTreeMap<String, (String, Vec<(String, f64)>)> {
    let mut families: BTreeMap<String, (String, Vec<(String, f64)>)> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines().filter(|line| !line.starts_with("# HELP ")) {
        if let Some(declaration) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declaration.split_once(' ').unwrap_or_else(|| panic!("no type in {line:?}"));
            name.clone_into(&mut current);
            assert!(families.insert(current.clone(), (kind.to_owned(), Vec::new())).is_none(), "{name} declared twice");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value in {line:?}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number in {line:?}"));
        assert!(series.starts_with(&current) && !current.is_empty(), "{line:?} outside its family {current:?}");
        families.get_mut(&current).expect("the family was declared").1.push((series.to_owned(), value));
    }
    families
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_shows_every_family() {
    let cluster = Cluster::start(3).await;
    for id in cluster.ids() {
        let body = serde_json::json!([{"namespace": "seen", "name": format!("by-{id}")}]);
        cluster.api(id).post("/naming/v1/services", &body).await.expect_code(200_000);
        let (status, text) = cluster.api(id).health("/metrics").await.expect("metrics are answered");
        assert_eq!(status, 200);
        let families = parse(&text);
        for (name, kind) in FAMILIES {
            let (seen, samples) = families.get(name).unwrap_or_else(|| panic!("node {id} does not show {name}"));
            assert_eq!((seen.as_str(), samples.is_empty()), (kind, false), "node {id}, {name}");
        }
    }
    let leads = |id| cluster.api(id);
    let mut leaders = 0.0;
    for id in cluster.ids() {
        leaders += leads(id).metric("thuban_raft_is_leader").await.expect("the gauge is there");
    }
    assert_eq!(leaders, 1.0, "exactly one node says that it leads");
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_majority_and_liveness_does_not() {
    let mut cluster = Cluster::start(3).await;
    let ports = cluster.ports(1);
    for surface in [ports.api, ports.compat] {
        let api = Api::new(surface);
        assert_eq!(api.health("/livez").await.expect("answered").0, 200);
        let (status, text) = api.health("/readyz?verbose").await.expect("answered");
        assert_eq!(status, 200, "{text}");
        assert!(text.contains("leader"), "the checks are not named: {text}");
    }
    cluster.kill(2).await;
    cluster.kill(3).await;
    for surface in [ports.api, ports.compat] {
        let api = Api::new(surface);
        eventually(Duration::from_secs(20), "a node without a majority is not ready", || async {
            match api.health("/readyz?verbose").await? {
                (503, text) if text.contains("leader") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        assert_eq!(api.health("/livez").await.expect("answered").0, 200);
    }
    cluster.restart_all().await;
    cluster.wait_ready(1).await;
}
