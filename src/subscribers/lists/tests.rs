//! Lists of instances: clients with the current list, and clients whose list lacks an instance.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::catalog::testing::Bench;
use crate::catalog::{Command, Op};
use crate::model::mesh::resource::Version;
use crate::origin::Origin;
use crate::proto::envoy::config::core::v3 as core;
use crate::subscribers::streams::testing::stream;
use crate::subscribers::streams::{Registered, ResourceRefusal};

const HOLD: Duration = Duration::from_secs(55);

fn drafts<T: DeserializeOwned>(items: Value) -> Vec<T> {
    serde_json::from_value(items).expect("drafts")
}

fn bench() -> Bench {
    let mut bench = Bench::founded();
    bench.codes(Command::Services(Op::Create, drafts(json!([{ "namespace": "n", "name": "s" }]))));
    register(&mut bench, "10.0.0.1");
    bench
}

fn register(bench: &mut Bench, host: &str) {
    let items = json!([{ "namespace": "n", "service": "s", "host": host, "port": 80 }]);
    assert_eq!(bench.codes(Command::Instances(Op::Create, drafts(items))), [200000]);
}

fn give(subscribers: &Subscribers, bench: &Bench, address: &str, index: u64) {
    let origin = Origin::of([192, 0, 2, 1].into());
    let client =
        Client { address, agent: "a client", origin, hold: HOLD, connection: None, is_named: true, is_polaris: false };
    let revision = bench.catalog.fold_of_list("n", "s").expect("a service").text();
    subscribers.listed(client, &BTreeMap::new(), ("n", "s"), (&revision, index), || Timestamp(index));
}

fn without(host: &str, since: u64) -> Option<Without> {
    Some(Without { host: host.to_owned(), port: 80, since })
}

/// Returns the address of each client and whether it is current, ordered by address.
fn rows_of(subscribers: &Subscribers, bench: &Bench, applied: u64, without: Option<Without>) -> Vec<(String, bool)> {
    let question = ClientQuery::Lists { namespace: "n".to_owned(), service: "s".to_owned(), without };
    let found = subscribers.tell(&bench.catalog, applied, &question).lists.expect("an answer");
    let mut rows: Vec<_> = found.clients.into_iter().map(|one| (one.address, one.is_current)).collect();
    rows.sort();
    assert_eq!((found.amount, found.current), (rows.len() as u64, rows.iter().filter(|row| row.1).count() as u64));
    rows
}

fn rows<const N: usize>(expected: [(&str, bool); N]) -> Vec<(String, bool)> {
    expected.map(|(address, is)| (address.to_owned(), is)).into()
}

#[tokio::test(start_paused = true)]
async fn who_has_the_list_as_it_is_is_current() {
    let (subscribers, mut bench) = (Subscribers::default(), bench());
    give(&subscribers, &bench, "1", 5);
    give(&subscribers, &bench, "2", 5);
    assert_eq!(rows_of(&subscribers, &bench, 5, None), rows([("1", true), ("2", true)]));
    register(&mut bench, "10.0.0.2");
    give(&subscribers, &bench, "2", 6);
    assert_eq!(rows_of(&subscribers, &bench, 6, None), rows([("1", false), ("2", true)]));
    assert!(subscribers.shares(&bench.catalog).values().all(|share| share.present == 0), "no release is had");
    tokio::time::advance(HOLD + crate::subscribers::GRACE).await;
    assert_eq!((rows_of(&subscribers, &bench, 6, None), subscribers.len()), (rows([]), 0), "they are forgotten");
}

/// A list lacks an instance if it was read after the isolation, or if it equals the current list.
#[tokio::test(start_paused = true)]
async fn a_list_that_was_read_later_does_without_the_instance() {
    let (subscribers, mut bench) = (Subscribers::default(), bench());
    give(&subscribers, &bench, "1", 5);
    give(&subscribers, &bench, "2", 5);
    register(&mut bench, "10.0.0.2");
    give(&subscribers, &bench, "2", 7);
    let at = |since| without("10.0.0.1", since);
    assert_eq!(rows_of(&subscribers, &bench, 8, at(8)), rows([("1", false), ("2", true)]), "as it is now");
    assert_eq!(rows_of(&subscribers, &bench, 8, at(9)), rows([("1", false), ("2", false)]), "this node is behind");
    register(&mut bench, "10.0.0.3");
    assert_eq!(rows_of(&subscribers, &bench, 9, at(8)), rows([("1", false), ("2", true)]), "it was as it was then");
    give(&subscribers, &bench, "1", 9);
    assert_eq!(rows_of(&subscribers, &bench, 9, at(8)), rows([("1", true), ("2", true)]));
    tokio::time::advance(THERE_WITHIN - Duration::from_secs(1)).await;
    give(&subscribers, &bench, "2", 9);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(
        rows_of(&subscribers, &bench, 9, at(8)),
        rows([("2", true)]),
        "who has not asked for a minute is not there"
    );
    assert_eq!(rows_of(&subscribers, &bench, 9, None).len(), 2, "and is known all the same");
}

fn endpoints(name: &str, index: u64, hosts: &[&str]) -> Arc<Resource> {
    let endpoint = |host: &&str| {
        let socket =
            core::SocketAddress { address: (*host).to_owned(), port_specifier: Some(PortSpecifier::PortValue(80)) };
        let address = Some(core::Address { address: Some(Address::SocketAddress(socket)) });
        let found = endpoint::Endpoint { address, ..Default::default() };
        endpoint::LbEndpoint {
            host_identifier: Some(endpoint::lb_endpoint::HostIdentifier::Endpoint(found)),
            ..Default::default()
        }
    };
    let lb_endpoints = hosts.iter().map(endpoint).collect();
    let locality = endpoint::LocalityLbEndpoints { lb_endpoints, ..Default::default() };
    let assignment = endpoint::ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        endpoints: vec![locality],
        ..Default::default()
    };
    Arc::new(Resource {
        kind: ResourceType::Endpoints,
        name: name.into(),
        version: Version { index, hash: index },
        head: Bytes::new(),
        body: Bytes::from(assignment.encode_to_vec()),
        releases: Vec::new(),
        clusters: Vec::new(),
    })
}

fn send(stream: &Registered, resource: &Arc<Resource>, is_had: bool) {
    stream.update(ResourceType::Endpoints, |state| {
        state.sent.insert(resource.name.clone(), resource.clone());
        if is_had {
            state.acked.insert(resource.name.clone(), resource.clone());
        }
    });
}

#[tokio::test(start_paused = true)]
async fn clients_of_xds_have_heard_once_they_acknowledged_endpoints_without_it() {
    let (subscribers, bench) = (Subscribers::default(), bench());
    let (one, other) = (stream(subscribers.streams(), "n1"), stream(subscribers.streams(), "n2"));
    let both = ["10.0.0.1", "10.0.0.2"];
    send(&one, &endpoints("n/s", 1, &both), true);
    send(&one, &endpoints("n/s|000102abcdef", 1, &both), true);
    send(&one, &endpoints("n/other", 1, &both), true);
    send(&other, &endpoints("n/other", 1, &both), true);
    let row = |is| rows([("10.0.0.9", is)]);
    assert_eq!(rows_of(&subscribers, &bench, 9, None), row(true), "the other one has another service");
    let drained = || rows_of(&subscribers, &bench, 9, without("10.0.0.1", 8));
    assert_eq!(drained(), row(false));
    send(&one, &endpoints("n/s", 2, &both[1..]), false);
    assert_eq!((drained(), rows_of(&subscribers, &bench, 9, None)), (row(false), row(false)), "it is on its way");
    send(&one, &endpoints("n/s", 2, &both[1..]), true);
    assert_eq!(drained(), row(false), "another cluster of the service has it still");
    let refused = endpoints("n/s|000102abcdef", 2, &both[1..]);
    send(&one, &refused, false);
    let refusal =
        ResourceRefusal { message: "no".into(), at: Timestamp(9), resources: [(refused.name.clone(), refused)].into() };
    one.update(ResourceType::Endpoints, |state| state.refusals.push(Arc::new(refusal)));
    let question = ClientQuery::Lists { namespace: "n".into(), service: "s".into(), without: None };
    let found = subscribers.tell(&bench.catalog, 9, &question).lists.expect("an answer");
    let [client] = &found.clients[..] else { panic!("one client") };
    assert_eq!(
        (client.applied, &*client.message, client.applied_at),
        (Some(Applied::Refused), "no", Some(Timestamp(9)))
    );
    assert_eq!(drained(), row(false), "who refuses has not heard");
    send(&one, &endpoints("n/s|000102abcdef", 3, &both[1..]), true);
    assert_eq!(drained(), row(true));
    assert_eq!(rows_of(&subscribers, &bench, 9, without("10.0.0.2", 8)), row(false));
}

#[test]
fn the_service_is_found_by_each_name_of_its_endpoints() {
    for (namespace, service) in [("n", "s"), ("a/b", "pay"), ("50%", "pay.v2"), ("ü x", "s-1")] {
        let EndpointsName { plain, escaped } = EndpointsName::of(namespace, service);
        let federated = format!("{FEDERATED}authority/envoy.config.endpoint.v3.ClusterLoadAssignment/{escaped}");
        for name in [&plain, &federated] {
            for ending in ["", "|0123456789ab", "@a/b/c"] {
                let found = service_of(&format!("{name}{ending}"));
                assert_eq!(found, Some((namespace.to_owned(), service.to_owned())), "{name}{ending}");
            }
        }
        assert_eq!(
            service_of(&format!("{federated}%7C0123456789ab")).map(|(_, found)| found).as_deref(),
            Some(service)
        );
    }
    assert_eq!(service_of("inbound"), None);
}
