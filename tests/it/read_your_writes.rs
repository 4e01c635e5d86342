//! A write that was answered is seen by the very next management read on every other node.

use futures_util::future::join_all;
use serde_json::json;

use crate::harness::{Api, Cluster, setting};

const NAMESPACE: &str = "ryw";
const WRITERS: usize = 4;

/// 200 writes by default, over four concurrent writers; `THUBAN_IT_WRITES` sets another number.
#[tokio::test(flavor = "multi_thread")]
async fn management_reads_see_every_acknowledged_write_at_once() {
    let cluster = Cluster::start(3).await;
    let nodes: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    let writes: usize = setting("THUBAN_IT_WRITES", 200);
    join_all((0..WRITERS).map(|writer| write_and_read(&nodes, writer, writes / WRITERS))).await;
}

async fn write_and_read(nodes: &[Api], writer: usize, writes: usize) {
    for number in 0..writes {
        let taker = (writer + number) % nodes.len();
        let others = nodes.iter().enumerate().filter(|(node, _)| *node != taker).map(|(_, api)| api);
        match number % 4 {
            0 => service_appears(&nodes[taker], others, &format!("service-{writer}-{number}")).await,
            1 => service_changes(&nodes[taker], others, &format!("service-{writer}-{}", number - 1), number).await,
            _ => config_is_published(&nodes[taker], others, &format!("file-{writer}.yaml"), number).await,
        }
    }
}

async fn service_appears(taker: &Api, others: impl Iterator<Item = &Api>, name: &str) {
    let service = json!([{"namespace": NAMESPACE, "name": name, "comment": "new"}]);
    taker.post("/naming/v1/services", &service).await.expect_code(200_000);
    expect_comment(others, name, "new").await;
}

async fn service_changes(taker: &Api, others: impl Iterator<Item = &Api>, name: &str, number: usize) {
    let comment = format!("change {number}");
    let service = json!([{"namespace": NAMESPACE, "name": name, "comment": comment}]);
    taker.put("/naming/v1/services", &service).await.expect_code(200_000);
    expect_comment(others, name, &comment).await;
}

async fn expect_comment(others: impl Iterator<Item = &Api>, name: &str, comment: &str) {
    let path = format!("/naming/v1/services?namespace={NAMESPACE}&name={name}");
    for answer in join_all(others.map(|api| api.get(&path))).await {
        let answer = answer.expect_code(200_000);
        assert_eq!(answer.amount(), 1, "{answer}");
        assert_eq!(answer.body["services"][0]["comment"], comment, "{answer}");
        assert_eq!(answer.header("x-thuban-consistency"), "linearizable", "{answer}");
    }
}

async fn config_is_published(taker: &Api, others: impl Iterator<Item = &Api>, file: &str, number: usize) {
    let content = format!("number: {number}");
    taker.publish(NAMESPACE, "app", file, &content).await;
    let path = format!("/config/v1/configfiles?namespace={NAMESPACE}&group=app&name={file}");
    for answer in join_all(others.map(|api| api.get(&path))).await {
        let answer = answer.expect_code(200_000);
        assert_eq!(answer.body["configFile"]["content"], content.as_str(), "{answer}");
    }
}

/// A read with local consistency reports it, and works without a majority.
#[tokio::test(flavor = "multi_thread")]
async fn local_reads_go_on_without_a_majority_and_linearizable_ones_do_not() {
    let mut cluster = Cluster::start(3).await;
    let service = json!([{"namespace": NAMESPACE, "name": "kept"}]);
    cluster.api(1).post("/naming/v1/services", &service).await.expect_code(200_000);
    cluster.expect_equal_state().await;
    cluster.kill(2).await;
    cluster.kill(3).await;
    let api = cluster.api(1);
    let local = api.get(&format!("/naming/v1/services?namespace={NAMESPACE}&consistency=local")).await;
    let local = local.expect_code(200_000);
    assert_eq!((local.amount(), local.header("x-thuban-consistency")), (1, "local"), "{local}");
    assert_eq!(local.header("x-thuban-node"), "1", "{local}");
    api.get(&format!("/naming/v1/services?namespace={NAMESPACE}")).await.expect_code(503_001);
    let another = json!([{"namespace": NAMESPACE, "name": "refused"}]);
    let refused = api.post("/naming/v1/services", &another).await;
    assert!([503_001, 504_001].contains(&refused.code()), "{refused}");
}
