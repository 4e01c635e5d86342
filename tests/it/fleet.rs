//! xDS clients as operators see them, on any node: applied and refused releases.

use std::time::Duration;

use serde_json::{Value, json};
use thuban::proto::envoy::admin::v3::ClientResourceStatus;
use thuban::proto::envoy::config::core::v3::Node;
use thuban::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use thuban::proto::envoy::service::status::v3::{ClientStatusRequest, ClientStatusResponse};
use thuban::proto::google::rpc::Status;

use crate::harness::{Api, Cluster, GrpcCall, GrpcClient, eventually};

const LIMIT: Duration = Duration::from_secs(20);
const ADS: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const FETCH: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
const STREAM: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus";
const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const NAME: &str = "shop/pay";
const SUBSCRIBERS: &str = "/naming/v1/routings/subscribers?rule_name=beta&namespace=shop";
/// Codes of gRPC.
const PERMISSION_DENIED: u16 = 7;
const UNAUTHENTICATED: u16 = 16;

/// A gRPC client that subscribes to the routes of one service.
struct Client {
    call: GrpcCall,
    answered: DiscoveryResponse,
}

impl Client {
    async fn connect(cluster: &Cluster, node: u64, id: &str) -> Client {
        let mut call = GrpcClient::connect(cluster.grpc(node)).await.open(ADS);
        let node = Node { id: id.into(), user_agent_name: "gRPC test".into(), ..Node::default() };
        call.send(&DiscoveryRequest { node: Some(node), ..asked() }).await;
        Client { call, answered: DiscoveryResponse::default() }
    }

    /// Waits for the next response.
    async fn hear(&mut self) {
        self.answered = self.call.next().await.expect("routes");
        assert_eq!((self.answered.type_url.as_str(), self.answered.resources.len()), (ROUTES, 1));
    }

    async fn acknowledge(&mut self) {
        let DiscoveryResponse { version_info, nonce, .. } = self.answered.clone();
        self.call.send(&DiscoveryRequest { version_info, response_nonce: nonce, ..asked() }).await;
    }

    async fn refuse(&mut self, message: &str) {
        let error = Status { code: 3, message: message.into(), ..Status::default() };
        let response_nonce = self.answered.nonce.clone();
        self.call.send(&DiscoveryRequest { response_nonce, error_detail: Some(error), ..asked() }).await;
    }
}

fn asked() -> DiscoveryRequest {
    let resource_names = vec![NAME.to_owned()];
    DiscoveryRequest { type_url: ROUTES.into(), resource_names, ..DiscoveryRequest::default() }
}

/// Saves the rule with another value of its header, and releases it.
async fn release(api: &Api, name: &str, value: &str) {
    let rule = json!([{ "name": "beta", "namespace": "shop", "route_policy": "RulePolicy", "enable": true,
        "routing_config": { "rules": [{ "name": "only",
            "arguments": { "arguments": [
                { "type": "HEADER", "key": "env", "value": { "type": "EXACT", "value": value } }] },
            "destinations": [{ "namespace": "shop", "service": "pay", "name": "all", "weight": 100 }] }] } }]);
    let answer = api.post("/naming/v1/routings", &rule).await;
    if answer.code() != 200_000 {
        api.put("/naming/v1/routings", &rule).await.expect_code(200_000);
    }
    let release = json!([{ "rule_name": "beta", "namespace": "shop", "release_name": name }]);
    api.post("/naming/v1/routings/releases", &release).await.expect_code(200_000);
}

async fn start(size: u64) -> Cluster {
    let cluster = Cluster::start(size).await;
    let api = cluster.api(1);
    api.post("/naming/v1/services", &json!([{ "namespace": "shop", "name": "pay" }])).await.expect_code(200_000);
    release(&api, "first", "one").await;
    cluster.expect_equal_state().await;
    for id in cluster.ids() {
        expect_routes(&cluster, id, b"one").await;
    }
    expect_no_clients(&api).await;
    cluster
}

/// Waits until a node makes the routes of a release that has this text in it: a moment after it was applied there.
async fn expect_routes(cluster: &Cluster, node: u64, text: &[u8]) {
    eventually(LIMIT, "the routes are those of the release", async || {
        let mut client = Client::connect(cluster, node, "early").await;
        client.hear().await;
        let routes = &client.answered.resources[0].value;
        routes.windows(text.len()).any(|part| part == text).then_some(()).ok_or_else(|| format!("{routes:?}"))
    })
    .await;
}

async fn expect_no_clients(api: &Api) {
    eventually(LIMIT, "no client is told of", async || {
        let answer = api.get("/admin/v1/xds/clients").await;
        (answer.amount() == 0).then_some(()).ok_or_else(|| answer.to_string())
    })
    .await;
}

/// Waits until every node reports this of the client's release: version, `applied`, and whether it is current.
async fn expect_word(cluster: &Cluster, expected: Value) {
    for id in cluster.ids() {
        let api = cluster.api(id);
        eventually(LIMIT, "the word of the client is told", async || {
            let answer = api.get(SUBSCRIBERS).await;
            let row = &answer.body["data"][0];
            let told = json!([row["version"], row["applied"], row["current"], row["message"]]);
            (told == expected).then_some(()).ok_or_else(|| answer.to_string())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_applied_or_refused_by_the_word_of_its_clients() {
    let cluster = start(3).await;
    let api = cluster.api(1);
    let mut client = Client::connect(&cluster, 2, "cart-1").await;
    client.hear().await;
    expect_word(&cluster, json!([1, null, false, null])).await;
    client.acknowledge().await;
    expect_word(&cluster, json!([1, "yes", true, null])).await;
    let answer = cluster.api(3).get(SUBSCRIBERS).await;
    let row = &answer.body["data"][0];
    assert_eq!((&row["node"], &row["node_id"], &row["protocol"]), (&json!(2), &json!("cart-1"), &json!("xds")));
    assert_eq!((&row["release_name"], &row["agent"]), (&json!("first"), &json!("gRPC test")), "{answer}");

    release(&api, "second", "two").await;
    client.hear().await;
    client.refuse("shop/pay: no such thing").await;
    expect_word(&cluster, json!([2, "refused", false, "shop/pay: no such thing"])).await;
    let clients = cluster.api(3).get("/admin/v1/xds/clients").await.expect_code(200_000);
    let row = &clients.body["data"][0];
    assert_eq!((&row["node"], &row["applied"]), (&json!(2), &json!("refused")), "{clients}");
    assert_eq!(row["has"][0]["refused"], json!([NAME]), "{clients}");
    let dump = cluster.api(1).get("/admin/v1/xds/dump?node_id=cart-1").await.expect_code(200_000);
    let row = &dump.body["data"][0];
    assert_eq!((&row["node"], &row["type"], &row["name"]), (&json!(2), &json!("rds"), &json!(NAME)), "{dump}");
    assert_eq!(row["releases"][0]["release_name"], "second", "{dump}");
    assert_eq!(row["resource"]["virtual_hosts"][0]["domains"], json!(["*"]), "{dump}");
    let node = cluster.api(2);
    eventually(LIMIT, "the refusal is counted", async || {
        let refused = node.metric("thuban_subscribers_refused").await;
        (refused == Some(1.0)).then_some(()).ok_or_else(|| format!("{refused:?}"))
    })
    .await;

    release(&api, "third", "three").await;
    client.hear().await;
    client.acknowledge().await;
    expect_word(&cluster, json!([3, "yes", true, null])).await;
    drop(client);
    expect_no_clients(&cluster.api(1)).await;
    cluster.api(1).get("/admin/v1/xds/dump?node_id=cart-1").await.expect_code(400_202);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_clients_is_for_operators() {
    let cluster = start(1).await;
    let mut client = Client::connect(&cluster, 1, "cart-1").await;
    client.hear().await;
    client.acknowledge().await;
    expect_word(&cluster, json!([1, "yes", true, null])).await;
    let open = GrpcClient::connect(cluster.grpc(1)).await;
    let fetch = async |client: &GrpcClient| {
        let question = ClientStatusRequest::default();
        client.call::<ClientStatusResponse>(FETCH, &question).await.map_err(|ended| ended.expect("a status").0)
    };
    assert_eq!(fetch(&open).await.map(|_| ()), Err(UNAUTHENTICATED));
    let reader = json!([{ "name": "eye", "grants": [{ "role": "reader", "namespace": "*" }] }]);
    let made = cluster.api(1).post("/auth/v1/tokens", &reader).await.expect_code(200_000);
    let secret = made.body["responses"][0]["token"]["secret"].as_str().expect("a secret").to_owned();
    assert_eq!(fetch(&open.with("authorization", secret)).await.map(|_| ()), Err(PERMISSION_DENIED));

    let operator = open.with("authorization", cluster.token());
    let told = fetch(&operator).await.expect("told");
    let [config] = &told.config[..] else { panic!("one client: {told:?}") };
    assert_eq!(config.node.as_ref().map(|node| node.id.as_str()), Some("cart-1"));
    let [routes] = &config.generic_xds_configs[..] else { panic!("one resource: {config:?}") };
    assert_eq!((routes.name.as_str(), routes.client_status()), (NAME, ClientResourceStatus::Acked));
    assert_eq!(routes.xds_config.as_ref().map(|any| any.type_url.as_str()), Some(ROUTES));
    let mut stream = operator.open(STREAM);
    for _ in 0..2 {
        stream.send(&ClientStatusRequest::default()).await;
        let told: ClientStatusResponse = stream.next().await.expect("told");
        assert_eq!(told.config.len(), 1);
    }
}
