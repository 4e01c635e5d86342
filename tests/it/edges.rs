//! Extreme conditions of a cluster: slow links, distance, nodes that fall behind, clocks that were wrong.

use std::cell::Cell;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::clocks::seconds;
use crate::harness::{Api, Cluster, ThinLink, eventually, linked, report, signed};

const SERVICES: &str = "/naming/v1/services";
const LIMIT: Duration = Duration::from_secs(60);
/// 12 Mbit/s: a megabyte and a half a second.
const THIN: u64 = 1_500_000;
const FILE_BYTES: usize = 1_000_000;
const FILES: usize = 7;

/// Adds a learner behind a slow link of its own.
async fn add_linked_learner(cluster: &mut Cluster, id: u64) -> ThinLink {
    cluster.start_outsider(id).await;
    let link = ThinLink::before(cluster.ports(id).peer);
    let order = json!({"id": id, "peer": link.address().to_string()});
    cluster.api(1).post("/admin/v1/cluster/add", &order).await.expect_code(200_000);
    cluster.wait_ready(id).await;
    link
}

/// A service token `ci` of everything.
async fn make_token(api: &Api) -> String {
    let made =
        api.post("/auth/v1/tokens", &json!([{"name": "ci", "grants": [{"role": "admin", "namespace": "*"}]}])).await;
    made.body["responses"][0]["token"]["secret"].as_str().expect("a token").to_owned()
}

fn files(number: usize) -> Value {
    let file = |at: usize| {
        let content = format!("{number} {}", char::from(b'a' + at as u8).to_string().repeat(FILE_BYTES));
        json!({"namespace": "default", "group": "large", "file_name": format!("f{at}.txt"), "content": content})
    };
    (0..FILES).map(file).collect()
}

/// Seven megabytes in one entry: created first, and updated from then on.
async fn write_files(api: &Api, number: usize) {
    let method = if number == 0 { Method::POST } else { Method::PUT };
    let answer = api.try_send(method, "/config/v1/configfiles", Some(&files(number))).await.expect("an answer");
    assert_eq!(answer.code(), 200_000, "{answer}");
}

/// Waits until the last of the files is there on this node.
async fn has_drafts(api: &Api) {
    eventually(LIMIT, "the node has the files", || look_for_drafts(api)).await;
}

async fn look_for_drafts(api: &Api) -> Result<(), String> {
    let last = FILES - 1;
    let path = format!("/config/v1/configfiles?namespace=default&group=large&name=f{last}.txt&consistency=local");
    let answer = api.try_send(Method::GET, &path, None).await.map_err(|error| error.to_string())?;
    if answer.code() == 200_000 { Ok(()) } else { Err(answer.to_string().chars().take(200).collect()) }
}

async fn try_write(api: &Api, name: &str) -> Result<(), String> {
    let body = json!([{"namespace": "edges", "name": name}]);
    match api.try_send(Method::POST, SERVICES, Some(&body)).await {
        // It may have happened when its answer was lost.
        Ok(answer) if [200_000, 400_201].contains(&answer.code()) => Ok(()),
        seen => Err(format!("{seen:?}")),
    }
}

/// An entry of 7 MB takes longer than the time limit of an answer; it is delivered, and so are the entries after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_write_passes_thin_links_and_small_ones_follow() {
    let (cluster, links) = linked(3, &[]).await;
    let leader = cluster.leader().await;
    let api = cluster.api(leader);
    links.iter().for_each(|link| link.set_rate(THIN));
    let begun = Instant::now();
    let answer = api.try_send(Method::POST, "/config/v1/configfiles", Some(&files(0))).await;
    let code = answer.map(|answer| answer.code());
    assert!(matches!(code, Ok(200_000 | 504_001)), "{code:?}");
    eventually(LIMIT, "a small write follows", || try_write(&api, "after")).await;
    report(format!("{FILES} MB over links of {THIN} bytes a second: small writes go on after {:?}", begun.elapsed()));
    assert_eq!(cluster.leader().await, leader, "nobody missed the leader");
    for id in cluster.ids() {
        has_drafts(&cluster.api(id)).await;
    }
    let failures = api.metric("thuban_peer_append_failures_total").await.unwrap_or_default();
    assert!(failures <= 2.0, "sent once: {failures} sessions failed");
}

/// A large request to a follower is forwarded to the leader concurrently with votes and heartbeats.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_write_through_a_follower_costs_no_leader() {
    let (cluster, links) = linked(3, &[]).await;
    let (leader, follower) = (cluster.leader().await, cluster.followers().await[0]);
    links.iter().for_each(|link| link.set_rate(THIN));
    let api = cluster.api(follower);
    let large = async || {
        let answer = api.try_send(Method::POST, "/config/v1/configfiles", Some(&files(1))).await;
        answer.map(|answer| answer.code()).map_err(|error| error.to_string())
    };
    let first = large().await;
    assert!(matches!(first, Ok(200_000 | 504_001)), "{first:?}");
    eventually(LIMIT, "a small write follows", || try_write(&api, "after")).await;
    assert_eq!(cluster.leader().await, leader, "nobody missed the leader");
    // With an unknown outcome the write is applied a little later, or not at all: on a busy machine the forward may end
    // before the leader has received all of it. The caller then repeats it, and may get the same answer.
    let sent = Cell::new(Instant::now());
    eventually(2 * LIMIT, "the node has the files", || async {
        let seen = look_for_drafts(&api).await;
        if seen.is_err() && sent.get().elapsed() > LIMIT / 2 {
            assert_eq!(first, Ok(504_001), "what was acknowledged is there");
            sent.set(Instant::now());
            let _ = large().await;
        }
        seen
    })
    .await;
}

/// A node that missed many writes, behind a slow link: not ready, and without token trust, until it has caught up.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_node_is_not_ready_and_believes_no_token_before_it_has_caught_up() {
    let mut cluster = Cluster::start(3).await;
    let link = add_linked_learner(&mut cluster, 4).await;
    let leader = cluster.api(1);
    leader.publish("default", "app", "application", "v=1").await;
    let token = make_token(&leader).await;
    cluster.expect_equal_state().await;

    cluster.terminate(4).await;
    link.set_rate(THIN);
    write_files(&leader, 0).await;
    write_files(&leader, 1).await;
    write_files(&leader, 2).await;
    leader.post("/auth/v1/tokens/delete", &json!([{"name": "ci"}])).await.expect_code(200_000);
    leader.publish("default", "app", "application", "v=2").await;
    cluster.relaunch(4).await;

    let (learner, held) = (cluster.api(4), cluster.api(4).with_token(&token));
    let local = format!("{SERVICES}?consistency=local");
    let first = eventually(LIMIT, "the learner answers", || learner.health("/readyz")).await;
    assert_eq!(first.0, 503, "21 MB are on their way to it");
    eventually(LIMIT, "the learner is ready", || async {
        let (status, text) = learner.health("/readyz?verbose").await?;
        if status == 200 {
            return Ok(());
        }
        let answer = held.try_send(Method::GET, &local, None).await.map_err(|error| error.to_string())?;
        assert_ne!(answer.code(), 200_000, "a token that was revoked is believed");
        assert!(text.contains("[-]caught_up") || text.contains("[-]leader"), "{text}");
        Err(text)
    })
    .await;
    let pulled = cluster.apollo(4).config("app", "default", "application").await["configurations"].clone();
    assert_eq!(pulled, json!({"v": "2"}), "ready, and up to date");
    assert_ne!(held.get(&local).await.code(), 200_000);
    let view = cluster.api(4).cluster().await.expect("a view");
    for member in view.body["members"].as_array().expect("members") {
        assert!(member["fresh_ms"].as_u64().is_some_and(|ms| ms < 5_000), "{view}");
        assert!(member["round_trip_ms"].is_number(), "{view}");
    }
}

/// Entries trickle in, each within the limits, and all of them are old: what the leader has committed meanwhile counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_behind_a_thin_link_takes_itself_for_fresh_by_no_old_entry() {
    const OLD: usize = 24;
    let flags = ["--ready-behind-ms", "3000", "--token-trust-ms", "3000"];
    let mut cluster = Cluster::start_with(3, &flags).await;
    let link = add_linked_learner(&mut cluster, 4).await;
    let (leader, learner) = (cluster.api(cluster.leader().await), cluster.api(4));
    let token = make_token(&leader).await;
    cluster.expect_equal_state().await;
    let held = cluster.api(4).with_token(&token);
    let local = format!("{SERVICES}?consistency=local");
    held.get(&local).await.expect_code(200_000);

    link.set_rate(64 * 1024);
    let large = |number: usize| format!("v={number}{}", "x".repeat(100_000));
    let applied = "thuban_raft_applied_index";
    for number in 0..OLD {
        leader.publish("default", "app", "application", &large(number)).await;
    }
    leader.post("/auth/v1/tokens/delete", &json!([{"name": "ci"}])).await.expect_code(200_000);
    let deleted = leader.metric(applied).await.expect("the gauge is there");
    for number in OLD..OLD + 8 {
        leader.publish("default", "app", "application", &large(number)).await;
    }
    let newest = leader.metric(applied).await.expect("the gauge is there");

    eventually(LIMIT, "the token is not believed", || async {
        let answer = held.try_send(Method::GET, &local, None).await.map_err(|error| error.to_string())?;
        if answer.code() == 200_000 { Err(answer.to_string()) } else { Ok(()) }
    })
    .await;
    let seen = learner.metric(applied).await.expect("the gauge is there");
    assert!(seen < deleted, "it is refused before its end has arrived: {seen} of {deleted}");
    eventually(LIMIT, "the learner is not ready", || async {
        match learner.health("/readyz").await? {
            (503, _) => Ok(()),
            (status, text) => Err(format!("{status} {text}")),
        }
    })
    .await;
    let begun = learner.metric(applied).await.expect("the gauge is there");
    eventually(LIMIT, "some more entries have arrived", || async {
        let (status, text) = learner.health("/readyz").await?;
        let seen = learner.metric(applied).await.expect("the gauge is there");
        assert!(status == 503 || seen >= newest, "ready with {seen} of {newest} applied: {text}");
        if seen >= begun + 4.0 { Ok(()) } else { Err(format!("{seen} applied")) }
    })
    .await;
    link.set_rate(0);
    cluster.wait_ready(4).await;
    cluster.expect_equal_state().await;
    held.get(&local).await.expect_code(401_004);
}

/// A voter that stops receiving entries is an alarm that names it, and not ready by and by.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_heard_and_takes_nothing_is_an_alarm() {
    let mut cluster = Cluster::start_with(3, &["--ready-behind-ms", "2000"]).await;
    let link = add_linked_learner(&mut cluster, 4).await;
    let leader = cluster.leader().await;
    let api = cluster.api(leader);
    // So thin that 7 MB take minutes.
    link.set_rate(64 * 1024);
    write_files(&api, 0).await;
    let (learner, alarmed) = (cluster.api(4), &api);
    eventually(LIMIT, "the learner is not ready", || async {
        match learner.health("/readyz").await? {
            (503, text) if text.contains("caught_up") && text.contains("behind its leader") => Ok(()),
            (status, text) => Err(format!("{status} {text}")),
        }
    })
    .await;
    eventually(LIMIT, "the alarm is raised", || async {
        match alarmed.metric("thuban_peer_stuck{peer=\"4\"}").await {
            Some(1.0) => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
    let (_, text) = api.health("/readyz?verbose").await.expect("an answer");
    assert!(text.contains("[+]peers ok\n[!]peers: node 4 is heard"), "{text}");
    let view = api.cluster().await.expect("a view");
    assert!(view.body["alarms"].to_string().contains("node 4 is heard"), "{view}");
    link.set_rate(0);
    cluster.wait_ready(4).await;
    eventually(LIMIT, "the alarm is over", || async {
        match alarmed.metric("thuban_peer_stuck{peer=\"4\"}").await {
            Some(0.0) => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
}

/// Over 300 ms of round trip one node leads, and writes and linearizable reads work through every node.
#[tokio::test(flavor = "multi_thread")]
async fn writes_work_over_three_hundred_milliseconds() {
    let (cluster, links) = linked(3, &[]).await;
    try_write(&cluster.api(1), "near").await.expect("near, everything works");
    links.iter().for_each(|link| link.set_delay(Duration::from_millis(150)));
    let timeout = "thuban_election_timeout_seconds";
    let leader = cluster.leader().await;
    let api = cluster.api(leader);
    eventually(LIMIT, "the election time-out follows", || async {
        match api.metric(timeout).await {
            Some(seconds) if seconds >= 1.2 => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
    let (leader, term) = (cluster.leader().await, api.metric("thuban_raft_term").await);
    for round in 0..5 {
        for id in cluster.ids() {
            let node = cluster.api(id);
            try_write(&node, &format!("far-{round}-{id}")).await.expect("a write over a distance");
            node.get(&format!("{SERVICES}?namespace=edges")).await.expect_code(200_000);
        }
    }
    assert_eq!((cluster.leader().await, api.metric("thuban_raft_term").await), (leader, term), "nobody stood");
    for id in cluster.ids() {
        let log = std::fs::read_to_string(cluster.log(id)).expect("there is a log");
        let told = log.lines().filter(|line| line.contains("a node is far away")).count();
        assert!((1..=2).contains(&told), "node {id} says once for each peer that it is far: {told}");
    }
}

/// A node sleeps through a write and then leads: nothing is dated back, and signed clients are served.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_slept_and_leads_turns_no_clock_back() {
    const SLEEP: Duration = Duration::from_secs(8);
    let cluster = Cluster::start_with_data_key(3, &[]).await;
    let (leader, sleeper) = (cluster.leader().await, cluster.followers().await[0]);
    let api = cluster.api(leader);
    let key = json!([{"app_id": "app", "name": "k", "mode": "enforce", "secret": "s".repeat(20)}]);
    api.post("/auth/v1/accesskeys", &key).await.expect_code(200_000);
    api.publish("default", "app", "application", "v=1").await;
    cluster.expect_equal_state().await;
    cluster.pause(sleeper).await;
    try_write(&api, "while-it-sleeps").await.expect("two of three are a majority");
    // The time that passes here is the very thing that the test is about.
    tokio::time::sleep(SLEEP).await;
    try_write(&api, "before-it-wakes").await.expect("two of three are a majority");
    let newest = stamp(&api, "before-it-wakes").await;
    cluster.resume(sleeper).await;
    eventually(LIMIT, "the node that slept leads", || async {
        let answer = api.post("/admin/v1/cluster/transfer", &json!({"to": sleeper})).await;
        if cluster.leader().await == sleeper { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    let node = cluster.api(sleeper);
    eventually(LIMIT, "it takes a write", || try_write(&node, "after")).await;
    let after = stamp(&node, "after").await;
    assert!(after + 2 >= newest, "stamped {after} after {newest}");
    for id in cluster.ids() {
        let path = "/configs/app/default/application";
        let pulled = cluster.apollo(id).get_with(path, &signed(&"s".repeat(20), "app", path, 0)).await;
        assert_eq!(pulled.status, 200, "{pulled:?}");
    }
}

async fn stamp(api: &Api, name: &str) -> i64 {
    let answer = api.get(&format!("{SERVICES}?namespace=edges&name={name}")).await.expect_code(200_000);
    seconds(&answer.body["services"][0]["ctime"])
}

/// A peer that is slower than the writes delays the purge up to the documented bound, and then gets a snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_peer_does_not_keep_the_log_for_ever() {
    const MEGABYTE: u64 = 1 << 20;
    let options = ["--snapshot-bytes", "1048576", "--log-bytes-kept", "1048576"];
    let mut cluster = Cluster::start_with(3, &options).await;
    let link = add_linked_learner(&mut cluster, 4).await;
    let leader = cluster.leader().await;
    let api = cluster.api(leader);
    link.set_rate(64 * 1024);
    let bound = 4 * 2 * MEGABYTE + 16 * MEGABYTE;
    let mut most = 0;
    for number in 0..20 {
        write_files(&api, number).await;
        let bytes = api.metric("thuban_log_size_bytes").await.unwrap_or_default() as u64;
        most = most.max(bytes);
    }
    eventually(LIMIT, "the log is purged", || async {
        match api.metric("thuban_log_size_bytes").await {
            Some(bytes) if (bytes as u64) < 4 * 2 * MEGABYTE => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
    report(format!("the log behind a slow peer had {most} bytes at most, the bound is {bound}"));
    assert!(most <= bound, "{most} of {bound}");
    link.set_rate(0);
    cluster.wait_ready(4).await;
    cluster.expect_equal_state().await;
}
