//! TLS between the services themselves: the name that a client checks is that of its target.

use serde_json::{Value, json};

use super::drivers::{Backends, Client, Kind, Request};
use super::world::{INSTANCES, LIMIT, World};
use crate::harness::Pki;

/// Clients of all libraries that call `xds:///SERVICE`.
async fn clients(world: &World) -> Vec<Client> {
    let kinds: Vec<Kind> = [Kind::Grpc].into_iter().chain(Kind::languages()).collect();
    world.clients_of(&kinds, "cart", &["--default-namespace", "shop"]).await
}

async fn register(world: &World, service: &str, addresses: &[String]) {
    let item = |address: &String| {
        let (host, port) = address.rsplit_once(':').expect("host and port");
        let port: u16 = port.parse().expect("a port");
        json!({"namespace": "shop", "service": service, "host": host, "port": port})
    };
    let items: Vec<Value> = addresses.iter().map(item).collect();
    world.api().post(INSTANCES, &json!(items)).await.expect_code(200_000);
}

async fn expect_refused(client: &mut Client, what: &str, request: &Request) {
    let calls = client.call(request, 2).await;
    assert_eq!((calls.answered(), calls.failed()), (0, 2), "{:?}, {what}: {calls:?}", client.kind);
}

/// A certificate has the name of the service. Nodes configure no TLS between services, so that xDS credentials use
/// their fallback.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_checks_the_name_of_the_service_that_it_calls() {
    let (pki, strangers) = (Pki::new().await, Pki::new().await);
    pki.sign("safe=safe").await;
    let backends = Backends::start_secure(2, &pki.path("safe.pem"), &pki.path("safe-key.pem")).await;
    let world = World::start(1).await;
    register(&world, "safe", &backends.addresses).await;
    // The same servers under a name that their certificate has not.
    register(&world, "other", &backends.addresses).await;
    let (right, wrong) = (pki.path("ca.pem"), strangers.path("ca.pem"));
    for by_xds in [false, true] {
        for client in &mut clients(&world).await {
            let safe = Request::to("safe").short().secure(&right, by_xds);
            client.settles(LIMIT, "by TLS", &safe, &backends.addresses).await;
            let other = Request::to("other").short().secure(&right, by_xds);
            expect_refused(client, "a certificate for another name", &other).await;
            client.expect_nothing_refused().await;
        }
        for client in &mut clients(&world).await {
            let stranger = Request::to("safe").short().secure(&wrong, by_xds);
            expect_refused(client, "another authority", &stranger).await;
        }
    }
}
