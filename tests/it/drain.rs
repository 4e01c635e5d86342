//! Drains: an instance leaves, and the command ends once the clients of all nodes know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thuban::proto::envoy::config::core::v3::Node;
use thuban::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::harness::ads::ENDPOINTS;
use crate::harness::{Api, Cluster, GrpcClient, binary, eventually, report, run};

const LIMIT: Duration = Duration::from_secs(30);
const INSTANCES: &str = "/naming/v1/instances";
const HOLDERS: &str = "/naming/v1/instances/subscribers?namespace=shop&service=pay";
const DRAIN: &str = "/naming/v1/instances/drain";
const ADS: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

async fn start(size: u64) -> Cluster {
    let cluster = Cluster::start(size).await;
    let instances: Vec<_> = (1..=3).map(instance).collect();
    cluster.api(1).post(INSTANCES, &instances.into()).await.expect_code(200_000);
    cluster.expect_equal_state().await;
    cluster
}

fn instance(number: u8) -> Value {
    json!({ "namespace": "shop", "service": "pay", "host": format!("10.0.0.{number}"), "port": 8080 })
}

fn endpoints(cluster: &Cluster) -> String {
    let urls: Vec<_> = cluster.ids().iter().map(|id| format!("http://{}", cluster.ports(*id).api)).collect();
    urls.join(",")
}

fn question(address: &str, revision: &str, hold_ms: u64) -> Value {
    json!({ "type": "INSTANCE", "service": { "namespace": "shop", "name": "pay", "revision": revision },
            "filter": { "caller": { "labels": { "CLIENT_IP": address } } }, "timeout_ms": hold_ms })
}

/// Instances of an answer that take calls.
fn usable(answer: &Value) -> Vec<String> {
    let all = answer["instances"].as_array().into_iter().flatten();
    let usable = all.filter(|one| one["isolate"] == false);
    usable.map(|one| one["host"].as_str().expect("a host").to_owned()).collect()
}

/// A client that always has a question held, on the next node where one does not answer; it counts its answers.
struct Follower {
    task: JoinHandle<()>,
    lists: Arc<parking_lot::Mutex<Vec<String>>>,
    answers: Arc<AtomicU64>,
}

impl Follower {
    fn begin(address: &'static str, nodes: Vec<Api>) -> Follower {
        let (lists, answers): (Arc<parking_lot::Mutex<Vec<String>>>, Arc<AtomicU64>) = Default::default();
        let (list, count) = (lists.clone(), answers.clone());
        let task = tokio::spawn(async move {
            let (mut nodes, mut revision) = (nodes.iter().cycle(), String::new());
            let mut node = nodes.next().expect("a node");
            loop {
                let asked = question(address, &revision, 10_000);
                match node.try_send(reqwest::Method::POST, "/v1/Discover", Some(&asked)).await {
                    Ok(answer) if answer.code() == 200_000 => {
                        answer.body["service"]["revision"].as_str().expect("a revision").clone_into(&mut revision);
                        *list.lock() = usable(&answer.body);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(answer) if answer.code() == 200_001 => {}
                    _ => {
                        node = nodes.next().expect("a node");
                        sleep(Duration::from_millis(50)).await;
                    }
                }
            }
        });
        Follower { task, lists, answers }
    }

    fn has(&self, host: &str) -> bool {
        self.lists.lock().iter().any(|known| known == host)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn expect_holders(api: &Api, amount: u64) {
    eventually(LIMIT, "all clients are known with the list as it is", async || {
        let answer = api.get(HOLDERS).await;
        let is = answer.body["amount"] == amount && answer.body["current"] == amount;
        is.then_some(()).ok_or_else(|| answer.to_string())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_all_nodes_are_heard_of_while_the_leader_dies() {
    let mut cluster = start(3).await;
    let apis: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    let followers: Vec<_> = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"]
        .into_iter()
        .enumerate()
        .map(|(at, address)| {
            let mut nodes = apis.clone();
            nodes.rotate_left(at % 3);
            Follower::begin(address, nodes)
        })
        .collect();
    for api in &apis {
        expect_holders(api, 4).await;
    }
    // First with all members up: it takes as long as apply and the delivery to clients.
    let started = Instant::now();
    let out = run(&endpoints(&cluster), cluster.token(), &drain("10.0.0.1:8080"), "").await.expect(0);
    let calm = started.elapsed();
    assert!(out.contains("all of 4 clients know") && followers.iter().all(|one| !one.has("10.0.0.1")), "{out}");
    // Then the leader dies during the drain: its clients have reconnected elsewhere, and the list of clients is
    // incomplete.
    let leader = cluster.leader().await;
    let (urls, token) = (endpoints(&cluster), cluster.token().to_owned());
    let started = Instant::now();
    let command = tokio::spawn(async move { run(&urls, &token, &drain("10.0.0.2:8080"), "").await });
    cluster.kill(leader).await;
    let done = command.await.expect("it ends");
    let took = started.elapsed();
    assert_eq!(done.code, 1, "{}{}", done.out, done.error);
    assert!(done.error.contains("4 clients know, and 1 node could not be asked"), "{}{}", done.out, done.error);
    assert!(done.error.contains(&format!("node {leader} could not be asked")), "{}", done.error);
    for follower in &followers {
        assert!(!follower.has("10.0.0.2") && follower.has("10.0.0.3"), "{:?}", follower.lists.lock());
        assert!(follower.answers.load(Ordering::Relaxed) >= 3, "two drains are two answers more");
    }
    report(format!("a drain over three nodes: {calm:?}; while the leader dies: {took:?}"));
}

fn drain(address: &'static str) -> Vec<&'static str> {
    ["drain", "instance", address, "--service", "pay", "-n", "shop", "--wait", "30s"].to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_take_the_list_is_named() {
    let cluster = start(1).await;
    let (api, endpoints) = (cluster.api(1), endpoints(&cluster));
    api.post("/v1/Discover", &question("10.1.0.9", "", 0)).await.expect_code(200_000);
    let mut call = GrpcClient::connect(cluster.grpc(1)).await.open(ADS);
    let node = Node { id: "proxy".into(), user_agent_name: "gRPC test".into(), ..Node::default() };
    let asked = || DiscoveryRequest {
        type_url: ENDPOINTS.into(),
        resource_names: vec!["shop/pay".to_owned()],
        ..DiscoveryRequest::default()
    };
    call.send(&DiscoveryRequest { node: Some(node), ..asked() }).await;
    let first: DiscoveryResponse = call.next().await.expect("endpoints");
    let acknowledge = |sent: &DiscoveryResponse| {
        let (version_info, response_nonce) = (sent.version_info.clone(), sent.nonce.clone());
        DiscoveryRequest { version_info, response_nonce, ..asked() }
    };
    call.send(&acknowledge(&first)).await;
    expect_holders(&api, 2).await;
    eventually(LIMIT, "what the client of xDS has is acknowledged", async || {
        let answer = api.get(HOLDERS).await;
        (answer.body["applied"] == 1).then_some(()).ok_or_else(|| answer.to_string())
    })
    .await;
    let answer = api.get(HOLDERS).await;
    let rows = answer.body["data"].as_array().expect("rows");
    let row = |protocol: &str| rows.iter().find(|row| row["protocol"] == protocol).expect("a row");
    assert_eq!((&row("discover")["address"], &row("xds")["node_id"]), (&json!("10.1.0.9"), &json!("proxy")));
    assert_eq!(row("xds")["applied"], "yes", "{answer}");

    // Neither gets the new list: one does not request it, the other does not acknowledge it.
    let body = |host: &str, wait_ms: u64| {
        let mut body = json!({ "namespace": "shop", "service": "pay", "host": host, "port": 8080 });
        body["wait_ms"] = wait_ms.into();
        body
    };
    let started = Instant::now();
    let answer = api.post(DRAIN, &body("10.0.0.1", 1500)).await.expect_code(200_000);
    assert!(started.elapsed() >= Duration::from_millis(1500), "it was waited for");
    let unheard = answer.body["unheard"].as_array().expect("a list");
    assert_eq!((&answer.body["heard"], unheard.len()), (&json!(0), 2), "{answer}");
    assert!(unheard.iter().all(|one| one["agent"].is_string() && one["since"].as_str().map(str::len) == Some(19)));
    let done = run(
        &endpoints,
        cluster.token(),
        &["drain", "instance", "10.0.0.1:8080", "--service", "pay", "-n", "shop", "--wait", "300ms"],
        "",
    )
    .await;
    assert_eq!(done.code, 1, "{}{}", done.out, done.error);
    assert!(done.out.contains("10.1.0.9 ") && done.error.contains("2 do not yet"), "{}{}", done.out, done.error);

    let second: DiscoveryResponse = call.next().await.expect("endpoints without the instance");
    call.send(&acknowledge(&second)).await;
    eventually(LIMIT, "the proxy has heard", async || {
        let answer = api.post(DRAIN, &body("10.0.0.1", 0)).await;
        (answer.body["heard"] == 1).then_some(()).ok_or_else(|| answer.to_string())
    })
    .await;
    let waiting = tokio::spawn({
        let (api, body) = (cluster.api(1), body("10.0.0.1", 30_000));
        async move { (api.post(DRAIN, &body).await, Instant::now()) }
    });
    sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished(), "one has not heard");
    let asked_at = Instant::now();
    api.post("/v1/Discover", &question("10.1.0.9", "", 0)).await.expect_code(200_000);
    let (answer, ended) = waiting.await.expect("it ends");
    assert_eq!((&answer.body["heard"], &answer.body["unheard"]), (&json!(2), &json!([])), "{answer}");
    report(format!("a drain ended {:?} after the last client had heard", ended - asked_at));

    api.post(DRAIN, &body("10.0.0.1", 60_001)).await.expect_code(400_103);
    api.post(DRAIN, &body("10.0.0.77", 0)).await.expect_code(400_202);
    let mut of_nobody = body("10.0.0.1", 0);
    of_nobody["service"] = json!("nobody");
    api.post(DRAIN, &of_nobody).await.expect_code(400_202);
    api.get(&HOLDERS.replace("pay", "nobody")).await.expect_code(400_202);
    let listed = api.get(&format!("{INSTANCES}?service=pay&isolate=true")).await.expect_code(200_000);
    assert_eq!(listed.body["instances"][0]["host"], "10.0.0.1", "it stays isolated: {listed}");
}

/// The hooks of the examples, run as they are written.
#[tokio::test(flavor = "multi_thread")]
async fn the_hooks_of_the_examples_drain() {
    let cluster = start(1).await;
    let example = |path: &str| {
        let path = format!("{}/deploy/{path}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let pod = example("kubernetes/examples/drained-instances.yaml");
    let hook = pod.split("command: [sh, -c, '").nth(1).and_then(|rest| rest.split("']").next()).expect("a hook");
    let drop_in = example("systemd/drained-instance.conf");
    let stop = drop_in.lines().find_map(|line| line.strip_prefix("ExecStop=-")).expect("a command");
    for (line, installed, name, address) in
        [(hook, "/tools/thuban", "POD_IP", "10.0.0.1"), (stop, "/usr/bin/thuban", "INSTANCE", "10.0.0.2:8080")]
    {
        assert!(line.contains(installed), "{line}");
        let mut command = Command::new("sh");
        command.arg("-c").arg(line.replace(installed, binary())).env(name, address);
        command.env("THUBAN_ENDPOINT", endpoints(&cluster)).env("THUBAN_TOKEN", cluster.token());
        let output = command.env("THUBAN_NAMESPACE", "shop").output().await.expect("a shell runs");
        let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && told.contains("8080 is isolated"), "{line}: {told}");
    }
    let listed = cluster.api(1).get(&format!("{INSTANCES}?service=pay&isolate=true")).await.expect_code(200_000);
    assert_eq!(listed.body["amount"], 2, "{listed}");
}
