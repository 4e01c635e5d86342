//! Gray releases whose share grows by steps: continued by each leader, and stopped by guards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::{Answer, Api, Apollo, Cluster, Receiver, eventually, report, run};

const FILES: &str = "/config/v1/configfiles";
const RELEASES: &str = "/config/v1/configfiles/releases";
const LIMIT: Duration = Duration::from_secs(30);
const CLIENTS: usize = 60;

fn address(number: usize) -> String {
    format!("10.7.0.{number}")
}

/// Publishes `v=new` gray, by a plan, over `v=old`.
async fn begin(api: &Api, plan: Value) -> Answer {
    api.publish("default", "app", "application", "v=old").await;
    let file = json!({"namespace": "default", "group": "app", "name": "application", "content": "v=new"});
    api.put(FILES, &file).await.expect_code(200_000);
    let release = json!({"namespace": "default", "group": "app", "file_name": "application", "name": "staged",
        "release_type": "gray", "plan": plan});
    api.post(&format!("{FILES}/release"), &release).await.expect_code(200_000)
}

fn plan(steps: &Value, guards: &Value) -> Value {
    json!({"by": "CLIENT_IP", "steps": steps, "guards": guards})
}

/// A plan that nothing but a guard ends.
fn guarded(guard: &Value) -> Value {
    plan(&json!([{"percent": 50, "hold_s": 3600}, {"percent": 100}]), &json!([guard]))
}

async fn rollout(api: &Api) -> Value {
    let path = format!("{RELEASES}?namespace=default&group=app&file_name=application&release_name=staged");
    let answer = api.get(&path).await.expect_code(200_000);
    answer.body["configFileReleases"][0]["rollout"].clone()
}

async fn expect_state(api: &Api, state: &str) -> Value {
    eventually(LIMIT, state, || async {
        let found = rollout(api).await;
        if found["state"] == state { Ok(found) } else { Err(found.to_string()) }
    })
    .await
}

async fn value_of(apollo: &Apollo, client: &str) -> (String, Value) {
    let body = apollo.config_for("app", "application", &format!("ip={client}")).await;
    (body["configurations"]["v"].as_str().expect("a value").to_owned(), body["releaseKey"].clone())
}

/// Clients that have the new value.
async fn reached(apollo: &Apollo) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for number in 0..CLIENTS {
        if value_of(apollo, &address(number)).await.0 == "new" {
            found.insert(number);
        }
    }
    found
}

async fn history(api: &Api) -> Vec<(String, String)> {
    let path = format!("{FILES}/releasehistory?namespace=default&group=app&file_name=application");
    let answer = api.get(&path).await.expect_code(200_000);
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_else(|| panic!("{row}")).to_owned();
    let rows = answer.body["data"].as_array().expect("rows").iter();
    rows.map(|row| (text(row, "action"), text(row, "comment"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_go_on_under_the_next_leader_and_no_client_goes_back() {
    let mut cluster = Cluster::start_with_data_key(3, &[]).await;
    let hook = Receiver::start().await;
    let asked = json!([{"name": "all", "url": hook.url, "allow_private": true}]);
    cluster.api(1).post("/admin/v1/webhooks", &asked).await.expect_code(200_000);
    let steps = json!([{"percent": 10, "hold_s": 3}, {"percent": 50, "hold_s": 3}, {"percent": 100}]);
    let begun = Instant::now();
    let made = begin(&cluster.api(1), plan(&steps, &json!([]))).await;
    let shown = &made.body["configFileRelease"]["rollout"];
    assert_eq!((&shown["step"], &shown["percent"], &shown["state"]), (&json!(1), &json!(10), &json!("running")));
    assert!(shown["next_at"].is_string(), "{made}");
    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    let other = cluster.ids().into_iter().find(|id| *id != leader).expect("two are left");
    let (api, apollo) = (cluster.api(other), cluster.apollo(other));
    let mut seen: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    let mut last = BTreeSet::new();
    loop {
        let before = rollout(&api).await["percent"].as_u64().unwrap_or_default();
        let now = reached(&apollo).await;
        assert!(last.is_subset(&now), "clients went back: {last:?} {now:?}");
        last.clone_from(&now);
        let after = rollout(&api).await["percent"].as_u64().unwrap_or_default();
        if before == after {
            seen.insert(after, now);
        }
        if after == 100 {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "{seen:?}");
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(6), "faster than its holds: {took:?}");
    assert_eq!(reached(&apollo).await.len(), CLIENTS);
    for (percent, clients) in &seen {
        // A share of sixty clients, by a wide margin.
        let expected = CLIENTS as u64 * percent / 100;
        assert!(expected.abs_diff(clients.len() as u64) <= 12, "{percent} %: {clients:?}");
    }
    cluster.restart(leader).await;
    cluster.expect_equal_state().await;
    let told: Vec<_> = history(&cluster.api(leader)).await.into_iter().map(|(action, _)| action).collect();
    assert_eq!(told, ["promote", "rollout_step", "gray", "publish"]);
    assert_eq!(rollout(&cluster.api(leader)).await["state"], "done");
    let step = eventually(LIMIT, "the receiver is told of the step", || async {
        let posted = hook.posted();
        let found = posted.iter().find(|one| one.body["event"] == "rollout_step");
        found.map(|one| one.body.clone()).ok_or_else(|| format!("{} events", posted.len()))
    })
    .await;
    assert_eq!(step["rollout"], json!({"step": 2, "percent": 50, "state": "running", "reason": ""}), "{step}");
    report(format!("two holds of 3 s, the leader dead in the first: {took:?}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_stops_it_and_everybody_falls_back() {
    let cluster = Cluster::start_with_data_key(3, &[]).await;
    let api = cluster.api(1);
    let hook = Receiver::start().await;
    let asked = json!([{"name": "refusals", "url": hook.url, "allow_private": true, "events": ["client_refused"]}]);
    api.post("/admin/v1/webhooks", &asked).await.expect_code(200_000);
    begin(&api, guarded(&json!({"kind": "refused", "max_percent": 5}))).await;
    cluster.expect_equal_state().await;
    // Clients of every node, as a balancer spreads them.
    let mut having = Vec::new();
    for number in 0..CLIENTS {
        let node = number as u64 % 3 + 1;
        let (value, key) = value_of(&cluster.apollo(node), &address(number)).await;
        if value == "new" {
            having.push((node, address(number), key));
        }
    }
    assert!(having.len() > 20, "{having:?}");
    let say = async |(node, client, key): &(u64, String, Value), ok: bool| {
        let refusal = (!ok).then_some("no such port");
        cluster.apollo(*node).say_applied(("app", "application"), client, key, refusal).await;
    };
    for client in &having[1..] {
        say(client, true).await;
    }
    say(&having[0], false).await;
    // One refusal is below the limit: two rounds of measurement change nothing.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(rollout(&api).await["state"], "running", "{} clients", having.len());
    let refusing = having.len() / 5;
    let first = Instant::now();
    for client in &having[1..=refusing] {
        say(client, false).await;
    }
    let stopped = expect_state(&api, "stopped").await;
    let took = first.elapsed();
    let reason = stopped["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("refused: ") && reason.contains("at most 5 %"), "{reason}");
    assert_eq!(reached(&cluster.apollo(2)).await.len(), 0);
    assert_eq!(history(&api).await[0], ("rollout_stopped".to_owned(), reason.to_owned()));
    let listed = api.get(&format!("{FILES}/releasehistory?namespace=default&group=app&file_name=application")).await;
    assert_eq!(listed.body["data"][0]["user"], "cluster", "nobody else did it: {listed}");
    // Each client's refusal is reported once, together with others, and not again.
    say(&having[0], false).await;
    let told = eventually(LIMIT, "every refusal is told of", || async {
        let mut posted = hook.posted();
        posted.sort_by_key(|one| one.id().to_owned());
        posted.dedup_by_key(|one| one.id().to_owned());
        let count: u64 = posted.iter().filter_map(|one| one.body["client"]["count"].as_u64()).sum();
        if count > refusing as u64 { Ok((count, posted)) } else { Err(format!("{count} refusals")) }
    })
    .await;
    let (count, posted) = told;
    assert!(count == refusing as u64 + 1 && posted.len() <= refusing + 1, "{posted:?}");
    let body = &posted[0].body;
    assert_eq!(
        (&body["event"], &body["kind"], &body["name"]),
        (&json!("client_refused"), &json!("configfile"), &json!("application"))
    );
    assert_eq!((&body["client"]["message"], &body["release"]["name"]), (&json!("no such port"), &json!("staged")));
    report(format!("{refusing} of {} clients refused: stopped after {took:?}", having.len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn sick_hosts_and_signals_stop_it() {
    let cluster = Cluster::start(1).await;
    let (api, apollo) = (cluster.api(1), cluster.apollo(1));
    begin(&api, guarded(&json!({"kind": "health", "max_worse_percent": 20}))).await;
    let having = reached(&apollo).await;
    let instances: Vec<_> = (0..CLIENTS)
        .map(|number| json!({"namespace": "shop", "service": "pay", "host": address(number), "port": 80}))
        .collect();
    api.post("/naming/v1/instances", &json!(instances)).await.expect_code(200_000);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(rollout(&api).await["state"], "running");
    let sick: Vec<_> = having
        .iter()
        .take(having.len() / 2)
        .map(|number| address(*number))
        .map(|host| json!({"namespace": "shop", "service": "pay", "host": host, "port": 80, "healthy": false}))
        .collect();
    api.put("/naming/v1/instances", &json!(sick)).await.expect_code(200_000);
    let reason = expect_state(&api, "stopped").await["reason"].as_str().expect("a reason").to_owned();
    assert!(reason.starts_with("health: ") && reason.contains("against 0 %"), "{reason}");
    assert_eq!(reached(&apollo).await.len(), 0);

    // By the command line, with a signal.
    let endpoint = format!("http://{}", cluster.ports(1).api);
    let line = async |words: &str| {
        let words: Vec<_> = words.split_whitespace().collect();
        run(&endpoint, cluster.token(), &words, "").await
    };
    let done = line(
        "release configfile/app/application -n default --name second --plan 50%:1h,100% --by CLIENT_IP --guard signal",
    )
    .await;
    assert_eq!(done.code, 0, "{}{}", done.out, done.error);
    let out = line("rollout status configfile/app/application -n default").await.expect(0);
    assert!(out.contains("second") && out.contains("50 %, step 1 of 2, running, next step at "), "{out}");
    line("rollout pause configfile/app/application -n default --comment lunch").await.expect(0);
    let out = line("rollout status configfile/app/application -n default").await.expect(0);
    assert!(out.contains("paused: lunch"), "{out}");
    line("rollout resume configfile/app/application -n default").await.expect(0);
    line("rollout signal configfile/app/application -n default").await.expect(0);
    line("rollout signal configfile/app/application -n default --failed --reason alarm").await.expect(0);
    let done = line("rollout status configfile/app/application -n default --watch").await;
    assert_eq!(done.code, 1, "{}{}", done.out, done.error);
    assert!(done.out.contains("stopped: signal: alarm"), "{}", done.out);
    assert_eq!(reached(&apollo).await.len(), 0);
}

/// A server that answers instant queries with one sample, with none, or with a fault.
async fn prometheus(sample: Arc<Mutex<Option<&'static str>>>) -> String {
    let answer = async |State(sample): State<Arc<Mutex<Option<&'static str>>>>| {
        let Some(sample) = *sample.lock() else { return (StatusCode::SERVICE_UNAVAILABLE, String::new()) };
        let result = if sample.is_empty() { json!([]) } else { json!([{"metric": {}, "value": [1.5, sample]}]) };
        let body = json!({"status": "success", "data": {"resultType": "vector", "result": result}});
        (StatusCode::OK, body.to_string())
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let router = Router::new().route("/api/v1/query", get(answer)).with_state(sample);
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_without_an_answer_pauses_and_one_beyond_its_limit_stops() {
    let sample = Arc::new(Mutex::new(None));
    let url = prometheus(sample.clone()).await;
    let cluster = Cluster::start_with(1, &["--prometheus-url", &url]).await;
    let api = cluster.api(1);
    let guard = json!({"kind": "prometheus", "query": "errors / requests", "above": 0.05});
    let steps = json!([{"percent": 50, "hold_s": 1}, {"percent": 60, "hold_s": 3600}, {"percent": 100}]);
    begin(&api, plan(&steps, &json!([guard]))).await;
    let paused = expect_state(&api, "paused").await;
    assert_eq!(
        (&paused["step"], &paused["reason"]),
        (&json!(1), &json!("prometheus: the answer is not one of Prometheus"))
    );
    *sample.lock() = Some("");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(rollout(&api).await["state"], "paused", "no sample says nothing");
    *sample.lock() = Some("0.01");
    expect_state(&api, "running").await;
    eventually(LIMIT, "the next step", || async {
        let found = rollout(&api).await;
        if found["step"] == 2 { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    *sample.lock() = Some("0.2");
    let stopped = expect_state(&api, "stopped").await;
    assert_eq!(stopped["reason"], "prometheus: 0.2, at most 0.05");
    let told: Vec<_> = history(&api).await.into_iter().map(|(action, _)| action).collect();
    let expected = ["rollout_stopped", "rollout_step", "rollout_resumed", "rollout_paused", "gray", "publish"];
    assert_eq!(told, expected);
    let stops = api.metric("thuban_rollouts_stopped_total{guard=\"prometheus\"}").await;
    assert_eq!(stops, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_that_make_no_sense_are_refused() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    api.publish("default", "app", "application", "v=old").await;
    let publish = async |more: Value| {
        let mut release = json!({"namespace": "default", "group": "app", "file_name": "application"});
        release.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        api.post(&format!("{FILES}/release"), &release).await
    };
    let steps = json!([{"percent": 5, "hold_s": 60}, {"percent": 100}]);
    let good = plan(&steps, &json!([]));
    publish(json!({"plan": good})).await.expect_code(400_103);
    let share = json!({"by": "CLIENT_IP", "percent": 5});
    publish(json!({"release_type": "gray", "client_percent": share, "plan": good})).await.expect_code(400_103);
    let shrinking = plan(&json!([{"percent": 50}, {"percent": 20}, {"percent": 100}]), &json!([]));
    publish(json!({"release_type": "gray", "plan": shrinking})).await.expect_code(400_103);
    let hasty = plan(&json!([{"percent": 5}, {"percent": 100}]), &json!([]));
    publish(json!({"release_type": "gray", "plan": hasty})).await.expect_code(400_103);
    publish(json!({"release_type": "gray", "plan": plan(&json!([{"percent": 50}]), &json!([]))}))
        .await
        .expect_code(400_103);
    let unknown = plan(&steps, &json!([{"kind": "latency", "max": 3}]));
    publish(json!({"release_type": "gray", "plan": unknown})).await.expect_code(400_001);
    publish(json!({"release_type": "gray", "plan": good, "name": "staged"})).await.expect_code(200_000);
    let steer = async |more: Value| {
        let mut item = json!({"namespace": "default", "group": "app", "file_name": "application", "name": "staged"});
        item.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        api.put(&format!("{RELEASES}/rollout"), &json!([item])).await
    };
    steer(json!({})).await.expect_code(400_103);
    steer(json!({"action": "resume"})).await.expect_code(200_002);
    steer(json!({"action": "pause"})).await.expect_code(200_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_that_came_since_keeps_the_last_step_back() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    begin(&api, plan(&json!([{"percent": 50, "hold_s": 2}, {"percent": 100}]), &json!([]))).await;
    let contract = json!([{"name": "old-only", "namespace": "default", "mode": "refuse",
        "schema": {"properties": {"v": {"const": "old"}}}}]);
    api.post("/admin/v1/contracts", &contract).await.expect_code(200_000);
    let reason = expect_state(&api, "paused").await["reason"].as_str().expect("a reason").to_owned();
    assert!(reason.contains("old-only") && reason.contains("/v"), "{reason}");
    let steer = async |action: &str| {
        let item = json!([{"namespace": "default", "group": "app", "file_name": "application", "name": "staged",
            "action": action}]);
        api.put(&format!("{RELEASES}/rollout"), &item).await
    };
    steer("advance").await.expect_code(400_107);
    api.post("/admin/v1/contracts/delete", &json!([{"name": "old-only"}])).await.expect_code(200_000);
    steer("resume").await.expect_code(200_000);
    expect_state(&api, "done").await;
}

/// A balancer sends the report of a client to another node than its pull; file names are as stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_word_at_another_node_counts_and_is_told_of() {
    let cluster = Cluster::start_with_data_key(3, &[]).await;
    let api = cluster.api(1);
    let hook = Receiver::start().await;
    let asked = json!([{"name": "refusals", "url": hook.url, "allow_private": true, "events": ["client_refused"]}]);
    api.post("/admin/v1/webhooks", &asked).await.expect_code(200_000);
    api.publish("default", "app", "Other.properties", "v=1").await;
    begin(&api, guarded(&json!({"kind": "refused", "max_percent": 90}))).await;
    cluster.expect_equal_state().await;
    for number in 0..9 {
        let (node, client) = (number as u64 % 3 + 1, address(number));
        for file in ["application", "Other.properties"] {
            let body = cluster.apollo(node).config_for("app", file, &format!("ip={client}")).await;
            let other = cluster.apollo(node % 3 + 1);
            other.say_applied(("app", file), &client, &body["releaseKey"], Some("no such port")).await;
        }
    }
    let path = format!("{FILES}/subscribers?namespace=default&group=app&file_name=Other.properties");
    let listed = api.get(&path).await.expect_code(200_000);
    assert_eq!((&listed.body["amount"], &listed.body["refused"]), (&json!(9), &json!(9)), "{listed}");
    let reason = expect_state(&api, "stopped").await["reason"].as_str().expect("a reason").to_owned();
    assert!(reason.starts_with("refused: 100 %"), "{reason}");
    eventually(LIMIT, "the file is told of by its name", || async {
        let posted = hook.posted();
        let is_told = posted.iter().any(|one| one.body["name"] == "Other.properties");
        if is_told { Ok(()) } else { Err(format!("{posted:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_written_guard_waits_for_clients_and_for_every_member() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let steps = json!([{"percent": 90, "hold_s": 1}, {"percent": 99, "hold_s": 3600}, {"percent": 100}]);
    let (api, apollo) = (cluster.api(leader), cluster.apollo(leader));
    begin(&api, plan(&steps, &json!([{"kind": "refused", "max_percent": 1}]))).await;
    assert_eq!(expect_state(&api, "paused").await["reason"], "refused: no client has the release");
    let other = cluster.ids().into_iter().find(|id| *id != leader).expect("three of them");
    cluster.kill(other).await;
    assert!(!reached(&apollo).await.is_empty());
    // The state of its clients is unknown.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(rollout(&api).await["state"], "paused");
    cluster.restart(other).await;
    eventually(LIMIT, "the next step", || async {
        let found = rollout(&api).await;
        if found["step"] == 2 { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn default_guards_that_measure_nobody_pass_and_say_so() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let steps = json!([{"percent": 50, "holdS": 1}, {"percent": 100}]);
    let made = begin(&api, json!({"by": "CLIENT_IP", "steps": steps})).await;
    let guards = &made.body["configFileRelease"]["rollout"]["guards"];
    let expected = json!([{"kind": "refused", "max_percent": 1.0, "default": true},
        {"kind": "health", "max_worse_percent": 10.0, "default": true}]);
    assert_eq!(*guards, expected);
    expect_state(&api, "done").await;
    let (action, comment) = history(&api).await.remove(0);
    assert!(action == "promote" && comment.starts_with("refused: no client has the release, the default"), "{comment}");
    // By the command line.
    let endpoint = format!("http://{}", cluster.ports(1).api);
    let line = async |words: String| {
        let words: Vec<_> = words.split_whitespace().collect();
        run(&endpoint, cluster.token(), &words, "").await.expect(0)
    };
    let own = json!([{"kind": "health", "max_worse_percent": 5.0}]);
    for (name, more, guards) in
        [("plain", "", expected), ("bare", "--no-guards", json!([])), ("own", "--guard health=5", own)]
    {
        let file = "configfile/app/application -n default";
        line(format!("release {file} --name {name} --plan 50%:1h,100% --by CLIENT_IP {more}")).await;
        let path = format!("{RELEASES}?namespace=default&group=app&file_name=application&release_name={name}");
        let answer = api.get(&path).await.expect_code(200_000);
        assert_eq!(answer.body["configFileReleases"][0]["rollout"]["guards"], guards, "{name}: {answer}");
        line(format!("rollout stop {file}")).await;
    }
}
