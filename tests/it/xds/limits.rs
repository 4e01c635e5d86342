//! Breakers, probes and limits, as far as clients of xDS carry them out.

use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::drivers::{Client, Kind, Options, Request};
use super::world::{LIMIT, World, all_settle, release, when};
use crate::harness::{Api, Ports, eventually};

const BREAKERS: &str = "/naming/v1/circuitbreakers";
const PROBES: &str = "/naming/v1/faultdetectors";
const LIMITS: &str = "/naming/v1/ratelimits";

async fn in_force(api: &Api, family: &str, rule: Value) {
    let name = rule["name"].as_str().expect("a name").to_owned();
    api.post(family, &json!([rule])).await.expect_code(200_000);
    release(api, family, &name, json!({})).await;
}

/// A failing server is ejected by all clients for a while, and used again later.
#[tokio::test(flavor = "multi_thread")]
async fn failing_servers_are_left_out() {
    let mut world = World::start(1).await;
    let mut clients = world.clients().await;
    let breaker = json!({"name": "errors", "namespace": "shop", "level": "INSTANCE",
        "rule_matcher": {"source": {"service": "*", "namespace": "*"}, "destination": {"service": "pay",
            "namespace": "shop"}},
        "error_conditions": [{"input_type": "RET_CODE", "condition": {"type": "RANGE", "value": "500~599"}}],
        "trigger_condition": [{"trigger_type": "ERROR_RATE", "error_percent": 60, "interval": 1, "minimum_request": 5}],
        "max_ejection_percent": 50, "recover_condition": {"sleep_window": 3, "consecutive_success": 1}});
    in_force(&world.api(), BREAKERS, breaker).await;
    let request = Request::to("pay");
    all_settle(&mut clients, "all are well", &request, &world.pay()).await;
    let failing = world.pay()[0].clone();
    let others = world.pay()[1..].to_vec();
    world.backends.behave(&failing, 503, 13).await;
    all_settle(&mut clients, "one fails", &request, &others).await;
    world.backends.behave(&failing, 200, 0).await;
    all_settle(&mut clients, "it is well again", &request, &world.pay()).await;
    for client in &mut clients {
        client.expect_nothing_refused().await;
    }
}

/// Envoy probes the servers itself, and ejects one that does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn envoy_sends_the_probes_of_a_rule() {
    let mut world = World::start(1).await;
    let probe = json!({"name": "probe", "namespace": "shop", "target_service": {"service": "pay", "namespace": "shop"},
        "rules": [{"interval": 1, "timeout": 1, "protocol": "HTTP", "http_config": {"method": "GET",
            "url": "/health"}}]});
    in_force(&world.api(), PROBES, probe).await;
    for kind in [Kind::EnvoyDelta, Kind::EnvoySotw] {
        let mut client = Client::start(kind, &world.cluster, "cart", &Options::default()).await;
        let request = Request::to("pay");
        client.settles(LIMIT, "all answer probes", &request, &world.pay()).await;
        world.backends.probes().await;
        let backends = Mutex::new(&mut world.backends);
        eventually(LIMIT, "each server of the service is asked, and no other", || async {
            let probes = backends.lock().await.probes().await;
            let asked: Vec<_> = probes.values().map(|count| *count > 0).collect();
            if asked == [true, true, true, true, true, true, false, false] {
                Ok(())
            } else {
                Err(format!("{probes:?}"))
            }
        })
        .await;
        let silent = world.pay()[3].clone();
        let others: Vec<_> = world.pay().into_iter().filter(|server| *server != silent).collect();
        world.backends.down(&silent).await;
        client.settles(LIMIT, "one is silent", &request, &others).await;
        world.backends.up(&silent).await;
        client.settles(LIMIT, "it answers again", &request, &world.pay()).await;
        client.expect_nothing_refused().await;
    }
}

/// The sidecar of the service that is called counts, and refuses what is too much.
#[tokio::test(flavor = "multi_thread")]
async fn envoy_limits_what_comes_in() {
    let world = World::start(1).await;
    let application: u16 = world.pay()[0].rsplit_once(':').expect("a port").1.parse().expect("a number");
    let limit = |amount: u32| {
        json!({"name": "limit", "namespace": "shop", "service": "pay", "type": "LOCAL", "rules": [{"resource": "QPS",
            "arguments": [when("HEADER", "user", "EXACT", "eva")], "regex_combine": true,
            "amounts": [{"maxAmount": amount, "validDuration": "60s"}]}]})
    };
    in_force(&world.api(), LIMITS, limit(5)).await;
    for kind in [Kind::EnvoyDelta, Kind::EnvoySotw] {
        let inbound = Ports::reserve().grpc.port();
        let options = Options { inbound: Some((inbound, application)), ..Options::default() };
        let mut sidecar = Client::start(kind, &world.cluster, "pay", &options).await;
        let anybody = Request::to("pay");
        sidecar
            .comes_to(LIMIT, "calls come in", &anybody.clone().by_port(inbound), 1, |calls| calls.failed() == 0)
            .await;
        let eva = Request::to("pay").header("user", "eva").by_port(inbound);
        let calls = sidecar.call(&eva, 12).await;
        assert_eq!((calls.answered(), calls.errors.get("429")), (5, Some(&7)), "{kind:?}: {calls:?}");
        let others = sidecar.call(&Request::to("pay").header("user", "bob").by_port(inbound), 12).await;
        assert_eq!((others.answered(), others.failed()), (12, 0), "{kind:?}: {others:?}");
        // Whatever else changes leaves the counts alone; another amount does not.
        world.change(&world.pay()[1], json!({"weight": if kind == Kind::EnvoyDelta { 50 } else { 60 }})).await;
        sidecar.settles(LIMIT, "calls go out", &anybody, &world.pay()).await;
        let calls = sidecar.call(&eva, 3).await;
        assert_eq!((calls.answered(), calls.errors.get("429")), (0, Some(&3)), "{kind:?}: {calls:?}");
        sidecar.expect_nothing_refused().await;
    }
    let mut sidecar = sidecar_of_pay(&world, application).await;
    sidecar.expect_passed(5).await;
    let api = world.api();
    api.put(LIMITS, &json!([limit(2)])).await.expect_code(200_000);
    release(&api, LIMITS, "limit", json!({})).await;
    sidecar.expect_passed(2).await;
}

/// A sidecar with the port by which it is called.
struct Sidecar {
    client: Client,
    inbound: u16,
}

async fn sidecar_of_pay(world: &World, application: u16) -> Sidecar {
    let inbound = Ports::reserve().grpc.port();
    let options = Options { inbound: Some((inbound, application)), ..Options::default() };
    let mut client = Client::start(Kind::EnvoyDelta, &world.cluster, "pay", &options).await;
    client.settles(LIMIT, "calls go out", &Request::to("pay"), &world.pay()).await;
    Sidecar { client, inbound }
}

impl Sidecar {
    /// An amount is a bucket: of the calls made once it is active, exactly that many pass. The previous bucket is
    /// empty.
    async fn expect_passed(&mut self, amount: u64) {
        let eva = Request::to("pay").header("user", "eva").by_port(self.inbound);
        let mut passed = 0;
        // The bucket changes between two of the calls, wherever that is.
        let all = async {
            while passed < amount {
                passed += self.client.call(&eva, 12).await.answered();
            }
        };
        timeout(LIMIT, all).await.unwrap_or_else(|_| panic!("the other amount counts: {passed} passed"));
        let more = self.client.call(&eva, 12).await;
        assert_eq!((passed, more.answered()), (amount, 0), "{more:?}");
    }
}
