//! Addresses of gRPC that members announce, and bootstraps that are made of them.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Cluster, eventually, run};

const LIMIT: Duration = Duration::from_secs(30);

/// Waits until every node lists these addresses, by the ids of the members.
async fn await_announced(cluster: &Cluster, wanted: &[String]) {
    for id in cluster.running() {
        eventually(LIMIT, &format!("node {id} tells where gRPC is found"), || async {
            let view = cluster.api(id).cluster().await?.body;
            let members = view["members"].as_array().expect("members");
            let told: Vec<&str> = members.iter().filter_map(|member| member["grpc"].as_str()).collect();
            if told == wanted { Ok(()) } else { Err(format!("{told:?}")) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_announce_where_grpc_is_found() {
    let mut cluster = Cluster::start_with(3, &["--grpc-addr", "off"]).await;
    await_announced(&cluster, &[String::new(), String::new(), String::new()]).await;
    let ask = async |cluster: &Cluster, words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        run(&format!("http://{}", cluster.ports(1).api), cluster.token(), &words, "").await
    };
    let bootstrap = "xds bootstrap grpc --namespace shop --node-id n1";
    ask(&cluster, bootstrap).await.expect(2);

    cluster.set_options(&[]);
    for id in cluster.ids() {
        cluster.terminate(id).await;
        cluster.restart(id).await;
    }
    let bound: Vec<SocketAddr> = cluster.ids().into_iter().map(|id| cluster.grpc(id)).collect();
    let shown: Vec<String> = bound.iter().map(SocketAddr::to_string).collect();
    await_announced(&cluster, &shown).await;
    ask(&cluster, bootstrap).await.expect(2);
    let of_core = format!("{bootstrap} --for core");
    let made: Value = serde_json::from_str(&ask(&cluster, &of_core).await.expect(0)).expect("JSON");
    assert_eq!(made["xds_servers"][0]["server_uri"], format!("ipv4:{}", shown.join(",")));

    cluster.set_options(&["--grpc-addr", "off"]);
    cluster.terminate(2).await;
    cluster.restart(2).await;
    cluster.set_options(&["--advertise-grpc", "grpc.example.com:8091"]);
    cluster.terminate(3).await;
    cluster.restart(3).await;
    await_announced(&cluster, &[shown[0].clone(), String::new(), "grpc.example.com:8091".to_owned()]).await;
    let status = ask(&cluster, "cluster status").await.expect(0);
    assert!(status.contains(" grpc ") && status.contains("grpc.example.com:8091"), "{status}");
    let named = ask(&cluster, &format!("{bootstrap} --server 10.0.0.1:8091")).await.expect(0);
    assert!(named.contains("\"10.0.0.1:8091\"") && !named.contains("example.com"), "{named}");
    cluster.expect_equal_state().await;
}
