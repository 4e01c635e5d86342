//! Programs: tokens of the provider on every listener.

use serde_json::{Value, json};
use thuban::proto::envoy::config::core::v3::Node;
use thuban::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

use super::provider::{AUDIENCE, CLIENT, now};
use super::{SERVICES, SsoCluster};
use crate::grpc::ADS;
use crate::harness::{Api, GrpcClient};

const FILE: &str = "/configs/app/default/application";
const CLUSTERS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const UNAUTHENTICATED: u16 = 16;

/// The first request of a stream, with a token in the metadata of the node if there is one.
fn first(token: Option<&str>) -> DiscoveryRequest {
    let text = |token: &str| prost_types::Value { kind: Some(prost_types::value::Kind::StringValue(token.to_owned())) };
    let fields = token.map(|token| ("thuban_token".to_owned(), text(token)));
    let metadata = Some(prost_types::Struct { fields: fields.into_iter().collect() });
    let node = Node { id: "edge-1".into(), user_agent_name: "envoy".into(), metadata, ..Node::default() };
    DiscoveryRequest { node: Some(node), type_url: CLUSTERS.into(), ..DiscoveryRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bearer_token_is_a_credential_on_every_listener() {
    let sso = SsoCluster::start(3, &["--compat-auth", "required"]).await;
    let (cluster, provider) = (&sso.cluster, &sso.provider);
    let admin = cluster.api(1);
    admin.post(SERVICES, &json!([{"namespace": "shop", "name": "pay"}])).await.expect_code(200_000);
    admin.publish("default", "app", "application", "v=1").await;
    cluster.expect_equal_state().await;
    let token = provider.bearer("42", "pipeline", &["dev-shop"]);
    for id in cluster.ids() {
        let api = sso.as_token(id, &token);
        let user = api.get("/auth/v1/user").await.expect_code(200_000);
        assert_eq!(user.body["user"]["name"], "company:pipeline", "{user}");
        api.get(SERVICES).await.expect_code(200_000);
        api.post(SERVICES, &json!([{"namespace": "shop", "name": "other"}])).await.expect_code(401_001);
        let discover = json!({"type": "INSTANCE", "service": {"namespace": "shop", "name": "pay"}});
        let found = api.post("/v1/Discover", &discover).await;
        assert_eq!(found.status, 200, "{found}");
        let pulled = cluster.apollo(id).get_as(FILE, Some(&format!("Bearer {token}"))).await;
        assert_eq!(pulled.status, 200, "{pulled:?}");
        let client = GrpcClient::connect(cluster.grpc(id)).await;
        let mut by_header = client.with("authorization", format!("Bearer {token}")).open(ADS);
        by_header.send(&first(None)).await;
        by_header.next::<DiscoveryResponse>().await.expect("clusters");
        let mut by_metadata = client.open(ADS);
        by_metadata.send(&first(Some(&token))).await;
        by_metadata.next::<DiscoveryResponse>().await.expect("clusters");
    }
    let fetched = provider.fetched_keys();
    assert!((1..=3).contains(&fetched), "each node fetches the keys once: {fetched}");

    // Its name and claims go with what it does, and its binding is that of the moment.
    let writer = provider.bearer("43", "deployer", &["admins"]);
    let made = json!([{"namespace": "shop", "name": "made"}]);
    sso.as_token(2, &writer).post(SERVICES, &made).await.expect_code(200_000);
    let rows = admin.get("/admin/v1/audit?user=company:deployer").await.expect_code(200_000);
    assert!(rows.amount() >= 1, "{rows}");
    sso.change(json!({"bindings": []})).await;
    sso.expect_out(None, Some(&token)).await;
    let pulled = cluster.apollo(3).get_as(FILE, Some(&format!("Bearer {token}"))).await;
    assert!(matches!(pulled.status, 401 | 404), "{pulled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_bearer_token_is_refused_by_the_field_that_is_wrong() {
    let sso = SsoCluster::start(1, &["--compat-auth", "required"]).await;
    let (cluster, provider) = (&sso.cluster, &sso.provider);
    let claims = |change: Value| {
        let mut all = json!({"sub": "1", "preferred_username": "pipeline", "groups": ["dev-shop"], "aud": AUDIENCE});
        all.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        provider.sign(&all)
    };
    let good = claims(json!({}));
    let (head, signature) = good.rsplit_once('.').expect("three parts");
    let mut forged = signature.to_owned().into_bytes();
    forged[0] = if forged[0] == b'A' { b'B' } else { b'A' };
    let forged = format!("{head}.{}", String::from_utf8(forged).expect("text"));
    let none = {
        use base64::Engine;
        let part = |value: Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string());
        let body = json!({"iss": provider.issuer(), "sub": "1", "aud": AUDIENCE, "exp": now() + 60});
        format!("{}.{}.AAAA", part(json!({"alg": "none"})), part(body))
    };
    let rows = [
        ("aud", claims(json!({"aud": CLIENT}))),
        ("aud", claims(json!({"aud": []}))),
        ("iss", claims(json!({"iss": "https://evil.example"}))),
        ("exp", claims(json!({"exp": now() - 400, "iat": now() - 800}))),
        ("nbf", claims(json!({"nbf": now() + 400}))),
        ("nonce", claims(json!({"nonce": "of a person"}))),
        ("events", claims(json!({"events": {}}))),
        ("typ", claims(json!({"typ": "ID"}))),
        ("signature", forged),
        ("alg", none),
    ];
    let client = GrpcClient::connect(cluster.grpc(1)).await;
    for (field, token) in rows {
        let refused = sso.as_token(1, &token).get(SERVICES).await.expect_code(401_004);
        let info = refused.body["info"].as_str().expect("text");
        assert!(info.contains(field), "{field}: {info}");
        assert!(!refused.to_string().contains(token.rsplit('.').next().expect("a signature")), "{refused}");
        let pulled = cluster.apollo(1).get_as(FILE, Some(&format!("Bearer {token}"))).await;
        assert!(pulled.status == 401 && pulled.text.contains(field), "{field}: {pulled:?}");
        let mut call = client.with("authorization", format!("Bearer {token}")).open(ADS);
        call.send(&first(None)).await;
        let (code, text) = call.end().await.expect("a status");
        assert!(code == UNAUTHENTICATED && text.contains(field), "{field}: {code} {text}");
        let mut call = client.open(ADS);
        call.send(&first(Some(&token))).await;
        assert_eq!(call.end().await.expect("a status").0, UNAUTHENTICATED, "{field}");
    }
    // A program for which no binding holds is known, and has no right.
    let unbound = claims(json!({"groups": ["cooks"]}));
    let refused = sso.as_token(1, &unbound).get(SERVICES).await;
    assert_eq!(refused.code(), 401_001, "{refused}");
    // A provider that issues no tokens for programs.
    sso.change(json!({"bearer": false})).await;
    sso.as_token(1, &good).get(SERVICES).await.expect_code(401_004);
    Api::new(cluster.ports(1).api).get(SERVICES).await.expect_code(401_002);
}
