//! Several clusters out of one backup: a restore that was tried, and then the right one. What clients and nodes have of
//! the first is of no meaning in the second.

use std::time::Duration;

use serde_json::{Value, json};

use crate::backup::{done, inspected, refused, restore_by, restore_copy, restore_first, take_backup, text};
use crate::harness::{Api, Cluster, Polled, eventually};
use crate::polls::hold;

const WITHIN: Duration = Duration::from_secs(30);
/// Much less than a hold.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Configuration of a client of `application`.
struct Held {
    release_key: String,
    id: i64,
    value: Value,
}

impl Held {
    async fn by_client(cluster: &Cluster) -> Held {
        let config = cluster.apollo(1).config("app", "shop", "application").await;
        let id = cluster.apollo(1).current_id("app", "shop", "application").await;
        let release_key = config["releaseKey"].as_str().expect("a key").to_owned();
        Held { release_key, id, value: config["configurations"]["v"].clone() }
    }
}

fn expect_told(polled: &Polled, id: i64) {
    assert_eq!((polled.status, polled.id_of("application")), (200, Some(id)), "{polled:?}");
    assert!(polled.held < AT_ONCE, "{polled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_restored_again_is_another_cluster_to_its_clients() {
    let mut cluster = Cluster::start(1).await;
    cluster.api(1).publish("shop", "app", "application", "v=backed-up").await;
    let backup = cluster.file("backup");
    take_backup(&cluster, 1, &backup).await;
    let mut lives: Vec<(Held, Value)> = Vec::new();
    for life in ["first", "second"] {
        cluster.kill_all().await;
        restore_by(&cluster, &backup, &cluster.file(&format!("{life}.reborn"))).await;
        let cluster_id = inspected(&cluster.data(1)).await["cluster_id"].clone();
        cluster.restart_all().await;
        cluster.log_in_again().await;
        let held = match lives.first() {
            None => None,
            // Before any publish it gets the id of the restored cluster, and polls with it.
            Some((before, _)) => {
                let polled = cluster.apollo(1).poll("app", "shop", &[("application", before.id)]).await;
                expect_told(&polled.expect("answered"), Held::by_client(&cluster).await.id);
                Some(hold(&cluster, 1, "app", "shop", Held::by_client(&cluster).await.id).await)
            }
        };
        cluster.api(1).publish("shop", "app", "application", &format!("v={life}")).await;
        let now = Held::by_client(&cluster).await;
        if let Some(held) = held {
            expect_told(&held.await.expect("no panic"), now.id);
        }
        lives.push((now, cluster_id));
    }
    let [(first, first_id), (second, second_id)] = &lives[..] else { unreachable!("two lives") };
    assert_eq!((&first.value, &second.value), (&json!("first"), &json!("second")));
    assert!(first.release_key != second.release_key && first.id != second.id && first_id != second_id);

    let pull = |key: &str| format!("/configs/app/shop/application?releaseKey={key}");
    let pulled = cluster.apollo(1).get(&pull(&first.release_key)).await;
    assert_eq!(pulled.status, 200, "the client has another content: {pulled:?}");
    assert!(pulled.text.contains(r#""v":"second""#), "{pulled:?}");
    assert_eq!(cluster.apollo(1).get(&pull(&second.release_key)).await.status, 304);
    let polled = cluster.apollo(1).poll("app", "shop", &[("application", first.id)]).await.expect("answered");
    expect_told(&polled, second.id);
}

async fn refusals(api: &Api) -> f64 {
    let refused = api.metric(r#"thuban_peer_connections_refused_total{reason="cluster"}"#).await;
    refused.unwrap_or_default()
}

/// A node of the first restore knocks at the second cluster, before the right one does.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_the_first_restore_is_not_let_into_the_second() {
    let mut cluster = Cluster::start(3).await;
    cluster.api(1).publish("shop", "app", "application", "v=1").await;
    let (backup, tried, right) = (cluster.file("backup"), cluster.file("tried.reborn"), cluster.file("right.reborn"));
    take_backup(&cluster, 1, &backup).await;
    cluster.kill_all().await;
    restore_first(&cluster, &backup, &tried, &cluster.file("tried-1"), 1).await;
    let (list, data) = (cluster.initial_cluster(), cluster.data(1));
    let again = ["restore", "--from", text(&backup), "--data-dir", text(&data), "--node-id", "1"];
    let told = refused(1, &[&again[..], &["--initial-cluster", &list, "--reborn-out", text(&tried)]].concat()).await;
    assert!(told.contains(&format!("{} exists", text(&tried))), "{told}");
    restore_by(&cluster, &backup, &right).await;
    let (own, kept) = (cluster.data(2), cluster.file("kept-2"));
    std::fs::rename(&own, &kept).expect("it is moved away");
    restore_copy(&tried, &own, 2).await;
    let ids = [inspected(&own).await, inspected(&kept).await].map(|seen| seen["cluster_id"].clone());
    assert!(ids[0] != ids[1] && ids[1] == inspected(&right).await["cluster_id"], "{ids:?}");

    // There it is before anybody of the second is known.
    cluster.relaunch(2).await;
    cluster.relaunch(1).await;
    let api = cluster.api(1);
    eventually(WITHIN, "the left-over node is refused", || async {
        match refusals(&api).await {
            refused if refused > 0.0 => Ok(()),
            refused => Err(format!("{refused}")),
        }
    })
    .await;
    cluster.restart(3).await;
    cluster.wait_ready(1).await;
    cluster.log_in_again_at(3).await;
    cluster.api(3).publish("shop", "app", "application", "v=second").await;
    let view = cluster.api(1).cluster().await.expect("it can be shown");
    let members = view.body["members"].as_array().expect("a list").clone();
    let left_over = members.iter().find(|member| member["id"] == 2).expect("a member by the list");
    assert_ne!(left_over["reachable"], true, "{view:?}");
    let pulled = cluster.apollo(2).get("/configs/app/shop/application").await;
    assert!(pulled.status != 200 || !pulled.text.contains("second"), "{pulled:?}");

    cluster.kill(2).await;
    std::fs::remove_dir_all(&own).expect("removed");
    std::fs::rename(&kept, &own).expect("it is moved back");
    cluster.restart(2).await;
    cluster.expect_equal_state().await;
}

/// A cluster of the same size out of the one node that is left, under the ids and addresses of before.
#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_recovered_cluster_are_made_from_what_the_survivor_leaves() {
    let mut cluster = Cluster::start(3).await;
    cluster.api(1).publish("shop", "app", "application", "v=1").await;
    cluster.expect_equal_state().await;
    let id = inspected_id(&cluster).await;
    cluster.kill_all().await;
    for lost in [2, 3] {
        std::fs::remove_dir_all(cluster.data(lost)).expect("the directory of a node that ended");
    }
    // The directory is `node-1`.
    let (data, list, reborn) = (cluster.data(1), cluster.initial_cluster(), cluster.file("node-1.reborn"));
    let recover = ["recover", "--data-dir", text(&data), "--node-id", "1", "--initial-cluster", &list, "--yes"];
    let told = done(&recover).await;
    assert!(told.contains(text(&reborn)) && told.contains("may be lost"), "{told}");
    let told = done(&recover).await;
    assert!(told.contains("is a member of the cluster in"), "{told}");
    let empty = cluster.data(2);
    let own = ["restore", "--from", text(&reborn), "--data-dir", text(&empty), "--node-id", "1"];
    assert!(refused(1, &own).await.contains("goes on in its own directory"));
    for lost in [2, 3] {
        restore_copy(&reborn, &cluster.data(lost), lost).await;
    }
    cluster.restart_all().await;
    cluster.log_in_again_at(2).await;
    cluster.expect_equal_state().await;
    assert_ne!(inspected_id(&cluster).await, id);
    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    let follower = cluster.leader().await;
    cluster.api(follower).publish("shop", "app", "application", "v=2").await;
    cluster.restart(leader).await;
    cluster.expect_equal_state().await;
}

async fn inspected_id(cluster: &Cluster) -> Value {
    cluster.api(1).cluster().await.expect("it can be shown").body["cluster_id"].clone()
}
