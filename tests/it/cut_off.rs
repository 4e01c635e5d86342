//! A node that its peers do not answer: it keeps running, and reports soon and clearly that it cannot write.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use crate::harness::{Api, Cluster, Load, eventually, report};

const NAMESPACE: &str = "cut-off";
/// The promised three seconds with an allowance for the slowest machine; a call that waits for a majority never ends.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Time within which the node notices; writes accepted before may have an unknown outcome.
const NOTICE_LIMIT: Duration = Duration::from_secs(10);
const FLOW_LIMIT: Duration = Duration::from_secs(20);
const LOADERS: usize = 8;
const WRITERS: usize = 64;
const ROUNDS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    Leader,
    Follower,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_peers_are_stopped_refuses_within_three_seconds() {
    let cluster = Cluster::start(3).await;
    for left in [Left::Leader, Left::Follower] {
        let leader = cluster.leader().await;
        let alone = if left == Left::Leader { leader } else { cluster.followers().await[0] };
        let api = cluster.api(alone);
        let load = Load::start(NAMESPACE, LOADERS, vec![(alone, api.clone())]);
        load.flows(FLOW_LIMIT, LOADERS).await;
        let stopped: Vec<u64> = cluster.ids().into_iter().filter(|id| *id != alone).collect();
        join_all(stopped.iter().map(|id| cluster.pause(*id))).await;
        notices(&api).await;
        let mut slowest = Duration::ZERO;
        for round in 0..ROUNDS {
            let writes = (0..WRITERS).map(|writer| refused_write(&api, format!("refused-{left:?}-{round}-{writer}")));
            let (took, read) = tokio::join!(join_all(writes), refused_read(&api));
            slowest = took.into_iter().chain([read, slowest]).max().expect("there are writers");
        }
        report(format!("{left:?} alone: {} writes refused, the slowest after {slowest:?}", ROUNDS * WRITERS));
        assert!(slowest < ANSWER_LIMIT, "{slowest:?}");

        let mended = Instant::now();
        join_all(stopped.iter().map(|id| cluster.resume(*id))).await;
        load.flows_since(mended, FLOW_LIMIT, LOADERS).await;
        let journal = load.stop().await;
        journal.expect_kept(NAMESPACE, &api).await;
        let list = format!("/naming/v1/services?namespace={NAMESPACE}&name=refused-*");
        assert_eq!(api.get(&list).await.expect_code(200_000).amount(), 0, "what was refused has not happened");
        cluster.expect_equal_state().await;
    }
}

/// The time to the refusal of one write.
async fn refused_write(api: &Api, name: String) -> Duration {
    let begun = Instant::now();
    let item = json!([{"namespace": NAMESPACE, "name": name}]);
    let answer = api.try_send(Method::POST, "/naming/v1/services", Some(&item)).await;
    answer.expect("answered").expect_code(503_001);
    begun.elapsed()
}

/// The time to the refusal of a linearizable read; one of the node's own state is answered.
async fn refused_read(api: &Api) -> Duration {
    let begun = Instant::now();
    api.get("/naming/v1/services").await.expect_code(503_001);
    let took = begun.elapsed();
    api.get("/naming/v1/services?consistency=local&limit=1").await.expect_code(200_000);
    took
}

/// Waits until the node reports that it has no leader.
pub(crate) async fn notices(api: &Api) {
    eventually(NOTICE_LIMIT, "the node is not ready", || async {
        match api.health("/readyz?verbose").await? {
            (503, text) if text.contains("leader") => Ok(()),
            (status, text) => Err(format!("{status} {text}")),
        }
    })
    .await
}
