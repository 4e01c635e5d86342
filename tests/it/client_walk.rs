//! Six clients that others wrote, as published, through all that may become of a release; and what they ask for while
//! nothing happens.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Api, Balancer, Cluster, Kind, RealClient, eventually, report, setting};

/// Some make a pause of two seconds between two polls, and more of them after an error.
const LIMIT: Duration = Duration::from_secs(40);
const FILE: &str = "application";
const KEY: &str = "number";
/// The address of another client of each app.
const BYSTANDER: &str = "192.0.2.1";
const RELEASES: &str = "/config/v1/configfiles/releases";
/// The hold of a poll in the test of idle clients, where a minute of holds of 55 s is not waited for.
const SHORT_HOLD_MS: u64 = 1500;

/// A client of its own app, behind a balancer that prefers the first node while it is ready.
struct Walker {
    kind: Kind,
    app: String,
    balancer: Balancer,
    client: RealClient,
}

impl Walker {
    async fn start(cluster: &Cluster, kind: Kind) -> Walker {
        let app = format!("app-{kind:?}");
        let backends = cluster.ids().into_iter().map(|id| cluster.ports(id).compat).collect();
        let balancer = Balancer::start_preferring_the_first(backends).await;
        let client = RealClient::start(kind, balancer.address(), &app, FILE).await;
        Walker { kind, app, balancer, client }
    }

    async fn holds(&mut self, value: &str) {
        self.client.holds(LIMIT, KEY, value).await;
    }

    fn release(&self, name: &str, more: Value) -> Value {
        let mut release = json!({"namespace": "default", "group": self.app, "file_name": FILE, "name": name});
        release.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        release
    }

    /// Writes a value and publishes it under its own name.
    async fn publish(&self, api: &Api, value: &str, more: Value) {
        let file = json!({"content": format!("{KEY}={value}"), "release_name": value});
        let mut body = self.release(value, file);
        body.as_object_mut().expect("an object").remove("name");
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        api.post("/config/v1/configfiles/createandpub", &body).await.expect_code(200_000);
    }

    /// The one row that the cluster has of this client.
    async fn row(&self, api: &Api) -> Result<Value, String> {
        let path = format!("/config/v1/configfiles/subscribers?namespace=default&group={}&file_name={FILE}", self.app);
        let answer = api.get(&path).await.expect_code(200_000);
        let rows = answer.body["data"].as_array().expect("a list").iter().filter(|row| row["address"] != BYSTANDER);
        match rows.collect::<Vec<_>>()[..] {
            [row] => Ok(row.clone()),
            _ => Err(answer.to_string()),
        }
    }

    async fn pulled(&self, cluster: &Cluster, address: &str) -> Result<String, u16> {
        let pulled = cluster.apollo(2).get(&format!("/configs/{}/default/{FILE}?ip={address}", self.app)).await;
        let body = || serde_json::from_str::<Value>(&pulled.text).expect("a config is JSON");
        match pulled.status {
            200 => Ok(body()["configurations"][KEY].as_str().expect("a text").to_owned()),
            status => Err(status),
        }
    }

    /// First load, a change through another replica, gray in, promoted, withdrawn, rolled back.
    async fn walk(&mut self, cluster: &Cluster) {
        let (second, third) = (cluster.api(2), cluster.api(3));
        self.holds("first").await;
        self.publish(&third, "changed", json!({})).await;
        self.holds("changed").await;

        // Gray, for the address under which the cluster knows this very client.
        let row = eventually(LIMIT, "the client is known", || self.row(&second)).await;
        let address = row["address"].as_str().expect("an address").to_owned();
        let labels = json!([{"key": "CLIENT_IP", "value": {"type": "EXACT", "value": address}}]);
        self.publish(&second, "gray", json!({"release_type": "gray", "client_labels": labels})).await;
        self.holds("gray").await;
        cluster.expect_equal_state().await;
        assert_eq!(self.pulled(cluster, BYSTANDER).await.as_deref(), Ok("changed"), "{:?}: another client", self.kind);

        // Promoted: all clients get it, and none returns to an older release.
        let promote = json!([self.release("gray", json!({"new_release_name": "promoted"}))]);
        third.put(&format!("{RELEASES}/promote"), &promote).await.expect_code(200_000);
        eventually(LIMIT, "the client has the promoted release", || async {
            let row = self.row(&second).await?;
            if row["release_name"] == "promoted" { Ok(()) } else { Err(row.to_string()) }
        })
        .await;
        cluster.expect_equal_state().await;
        assert_eq!(self.pulled(cluster, BYSTANDER).await.as_deref(), Ok("gray"), "{:?}: for all now", self.kind);
        let told = self.client.reports();
        let stepped_back = told.iter().any(|held| held.values.get(KEY).is_none_or(|value| value != "gray"));
        assert!(!stepped_back, "{:?} stepped back: {told:?}", self.kind);

        // Withdrawn: the client gets 404, and keeps its content or drops it.
        let missing = self.answered(404);
        let withdraw = json!([self.release("promoted", json!({}))]);
        second.put(&format!("{RELEASES}/withdraw"), &withdraw).await.expect_code(200_000);
        eventually(LIMIT, "the client asked and was told 404", || async {
            if self.answered(404) > missing { Ok(()) } else { Err(format!("{:?}", self.balancer.answers())) }
        })
        .await;
        let told = self.client.reports();
        let invented = told.iter().filter_map(|held| held.values.get(KEY)).find(|value| *value != "gray");
        assert_eq!(invented, None, "{:?}: {told:?}", self.kind);

        // Rolled back: to what was published before.
        let roll_back = json!([self.release("changed", json!({}))]);
        third.put(&format!("{RELEASES}/rollback"), &roll_back).await.expect_code(200_000);
        self.holds("changed").await;
    }

    fn answered(&self, status: u16) -> usize {
        self.balancer.answers().get(&status).copied().unwrap_or_default()
    }

    /// Its replica is gone by now.
    async fn goes_on(&mut self, api: &Api, killed: Instant) {
        self.publish(api, "after the kill", json!({})).await;
        let seen = self.client.holds(LIMIT, KEY, "after the kill").await;
        report(format!(
            "{:?} client held the next publish {:?} after its replica was killed",
            self.kind,
            seen - killed
        ));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn six_published_clients_follow_all_that_becomes_of_a_release() {
    let mut cluster = Cluster::start(3).await;
    for kind in Kind::ALL {
        cluster.api(1).publish("default", &format!("app-{kind:?}"), FILE, &format!("{KEY}=first")).await;
    }
    cluster.expect_equal_state().await;
    let mut walkers = join_all(Kind::ALL.map(|kind| Walker::start(&cluster, kind))).await;
    join_all(walkers.iter_mut().map(|walker| walker.walk(&cluster))).await;

    let first = cluster.ports(1).compat;
    for walker in &walkers {
        let at_the_first = || async {
            // The client that only pulls has no connection between two pulls.
            let is_there = walker.kind == Kind::ApolloRustClient || walker.balancer.busy() == [first];
            if is_there { Ok(()) } else { Err(format!("{:?}: {:?}", walker.kind, walker.balancer.busy())) }
        };
        eventually(LIMIT, "the client polls the first node", at_the_first).await;
    }
    cluster.kill(1).await;
    let killed = Instant::now();
    let api = cluster.api(cluster.leader().await);
    join_all(walkers.iter_mut().map(|walker| walker.goes_on(&api, killed))).await;
}

/// `THUBAN_IT_IDLE_SECONDS=60` counts and prints the requests of a minute, with the default hold of polls,
/// from the end of the first poll.
#[tokio::test(flavor = "multi_thread")]
async fn idle_clients_ask_for_no_more_than_their_polls() {
    let seconds = setting("THUBAN_IT_IDLE_SECONDS", 0_u64);
    let hold = SHORT_HOLD_MS.to_string();
    let options = if seconds == 0 { vec!["--long-poll-timeout-ms", &hold] } else { Vec::new() };
    let cluster = Cluster::start_with(1, &options).await;
    cluster.api(1).publish("default", "app", FILE, &format!("{KEY}=first")).await;
    join_all(Kind::ALL.map(|kind| is_idle(&cluster, kind, Duration::from_secs(seconds)))).await;
}

async fn is_idle(cluster: &Cluster, kind: Kind, minute: Duration) {
    let balancer = Balancer::start(vec![cluster.ports(1).compat]).await;
    let mut client = RealClient::start_idle(kind, balancer.address(), "app", FILE).await;
    client.holds(LIMIT, KEY, "first").await;
    let count = |answers: &BTreeMap<u16, usize>| answers.values().sum::<usize>();
    let polls = kind != Kind::ApolloRustClient;
    let unchanged = |answers: &BTreeMap<u16, usize>| answers.get(&304).copied().unwrap_or_default();
    let settled = || async {
        let answers = balancer.answers();
        let waits = !polls || unchanged(&answers) > 0;
        if waits { Ok((Instant::now(), answers)) } else { Err(format!("{answers:?}")) }
    };
    let (began, before) = eventually(LIMIT + minute, &format!("{kind:?} waits for a change"), settled).await;
    let passed = || async {
        let answers = balancer.answers();
        let enough = match minute {
            Duration::ZERO => !polls || unchanged(&answers) >= unchanged(&before) + 3,
            minute => began.elapsed() >= minute,
        };
        if enough { Ok(answers) } else { Err(format!("{answers:?}")) }
    };
    let after = eventually(LIMIT + minute, &format!("{kind:?} polled three times"), passed).await;
    let (asked, ended) = (count(&after) - count(&before), unchanged(&after) - unchanged(&before));
    // In addition to its polls a client may pull once by its own timer; the client without polls, twice a minute.
    let at_most = if polls { ended + 1 } else { 2 };
    assert!(asked <= at_most, "{kind:?}: {before:?}, then {after:?}");
    if minute > Duration::ZERO {
        report(format!("{kind:?} client, idle for {minute:?}: {asked} answers, {ended} of them to polls"));
    }
    assert!(client.reports().iter().all(|held| held.values.get(KEY).is_some_and(|value| value == "first")), "{kind:?}");
}
