//! Removed nodes: they learn of it, refuse their clients, and end. Nodes that reach no peer report why.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Cluster, eventually, run};
use crate::membership::{expect_done, member};

const LIMIT: Duration = Duration::from_secs(30);
const REMOVED: i32 = 6;

/// A node that is removed while it runs refuses on every surface, and ends with the exit code that prevents a restart.
async fn expect_removed(cluster: &mut Cluster, id: u64) {
    let api = cluster.api(id);
    eventually(LIMIT, "the node says that it was removed", || async {
        let (status, text) = api.health("/readyz?verbose").await?;
        let is_said = text.contains("[-]member failed: ") && text.contains("was removed from the cluster");
        if status == 503 && is_said { Ok(()) } else { Err(format!("{status}: {text}")) }
    })
    .await;
    let view = api.cluster().await.expect("its view").body;
    let says_so = |alarm: &Value| alarm.as_str().is_some_and(|text| text.contains("was removed"));
    assert!(view["alarms"].as_array().is_some_and(|alarms| alarms.iter().any(says_so)), "{view}");
    let refused = api.get("/naming/v1/services").await.expect_code(503_001);
    assert!(refused.body["info"].as_str().is_some_and(|info| info.contains("was removed")), "{refused}");
    for path in ["/configs/app/default/application", "/services/config", "/configfiles/app/default/application"] {
        assert_eq!(cluster.apollo(id).get(path).await.status, 503, "{path}");
    }
    let ended = cluster.expect_end(id, LIMIT).await;
    assert_eq!(ended.status.code(), Some(REMOVED), "{}", ended.log);
    let log = std::fs::read_to_string(cluster.log(id)).expect("a log");
    assert_eq!(log.matches("this node was removed from its cluster").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_removed_while_it_works_hears_of_it() {
    let mut cluster = Cluster::start(3).await;
    let removed = cluster.followers().await[0];
    let leader = cluster.leader().await;
    cluster.api(leader).publish("default", "app", "application", "a=1").await;
    cluster.expect_equal_state().await;
    let apollo = cluster.apollo(removed);
    let known = apollo.current_id("app", "default", "application").await;
    let held = tokio::spawn(async move { apollo.poll("app", "default", &[("application", known)]).await });
    let removed_api = cluster.api(removed);
    eventually(LIMIT, "the poll is held", || async {
        let held = removed_api.metric("thuban_long_polls_held").await;
        if held == Some(1.0) { Ok(()) } else { Err(format!("{held:?}")) }
    })
    .await;
    expect_done(&cluster.api(leader), "remove", json!({"id": removed})).await;
    assert_eq!(held.await.expect("it ends").expect("it is answered").status, 304);
    expect_removed(&mut cluster, removed).await;
    // A node that was down when it was removed learns of it after its restart.
    cluster.relaunch(removed).await;
    let ended = cluster.expect_end(removed, LIMIT).await;
    assert_eq!(ended.status.code(), Some(REMOVED), "{}", ended.log);
    cluster.api(leader).publish("default", "app", "application", "a=2").await;
    cluster.expect_equal_state().await;
}

/// A learner has no vote, and its leader removes it in one step.
#[tokio::test(flavor = "multi_thread")]
async fn a_learner_that_is_removed_hears_of_it_and_its_machine_comes_back_under_another_id() {
    let mut cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    for id in [2, 3] {
        cluster.start_outsider(id).await;
        let peer = cluster.ports(id).peer.to_string();
        expect_done(&api, "add", json!({"id": id, "peer": peer})).await;
        cluster.wait_ready(id).await;
        if id == 2 {
            expect_done(&api, "remove", json!({"id": id})).await;
            expect_removed(&mut cluster, id).await;
            assert_eq!(member(&api, id).await, None);
        }
    }
    cluster.expect_equal_state().await;
}

/// A node without a leader shows what it knew last, as its own view, and the reason of each member.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_leader_shows_its_own_view_and_the_reasons() {
    let mut cluster = Cluster::start_with(3, &["--token-trust-ms", "1000"]).await;
    let left = cluster.followers().await[0];
    let others: Vec<u64> = cluster.ids().into_iter().filter(|id| *id != left).collect();
    for id in &others {
        cluster.kill(*id).await;
    }
    let api = cluster.api(left);
    eventually(LIMIT, "tokens are not believed there any more", || async {
        let answer = api.get("/naming/v1/services").await;
        if answer.code() == 503_001 { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    let view = eventually(LIMIT, "each member has its reason", || async {
        let view = api.cluster().await?;
        let members = view.body["members"].as_array().cloned().unwrap_or_default();
        let refused = members.iter().filter(|member| {
            member["problem"].as_str().is_some_and(|why| why.contains("refused") && member["reachable"] == false)
        });
        if refused.count() == 2 { Ok(view.body) } else { Err(view.to_string()) }
    })
    .await;
    assert!(view["own_view"] == true && view["leader"].is_null() && view["self"] == left, "{view}");
    let (status, text) = api.health("/readyz").await.expect("an answer");
    for id in &others {
        assert!(status == 503 && text.contains(&format!("node {id}: cannot be reached: ")), "{text}");
    }
    let endpoint = format!("http://{}", cluster.ports(left).api);
    let shown = run(&endpoint, cluster.token(), &["cluster", "status"], "").await.expect(0);
    assert!(
        shown.contains("NO LEADER") && shown.contains(&format!("node {}: cannot be reached", others[0])),
        "{shown}"
    );
    let unknown = run(&endpoint, "a token that nobody has", &["cluster", "status"], "").await;
    assert_eq!(unknown.code, 4, "{}", unknown.error);
    assert!(unknown.error.contains("[-]leader failed: ") && !unknown.error.contains("try again"), "{}", unknown.error);
}

/// Only the others know that the name of a node leads to another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_address_leads_elsewhere_is_told_so_by_the_others() {
    let mut cluster = Cluster::start(3).await;
    let followers = cluster.followers().await;
    let (moved, other) = (followers[0], followers[1]);
    let words = format!("this is node {other}, not node {moved}");
    cluster.kill(moved).await;
    cluster.kill(other).await;
    cluster.swap_peers(moved, other);
    cluster.relaunch(moved).await;
    cluster.relaunch(other).await;
    let api = cluster.api(moved);
    eventually(LIMIT, "the node knows why no leader reaches it", || async {
        let (_, text) = api.health("/readyz?verbose").await?;
        let said = text.contains("it does not reach this node") && text.contains(&words);
        if said { Ok(()) } else { Err(text) }
    })
    .await;
}
