//! The door of gRPC: what is served, to whom, within which limits, and how streams end. What resources are in it, is
//! not looked at here.

use std::time::{Duration, Instant};

use serde_json::json;
use thuban::proto::envoy::config::core::v3::Node;
use thuban::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Cluster, GrpcCall, GrpcClient, GrpcEnded, Pki, eventually, report};

const LIMIT: Duration = Duration::from_secs(20);
/// Credentials are looked at each second or two, and files of authorities each other second.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// Long enough to open streams on all nodes before.
const EXPIRES_AFTER: Duration = Duration::from_secs(20);
pub(crate) const ADS: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const DELTA: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
pub(crate) const HEALTH: &str = "/grpc.health.v1.Health/Check";
pub(crate) const WATCH: &str = "/grpc.health.v1.Health/Watch";
const CLUSTERS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
/// Codes of gRPC.
const NOT_FOUND: u16 = 5;
pub(crate) const RESOURCE_EXHAUSTED: u16 = 8;
const UNIMPLEMENTED: u16 = 12;
const OK: u16 = 0;
const UNAVAILABLE: u16 = 14;
const UNAUTHENTICATED: u16 = 16;

/// `HealthCheckRequest` and `ServerReflectionRequest`, as far as they are used.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Asked {
    #[prost(string, tag = "1")]
    service: String,
    #[prost(string, tag = "7")]
    list_services: String,
}

/// `HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Told {
    #[prost(int32, tag = "1")]
    status: i32,
}

pub(crate) const SERVING: Told = Told { status: 1 };

fn first() -> DiscoveryRequest {
    let node = Node { id: "edge-1".into(), user_agent_name: "envoy".into(), ..Node::default() };
    DiscoveryRequest { node: Some(node), type_url: CLUSTERS.into(), ..DiscoveryRequest::default() }
}

/// The first request of a client whose node has a token in its metadata.
fn first_with(token: &str) -> DiscoveryRequest {
    let kind = Some(prost_types::value::Kind::StringValue(token.to_owned()));
    let fields = [("thuban_token".to_owned(), prost_types::Value { kind })].into();
    let mut first = first();
    first.node.as_mut().expect("a node").metadata = Some(prost_types::Struct { fields });
    first
}

/// Returns a client of a node that reports to be serving.
pub(crate) async fn client(cluster: &Cluster) -> GrpcClient {
    let client = GrpcClient::connect(cluster.grpc(1)).await;
    until_serving(&client).await;
    client
}

/// Waits until the node reports that it is serving.
async fn until_serving(client: &GrpcClient) {
    eventually(LIMIT, "the node serves streams", || async {
        let told = client.call::<Told>(HEALTH, &Asked::default()).await;
        if told == Ok(SERVING) { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
}

/// A stream that was answered once.
pub(crate) async fn stream(client: &GrpcClient) -> GrpcCall {
    let mut call = client.open(ADS);
    call.send(&first()).await;
    call.next::<DiscoveryResponse>().await.expect("clusters");
    call
}

/// The end of a stream that is refused.
pub(crate) async fn refused(client: &GrpcClient) -> GrpcEnded {
    let mut call = client.open(ADS);
    call.send(&first()).await;
    call.end().await
}

pub(crate) fn code(ended: &GrpcEnded) -> u16 {
    ended.as_ref().expect("a status").0
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_what_there_is_are_told_to_everybody() {
    let cluster = Cluster::start_with(1, &["--compat-auth", "required"]).await;
    let client = client(&cluster).await;
    let check = async |service: &str| {
        client.call::<Told>(HEALTH, &Asked { service: service.to_owned(), ..Asked::default() }).await
    };
    assert_eq!(check("").await, Ok(SERVING));
    assert_eq!(check("envoy.service.discovery.v3.AggregatedDiscoveryService").await, Ok(SERVING));
    assert_eq!(code(&check("nonsense").await.expect_err("no such service")), NOT_FOUND);
    let list = Asked { list_services: "*".to_owned(), ..Asked::default() };
    for version in ["v1", "v1alpha"] {
        let mut call = client.open(&format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"));
        call.send(&list).await;
        let told = call.next::<Raw>().await.expect("a list");
        let told = String::from_utf8_lossy(&told.list).into_owned();
        for service in ["discovery.v3.AggregatedDiscoveryService", "grpc.health.v1.Health"] {
            assert!(told.contains(service), "{version}: {told:?}");
        }
    }
    for path in [
        "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters",
        "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats",
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/Nonsense",
    ] {
        let ended = client.open(path).end().await;
        // A caller without credentials learns nothing of protected services.
        assert!([UNIMPLEMENTED, UNAUTHENTICATED].contains(&code(&ended)), "{path}: {ended:?}");
    }
    let mut plain = TcpStream::connect(cluster.grpc(1)).await.expect("it listens");
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    let mut told = String::new();
    plain.read_to_string(&mut told).await.expect("text");
    assert!(told.starts_with("HTTP/1.1 400 ") && told.contains("gRPC is spoken on this port"), "{told}");
}

/// `ServerReflectionResponse`: the list, not read further.
#[derive(Clone, PartialEq, prost::Message)]
struct Raw {
    #[prost(bytes = "vec", tag = "6")]
    list: Vec<u8>,
}

#[tokio::test(flavor = "multi_thread")]
async fn services_of_one_type_and_of_load_are_not_implemented() {
    let cluster = Cluster::start(1).await;
    let client = client(&cluster).await;
    for path in [
        "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters",
        "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats",
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/Nonsense",
    ] {
        assert_eq!(code(&client.open(path).end().await), UNIMPLEMENTED, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_reaches_streams_and_a_node_that_stops_ends_them() {
    let mut cluster = Cluster::start(1).await;
    let client = client(&cluster).await;
    let mut sotw = client.open(ADS);
    let mut request = first();
    let node = request.node.as_mut().expect("there");
    node.metadata = Some(prost_types::Struct {
        fields: [(
            "namespaces".to_owned(),
            prost_types::Value { kind: Some(prost_types::value::Kind::StringValue("*".to_owned())) },
        )]
        .into(),
    });
    sotw.send(&request).await;
    let answer = sotw.next::<DiscoveryResponse>().await.expect("clusters");
    assert_eq!((answer.type_url.as_str(), answer.resources.len()), (CLUSTERS, 0));
    request =
        DiscoveryRequest { version_info: answer.version_info, response_nonce: answer.nonce, node: None, ..request };
    sotw.send(&request).await;
    let mut delta = client.open(DELTA);
    let names = vec!["shop/pay".to_owned()];
    let asked = DeltaDiscoveryRequest { node: first().node, type_url: CLUSTERS.into(), ..Default::default() };
    delta.send(&DeltaDiscoveryRequest { resource_names_subscribe: names.clone(), ..asked }).await;
    let answer = delta.next::<DeltaDiscoveryResponse>().await.expect("at once");
    assert_eq!(answer.removed_resources, names, "what is not there is told");
    // The response is in flight until it is acknowledged, and no other one of its type is sent before.
    let acknowledged = DeltaDiscoveryRequest { response_nonce: answer.nonce, ..Default::default() };
    delta.send(&DeltaDiscoveryRequest { type_url: CLUSTERS.into(), ..acknowledged }).await;
    let mut watch = client.open(WATCH);
    watch.send(&Asked::default()).await;
    watch.finish();
    assert_eq!(watch.next().await, Ok(SERVING));

    let api = cluster.api(1);
    api.post("/naming/v1/services", &json!([{"namespace": "shop", "name": "pay"}])).await.expect_code(200_000);
    let answer = sotw.next::<DiscoveryResponse>().await.expect("the cluster");
    assert_eq!(answer.resources.len(), 1);
    let answer = delta.next::<DeltaDiscoveryResponse>().await.expect("the cluster");
    assert_eq!(answer.resources.iter().map(|resource| resource.name.as_str()).collect::<Vec<_>>(), ["shop/pay"]);
    let streams = api.metric(r#"thuban_connections{listener="grpc"}"#).await;
    assert_eq!(streams, Some(1.0));

    let stopping = tokio::spawn(async move { cluster.terminate(1).await });
    assert_eq!(code(&sotw.end().await), OK);
    assert_eq!(code(&delta.end().await), OK);
    let ended = match watch.next::<Told>().await {
        Ok(told) => {
            assert_ne!(told, SERVING, "it stops");
            watch.end().await
        }
        Err(ended) => ended,
    };
    assert_eq!(code(&ended), UNAVAILABLE);
    let begun = Instant::now();
    assert!(stopping.await.expect("no panic").success());
    report(format!("a node with open streams ended {:?} after they were told", begun.elapsed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_as_old_as_they_may_be() {
    let cluster = Cluster::start_with(1, &["--grpc-stream-max-age-ms", "1500"]).await;
    let client = client(&cluster).await;
    let mut call = stream(&client).await;
    let begun = Instant::now();
    assert_eq!(code(&call.end().await), OK);
    let lived = begun.elapsed();
    assert!(lived > Duration::from_millis(1200), "{lived:?}");
    stream(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_judged_before_a_stream_and_while_it_lasts() {
    let open = Cluster::start(1).await;
    let admin = open.api(1);
    let tokens = "/auth/v1/tokens";
    let grants = json!([{"role": "client", "namespace": "shop"}]);
    for name in ["kept", "deleted"] {
        admin.post("/naming/v1/services", &json!([{"namespace": name, "name": "pay"}])).await.expect_code(200_000);
    }
    let made = admin.post(tokens, &json!([{"name": "proxy", "grants": grants}])).await.expect_code(200_000);
    let token =
        made.body["responses"][0]["token"]["secret"].as_str().unwrap_or_else(|| panic!("a token in {made}")).to_owned();
    let client = client(&open).await;
    stream(&client).await;
    assert_eq!(code(&refused(&client.with("authorization", "Bearer nonsense")).await), UNAUTHENTICATED);
    let mut named = stream(&client.with("authorization", format!("Bearer {token}"))).await;
    let mut raw = stream(&client.with("authorization", token.clone())).await;
    admin.post(&format!("{tokens}/delete"), &json!([{"name": "proxy"}])).await.expect_code(200_000);
    assert_eq!(code(&named.end().await), UNAUTHENTICATED);
    assert_eq!(code(&raw.end().await), UNAUTHENTICATED);
    assert_eq!(code(&refused(&client.with("authorization", token)).await), UNAUTHENTICATED);

    let closed = Cluster::start_with(1, &["--compat-auth", "required"]).await;
    let client = self::client(&closed).await;
    assert_eq!(code(&refused(&client).await), UNAUTHENTICATED);
    stream(&client.with("authorization", format!("bearer {}", closed.token()))).await;
}

/// Clients that cannot send headers have their token in the first message: it is checked and watched like one in a
/// header, and shown nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_the_metadata_of_a_node_is_a_credential() {
    let cluster = Cluster::start_with(1, &["--compat-auth", "required"]).await;
    let admin = cluster.api(1);
    for name in ["kept", "shop"] {
        admin.post("/naming/v1/services", &json!([{"namespace": name, "name": "pay"}])).await.expect_code(200_000);
    }
    let grants = json!([{"role": "client", "namespace": "shop"}]);
    let made = admin.post("/auth/v1/tokens", &json!([{"name": "app", "grants": grants}])).await.expect_code(200_000);
    let token = made.body["responses"][0]["token"]["secret"].as_str().expect("a token").to_owned();
    let client = client(&cluster).await;
    let ended = async |first: DiscoveryRequest| {
        let mut call = client.open(ADS);
        call.send(&first).await;
        code(&call.end().await)
    };
    for wrong in ["", "nonsense"] {
        assert_eq!(ended(first_with(wrong)).await, UNAUTHENTICATED, "{wrong:?}");
    }
    assert_eq!(ended(first()).await, UNAUTHENTICATED);
    let mut call = client.open(ADS);
    let mut all = first_with(&token);
    let wanted = prost_types::value::Kind::StringValue("*".to_owned());
    let metadata = all.node.as_mut().and_then(|node| node.metadata.as_mut()).expect("metadata");
    metadata.fields.insert("namespaces".to_owned(), prost_types::Value { kind: Some(wanted) });
    call.send(&all).await;
    let clusters = call.next::<DiscoveryResponse>().await.expect("clusters");
    assert_eq!(clusters.resources.len(), 1, "what its rights show");
    for (path, shown) in [("/admin/v1/xds/clients", "edge-1"), ("/admin/v1/xds/dump?node_id=edge-1", "shop/pay")] {
        // The node notes what it sent after it has sent it.
        let answer = eventually(LIMIT, path, || async {
            let answer = admin.get(path).await.expect_code(200_000).to_string();
            if answer.contains(shown) { Ok(answer) } else { Err(answer) }
        })
        .await;
        assert!(!answer.contains(&token), "{path}: {answer}");
    }
    let asked = Asked::default();
    let told = client.with("authorization", format!("Bearer {}", cluster.token()));
    let csds = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
    let told = told.call::<Raw>(csds, &asked).await;
    assert!(!format!("{told:?}").contains(&token));
    admin.post("/auth/v1/tokens/delete", &json!([{"name": "app"}])).await.expect_code(200_000);
    assert_eq!(code(&call.end().await), UNAUTHENTICATED);
    assert_eq!(ended(first_with(&token)).await, UNAUTHENTICATED);
    // A header takes precedence.
    stream(&client.with("authorization", format!("bearer {}", cluster.token()))).await;
}

/// Each ends within seconds of what ends its credential, also on a node that had no part in that.
#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_their_credential_on_every_node() {
    let (pki, other) = (Pki::new().await, Pki::new().await);
    pki.sign("ann=ann").await;
    pki.sign("ben=ben").await;
    let authorities = pki.file("clients.pem");
    std::fs::copy(pki.ca(), &authorities).expect("copied");
    let flags = ["--tls-client-ca", &pki.path("clients.pem"), "--compat-auth", "required"];
    let cluster = pki.cluster(3, &flags).await;
    let admin = cluster.api(1);
    let grants = json!([{"role": "client", "namespace": "shop"}]);
    for name in ["ann", "ben", "person"] {
        let user = json!([{"name": name, "password": "a password of theirs", "grants": grants}]);
        admin.post("/auth/v1/users", &user).await.expect_code(200_000);
    }
    let login = json!({"name": "person", "password": "a password of theirs"});
    let login = admin.post("/auth/v1/user/login", &login).await.expect_code(200_000);
    let person = login.body["loginResponse"]["token"].as_str().expect("a token").to_owned();
    let mut tokens = vec![("person", person)];
    for (name, ends) in [("disabled", Duration::from_secs(3600)), ("expired", EXPIRES_AFTER)] {
        let token = json!([{"name": name, "grants": grants, "expires_in_s": ends.as_secs()}]);
        let made = admin.post("/auth/v1/tokens", &token).await.expect_code(200_000);
        tokens.push((name, made.body["responses"][0]["token"]["secret"].as_str().expect("a secret").to_owned()));
    }
    let expired = Instant::now() + EXPIRES_AFTER;
    let mut open = Vec::new();
    for id in cluster.ids() {
        let anybody = GrpcClient::secure(cluster.grpc(id), &pki.client()).await.expect("TLS");
        for (name, token) in &tokens {
            let client = anybody.with("authorization", format!("Bearer {token}"));
            open.push((*name, id, await_stream(&client).await));
        }
        for name in ["ann", "ben"] {
            let client = GrpcClient::secure(cluster.grpc(id), &pki.client_as(name)).await.expect("TLS");
            open.push((name, id, await_stream(&client).await));
        }
    }
    admin.put("/auth/v1/users", &json!([{"name": "person", "disabled": true}])).await.expect_code(200_000);
    admin.put("/auth/v1/users", &json!([{"name": "ann", "disabled": true}])).await.expect_code(200_000);
    admin.put("/auth/v1/tokens", &json!([{"name": "disabled", "disabled": true}])).await.expect_code(200_000);
    std::fs::copy(other.ca(), &authorities).expect("copied");
    let changed = Instant::now();
    open.sort_by_key(|(name, ..)| *name == "expired");
    for (name, id, mut call) in open {
        let since = if name == "expired" { expired } else { changed };
        let ended = tokio::time::timeout_at((since + ENDS_WITHIN).into(), call.end()).await;
        let ended = ended.unwrap_or_else(|_| panic!("the stream of {name} to node {id} goes on"));
        assert_eq!(code(&ended), UNAUTHENTICATED, "{name} at node {id}: {ended:?}");
    }
}

/// Opens a stream with a credential that the node applies in a moment.
async fn await_stream(client: &GrpcClient) -> GrpcCall {
    eventually(LIMIT, "the credential is known", || {
        let client = client.clone();
        async move {
            let mut call = client.open(ADS);
            call.send(&first()).await;
            call.next::<DiscoveryResponse>().await.map(|_| call).map_err(|ended| format!("{ended:?}"))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_sends_and_holds_is_limited() {
    const MIB: usize = 1024 * 1024;
    let cluster = Cluster::start_with(1, &["--connections-per-address", "8"]).await;
    let client = client(&cluster).await;
    let sized = |bytes: usize| {
        let node = Node { id: "x".repeat(bytes), ..Node::default() };
        DiscoveryRequest { node: Some(node), ..first() }
    };
    let mut call = client.open(ADS);
    call.send(&sized(MIB - 1024)).await;
    call.next::<DiscoveryResponse>().await.expect("an answer");
    drop(call);
    // Only Envoy has that many names; the limit is 16 MiB.
    let versions = |agent: &str| DeltaDiscoveryRequest {
        node: Some(Node { user_agent_name: agent.into(), ..Node::default() }),
        type_url: CLUSTERS.into(),
        initial_resource_versions: (0..2000).map(|one| (format!("shop/{one}"), "v".repeat(1000))).collect(),
        ..DeltaDiscoveryRequest::default()
    };
    let mut call = client.open(DELTA);
    call.send(&versions("envoy")).await;
    call.next::<DeltaDiscoveryResponse>().await.expect("an answer");
    drop(call);
    for bytes in [MIB + 1, 16 * MIB + 1] {
        let mut call = client.open(ADS);
        call.send(&sized(bytes)).await;
        assert_eq!(code(&call.end().await), RESOURCE_EXHAUSTED, "{bytes}");
    }
    let mut call = client.open(DELTA);
    call.send(&versions("gRPC C-core")).await;
    assert_eq!(code(&call.end().await), RESOURCE_EXHAUSTED);
    drop(call);
    let mut open = Vec::new();
    let ended = loop {
        let mut call = client.open(ADS);
        call.send(&first()).await;
        match call.next::<DiscoveryResponse>().await {
            Ok(_) => open.push(call),
            Err(ended) => break ended,
        }
        assert!(open.len() <= 8, "one too many is open");
    };
    assert_eq!(code(&ended), RESOURCE_EXHAUSTED);
    open.pop();
    eventually(LIMIT, "a place has become free", || {
        let client = client.clone();
        async move {
            let mut call = client.open(ADS);
            call.send(&first()).await;
            call.next::<DiscoveryResponse>().await.map(drop).map_err(|ended| format!("{ended:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_with_http_2_and_a_certificate_is_a_credential() {
    let pki = Pki::new().await;
    for certificate in ["admin=admin", "nobody=nobody"] {
        pki.sign(certificate).await;
    }
    let cluster = pki.cluster(1, &["--tls-client-ca", &pki.path("ca.pem"), "--compat-auth", "required"]).await;
    let address = cluster.grpc(1);
    let anonymous = GrpcClient::secure(address, &pki.client()).await.expect("TLS");
    until_serving(&anonymous).await;
    assert_eq!(code(&refused(&anonymous).await), UNAUTHENTICATED);
    let admin = GrpcClient::secure(address, &pki.client_as("admin")).await.expect("TLS");
    stream(&admin).await;
    assert_eq!(code(&refused(&admin.with("authorization", "Bearer nonsense")).await), UNAUTHENTICATED);
    let nobody = GrpcClient::secure(address, &pki.client_as("nobody")).await.expect("TLS");
    assert_eq!(code(&refused(&nobody).await), UNAUTHENTICATED);
    let mut plain = TcpStream::connect(address).await.expect("it listens");
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("sent");
    let mut told = String::new();
    plain.read_to_string(&mut told).await.expect("text");
    assert!(told.contains("HTTPS is spoken on this port"), "{told}");
}
