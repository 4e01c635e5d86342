//! Tests of a client's identity.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use super::super::{Client, Identity, Locality, Peer};
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::mesh::Dialect;
use crate::model::mesh::library::Library;
use crate::origin::Origin;
use crate::proto::envoy::config::core::v3::node::UserAgentVersionType;
use crate::proto::envoy::config::core::v3::{self as core, BuildVersion, Node};
use crate::proto::envoy::r#type::v3::SemanticVersion;

fn peer() -> Peer {
    let address = "192.0.2.7".parse().expect("an address");
    Peer { address: Some(address), origin: Origin::of(address), read_scope: ReadScope::Everything }
}

fn text(value: &str) -> Kind {
    Kind::StringValue(value.to_owned())
}

fn node(cluster: &str, metadata: Vec<(String, Kind)>) -> Node {
    let fields = metadata.into_iter().map(|(key, kind)| (key, Value { kind: Some(kind) })).collect();
    Node { cluster: cluster.to_owned(), metadata: Some(Struct { fields }), ..Node::default() }
}

fn described(cluster: &str, metadata: &[(&str, &str)]) -> Client {
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), text(value))).collect();
    Client::of(Some(&node(cluster, metadata)), &peer())
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A client without a node, or without an id, is known by its address alone.
#[test]
fn who_says_nothing_has_an_address_and_is_of_grpc() {
    for node in [None, Some(Node::default())] {
        let client = Client::of(node.as_ref(), &peer());
        assert_eq!(*client.labels, labels(&[("CLIENT_IP", "192.0.2.7")]));
        assert_eq!((client.dialect, client.caller, client.locality), (Dialect::Grpc, None, Locality::default()));
        assert_eq!((client.node_id.as_str(), client.agent.as_str()), ("", ""));
        assert_eq!(client.namespaces.as_deref(), Some(&[][..]));
    }
    let unknown = Peer { address: None, ..peer() };
    let said = node("", vec![("CLIENT_IP".to_owned(), text("10.0.0.1"))]);
    assert!(Client::of(Some(&said), &unknown).labels.is_empty(), "the address is not what a client says");
    assert_eq!(Client::of(Some(&said), &peer()).labels["CLIENT_IP"], "192.0.2.7");
}

/// Scalars in the metadata become labels; lists and maps are dropped.
#[test]
fn texts_numbers_and_booleans_are_labels() {
    let list = Kind::ListValue(ListValue { values: vec![Value { kind: Some(text("x")) }] });
    let values = [
        ("text", text("v")),
        ("whole", Kind::NumberValue(5.0)),
        ("part", Kind::NumberValue(-0.25)),
        ("large", Kind::NumberValue(1e15)),
        ("zero", Kind::NumberValue(-0.0)),
        ("true", Kind::BoolValue(true)),
        ("null", Kind::NullValue(0)),
        ("list", list),
        ("map", Kind::StructValue(Struct::default())),
        ("", text("no key")),
    ];
    let mut node = node("", values.map(|(key, kind)| (key.to_owned(), kind)).into());
    node.id = "n-1".to_owned();
    let expected = [
        ("CLIENT_IP", "192.0.2.7"),
        ("NODE_ID", "n-1"),
        ("text", "v"),
        ("whole", "5"),
        ("part", "-0.25"),
        ("large", "1000000000000000"),
        ("zero", "0"),
        ("true", "true"),
    ];
    assert_eq!(*Client::of(Some(&node), &peer()).labels, labels(&expected));
}

/// Excessive metadata is truncated without an error.
#[test]
fn too_many_and_too_long_labels_are_cut_off_and_counted() {
    let mut metadata: Vec<_> = (0..10_000).map(|number| (format!("k{number:05}"), text("v"))).collect();
    metadata.push(("role".to_owned(), text("gateway")));
    let read = Identity::read(Some(&node("", metadata)), &peer());
    assert_eq!(read.client.labels.len(), limits::XDS_LABELS_MAX);
    assert_eq!(read.cut, 10_002 - limits::XDS_LABELS_MAX);
    assert!(read.client.is_gateway(), "what decides what is sent has a place before others");

    let long = [("é".repeat(200), text(&"ü".repeat(5000)))].into();
    let read = Identity::read(Some(&node("", long)), &peer());
    assert_eq!((read.client.labels[&"é".repeat(128)].chars().count(), read.cut), (4096, 1));

    let large = (0..60).map(|number| (format!("k{number}"), text(&"x".repeat(4096)))).collect();
    let read = Identity::read(Some(&node("", large)), &peer());
    let bytes: usize = read.client.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(bytes <= limits::XDS_LABELS_BYTES_MAX && read.cut > 40, "{bytes} {}", read.cut);
}

#[test]
fn the_caller_is_said_by_metadata_else_by_the_cluster() {
    let named = [("service", "cart"), ("namespace", "shop")];
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<(&'a str, &'a str)>);
    let rows: [Row<'_>; 9] = [
        ("", &named, Some(("shop", "cart"))),
        ("a/b", &named, Some(("shop", "cart"))),
        ("a/b/c", &[], Some(("a", "b/c"))),
        ("a%2Fb/c", &[], Some(("a/b", "c"))),
        ("a/b", &[("service", "cart")], Some(("a", "cart"))),
        ("cart", &[], None),
        ("", &[("service", "cart")], Some(("default", "cart"))),
        ("/b", &[], None),
        ("a/b", &[("role", "gateway")], None),
    ];
    for (cluster, metadata, caller) in rows {
        let found = described(cluster, metadata).caller;
        let found = found.as_ref().map(|key| (key.namespace.as_str(), key.service.as_str()));
        assert_eq!(found, caller, "{cluster} {metadata:?}");
    }
}

#[test]
fn a_wildcard_means_the_namespaces_that_metadata_names() {
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a [&'a str]>);
    let rows: [Row<'_>; 6] = [
        ("a/b", &[], Some(&["a"])),
        ("a/b", &[("namespace", "c")], Some(&["c"])),
        ("a/b", &[("role", "gateway")], Some(&["a"])),
        ("a/b", &[("namespaces", "y, x,,x")], Some(&["x", "y"])),
        ("a/b", &[("namespaces", "x,*")], None),
        ("a/b", &[("namespaces", "")], Some(&[])),
    ];
    for (cluster, metadata, namespaces) in rows {
        let found = described(cluster, metadata).namespaces;
        let found: Option<Vec<_>> = found.as_ref().map(|all| all.iter().map(String::as_str).collect());
        assert_eq!(found.as_deref(), namespaces, "{cluster} {metadata:?}");
    }
    let many = (0..2_000).map(|number| format!("n{number:04}")).collect::<Vec<_>>().join(",");
    let read = Identity::read(Some(&node("", vec![("namespaces".to_owned(), text(&many))])), &peer());
    assert_eq!((read.client.namespaces.map(|all| all.len()), read.cut), (Some(1000), 1001));
}

#[test]
fn the_place_is_the_locality_and_labels_where_metadata_has_none() {
    let mut node = node("", vec![("zone".to_owned(), text("own"))]);
    let locality = core::Locality { region: "eu".to_owned(), zone: "eu-1".to_owned(), sub_zone: "c1".to_owned() };
    node.locality = Some(locality);
    let client = Client::of(Some(&node), &peer());
    let expected = Locality { region: "eu".to_owned(), zone: "eu-1".to_owned(), campus: "c1".to_owned() };
    assert_eq!(client.locality, expected);
    let expected = [("CLIENT_IP", "192.0.2.7"), ("region", "eu"), ("zone", "own"), ("campus", "c1")];
    assert_eq!(*client.labels, labels(&expected));
}

#[test]
fn agents_have_a_dialect_and_a_version() {
    let version = |text: &str| Some(UserAgentVersionType::UserAgentVersion(text.to_owned()));
    let build = SemanticVersion { major_number: 1, minor_number: 40, patch: 2 };
    let build = Some(UserAgentVersionType::UserAgentBuildVersion(BuildVersion { version: Some(build) }));
    let rows = [
        ("envoy", build, Dialect::Envoy, "envoy 1.40.2"),
        ("Envoy-custom", None, Dialect::Envoy, "Envoy-custom"),
        ("gRPC C-core linux Python", version("C-core 58.0.0"), Dialect::Grpc, "gRPC C-core linux Python C-core 58.0.0"),
        ("", version("7"), Dialect::Grpc, "7"),
        ("éééé", None, Dialect::Grpc, "éééé"),
    ];
    for (name, user_agent_version_type, dialect, agent) in rows {
        let node = Node { user_agent_name: name.to_owned(), user_agent_version_type, ..Node::default() };
        let client = Client::of(Some(&node), &peer());
        assert_eq!((client.dialect, client.agent.as_str()), (dialect, agent));
    }
    let long = Node { user_agent_name: "é".repeat(200), ..Node::default() };
    assert_eq!(Client::of(Some(&long), &peer()).agent.len(), limits::AGENT_BYTES_MAX);
}

#[test]
fn abilities_are_said_by_metadata() {
    let plain = described("", &[]).abilities();
    assert!(!plain.is_gateway && !plain.takes_large_expressions);
    let able = described("", &[("role", "gateway"), ("re2", "large")]).abilities();
    assert!(able.is_gateway && able.takes_large_expressions);
}

/// A token is a secret, and rules cannot match it.
#[test]
fn a_token_is_no_label() {
    let client = described("", &[("thuban_token", "t0k3n"), ("env", "gray")]);
    assert_eq!(*client.labels, labels(&[("CLIENT_IP", "192.0.2.7"), ("env", "gray")]));
    assert!(!format!("{client:?}").contains("t0k3n"));
}

#[test]
fn libraries_are_known_by_the_agent_of_the_node() {
    for (agent, library) in [("gRPC Go", Library::Go), ("gRPC Java", Library::Java), ("gRPC C-core", Library::Core)] {
        let node = Node { user_agent_name: agent.to_owned(), ..Node::default() };
        assert_eq!(Client::of(Some(&node), &peer()).library, library, "{agent}");
    }
}

/// A proxy sends its list of extensions, which may be long and is not stored.
#[test]
fn what_is_not_declared_is_dropped_while_decoding() {
    let mut bytes = node("shop/cart", vec![]).encode_to_vec();
    let plain = bytes.clone();
    for _ in 0..500 {
        // Tag of field 9, `extensions`, and its length.
        bytes.extend([0x4a, 100]);
        bytes.extend([b'x'; 100]);
    }
    assert_eq!(Node::decode(&bytes[..]).expect("a node").encode_to_vec(), plain);
}
