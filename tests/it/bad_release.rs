//! A bad release with a plan that begins with a twentieth of the clients. The clients in this share refuse it, and all
//! that have it fall back: clients of Apollo's protocol that report what they apply, and six published clients that do
//! not.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{
    Api, Apollo, Balancer, Cluster, Holder, Holders, Kind, RealClient, Watched, is_in_share, percentile, report,
    setting,
};

const RELEASES: &str = "/config/v1/configfiles/releases";
const FILE: (&str, &str) = ("app", "application");
const KEY: &str = "number";
const GOOD: &str = "7";
const BAD: &str = "seven";
const PERCENT: u64 = 5;
/// Some of the published clients make a pause of two seconds between two polls.
const LIMIT: Duration = Duration::from_secs(40);
/// Log of a node, from the publish until all are back.
const LOG_BYTES_MAX: u64 = 100_000;

fn is_inside(address: &str) -> bool {
    is_in_share(PERCENT, address)
}

/// Polls and pulls as Apollo's clients do, and reports whether the pulled release is applied.
async fn follow(apollo: Apollo, mut holder: Holder) {
    let (mut id, mut key) = (-1, Value::Null);
    let query = format!("ip={}", holder.id);
    loop {
        let polled = apollo.poll_with(FILE.0, "default", &[(FILE.1, id)], &format!("&{query}")).await;
        let Some(newest) = polled.expect("the poll is answered").id_of(FILE.1) else { continue };
        id = newest;
        let config = apollo.config_for(FILE.0, FILE.1, &query).await;
        if config["releaseKey"] == key {
            continue;
        }
        key = config["releaseKey"].clone();
        let is_applied = holder.takes(config["configurations"][KEY].as_str().expect("a value")).await;
        let refusal = (!is_applied).then_some("seven is no number");
        apollo.say_applied(FILE, &holder.id, &key, refusal).await;
    }
}

/// A published client, known to the cluster by the address of the balancer before it, unless it names its own.
struct Published {
    kind: Kind,
    address: String,
    client: RealClient,
    _balancer: Balancer,
}

impl Published {
    async fn start(cluster: &Cluster, kind: Kind, from: Ipv4Addr) -> Published {
        let mut backends: Vec<_> = cluster.ids().into_iter().map(|id| cluster.ports(id).compat).collect();
        backends.rotate_left(usize::from(from.octets()[3]) % 3);
        let balancer = Balancer::start_for(IpAddr::V4(from), backends).await;
        let mut client = RealClient::start(kind, balancer.address(), FILE.0, FILE.1).await;
        client.holds(LIMIT, KEY, GOOD).await;
        let names_itself = matches!(kind, Kind::ApolloClientPython | Kind::ApolloPython);
        let address = if names_itself { own_address() } else { from.to_string() };
        Published { kind, address, client, _balancer: balancer }
    }

    fn is_inside(&self) -> bool {
        is_inside(&self.address)
    }
}

/// Address by which this machine is seen from outside, as clients find it that name their own.
fn own_address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let found = socket.connect("8.8.8.8:53").and_then(|()| socket.local_addr());
    found.map_or_else(|_| "127.0.0.1".to_owned(), |address| address.ip().to_string())
}

/// Returns two clients of each kind: one with an address in the share, one with an address outside of it.
async fn published(cluster: &Cluster) -> Vec<Published> {
    let of_loopback = |wanted: bool| {
        let all = (2..=254).map(|last| Ipv4Addr::new(127, 0, 0, last));
        all.filter(move |address| is_inside(&address.to_string()) == wanted)
    };
    let from = of_loopback(true).take(Kind::ALL.len()).chain(of_loopback(false).take(Kind::ALL.len()));
    let kinds = Kind::ALL.into_iter().cycle();
    join_all(kinds.zip(from).map(|(kind, from)| Published::start(cluster, kind, from))).await
}

async fn publish_gray(api: &Api) {
    let (group, file) = FILE;
    let draft = json!({"namespace": "default", "group": group, "name": file, "content": format!("{KEY}={BAD}")});
    api.put("/config/v1/configfiles", &draft).await.expect_code(200_000);
    let steps = json!([{"percent": PERCENT, "hold_s": 60}, {"percent": 50, "hold_s": 60}, {"percent": 100}]);
    let plan = json!({"by": "CLIENT_IP", "steps": steps, "guards": [{"kind": "refused", "max_percent": 1}]});
    let release = json!({"namespace": "default", "group": group, "file_name": file, "name": "bad",
        "release_type": "gray", "plan": plan});
    api.post("/config/v1/configfiles/release", &release).await.expect_code(200_000);
}

/// Processor time and log of each node so far.
fn used(cluster: &Cluster) -> Vec<(Duration, u64)> {
    let of = |id: u64| {
        let log = std::fs::metadata(cluster.log(id)).expect("there is a log").len();
        (cluster.process(id).processor_time(), log)
    };
    cluster.ids().into_iter().map(of).collect()
}

async fn expect_good_everywhere(cluster: &Cluster, addresses: &[&str]) {
    cluster.expect_equal_state().await;
    for id in cluster.ids() {
        let apollo = cluster.apollo(id);
        for address in addresses {
            let config = apollo.config_for(FILE.0, FILE.1, &format!("ip={address}")).await;
            assert_eq!(config["configurations"][KEY], GOOD, "node {id}, {address}");
        }
    }
}

/// Waits until each client in the share has this value; returns the times.
async fn hold(published: &mut [Published], value: &str) -> Vec<(Kind, Instant)> {
    let inside = published.iter_mut().filter(|one| one.is_inside());
    join_all(inside.map(async |one| (one.kind, one.client.holds(LIMIT, KEY, value).await))).await
}

/// `THUBAN_IT_CLIENTS` sets the number of clients in addition to the twelve published ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_release_is_stopped_at_a_twentieth_and_all_fall_back() {
    let count = setting("THUBAN_IT_CLIENTS", 240);
    let cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    api.publish("default", FILE.0, FILE.1, &format!("{KEY}={GOOD}")).await;
    cluster.expect_equal_state().await;
    let ids = (0..count).map(|number| format!("10.7.{}.{}", number / 250, number % 250));
    let holders = Holders::start(ids, BAD, |number, holder| follow(cluster.apollo(number as u64 % 3 + 1), holder));
    let mut published = published(&cluster).await;
    let all = holders.ids();
    holders.expect_having(LIMIT, GOOD, &all).await;
    let (before, begun) = (used(&cluster), Instant::now());

    // The worst case: no client refuses it before all clients in the share have it.
    publish_gray(&api).await;
    let (group, file) = FILE;
    let path = format!("{RELEASES}?namespace=default&group={group}&file_name={file}&release_name=bad");
    let rollout = Watched::of(&cluster, path, "/configFileReleases/0/rollout");
    let share = tokio::spawn(rollout.clone().greatest_share());
    let inside: BTreeSet<&str> = all.iter().copied().filter(|address| is_inside(address)).collect();
    let refusing = holders.refusing(&inside);
    assert!(refusing > 0 && refusing < inside.len() && inside.len() < count / 10, "{refusing} of {inside:?}");
    holders.expect_having(LIMIT, BAD, &inside).await;
    let of_others = hold(&mut published, BAD).await.len();
    assert!(of_others >= 4, "{of_others} of those that others wrote are in the share");
    assert_eq!(rollout.state().await, "running", "nobody has refused it yet");
    let spread = begun.elapsed();

    holders.judge();
    let reason = rollout.stops(LIMIT).await;
    let first = holders.first_refusal();
    let stopped_after = first.elapsed();
    assert!(reason.starts_with("refused: ") && reason.ends_with("at most 1 %"), "{reason}");
    holders.expect_having(LIMIT, GOOD, &all).await;
    let mut returns = holders.returns(&inside);
    let (middle, worst) = (percentile(&mut returns, 0.5), percentile(&mut returns, 1.0));
    let back: Vec<_> = hold(&mut published, GOOD).await.into_iter().map(|(kind, at)| (kind, at - first)).collect();
    assert_eq!(share.await.expect("it is measured"), PERCENT, "the greatest share that any node told of");

    // Those alone that were in the share ever had it, and it is gone on every node, for good.
    assert_eq!(holders.ever(BAD), inside);
    for one in published.iter_mut().filter(|one| !one.is_inside()) {
        let told = one.client.reports();
        let had_it = told.iter().any(|held| held.values.get(KEY).is_some_and(|value| value == BAD));
        assert!(!had_it, "{:?} at {}: {told:?}", one.kind, one.address);
    }
    let addresses = all.iter().copied().chain(published.iter().map(|one| one.address.as_str()));
    expect_good_everywhere(&cluster, &addresses.collect::<Vec<_>>()).await;
    let advance = json!([{"namespace": "default", "group": FILE.0, "file_name": FILE.1, "name": "bad",
        "action": "advance"}]);
    api.put(&format!("{RELEASES}/rollout"), &advance).await.expect_code(400_000);

    report(format!(
        "{} clients: {} had the bad release, all that are in 5 % by their addresses, {of_others} of them written by \
         others, all after {spread:.1?}; {refusing} refused it, the stop was seen {stopped_after:.2?} after the first",
        count + published.len(),
        inside.len() + of_others,
    ));
    report(format!("back after the first refusal: who polls p50 {middle:.2?}, max {worst:.2?}; {back:.2?}"));
    for (id, (was, is)) in cluster.ids().into_iter().zip(before.into_iter().zip(used(&cluster))) {
        let ((processor, logged), length) = ((is.0 - was.0, is.1 - was.1), begun.elapsed());
        report(format!("node {id}: {processor:.2?} of processor time in {length:.1?}, {logged} bytes of log"));
        assert!(logged < LOG_BYTES_MAX, "node {id}: {logged} bytes of log");
    }
}
