//! gRPC clients in Go, Java and Node, where they differ from C-core in what they are given or do.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::drivers::{Calls, Client, Driven, Kind, Options, Request};
use super::world::{INSTANCES, LIMIT, World, all_settle, group, publish, sub_rule};
use crate::harness::{Cluster, Pki, Ports, report};

const FLOW: &str = "on and on";
/// Callers of all clients together, which make about 1,000 calls a second.
const CALLERS: usize = 6;
const AGE_MS: &str = "1000";
/// Consecutive changes while a node is down or just restarted.
const CHANGES: usize = 4;
/// Password of the minimum length of keytool.
const STORE_PASSWORD: &str = "authority";

/// Each change names a group of labels that no client has had a cluster for.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_while_rules_move() {
    let mut world = World::start(3).await;
    let mut clients = world.clients_of(&Kind::languages(), "cart", &[]).await;
    let request = Request::to("pay");
    all_settle(&mut clients, "no rule", &request, &world.pay()).await;
    let callers = CALLERS / clients.len().max(1);
    for client in &mut clients {
        client.flow_wide(FLOW, &request, callers).await;
    }
    let began = Instant::now();
    for number in 0..12_u8 {
        let version = number % 3 + 1;
        let labels = json!({"version": {"type": "IN", "value": format!("v{version},x{number}")}});
        let to = json!({"service": "pay", "namespace": "shop", "name": "new", "labels": labels});
        publish(&world.api(), "parts", &[sub_rule(&[], &[to])]).await;
        all_settle(&mut clients, "a new group", &request, &world.version(version)).await;
    }
    expect_none_failed(&mut clients, began.elapsed()).await;
    world.backends.counts().await;
}

/// Clients have routes of a node that is gone, or of a stream that has ended. Each change names a group of labels that
/// no client has had a cluster for.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_while_nodes_die_and_rules_move() {
    let cluster = Cluster::start_with(3, &["--grpc-stream-max-age-ms", AGE_MS]).await;
    let mut world = World::over(cluster).await;
    let mut clients = world.clients_of(&Kind::languages(), "cart", &[]).await;
    let request = Request::to("pay");
    all_settle(&mut clients, "no rule", &request, &world.pay()).await;
    for client in &mut clients {
        client.flow_wide(FLOW, &request, 2).await;
    }
    let (began, mut number) = (Instant::now(), 0);
    for id in world.cluster.ids() {
        for is_dead in [true, false] {
            match is_dead {
                true => world.cluster.kill(id).await,
                false => world.cluster.restart(id).await,
            }
            world.cluster.leader().await;
            let mut version = 1;
            for _ in 0..CHANGES {
                number += 1;
                version = u8::try_from(number % 3 + 1).expect("small");
                let labels = json!({"version": {"type": "IN", "value": format!("v{version},x{number}")}});
                let to = json!({"service": "pay", "namespace": "shop", "name": "new", "labels": labels});
                publish(&world.api(), "parts", &[sub_rule(&[], &[to])]).await;
            }
            all_settle(&mut clients, "a node died or is back", &request, &world.version(version)).await;
        }
    }
    expect_none_failed(&mut clients, began.elapsed()).await;
}

async fn expect_none_failed(clients: &mut [Client], during: Duration) {
    for client in clients {
        let calls = client.stop(FLOW).await;
        let (answered, failed) = (calls.answered(), calls.failed());
        report(format!("{:?}: {answered} calls in {during:?}, {failed} failed", client.kind));
        assert!(failed == 0 && answered > 100, "{:?}: {calls:?}", client.kind);
        client.expect_nothing_refused().await;
    }
}

/// Calls continue while streams end every second, and while no node is reachable.
#[tokio::test(flavor = "multi_thread")]
async fn streams_end_of_age_and_all_nodes_restart() {
    let cluster = Cluster::start_with(3, &["--grpc-stream-max-age-ms", AGE_MS]).await;
    let mut world = World::over(cluster).await;
    let mut clients = world.clients_of(&Kind::languages(), "cart", &[]).await;
    let request = Request::to("pay");
    all_settle(&mut clients, "no rule", &request, &world.pay()).await;
    for client in &mut clients {
        client.flow(FLOW, &request).await;
    }
    let began = Instant::now();
    let mut version = 1;
    while began.elapsed() < Duration::from_secs(3) {
        put_in_force(&world, version).await;
        all_settle(&mut clients, "a stream has ended", &request, &world.version(version)).await;
        version = version % 3 + 1;
    }
    world.cluster.kill_all().await;
    for client in &mut clients {
        let calls = client.call(&request, 10).await;
        assert_eq!(calls.failed(), 0, "{:?}, without a node: {calls:?}", client.kind);
    }
    world.cluster.restart_all().await;
    world.cluster.log_in_again().await;
    put_in_force(&world, version).await;
    all_settle(&mut clients, "all nodes are back", &request, &world.version(version)).await;
    expect_none_failed(&mut clients, began.elapsed()).await;
}

async fn put_in_force(world: &World, version: u8) {
    publish(&world.api(), "parts", &[sub_rule(&[], &[group(&format!("v{version}"), json!({}))])]).await;
}

/// Clients that show no certificate get in by a token in the metadata of their node.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_lets_a_client_in() {
    let world = World::over(Cluster::start_with(1, &["--compat-auth", "required"]).await).await;
    let user = json!([{"name": "mesh", "password": "a password of mesh", "grants": [{"role": "client",
        "namespace": "shop"}]}]);
    world.api().post("/auth/v1/users", &user).await.expect_code(200_000);
    let login = json!({"name": "mesh", "password": "a password of mesh"});
    let login = world.api().post("/auth/v1/user/login", &login).await.expect_code(200_000);
    let token = login.body["loginResponse"]["token"].as_str().expect("a token").to_owned();
    let file = world.cluster.file("token");
    std::fs::write(&file, &token).expect("writable");
    let right = file.to_str().expect("text").to_owned();
    let mut clients = world.clients_of(&Kind::languages(), "cart", &["--token-file", &right]).await;
    all_settle(&mut clients, "with a token", &Request::to("pay"), &world.pay()).await;
    let rows = world.api().get("/admin/v1/xds/clients").await.expect_code(200_000);
    assert!(!rows.to_string().contains(&token), "the token is shown: {rows}");
    std::fs::write(&file, "unknown").expect("writable");
    for client in &mut world.clients_of(&Kind::languages(), "other", &["--token-file", &right]).await {
        let calls = client.call(&Request::to("pay"), 2).await;
        assert_eq!((calls.answered(), calls.failed()), (0, 2), "{:?}: {calls:?}", client.kind);
    }
}

/// The newest grpc-go reads the authority from its bootstrap, grpc-java from the store of its JVM. The others refuse a
/// bootstrap with TLS.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_trusts_the_authority_of_the_nodes() {
    let pki = Pki::new().await;
    let world = World::over(pki.cluster(1, &["--compat-auth", "optional"]).await).await;
    let servers = Some(format!("localhost:{}", world.cluster.ports(1).grpc.port()));
    for (authority, is_right) in [(&pki, true), (&Pki::new().await, false)] {
        for kind in [Kind::Go, Kind::Java] {
            let flags = vec!["--ca-file".to_owned(), authority.path("ca.pem")];
            let environment = match kind {
                Kind::Java => vec![("THUBAN_JAVA_OPTIONS", store_of_a_jvm(authority).await)],
                _ => Vec::new(),
            };
            let options = Options { flags, servers: servers.clone(), environment, ..Options::default() };
            let client = Client::start_if_there(kind, &world.cluster, "cart", &options).await;
            let Some(mut client) = client else { continue };
            if is_right {
                client.settles(LIMIT, "by TLS", &Request::to("pay"), &world.pay()).await;
            } else {
                let calls = client.call(&Request::to("pay"), 2).await;
                assert_eq!((calls.answered(), calls.failed()), (0, 2), "{kind:?}: {calls:?}");
            }
        }
    }
}

/// Options of a JVM that trusts this authority and no other.
async fn store_of_a_jvm(authority: &Pki) -> String {
    let store = authority.path("ca.p12");
    let mut command = Command::new("keytool");
    command.args(["-importcert", "-noprompt", "-alias", "ca", "-file", &authority.path("ca.pem")]);
    command.args(["-keystore", &store, "-storetype", "PKCS12", "-storepass", STORE_PASSWORD]);
    // Without a JDK there is no client either.
    if let Ok(made) = command.output().await {
        assert!(made.status.success(), "{made:?}");
    }
    format!("-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword={STORE_PASSWORD}")
}

/// A server that asks where it listens is answered, and called as soon as it is registered.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_announced_how_to_listen() {
    let world = World::start(3).await;
    let by_name = ["--default-namespace", "shop"];
    let mut clients = world.clients_of(&Kind::languages(), "cart", &by_name).await;
    for kind in Kind::languages() {
        let Some((mut server, address)) = serve(kind, &world).await else { continue };
        let mode = server.line("whether it serves").await;
        assert_eq!(mode, json!({"mode": "SERVING"}), "{kind:?}");
        let (host, port) = address.rsplit_once(':').expect("host and port");
        let port: u16 = port.parse().expect("a port");
        let service = match kind {
            Kind::Java => "of-java",
            Kind::Node => "of-node",
            _ => "of-go",
        };
        let item = json!([{"namespace": "shop", "service": service, "host": host, "port": port}]);
        world.api().post(INSTANCES, &item).await.expect_code(200_000);
        all_settle(&mut clients, "an announced server", &Request::to(service).short(), std::slice::from_ref(&address))
            .await;
        if kind == Kind::Node {
            expect_that_node_refuses_a_slash(&world, &address).await;
        }
    }
}

/// A client in Node sends its target as the authority, and Node's HTTP/2 refuses one with a slash.
async fn expect_that_node_refuses_a_slash(world: &World, address: &str) {
    let request = Request::to("of-node");
    for mut client in world.clients_of(&Kind::languages(), "other", &[]).await {
        let is_refused = |calls: &Calls| calls.answered() == 0 && calls.errors.contains_key("INTERNAL");
        match client.kind {
            Kind::Node => drop(client.comes_to(LIMIT, "it is refused", &request, 2, is_refused).await),
            _ => client.settles(LIMIT, "a target with a slash", &request, &[address.to_owned()]).await,
        }
    }
}

/// A server by xDS; nothing where its language is left out.
async fn serve(kind: Kind, world: &World) -> Option<(Driven, String)> {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let bootstrap = directory.path().join("bootstrap.json");
    world.write_bootstrap(kind, "server", &[], &bootstrap).await;
    let mut made: Value = serde_json::from_slice(&std::fs::read(&bootstrap).expect("readable")).expect("JSON");
    made["server_listener_resource_name_template"] = json!("server/%s");
    std::fs::write(&bootstrap, made.to_string()).expect("writable");
    let mut command = kind.command(&bootstrap).await?;
    let address = Ports::reserve().grpc.to_string();
    command.args(["server", &address]);
    let (server, _) = Driven::start(command, directory).await;
    Some((server, address))
}
