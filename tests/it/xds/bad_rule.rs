//! A bad release of a rule by a plan that begins at a twentieth of the clients: some of them refuse its resources, and
//! all that have it fall back, those that others wrote and that carry it out too.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use serde_json::json;
use thuban::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use thuban::proto::google::rpc::Status;

use super::drivers::{Client, Kind, Options, Request};
use super::world::{LIMIT, ROUTES, World, group, publish, release, save, sub_rule, when};
use crate::harness::ads::{AdsConnection, SOTW, node};
use crate::harness::{Cluster, Holder, Holders, Watched, is_in_share, percentile, report, setting};

const RESOURCE: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const PERCENT: u64 = 5;
const GOOD: &str = "good-routes";
const BAD: &str = "bad-routes";
const CALLS: &str = "on and on";

/// A client of `shop/pay` that acknowledges routes, or refuses them.
async fn follow(to: SocketAddr, mut holder: Holder) {
    let mut stream = AdsConnection::open_from(IpAddr::V4(Ipv4Addr::LOCALHOST), to).await.stream(SOTW).await;
    let question = || {
        let resource_names = vec!["shop/pay".to_owned()];
        DiscoveryRequest { type_url: RESOURCE.to_owned(), resource_names, ..DiscoveryRequest::default() }
    };
    stream.send(&DiscoveryRequest { node: node(&holder.id, "gRPC test"), ..question() });
    let mut version = String::new();
    loop {
        let sent: DiscoveryResponse = stream.receive().await.expect("the node goes on");
        let routes = &sent.resources.first().expect("routes").value;
        let is_bad = routes.windows(BAD.len()).any(|part| part == BAD.as_bytes());
        let error_detail = match holder.takes(if is_bad { BAD } else { GOOD }).await {
            true => {
                version = sent.version_info;
                None
            }
            false => Some(Status { code: 3, message: "no such route".to_owned(), ..Status::default() }),
        };
        let (response_nonce, version_info) = (sent.nonce, version.clone());
        stream.send(&DiscoveryRequest { version_info, response_nonce, error_detail, ..question() });
    }
}

/// A client of each kind, by an id that is in the share or not.
async fn clients(cluster: &Cluster, is_inside: bool) -> Vec<Client> {
    let mut clients = Vec::new();
    for kind in Kind::ALL {
        let mut names = (0..).map(|number| format!("cart{number}"));
        let name = names.find(|name| is_in_share(PERCENT, &format!("{name}-{kind:?}")) == is_inside);
        clients.push(Client::start(kind, cluster, &name.expect("there is one"), &Options::default()).await);
    }
    clients
}

async fn publish_gray(world: &World) {
    let bad = when("HEADER", "env", "EXACT", BAD);
    let rules = [sub_rule(&[bad], &[group("v3", json!({}))]), sub_rule(&[], &[group("v2", json!({}))])];
    save(&world.api(), "parts", &rules).await;
    let steps = json!([{"percent": PERCENT, "hold_s": 60}, {"percent": 50, "hold_s": 60}, {"percent": 100}]);
    let plan = json!({"by": "NODE_ID", "steps": steps, "guards": [{"kind": "refused", "max_percent": 1}]});
    release(&world.api(), ROUTES, "parts", json!({"release_name": "bad", "release_type": "gray", "plan": plan})).await;
}

/// `THUBAN_IT_CLIENTS` sets the number of clients in addition to two of each published kind.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_rule_is_stopped_at_a_twentieth_and_all_fall_back() {
    let count = setting("THUBAN_IT_CLIENTS", 240);
    let world = World::start(3).await;
    let cluster = &world.cluster;
    publish(&world.api(), "parts", &[sub_rule(&[], &[group("v1", json!({}))])]).await;
    let (mut inside, mut outside) = (clients(cluster, true).await, clients(cluster, false).await);
    let request = Request::to("pay");
    let (good, bad) = (world.version(1), world.version(2));
    for client in inside.iter_mut().chain(&mut outside) {
        client.settles(LIMIT, "the rule of before", &request, &good).await;
    }
    for client in &mut outside {
        client.flow(CALLS, &request).await;
    }
    let ids = (0..count).map(|number| format!("stall-{number}"));
    let to = |number: usize| cluster.grpc(number as u64 % 3 + 1);
    let holders = Holders::start(ids, BAD, |number, holder| follow(to(number), holder));
    let all = holders.ids();
    holders.expect_having(LIMIT, GOOD, &all).await;

    let begun = Instant::now();
    publish_gray(&world).await;
    let path = format!("{ROUTES}/releases?rule_name=parts&release_name=bad");
    let rollout = Watched::of(cluster, path, "/data/0/rollout");
    let share = tokio::spawn(rollout.clone().greatest_share());
    let reached: BTreeSet<&str> = all.iter().copied().filter(|id| is_in_share(PERCENT, id)).collect();
    let refusing = holders.refusing(&reached);
    assert!(refusing > 0 && refusing < reached.len() && reached.len() < count / 10, "{refusing} of {reached:?}");
    holders.expect_having(LIMIT, BAD, &reached).await;
    for client in &mut inside {
        client.settles(LIMIT, "the bad rule", &request, &bad).await;
    }
    assert_eq!(rollout.state().await, "running", "nobody has refused it yet");
    let spread = begun.elapsed();

    holders.judge();
    let reason = rollout.stops(LIMIT).await;
    let stopped_after = holders.first_refusal().elapsed();
    assert!(reason.starts_with("refused: ") && reason.ends_with("at most 1 %"), "{reason}");
    holders.expect_having(LIMIT, GOOD, &all).await;
    for client in &mut inside {
        client.settles(LIMIT, "the rule of before again", &request, &good).await;
        client.expect_nothing_refused().await;
    }
    let settled_after = holders.first_refusal().elapsed();
    let mut returns = holders.returns(&reached);
    let (middle, worst) = (percentile(&mut returns, 0.5), percentile(&mut returns, 1.0));
    assert_eq!(share.await.expect("it is measured"), PERCENT, "the greatest share that any node told of");
    assert_eq!(holders.ever(BAD), reached);
    for client in &mut outside {
        let calls = client.stop(CALLS).await;
        let strays = calls.answered_by().into_iter().any(|server| !good.iter().any(|known| known == server));
        assert!(!strays && calls.failed() == 0 && calls.answered() > 0, "{:?}: {calls:?}", client.kind);
    }
    // A client that connects now, to any node, gets the previous release.
    let ids = || (0..).map(|number| format!("late-{number}")).filter(|id| is_in_share(PERCENT, id)).take(3);
    let late = Holders::start(ids(), BAD, |number, holder| follow(to(number), holder));
    late.expect_having(LIMIT, GOOD, &late.ids()).await;
    assert_eq!(late.ever(BAD), BTreeSet::new());
    report(format!(
        "{} clients of xDS: {} had the bad rule, all that are in 5 % by their ids, {} of them published ones, all \
         after {spread:.1?}; {refusing} refused it, the stop was seen {stopped_after:.2?} after the first",
        count + inside.len() + outside.len(),
        reached.len() + inside.len(),
        inside.len()
    ));
    report(format!(
        "back after the first refusal: streams p50 {middle:.2?}, max {worst:.2?}; the published ones were seen to call \
         by the old rule within {settled_after:.2?}"
    ));
}
