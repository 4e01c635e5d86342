//! Clients with TLS, and permissions.

use serde_json::json;

use super::drivers::{Client, Kind, Options, Request};
use super::world::{LIMIT, World};
use crate::harness::Pki;

/// Clients send a token over TLS, Envoy in a header and gRPC in the metadata of its node; without a required token a
/// client sees nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_by_tls() {
    let pki = Pki::new().await;
    let world = World::over(pki.cluster(3, &["--compat-auth", "required"]).await).await;
    let user = json!([{"name": "mesh", "password": "a password of mesh", "grants": [{"role": "client",
        "namespace": "shop"}]}]);
    world.api().post("/auth/v1/users", &user).await.expect_code(200_000);
    let login = json!({"name": "mesh", "password": "a password of mesh"});
    let login = world.api().post("/auth/v1/user/login", &login).await.expect_code(200_000);
    let token = world.cluster.file("token");
    std::fs::write(&token, login.body["loginResponse"]["token"].as_str().expect("a token")).expect("writable");
    let token = token.to_str().expect("text").to_owned();
    let trust = ["--ca-file".to_owned(), pki.path("ca.pem")];
    let with_token =
        Options { flags: [&trust[..], &["--token-file".to_owned(), token]].concat(), ..Options::default() };
    for kind in [Kind::EnvoyDelta, Kind::EnvoySotw] {
        let mut client = Client::start(kind, &world.cluster, "cart", &with_token).await;
        client.settles(LIMIT, "by TLS with a token", &Request::to("pay"), &world.pay()).await;
        client.expect_nothing_refused().await;
    }
    let of_grpc = Options { servers: Some(one_name(&world)), ..with_token };
    let mut client = Client::start(Kind::Grpc, &world.cluster, "cart", &of_grpc).await;
    client.settles(LIMIT, "by TLS with a token", &Request::to("pay"), &world.pay()).await;
    let without = Options { flags: trust.to_vec(), servers: Some(one_name(&world)), ..Options::default() };
    for kind in [Kind::Grpc, Kind::EnvoyDelta] {
        let mut client = Client::start(kind, &world.cluster, "other", &without).await;
        let calls = client.call(&Request::to("pay"), 2).await;
        assert_eq!((calls.answered(), calls.failed()), (0, 2), "{kind:?}: {calls:?}");
    }
}

/// Clients without a token see the same, if none is wanted.
#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_client_trusts_the_authority_of_the_nodes() {
    let pki = Pki::new().await;
    let world = World::over(pki.cluster(1, &["--compat-auth", "optional"]).await).await;
    let trust = vec!["--ca-file".to_owned(), pki.path("ca.pem")];
    let options = Options { flags: trust, servers: Some(one_name(&world)), ..Options::default() };
    let mut client = Client::start(Kind::Grpc, &world.cluster, "cart", &options).await;
    client.settles(LIMIT, "by TLS", &Request::to("pay"), &world.pay()).await;
    let strangers = Pki::new().await;
    let trust = vec!["--ca-file".to_owned(), strangers.path("ca.pem")];
    let options = Options { flags: trust, servers: Some(one_name(&world)), ..Options::default() };
    let mut client = Client::start(Kind::Grpc, &world.cluster, "cart", &options).await;
    let calls = client.call(&Request::to("pay"), 2).await;
    assert_eq!((calls.answered(), calls.failed()), (0, 2), "{calls:?}");
}

/// gRPC compares the certificate with one name.
fn one_name(world: &World) -> String {
    format!("localhost:{}", world.cluster.ports(1).grpc.port())
}
