//! The services of Polaris on the ports of gRPC: what SDKs send and need back, by their messages alone.

mod config;
mod ends;

use std::time::Duration;

use serde_json::{Value, json};
use thuban::polaris::v1;

use crate::grpc::client;
use crate::harness::{Api, Cluster, GrpcCall, GrpcClient, eventually};

const WITHIN: Duration = Duration::from_secs(20);
const NAMING: &str = "/v1.PolarisGRPC";
/// Statuses of gRPC.
const OK: u16 = 0;
const UNIMPLEMENTED: u16 = 12;
const UNAUTHENTICATED: u16 = 16;
/// Kinds of discovery.
const INSTANCE: i32 = 1;
const ROUTING: i32 = 3;
const RATE_LIMIT: i32 = 4;
const CIRCUIT_BREAKER: i32 = 5;
const SERVICES: i32 = 6;
const FAULT_DETECTOR: i32 = 13;
const NEARBY: i32 = 102;

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn named(service: &str, revision: &str) -> v1::Service {
    v1::Service { namespace: text("shop"), name: text(service), revision: text(revision), ..v1::Service::default() }
}

fn asked(kind: i32, service: &str, revision: &str) -> v1::DiscoverRequest {
    v1::DiscoverRequest { r#type: kind, service: Some(named(service, revision)), direction: None }
}

/// An open stream of discovery.
struct Talk(GrpcCall);

impl Talk {
    fn open(client: &GrpcClient) -> Talk {
        Talk(client.open(&format!("{NAMING}/Discover")))
    }

    async fn ask(&mut self, question: &v1::DiscoverRequest) -> v1::DiscoverResponse {
        self.0.send(question).await;
        self.0.next().await.expect("an answer")
    }

    async fn of(&mut self, kind: i32, service: &str, revision: &str) -> v1::DiscoverResponse {
        self.ask(&asked(kind, service, revision)).await
    }
}

fn revision(answer: &v1::DiscoverResponse) -> String {
    answer.service.as_ref().and_then(|service| service.revision.clone()).expect("a revision")
}

fn instance(service: &str, host: &str, port: u32) -> v1::Instance {
    v1::Instance {
        namespace: text("shop"),
        service: text(service),
        host: text(host),
        port: Some(port),
        service_token: text(""),
        ..v1::Instance::default()
    }
}

async fn act(client: &GrpcClient, method: &str, instance: &v1::Instance) -> v1::Response {
    let answer = client.call::<v1::Response>(&format!("{NAMING}/{method}"), instance).await.expect("an answer");
    assert!(answer.info.is_some() && answer.code.is_some(), "{answer:?}");
    answer
}

/// A client with the token of the administrator, as SDKs send it.
async fn with_token(cluster: &Cluster) -> GrpcClient {
    let token = cluster.api(1).token().expect("a token").to_owned();
    client(cluster).await.with("x-polaris-token", token).with("user-agent", "grpc-go/1.51.0")
}

async fn publish(api: &Api, kind: &str, name: &str, item: Value) {
    api.post(&format!("/naming/v1/{kind}"), &item).await.expect_code(200_000);
    let release = json!([{"rule_name": name, "namespace": "shop"}]);
    api.post(&format!("/naming/v1/{kind}/releases"), &release).await.expect_code(200_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_sdk_registers_beats_and_deregisters() {
    let cluster = Cluster::start(1).await;
    let (anonymous, sdk) = (client(&cluster).await, with_token(&cluster).await);
    let check = v1::HealthCheck { r#type: 1, heartbeat: Some(v1::HeartbeatHealthCheck { ttl: Some(5) }) };
    let checked = v1::Instance { health_check: Some(check), ..instance("pay", "10.0.0.1", 80) };
    let plain = instance("pay", "10.0.0.2", 80);
    for method in ["RegisterInstance", "Heartbeat", "DeregisterInstance"] {
        let answer = act(&anonymous, method, &checked).await;
        assert_eq!((answer.code, answer.instance.is_some()), (Some(401_002), true), "{method}");
        let wrong = anonymous.with("x-polaris-token", "nonsense");
        assert_eq!(act(&wrong, method, &checked).await.code, Some(401_004), "{method}");
        let blank = anonymous.with("x-polaris-token", "");
        assert_eq!(act(&blank, method, &checked).await.code, Some(401_002), "{method}: an empty token is none");
    }
    // A heartbeat of an unknown instance makes an SDK register again.
    assert_eq!(act(&sdk, "Heartbeat", &checked).await.code, Some(400_202));
    for one in [&checked, &plain] {
        for _ in 0..2 {
            let answer = act(&sdk, "RegisterInstance", one).await;
            assert_eq!(answer.code, Some(200_000), "{answer:?}");
            assert_eq!(answer.instance.and_then(|one| one.id).map(|id| id.len()), Some(40));
        }
        // One without a health check needs no heartbeats, and may send them.
        let with_id = v1::Instance { id: text(""), ..one.clone() };
        assert_eq!(act(&sdk, "Heartbeat", &with_id).await.code, Some(200_000));
    }
    let report = v1::Client { host: text("10.0.0.9"), version: text("v1.7.0"), ..v1::Client::default() };
    let path = format!("{NAMING}/ReportClient");
    let answer = sdk.call::<v1::Response>(&path, &report).await.expect("an answer");
    let location = answer.client.and_then(|client| client.location);
    assert_eq!((answer.code, location.is_some()), (Some(200_000), true), "one without a location asks again at once");
    let wrong = v1::Instance { host: text("a b"), ..plain.clone() };
    let refused = act(&sdk, "RegisterInstance", &wrong).await;
    assert_eq!((refused.code, refused.instance.and_then(|one| one.host)), (Some(400_131), text("a b")));
    for _ in 0..2 {
        assert_eq!(act(&sdk, "DeregisterInstance", &plain).await.code, Some(200_000));
    }
    for method in ["ReportServiceContract", "GetServiceContract"] {
        let path = format!("/v1.PolarisServiceContractGRPC/{method}");
        let answer = sdk.call::<v1::Response>(&path, &v1::ServiceContract {}).await.expect("an answer");
        assert_eq!(answer.code, Some(200_000));
    }
    for path in ["/v1.PolarisHeartbeatGRPC/BatchHeartbeat", "/v1.PolarisGRPC/WatchClientEvents"] {
        let ended = sdk.open(path).end().await.expect("a status");
        assert_eq!(ended.0, UNIMPLEMENTED, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_has_exactly_one_answer() {
    let cluster = Cluster::start(1).await;
    let sdk = with_token(&cluster).await;
    let mut talk = Talk::open(&sdk);
    for kind in [1, 2, 3, 4, 5, 6, 12, 13, 100, 101, 102, 103, 104, 105, 106, 107] {
        let answer = talk.of(kind, "nobody", "old").await;
        let service = answer.service.as_ref().expect("a service");
        let expected = if kind == INSTANCE { 400_202 } else { 200_000 };
        assert_eq!((answer.r#type, answer.code), (kind, Some(expected)), "{kind}");
        assert_eq!((&service.name, &service.namespace), (&text("nobody"), &text("shop")), "{kind}");
        assert!(answer.info.is_some() && answer.direction.is_none(), "{kind}");
        let is_list = kind == SERVICES;
        assert_eq!(service.revision == text(""), !is_list, "{kind}: a cached value would stay otherwise");
    }
    let answer = talk.of(ROUTING, "nobody", "").await;
    let routing = answer.routing.expect("also without rules");
    assert_eq!((routing.inbounds.len(), routing.outbounds.len(), routing.revision), (0, 0, text("")));
    let unknown = talk.of(0, "nobody", "").await;
    assert_eq!((unknown.code, unknown.r#type), (Some(400_004), 0));
    let directed = v1::DiscoverRequest { direction: Some(1), ..asked(ROUTING, "nobody", "") };
    assert_eq!(talk.ask(&directed).await.direction, Some(1));
    let nameless = v1::Service { namespace: None, ..named("nobody", "") };
    let nameless = v1::DiscoverRequest { service: Some(nameless), ..asked(ROUTING, "", "") };
    assert_eq!(talk.ask(&nameless).await.service.and_then(|service| service.namespace), text(""));
    // A burst is answered in order, and what was asked before the end is answered.
    for number in 0..200 {
        talk.0.send(&asked(RATE_LIMIT, &format!("s{number}"), "")).await;
    }
    talk.0.finish();
    for number in 0..200 {
        let answer = talk.0.next::<v1::DiscoverResponse>().await.expect("an answer");
        assert_eq!(answer.service.and_then(|service| service.name), text(&format!("s{number}")));
    }
    assert_eq!(talk.0.end().await.expect("a status").0, OK);
    // A probe has no service, and ends a stream that it begins.
    for (kind, expected) in [(0, 400_004), (100, 400_004), (CIRCUIT_BREAKER, 200_000), (NEARBY, 200_000)] {
        let mut probe = Talk::open(&sdk);
        let answer = probe.ask(&v1::DiscoverRequest { r#type: kind, ..v1::DiscoverRequest::default() }).await;
        assert_eq!((answer.code, answer.r#type), (Some(expected), kind));
        assert_eq!(probe.0.end().await.expect("a status").0, OK);
    }
    let mut closed = Talk::open(&client(&cluster).await.with("x-polaris-token", "nonsense"));
    closed.0.send(&asked(INSTANCE, "pay", "")).await;
    assert_eq!(closed.0.end().await.expect("a status").0, UNAUTHENTICATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_and_rules_are_those_in_force() {
    let cluster = Cluster::start(3).await;
    let (api, sdk) = (cluster.api(1), with_token(&cluster).await);
    let one = v1::Instance {
        metadata: [("zone".to_owned(), "a".to_owned())].into(),
        weight: Some(0),
        ..instance("pay", "10.0.0.1", 80)
    };
    assert_eq!(act(&sdk, "RegisterInstance", &one).await.code, Some(200_000));
    let alias = json!([{"namespace": "shop", "service": "pay", "alias": "checkout", "alias_namespace": "shop"}]);
    api.post("/naming/v1/service/alias", &alias).await.expect_code(200_000);
    publish(
        &api,
        "ratelimits",
        "limit",
        json!([{"name": "limit", "namespace": "shop", "service": "pay",
        "type": "LOCAL", "rules": [{"amounts": [{"maxAmount": 7, "validDuration": "1s"}]}]}]),
    )
    .await;
    publish(
        &api,
        "routings",
        "route",
        json!([{"name": "route", "namespace": "shop", "route_policy": "RulePolicy",
        "routing_config": {"rules": [{"name": "s", "destinations": [{"service": "pay", "name": "g"}]}]}}]),
    )
    .await;
    publish(
        &api,
        "circuitbreakers",
        "breaker",
        json!([{"name": "breaker", "namespace": "shop", "level": "SERVICE",
        "rule_matcher": {"destination": {"service": "pay", "namespace": "shop"}}, "block_configs": [{
            "trigger_conditions": [{"trigger_type": "CONSECUTIVE_ERROR", "error_count": 3}]}]}]),
    )
    .await;
    publish(
        &api,
        "faultdetectors",
        "probe",
        json!([{"name": "probe", "namespace": "shop", "service": "pay",
        "rules": [{"interval": 5, "timeout": 2, "protocol": "TCP"}]}]),
    )
    .await;
    publish(
        &api,
        "routings",
        "near",
        json!([{"name": "near", "namespace": "shop", "route_policy": "NearbyPolicy",
        "routing_config": {"service": "pay", "namespace": "shop", "match_level": "ZONE"}}]),
    )
    .await;
    let mut talk = Talk::open(&sdk);
    let instances = talk.of(INSTANCE, "checkout", "").await;
    assert_eq!(instances.alias_for.as_ref().and_then(|to| to.name.clone()), text("pay"));
    let [found] = &instances.instances[..] else { panic!("{instances:?}") };
    assert_eq!((found.weight, found.healthy, found.service.clone()), (Some(0), Some(true), text("pay")));
    let limits = talk.of(RATE_LIMIT, "checkout", "").await.rate_limit.expect("limits");
    assert_eq!((limits.rules[0].service.clone(), limits.rules[0].r#type), (text("checkout"), 1), "the alias, LOCAL");
    let mut revisions = Vec::new();
    for kind in [INSTANCE, SERVICES, ROUTING, RATE_LIMIT, CIRCUIT_BREAKER, FAULT_DETECTOR, NEARBY] {
        let answer = talk.of(kind, "pay", "").await;
        assert_eq!(answer.code, Some(200_000), "{kind}");
        let own = match kind {
            INSTANCE => (answer.instances.len(), None),
            SERVICES => (answer.services.len(), None),
            ROUTING => {
                let routing = answer.routing.clone().expect("routes");
                (routing.inbounds.len(), routing.revision)
            }
            RATE_LIMIT => {
                let limits = answer.rate_limit.clone().expect("limits");
                (limits.rules.len(), limits.revision)
            }
            CIRCUIT_BREAKER => {
                let breakers = answer.circuit_breaker.clone().expect("breakers");
                (breakers.rules.len(), breakers.revision)
            }
            FAULT_DETECTOR => {
                let probes = answer.fault_detector.clone().expect("probes");
                assert_eq!(probes.rules[0].timeout, 2000);
                (probes.rules.len(), Some(probes.revision))
            }
            _ => (answer.nearby_route_rules.len(), None),
        };
        let known = revision(&answer);
        assert_eq!(own.0, 1, "{kind}: {answer:?}");
        assert!(own.1.is_none_or(|own| own == known), "{kind}: both revisions are equal");
        let again = talk.of(kind, "pay", &known).await;
        assert_eq!((again.code, revision(&again)), (Some(200_001), known.clone()), "{kind}");
        assert!(again.instances.is_empty() && again.services.is_empty() && again.routing.is_none(), "{kind}");
        revisions.push((kind, known));
    }
    cluster.expect_equal_state().await;
    // A client that goes on with another node has what it has.
    let token = api.token().expect("a token").to_owned();
    let other = GrpcClient::connect(cluster.grpc(2)).await.with("x-polaris-token", token);
    let mut talk = Talk::open(&other);
    for (kind, known) in &revisions {
        assert_eq!(talk.of(*kind, "pay", known).await.code, Some(200_001), "{kind}");
    }
    api.post("/naming/v1/ratelimits/delete", &json!([{"name": "limit", "namespace": "shop"}])).await;
    let known = &revisions.iter().find(|(kind, _)| *kind == RATE_LIMIT).expect("limits").1;
    eventually(WITHIN, "the limit is gone", || async {
        let answer = Talk::open(&other).of(RATE_LIMIT, "pay", known).await;
        let is_gone = answer.code == Some(200_000) && answer.rate_limit.is_none() && revision(&answer).is_empty();
        if is_gone { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gray_rule_reaches_the_client_that_its_instance_describes_and_is_known_of_it() {
    let cluster = Cluster::start(1).await;
    let (api, sdk) = (cluster.api(1), with_token(&cluster).await);
    let amount = |max: u32| {
        json!([{"name": "limit", "namespace": "shop", "service": "pay", "type": "LOCAL",
            "rules": [{"amounts": [{"maxAmount": max, "validDuration": "1s"}]}]}])
    };
    publish(&api, "ratelimits", "limit", amount(1)).await;
    api.put("/naming/v1/ratelimits", &amount(2)).await.expect_code(200_000);
    let gray = json!([{"rule_name": "limit", "namespace": "shop", "release_name": "gray", "release_type": "gray",
        "client_labels": [{"key": "zone", "value": {"type": "EXACT", "value": "a"}}]}]);
    api.post("/naming/v1/ratelimits/releases", &gray).await.expect_code(200_000);
    let report = v1::Client { version: text("v1.7.0"), ..v1::Client::default() };
    sdk.call::<v1::Response>(&format!("{NAMING}/ReportClient"), &report).await.expect("an answer");
    let max = |answer: v1::DiscoverResponse| {
        let limits = answer.rate_limit.expect("limits");
        limits.rules[0].amounts[0].max_amount.expect("an amount")
    };
    assert_eq!(max(Talk::open(&sdk).of(RATE_LIMIT, "pay", "").await), 1);
    // The client is known by its address; the instance on it has the label.
    let own =
        v1::Instance { metadata: [("zone".to_owned(), "a".to_owned())].into(), ..instance("web", "127.0.0.1", 80) };
    assert_eq!(act(&sdk, "RegisterInstance", &own).await.code, Some(200_000));
    assert_eq!(max(Talk::open(&sdk).of(RATE_LIMIT, "pay", "").await), 2);
    let path = "/naming/v1/ratelimits/subscribers?rule_name=limit&namespace=shop";
    let answer = api.get(path).await.expect_code(200_000);
    let [row] = &answer.body["data"].as_array().expect("rows")[..] else { panic!("{answer}") };
    assert_eq!((&row["protocol"], &row["release_name"]), (&json!("polaris"), &json!("gray")), "{row}");
    assert_eq!(row["agent"], json!("polaris/v1.7.0 grpc-go/1.51.0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_need_a_token_where_all_clients_do() {
    let cluster = Cluster::start_with(1, &["--compat-auth", "required"]).await;
    let anonymous = client(&cluster).await;
    let mut talk = Talk::open(&anonymous);
    talk.0.send(&asked(INSTANCE, "pay", "")).await;
    assert_eq!(talk.0.end().await.expect("a status").0, UNAUTHENTICATED);
    assert_eq!(config::get(&anonymous, &config::file(0)).await.code, Some(401_002));
    let sdk = with_token(&cluster).await;
    assert_eq!(Talk::open(&sdk).of(INSTANCE, "pay", "").await.code, Some(400_202));
    assert_eq!(config::get(&sdk, &config::file(0)).await.code, Some(400_202));
}
