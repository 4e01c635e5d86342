//! Apollo's own clients, as published, on a cluster: `apollo-client` for Java, the same in Spring Boot, and agollo.
//!
//! The newest of each runs here; `scripts/clients` runs the earlier ones too.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Api, Balancer, BuiltClient, ClientSettings, Cluster, Pki, RealClient, eventually, report};

/// Java programs take seconds to start when all start at once; a client pauses after a failed poll.
const LIMIT: Duration = Duration::from_secs(60);
const FILE: &str = "application.properties";
const RELEASES: &str = "/config/v1/configfiles/releases";
/// Address of a client that is another one.
const BYSTANDER: &str = "192.0.2.1";
const LABEL: &str = "canary,zone=a";

/// A client of an app of its own, and its way to the nodes.
struct Follower {
    built: BuiltClient,
    app: String,
    balancer: Balancer,
    client: RealClient,
}

fn app_of(built: BuiltClient) -> String {
    format!("app-{}-{}", built.language, built.program)
}

impl Follower {
    /// Starts a client behind a balancer that prefers the first node while it is ready; `None` if its language is
    /// missing.
    async fn start(cluster: &Cluster, built: BuiltClient) -> Option<Follower> {
        let backends = cluster.ids().into_iter().map(|id| cluster.ports(id).compat).collect();
        let balancer = Balancer::start_preferring_the_first(backends).await;
        let app = app_of(built);
        let settings = ClientSettings { label: Some(LABEL), ..ClientSettings::default() };
        let url = format!("http://{}", balancer.address());
        let client = RealClient::start_built(built, &url, &app, "application", &settings).await?;
        Some(Follower { built, app, balancer, client })
    }

    async fn holds(&mut self, value: &str) -> Instant {
        self.client.holds(LIMIT, "number", value).await
    }

    fn release(&self, name: &str, more: Value) -> Value {
        let mut release = json!({"namespace": "default", "group": self.app, "file_name": FILE, "name": name});
        release.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        release
    }

    /// Publishes a value under its own name.
    async fn publish(&self, api: &Api, value: &str, more: Value) {
        let mut body = self.release(value, json!({"content": format!("zeta=1\nnumber={value}\nalpha=2\n")}));
        let fields = body.as_object_mut().expect("an object");
        fields.remove("name");
        fields.insert("release_name".to_owned(), json!(value));
        fields.extend(more.as_object().expect("an object").clone());
        api.post("/config/v1/configfiles/createandpub", &body).await.expect_code(200_000);
    }

    async fn act(&self, api: &Api, act: &str, release: &str) {
        let releases = json!([self.release(release, json!({}))]);
        let path = format!("{RELEASES}/{act}");
        match act {
            "stopbeta" => api.post(&path, &releases).await.expect_code(200_000),
            _ => api.put(&path, &releases).await.expect_code(200_000),
        };
    }

    /// The value that another client gets.
    async fn bystander(&self, cluster: &Cluster) -> Value {
        let path = format!("/configs/{}/default/application?ip={BYSTANDER}", self.app);
        let pulled = cluster.apollo(2).get(&path).await;
        serde_json::from_str::<Value>(&pulled.text).expect("JSON")["configurations"]["number"].clone()
    }

    /// The address under which the nodes know this client.
    async fn address(&self, api: &Api) -> String {
        let path = format!("/config/v1/configfiles/subscribers?namespace=default&group={}&file_name={FILE}", self.app);
        eventually(LIMIT, "the client is known", || async {
            let answer = api.get(&path).await.expect_code(200_000);
            let rows = answer.body["data"].as_array().expect("a list");
            let addresses = rows.iter().filter_map(|row| row["address"].as_str());
            addresses
                .filter(|address| *address != BYSTANDER)
                .map(str::to_owned)
                .next()
                .ok_or_else(|| answer.to_string())
        })
        .await
    }

    /// A change, gray by address and by label, promoted, rolled back, and no step back at any time.
    async fn walk(&mut self, cluster: &Cluster) {
        let (second, third) = (cluster.api(2), cluster.api(3));
        self.holds("first").await;
        self.publish(&third, "changed", json!({})).await;
        self.holds("changed").await;

        let address = self.address(&second).await;
        let of = |key: &str, value: &str| {
            let labels = json!([{"key": key, "value": {"type": "EXACT", "value": value}}]);
            json!({"release_type": "gray", "client_labels": labels})
        };
        self.publish(&second, "by address", of("CLIENT_IP", &address)).await;
        self.holds("by address").await;
        cluster.expect_equal_state().await;
        assert_eq!(self.bystander(cluster).await, "changed", "{:?}", self.built);
        let promote = json!([self.release("by address", json!({"new_release_name": "promoted"}))]);
        third.put(&format!("{RELEASES}/promote"), &promote).await.expect_code(200_000);
        cluster.expect_equal_state().await;
        assert_eq!(self.bystander(cluster).await, "by address", "{:?}", self.built);

        if self.built.sends_labels() {
            self.publish(&third, "by label", of("label", LABEL)).await;
            self.holds("by label").await;
            cluster.expect_equal_state().await;
            assert_eq!(self.bystander(cluster).await, "by address", "{:?}", self.built);
            self.act(&second, "stopbeta", "by label").await;
            self.holds("by address").await;
        }
        self.act(&third, "rollback", "changed").await;
        self.holds("changed").await;
    }

    async fn goes_on(&mut self, api: &Api, since: Instant, what: &str) {
        self.publish(api, what, json!({})).await;
        let seen = self.holds(what).await;
        report(format!(
            "{:?} held the next publish {:?} after: {what}",
            self.built,
            seen.saturating_duration_since(since)
        ));
    }

    /// Withdraws the release: the client keeps its content.
    async fn keeps_what_is_withdrawn(&mut self, api: &Api, value: &str) {
        let answered = |balancer: &Balancer| balancer.answers().get(&404).copied().unwrap_or_default();
        let before = answered(&self.balancer);
        self.act(api, "withdraw", value).await;
        eventually(LIMIT, "the client asked and was told 404", || async {
            if answered(&self.balancer) > before { Ok(()) } else { Err(format!("{:?}", self.balancer.answers())) }
        })
        .await;
        let told = self.client.reports();
        let invented = told.iter().filter_map(|held| held.values.get("number")).find(|held| *held != value);
        assert_eq!(invented, None, "{:?}: {told:?}", self.built);
    }
}

/// Three nodes with a first release for each client, and the clients that there are.
async fn followed(cluster: &Cluster) -> Vec<Follower> {
    for built in BuiltClient::of_apollo() {
        let content = "zeta=1\nnumber=first\nalpha=2\n";
        cluster.api(1).publish("default", &app_of(built), FILE, content).await;
    }
    cluster.expect_equal_state().await;
    let all = BuiltClient::of_apollo().into_iter().map(|built| Follower::start(cluster, built));
    join_all(all).await.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn apollos_clients_follow_all_that_becomes_of_a_release_and_of_nodes() {
    let mut cluster = Cluster::start(3).await;
    let mut all = followed(&cluster).await;
    join_all(all.iter_mut().map(|one| one.walk(&cluster))).await;

    cluster.kill(1).await;
    let (killed, api) = (Instant::now(), cluster.api(cluster.leader().await));
    join_all(all.iter_mut().map(|one| one.goes_on(&api, killed, "its node killed"))).await;
    cluster.restart(1).await;
    cluster.terminate(2).await;
    let (stopped, api) = (Instant::now(), cluster.api(cluster.leader().await));
    join_all(all.iter_mut().map(|one| one.goes_on(&api, stopped, "another stopped"))).await;
    cluster.restart(2).await;
    cluster.kill_all().await;
    cluster.restart_all().await;
    let (back, api) = (Instant::now(), cluster.api(cluster.leader().await));
    join_all(all.iter_mut().map(|one| one.goes_on(&api, back, "all restarted"))).await;
    join_all(all.iter_mut().map(|one| one.keeps_what_is_withdrawn(&api, "all restarted"))).await;
}

/// The Java client connects to the nodes that `/services/config` lists; agollo uses only its configured address.
#[tokio::test(flavor = "multi_thread")]
async fn apollos_clients_live_on_without_a_balancer() {
    let mut cluster = Cluster::start(3).await;
    for built in BuiltClient::of_apollo() {
        cluster.api(1).publish("default", &app_of(built), FILE, "number=first\n").await;
    }
    cluster.expect_equal_state().await;
    let url = format!("http://{}", cluster.ports(2).compat);
    let settings = ClientSettings { by_meta: true, ..ClientSettings::default() };
    let started = BuiltClient::of_apollo().into_iter().map(|built| {
        let (url, settings) = (&url, &settings);
        async move {
            let client = RealClient::start_built(built, url, &app_of(built), "application", settings).await;
            client.map(|client| (built, client))
        }
    });
    let mut all: Vec<_> = join_all(started).await.into_iter().flatten().collect();
    for (_, client) in &mut all {
        client.holds(LIMIT, "number", "first").await;
    }
    cluster.kill(2).await;
    let api = cluster.api(cluster.leader().await);
    for (built, client) in all.iter_mut().filter(|(built, _)| built.language == "java") {
        api.publish("default", &app_of(*built), FILE, "number=elsewhere\n").await;
        client.holds(LIMIT, "number", "elsewhere").await;
    }
    cluster.restart(2).await;
    cluster.expect_equal_state().await;
    for (built, client) in &mut all {
        api.publish("default", &app_of(*built), FILE, "number=back\n").await;
        client.holds(LIMIT, "number", "back").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn apollos_clients_sign_with_an_access_key() {
    let cluster = Cluster::start_with_data_key(1, &[]).await;
    let api = cluster.api(1);
    let tried = BuiltClient::of_apollo().into_iter().map(|built| {
        let (api, cluster) = (&api, &cluster);
        async move {
            let app = app_of(built);
            let key = json!([{"app_id": app, "name": "one", "mode": "enforce"}]);
            let created = api.post("/auth/v1/accesskeys", &key).await.expect_code(200_000);
            let secret = created.body["responses"][0]["accessKey"]["secret"].as_str().expect("a secret").to_owned();
            api.publish("default", &app, FILE, "number=first\n").await;
            for (secret, is_right) in
                [(Some(secret.as_str()), true), (Some("a-secret-of-nobody-here"), false), (None, false)]
            {
                let balancer = Balancer::start(vec![cluster.ports(1).compat]).await;
                let url = format!("http://{}", balancer.address());
                let settings = ClientSettings { secret, ..ClientSettings::default() };
                let Some(mut client) = RealClient::start_built(built, &url, &app, "application", &settings).await
                else {
                    return;
                };
                if is_right {
                    client.holds(LIMIT, "number", "first").await;
                    api.publish("default", &app, FILE, "number=second\n").await;
                    client.holds(LIMIT, "number", "second").await;
                    continue;
                }
                eventually(LIMIT, "the client is refused", || async {
                    let answers = balancer.answers();
                    if answers.contains_key(&401) { Ok(()) } else { Err(format!("{answers:?}")) }
                })
                .await;
                let told = client.reports();
                let has_it = told.iter().any(|held| held.values.get("number").is_some_and(|value| !value.is_empty()));
                assert!(!has_it, "{built:?}: {told:?} {:?}", balancer.answers());
            }
        }
    });
    join_all(tried).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apollos_clients_pull_and_poll_by_tls() {
    let pki = Pki::new().await;
    let cluster = pki.cluster(1, &[]).await;
    let (api, ca) = (cluster.api(1), pki.ca());
    let url = format!("https://localhost:{}", cluster.ports(1).compat.port());
    let tried = BuiltClient::of_apollo().into_iter().map(|built| {
        let (api, url, ca): (_, _, &Path) = (&api, &url, &ca);
        async move {
            let app = app_of(built);
            api.publish("default", &app, FILE, "number=1\n").await;
            let settings = ClientSettings { ca: Some(ca), ..ClientSettings::default() };
            let Some(mut client) = RealClient::start_built(built, url, &app, "application", &settings).await else {
                return;
            };
            client.holds(LIMIT, "number", "1").await;
            api.publish("default", &app, FILE, "number=2\n").await;
            client.holds(LIMIT, "number", "2").await;
        }
    });
    join_all(tried).await;
}

/// Clients that ask for gzip get the same compressed: agollo does so, by Go's library of HTTP; Apollo's client for Java
/// does not.
#[tokio::test(flavor = "multi_thread")]
async fn apollos_clients_get_compressed_what_they_ask_for_so() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let pairs: String = (0..200).map(|number| format!("key.{number}=value of the key {number}\n")).collect();
    // The program of Spring prints one value.
    for built in BuiltClient::of_apollo().into_iter().filter(|built| built.program == "apollo") {
        let app = app_of(built);
        api.publish("default", &app, FILE, &format!("{pairs}number=first\n")).await;
        let balancer = Balancer::start(vec![cluster.ports(1).compat]).await;
        let url = format!("http://{}", balancer.address());
        let settings = ClientSettings::default();
        let Some(mut client) = RealClient::start_built(built, &url, &app, "application", &settings).await else {
            continue;
        };
        let held = client.held(LIMIT, "number", "first").await;
        assert_eq!(held.values["key.199"], "value of the key 199", "{built:?}");
        api.publish("default", &app, FILE, &format!("{pairs}number=second\n")).await;
        client.holds(LIMIT, "number", "second").await;
        let (compressed, answers) = (balancer.compressed(), balancer.answers());
        report(format!("{built:?}: {compressed} compressed answers of {answers:?}"));
        assert_eq!(compressed >= 2, built.language == "go", "{built:?}: {compressed} of {answers:?}");
    }
}

/// Pairs with escapes; in the order of the file for Java, and other formats as one text.
#[tokio::test(flavor = "multi_thread")]
async fn apollos_clients_have_what_was_released() {
    let cluster = Cluster::start(1).await;
    let (api, url) = (cluster.api(1), format!("http://{}", cluster.ports(1).compat));
    let settings = ClientSettings::default();
    for built in BuiltClient::of_apollo().into_iter().filter(|built| built.program == "apollo") {
        let app = app_of(built);
        let pairs = "zeta=1\nb.2=2\nzeta=3\nalpha = c\\u00e9\n";
        api.publish("default", &app, FILE, pairs).await;
        let Some(mut client) = RealClient::start_built(built, &url, &app, "application", &settings).await else {
            continue;
        };
        client.holds(LIMIT, "alpha", "cé").await;
        api.publish("default", &app, FILE, &format!("{pairs}a=last\n")).await;
        let held = client.held(LIMIT, "a", "last").await;
        assert_eq!((held.values["zeta"].as_str(), held.values.len()), ("3", 4), "{built:?}: {held:?}");
        if built.language != "java" {
            continue;
        }
        assert_eq!(held.keys, ["zeta", "b.2", "alpha", "a"], "{held:?}");
        for (file, content) in [
            ("page.xml", "<a>\r\n  <b/>\r\n</a>"),
            ("data.json", "{\"k\": \"\u{1f600}\"}"),
            ("db.yaml", "k:\n  - 1\n"),
            ("note.txt", "  two\nlines  "),
        ] {
            api.publish("default", &app, file, content).await;
            let client = RealClient::start_built(built, &url, &app, file, &settings).await;
            client.expect("it was there").holds(LIMIT, "content", content).await;
        }
    }
}
