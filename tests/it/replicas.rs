//! Learners as read replicas: clients are served by them as by voters, the voters miss nothing without them, and
//! however many there are they never make a majority.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::catch_up::{SHORT_LOG, expect_installed, leave_behind};
use crate::cut_off::notices;
use crate::discover::{discover, limit, publish_limit, question, rule_names};
use crate::harness::{Api, Cluster, Kind, Load, Outcome, RealClient, eventually, report};
use crate::levels::{NEXT, UPGRADED, has_next_level};
use crate::lone;
use crate::membership::{expect_done, expect_refused, member};
use crate::polls::{await_held, hold};

const LIMIT: Duration = Duration::from_secs(30);
const VOTERS: [u64; 3] = [1, 2, 3];
const SERVICES: &str = "/naming/v1/services";
const LOCAL: &str = "/naming/v1/services?namespace=replicas&consistency=local";

/// Three voters, and learners of these ids that have caught up.
async fn with_learners(learners: &[u64], options: &[&str]) -> Cluster {
    let mut cluster = Cluster::start_with(3, options).await;
    for id in learners {
        add_learner(&mut cluster, *id).await;
    }
    cluster.expect_equal_state().await;
    cluster
}

async fn add_learner(cluster: &mut Cluster, id: u64) {
    cluster.start_outsider(id).await;
    let peer = cluster.ports(id).peer.to_string();
    expect_done(&cluster.api(1), "add", json!({"id": id, "peer": peer})).await;
    cluster.wait_ready(id).await;
}

async fn write(api: &Api, name: &str) {
    api.post(SERVICES, &json!([{"namespace": "replicas", "name": name}])).await.expect_code(200_000);
}

/// A linearizable read.
async fn has(api: &Api, name: &str) -> bool {
    api.get(&format!("{SERVICES}?namespace=replicas&name={name}")).await.expect_code(200_000).amount() == 1
}

async fn publish(api: &Api, content: &str) {
    api.publish("default", "app", "application", content).await;
}

/// Answer that a client of this node is given.
async fn pulled(cluster: &Cluster, id: u64) -> Value {
    cluster.apollo(id).config("app", "default", "application").await["configurations"].clone()
}

async fn expect_gauge(api: &Api, series: &str, wanted: f64) {
    eventually(LIMIT, series, || async {
        match api.metric(series).await {
            Some(value) if value == wanted => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_learner_are_woken_by_what_is_published_on_voters() {
    let cluster = with_learners(&[4, 5], &[]).await;
    publish(&cluster.api(1), "number=start").await;
    cluster.expect_equal_state().await;
    let mut id = cluster.apollo(4).current_id("app", "default", "application").await;
    // For any publisher the poll wakes, and the node that answers it has applied the change.
    for (number, (publisher, holder)) in [(1, 4), (2, 5), (3, 4), (4, 5), (5, 3)].into_iter().enumerate() {
        let held = hold(&cluster, holder, "app", "default", id).await;
        publish(&cluster.api(publisher), &format!("number={number}")).await;
        let polled = held.await.expect("the poll does not panic");
        let newer = polled.id_of("application").unwrap_or_else(|| panic!("no news: {polled:?}"));
        assert!(newer > id, "{newer} after {id}");
        id = newer;
        assert_eq!(pulled(&cluster, holder).await, json!({"number": number.to_string()}));
    }

    let mut client = RealClient::start(Kind::Rust, cluster.ports(4).compat, "app", "application").await;
    client.holds(LIMIT, "number", "4").await;
    for number in ["seen", "seen again"] {
        await_held(&cluster.api(4), 1).await;
        publish(&cluster.api(2), &format!("number={number}")).await;
        client.holds(LIMIT, "number", number).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discovery_that_a_learner_holds_is_woken_by_a_voter() {
    let cluster = with_learners(&[4], &[]).await;
    let learner = cluster.api(4);
    publish_limit(&cluster.api(1), "first", limit("first", 1, "pay")).await;
    cluster.expect_equal_state().await;
    let answer = discover(&learner, &question("RATE_LIMIT", "pay", json!({}))).await.expect_code(200_000);
    assert_eq!(rule_names(&answer, "rateLimit"), ["first"], "{answer}");
    let service = json!({"namespace": "shop", "name": "pay", "revision": answer.body["service"]["revision"]});
    let held = json!({"type": "RATE_LIMIT", "service": service, "timeout_ms": 20_000});
    let waiting = {
        let learner = learner.clone();
        tokio::spawn(async move { discover(&learner, &held).await })
    };
    await_held(&learner, 1).await;
    publish_limit(&cluster.api(2), "second", limit("second", 2, "pay")).await;
    let answer = waiting.await.expect("the question does not panic").expect_code(200_000);
    assert_eq!(rule_names(&answer, "rateLimit"), ["first", "second"], "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_takes_writes_and_linearizable_reads_and_says_what_it_is() {
    let cluster = with_learners(&[4, 5], &[]).await;
    let leader = cluster.leader().await;
    for round in 0..10 {
        let (through_learner, through_voter) = (format!("learner-{round}"), format!("voter-{round}"));
        write(&cluster.api(4), &through_learner).await;
        for id in cluster.ids() {
            assert!(has(&cluster.api(id), &through_learner).await, "node {id} does not show {through_learner}");
        }
        write(&cluster.api(VOTERS[round % 3]), &through_voter).await;
        for id in [4, 5] {
            assert!(has(&cluster.api(id), &through_voter).await, "learner {id} does not show {through_voter}");
        }
    }
    for seen_by in cluster.ids() {
        for id in cluster.ids() {
            let seen = member(&cluster.api(seen_by), id).await.expect("a member");
            assert_eq!(seen["voter"], VOTERS.contains(&id), "node {seen_by}: {seen}");
            assert_eq!(seen["role"] == "learner", !VOTERS.contains(&id), "node {seen_by}: {seen}");
        }
    }
    let learner = cluster.api(4);
    for (series, wanted) in [
        (r#"thuban_raft_role{role="learner"}"#, 1.0),
        (r#"thuban_raft_role{role="follower"}"#, 0.0),
        ("thuban_raft_is_leader", 0.0),
        ("thuban_raft_has_leader", 1.0),
    ] {
        expect_gauge(&learner, series, wanted).await;
    }
    for id in [4, 5] {
        expect_gauge(&cluster.api(leader), &format!("thuban_raft_peer_lag_entries{{peer=\"{id}\"}}"), 0.0).await;
        let address = cluster.ports(id).compat.to_string();
        eventually(LIMIT, "clients are told of the learner", || async {
            let list = cluster.apollo(1).get("/services/config").await.text;
            if list.contains(&address) { Ok(()) } else { Err(list) }
        })
        .await;
    }
    let to_learner = json!({"to": 4});
    expect_refused(&cluster.api(leader), "transfer", to_learner, "node 4 is not a voter").await;
}

/// Killed, it prevents no write; paused, it notifies its client after it resumes, even if it catches up by a snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn the_voters_miss_nothing_without_a_learner_and_it_catches_up() {
    let mut cluster = with_learners(&[4], &SHORT_LOG).await;
    publish(&cluster.api(1), "v=1").await;
    cluster.expect_equal_state().await;
    let leader = cluster.leader().await;
    let api = cluster.api(leader);
    let term = api.cluster().await.expect("a view").body["term"].clone();
    let held_id = cluster.apollo(4).current_id("app", "default", "application").await;

    let voters = VOTERS.iter().map(|id| (*id, cluster.api(*id))).collect();
    let load = Load::start("load", 4, voters);
    load.flows(LIMIT, 50).await;
    cluster.kill(4).await;
    load.flows(LIMIT, 200).await;
    let journal = load.stop().await;
    let others: Vec<_> = journal.attempts.iter().filter(|one| one.outcome != Outcome::Acknowledged).collect();
    assert!(others.is_empty(), "{others:?}");
    let slowest = journal.attempts.iter().map(|one| one.ended - one.started).max().expect("there are writes");
    report(format!("{} writes while a learner was killed, the slowest took {slowest:?}", journal.attempts.len()));
    let view = api.cluster().await.expect("a view");
    assert_eq!((&view.body["leader"], &view.body["term"]), (&json!(leader), &term), "{view}");

    publish(&api, "v=2").await;
    cluster.restart(4).await;
    let polled = cluster.apollo(4).poll("app", "default", &[("application", held_id)]).await.expect("an answer");
    assert!(polled.id_of("application").is_some_and(|newer| newer > held_id), "{polled:?}");
    assert_eq!(pulled(&cluster, 4).await, json!({"v": "2"}));
    cluster.expect_equal_state().await;

    let learner = cluster.api(4);
    let id = polled.id_of("application").expect("it was told");
    let held = hold(&cluster, 4, "app", "default", id).await;
    let behind = learner.metric("thuban_raft_applied_index").await.expect("the gauge is there");
    cluster.pause(4).await;
    publish(&api, "v=3").await;
    leave_behind(&api, behind).await;
    cluster.resume(4).await;
    let polled = held.await.expect("the poll does not panic");
    assert!(polled.id_of("application").is_some_and(|newer| newer > id), "{polled:?}");
    assert_eq!(pulled(&cluster, 4).await, json!({"v": "3"}));
    expect_installed(&learner).await;
    cluster.expect_equal_state().await;
}

/// Three of five nodes are there, and one of three voters.
#[tokio::test(flavor = "multi_thread")]
async fn learners_never_make_a_majority() {
    // The tokens of the test are believed until its end.
    let options = ["--token-trust-ms", "600000", "--long-poll-timeout-ms", "1500"];
    let mut cluster = with_learners(&[4, 5], &options).await;
    publish(&cluster.api(4), "v=1").await;
    write(&cluster.api(5), "before").await;
    cluster.expect_equal_state().await;
    let leader = cluster.leader().await;
    let others: Vec<u64> = VOTERS.into_iter().filter(|id| *id != leader).collect();
    let (first, second) = (others[0], others[1]);

    cluster.kill(first).await;
    let words = format!("without an answer: {first}");
    expect_refused(&cluster.api(4), "remove", json!({"id": second}), &words).await;
    write(&cluster.api(4), "two-of-three").await;
    cluster.expect_equal_state().await;

    cluster.kill(second).await;
    let left = [leader, 4, 5];
    for id in left {
        notices(&cluster.api(id)).await;
    }
    for id in left {
        let api = cluster.api(id);
        let refused = json!([{"namespace": "replicas", "name": format!("refused-{id}")}]);
        lone::expect_refused("a write", api.post(SERVICES, &refused)).await;
        lone::expect_refused("a linearizable read", api.get(SERVICES)).await;
        for (verb, body) in [("promote", json!({"id": 4})), ("remove", json!({"id": first}))] {
            let path = format!("/admin/v1/cluster/{verb}");
            lone::expect_refused(verb, api.post(&path, &body)).await;
        }
        assert_eq!(api.get(LOCAL).await.expect_code(200_000).amount(), 2);
        let view = api.cluster().await.expect("the cluster is shown without a majority");
        assert_eq!(view.body["leader"], Value::Null, "{view}");
        assert_eq!(pulled(&cluster, id).await, json!({"v": "1"}));
        let newest = cluster.apollo(id).current_id("app", "default", "application").await;
        let polled = hold(&cluster, id, "app", "default", newest).await.await.expect("the poll does not panic");
        assert_eq!(polled.status, 304, "{polled:?}");
    }

    cluster.restart(second).await;
    for id in left {
        cluster.wait_ready(id).await;
    }
    write(&cluster.api(5), "two-of-three-again").await;
    let refused = cluster.api(4).get(&format!("{SERVICES}?namespace=replicas&name=refused-*")).await;
    assert_eq!(refused.expect_code(200_000).amount(), 0, "what was refused has not happened");
    cluster.restart(first).await;
    cluster.expect_equal_state().await;
}

/// Cut off from all voters, with a leader that has lost the others: a user whom a majority has disabled meanwhile must
/// not be admitted.
#[tokio::test(flavor = "multi_thread")]
async fn a_learner_without_a_majority_serves_config_clients_and_believes_no_token() {
    let cluster = with_learners(&[4], &["--token-trust-ms", "2000", "--long-poll-timeout-ms", "1500"]).await;
    publish(&cluster.api(1), "v=1").await;
    cluster.expect_equal_state().await;
    let learner = cluster.api(4);
    let believes = async |code: u64| {
        eventually(LIMIT, &format!("the answer is {code}"), || async {
            match learner.try_send(Method::GET, LOCAL, None).await {
                Ok(answer) if answer.code() == code => Ok(()),
                seen => Err(format!("{seen:?}")),
            }
        })
        .await;
    };
    let leader = cluster.leader().await;
    for lost in [VOTERS.to_vec(), VOTERS.into_iter().filter(|id| *id != leader).collect()] {
        believes(200_000).await;
        for id in &lost {
            cluster.pause(*id).await;
        }
        believes(503_001).await;
        assert_eq!(pulled(&cluster, 4).await, json!({"v": "1"}));
        let id = cluster.apollo(4).current_id("app", "default", "application").await;
        let polled = hold(&cluster, 4, "app", "default", id).await.await.expect("the poll does not panic");
        assert_eq!(polled.status, 304, "{polled:?}, without {lost:?}");
        for id in &lost {
            cluster.resume(*id).await;
        }
        believes(200_000).await;
        cluster.wait_ready(4).await;
    }
    publish(&cluster.api(4), "v=2").await;
    assert_eq!(pulled(&cluster, 4).await, json!({"v": "2"}));
}

/// A learner counts for the cluster's level, although it has no vote. Its full disk raises an alarm and stops no write.
#[tokio::test(flavor = "multi_thread")]
async fn a_learner_counts_by_its_level_and_its_disk_is_an_alarm() {
    if !has_next_level() {
        return;
    }
    let mut cluster = Cluster::start(3).await;
    let space = rustix::fs::statvfs(cluster.data(1)).expect("the directory is there");
    let reserve = (space.f_bavail * space.f_frsize).saturating_mul(3).to_string();
    cluster.set_options(&["--disk-reserve-bytes", &reserve]);
    add_learner(&mut cluster, 4).await;
    let alarm_is = async |cluster: &Cluster, raised: bool| {
        let leader = cluster.api(cluster.leader().await);
        eventually(LIMIT, &format!("the leader has the alarm: {raised}"), || async {
            match leader.metric(r#"thuban_storage_alarm{reason="disk"}"#).await {
                Some(alarm) if alarm == f64::from(u8::from(raised)) => Ok(()),
                alarm => Err(format!("{alarm:?}")),
            }
        })
        .await;
    };
    alarm_is(&cluster, true).await;
    for id in cluster.ids() {
        let service = json!([{"namespace": "replicas", "name": format!("room{id}")}]);
        cluster.api(id).post(SERVICES, &service).await.expect_code(200_000);
    }
    cluster.terminate(4).await;
    cluster.set_options(&[]);
    cluster.restart(4).await;
    alarm_is(&cluster, false).await;

    cluster.set_options(UPGRADED);
    for id in VOTERS {
        cluster.terminate(id).await;
        cluster.restart(id).await;
    }
    let leader = cluster.leader().await;
    let api = cluster.api(leader);
    eventually(LIMIT, "the leader knows what each member reads", || async {
        let (mut highest, mut level) = (Vec::new(), Value::Null);
        for id in cluster.ids() {
            highest.push(member(&api, id).await.ok_or("no member")?["level_max"].clone());
            level = api.cluster().await?.body["level"].clone();
        }
        match highest[..3].iter().all(|highest| *highest == NEXT) && highest[3] == 1 {
            true if level == 1 => Ok(()),
            _ => Err(format!("level {level}, {highest:?}")),
        }
    })
    .await;
    cluster.terminate(4).await;
    cluster.restart(4).await;
    for id in cluster.ids() {
        let api = cluster.api(id);
        eventually(LIMIT, "the level rises", || async {
            let view = api.cluster().await?;
            if view.body["level"] == NEXT { Ok(()) } else { Err(view.to_string()) }
        })
        .await;
    }
}
