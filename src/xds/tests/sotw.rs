//! Corner cases of the SotW variant.

use std::time::Duration;

use tokio::time::Instant;

use super::super::protocol::ProtocolVariant;
use super::super::sotw::Sotw;
use super::super::stream_state::{Event, StreamFault};
use super::*;
use crate::model::limits;
use crate::model::mesh::Dialect;
use crate::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

pub(super) const ACK: Option<&str> = None;

/// A stream with a scripted client.
pub(super) struct Script {
    protocol: Sotw,
    pub(super) view: FakeView,
    now: Instant,
    /// The last response of each type.
    pub(super) last: [DiscoveryResponse; 4],
}

impl Script {
    pub(super) fn of(dialect: Dialect, view: FakeView) -> Script {
        let protocol = Sotw::new(dialect, "thuban test".into());
        Script { protocol, view, now: Instant::now(), last: std::array::from_fn(|_| DiscoveryResponse::default()) }
    }

    pub(super) fn envoy() -> Script {
        Script::of(Dialect::Envoy, two_services())
    }

    fn take(&mut self, request: DiscoveryRequest) -> Result<(), StreamFault> {
        self.protocol.take(request, &self.view, now_at(self.now))
    }

    /// Sends a request with a nonce and returns the responses.
    fn request(&mut self, kind: ResourceType, names: &str, nonce: &str, refused: Option<&str>) -> Vec<String> {
        let request = DiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names: strings(names),
            version_info: self.last[kind.index()].version_info.clone(),
            response_nonce: nonce.to_owned(),
            error_detail: refused.map(refusal),
            ..Default::default()
        };
        self.take(request).expect("a request that makes sense");
        self.responses()
    }

    /// Sends the first request of a type.
    pub(super) fn begin(&mut self, kind: ResourceType, names: &str) -> Vec<String> {
        self.request(kind, names, "", ACK)
    }

    /// Answers the last response of a type.
    pub(super) fn answer(&mut self, kind: ResourceType, names: &str, refused: Option<&str>) -> Vec<String> {
        let nonce = self.last[kind.index()].nonce.clone();
        self.request(kind, names, &nonce, refused)
    }

    pub(super) fn responses(&mut self) -> Vec<String> {
        std::iter::from_fn(|| {
            let response = self.protocol.next(&self.view, now_at(self.now))?;
            let resources: Vec<_> = response.resources.iter().collect();
            let told = in_short(&response.type_url, &resources, &[], &response.resource_errors);
            if let Some(kind) = ResourceType::of_url(&response.type_url) {
                self.last[kind.index()] = response;
            }
            Some(told)
        })
        .collect()
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut FakeView)) -> Vec<String> {
        change(&mut self.view);
        self.responses()
    }

    fn delivered_text(&self, kind: ResourceType) -> String {
        delivered_text(self.protocol.state(), kind)
    }
}

pub(super) const NOTHING: [&str; 0] = [];

#[test]
fn all_there_is_comes_first_and_each_nonce_is_new() {
    let mut script = Script::envoy();
    assert_eq!(script.begin(CDS, ""), ["cds s/a=1 s/b=1"]);
    let first = script.last[CDS.index()].clone();
    assert_eq!(first.control_plane.expect("a name").identifier, "thuban test");
    assert_eq!(first.version_info.split('-').next(), Some("5"), "the newest cluster");
    assert_eq!(script.answer(CDS, "", ACK), NOTHING);
    assert_eq!(script.change(|view| view.put(CDS, "s/c", "1")), ["cds s/a=1 s/b=1 s/c=1"]);
    assert_ne!(script.last[CDS.index()].nonce, first.nonce);
    assert_ne!(script.last[CDS.index()].version_info, first.version_info);
}

/// A proxy warms a changed cluster and repeats its request for the endpoints.
#[test]
fn a_repeated_acknowledgement_of_endpoints_is_a_question() {
    let mut script = Script::envoy();
    script.begin(CDS, "");
    script.answer(CDS, "", ACK);
    assert_eq!(script.begin(EDS, "s/a s/b"), ["eds s/a=1 s/b=1"]);
    assert_eq!(script.answer(EDS, "s/a s/b", ACK), NOTHING);
    assert_eq!(script.answer(EDS, "s/a s/b", ACK), ["eds s/a=1 s/b=1"]);
    assert_eq!(script.answer(EDS, "s/a s/b", ACK), NOTHING);
    assert_eq!(script.change(|view| view.put(CDS, "s/a", "2")), ["cds s/a=2 s/b=1"]);
    assert_eq!(script.answer(EDS, "s/a s/b", ACK), ["eds s/a=1"], "those of the cluster that changed");
}

/// A response that is sent at the same time must not suppress the request.
#[test]
fn endpoints_asked_for_with_an_old_nonce_go_out_behind_their_cluster() {
    let mut script = Script::envoy();
    script.begin(CDS, "");
    script.answer(CDS, "", ACK);
    script.begin(EDS, "s/a s/b");
    script.answer(EDS, "s/a s/b", ACK);
    let before = script.last[EDS.index()].nonce.clone();
    assert_eq!(script.change(|view| view.put(CDS, "s/a", "2")), ["cds s/a=2 s/b=1"]);
    assert_eq!(script.change(|view| view.put(EDS, "s/b", "2")), ["eds s/b=2"]);
    assert_eq!(script.request(EDS, "s/a s/b", &before, ACK), NOTHING, "one of a type at a time");
    assert_eq!(script.answer(EDS, "s/a s/b", ACK), ["eds s/a=1"]);
}

/// A proxy acknowledges clusters only after it has their endpoints.
#[test]
fn endpoints_do_not_wait_for_their_cluster() {
    let mut script = Script::envoy();
    assert_eq!(script.begin(CDS, ""), ["cds s/a=1 s/b=1"]);
    assert_eq!(script.begin(EDS, "s/a"), ["eds s/a=1"]);
}

#[test]
fn a_growing_question_brings_endpoints_of_changed_clusters_too() {
    let mut script = Script::envoy();
    script.begin(CDS, "");
    script.answer(CDS, "", ACK);
    script.begin(EDS, "s/a");
    script.answer(EDS, "s/a", ACK);
    script.change(|view| view.put(CDS, "s/a", "2"));
    assert_eq!(script.answer(EDS, "s/a s/b", ACK), ["eds s/a=1 s/b=1"]);
}

/// Parts of a response are refused, and the refusal contains the new version.
#[test]
fn a_refusal_is_booked_to_what_it_names() {
    let mut script = Script::envoy();
    script.begin(CDS, "");
    script.answer(CDS, "", ACK);
    assert_eq!(script.delivered_text(CDS), "s/a=1 s/b=1");
    script.change(|view| {
        view.put(CDS, "s/a", "2");
        view.put(CDS, "s/b", "2");
    });
    assert_eq!(script.answer(CDS, "", Some("Error adding/updating cluster(s) s/a: bad")), NOTHING);
    assert_eq!(script.delivered_text(CDS), "s/a=1 s/b=2 refused s/a");
    script.change(|view| view.put(CDS, "s/b", "3"));
    script.answer(CDS, "", Some("Error adding/updating cluster(s) s/a: bad"));
    assert_eq!(script.delivered_text(CDS), "s/a=1 s/b=3 refused s/a", "the refused one is among all that were sent");
    script.change(|view| view.put(CDS, "s/a", "3"));
    script.answer(CDS, "", ACK);
    assert_eq!(script.delivered_text(CDS), "s/a=3 s/b=3");
}

#[test]
fn a_refusal_without_names_is_one_of_all_that_changed() {
    let mut script = Script::envoy();
    script.begin(RDS, "s/a s/b");
    script.answer(RDS, "s/a s/b", ACK);
    script.change(|view| view.put(RDS, "s/a", "2"));
    script.answer(RDS, "s/a s/b", Some("Only unique values for domains are permitted"));
    assert_eq!(script.delivered_text(RDS), "s/a=1 s/b=1 refused s/a");
    script.change(|view| view.put(RDS, "s/b", "2"));
    script.answer(RDS, "s/a s/b", ACK);
    assert_eq!(script.delivered_text(RDS), "s/a=1 s/b=2", "what was refused is not had by another acknowledgement");
    assert!(script.protocol.state_mut().take_events().contains(&Event::Refused(RDS)));
}

/// Sending a refused version again would lead to an endless loop.
#[test]
fn what_was_refused_is_not_sent_again_by_itself() {
    let mut script = Script::envoy();
    for kind in [CDS, RDS] {
        let names = if kind == CDS { "" } else { "s/a" };
        script.begin(kind, names);
        assert_eq!(script.answer(kind, names, Some("no")), NOTHING);
        assert_eq!(script.answer(kind, names, Some("no")), NOTHING, "told twice");
        assert_eq!(script.change(|view| view.put(EDS, "s/a", "9")), NOTHING);
        assert_eq!(script.change(|view| view.put(kind, "s/a", "2")).len(), 1, "the next change goes out");
    }
}

/// A request with an old nonce is neither answered nor applied.
#[test]
fn an_old_nonce_changes_nothing() {
    let mut script = Script::envoy();
    script.begin(EDS, "s/a");
    let old = script.last[EDS.index()].nonce.clone();
    script.answer(EDS, "s/a", ACK);
    script.change(|view| view.put(EDS, "s/a", "2"));
    assert_eq!(script.request(EDS, "s/a s/b", &old, ACK), NOTHING);
    assert_eq!(script.request(EDS, "s/a s/b", "", ACK), NOTHING);
    assert_eq!(script.request(EDS, "s/a", &old, Some("no")), NOTHING);
    assert_eq!(script.delivered_text(EDS), "s/a=1", "nothing was answered");
    assert_eq!(script.answer(EDS, "s/a", ACK), NOTHING);
    assert_eq!(script.delivered_text(EDS), "s/a=2");
    assert_eq!(script.change(|view| view.put(EDS, "s/b", "2")), NOTHING, "never asked for");
}

/// The name is removed and added again before a response arrives.
#[test]
fn a_name_that_was_dropped_for_a_moment_is_sent_again() {
    let mut script = Script::envoy();
    script.begin(EDS, "s/a");
    let old = script.last[EDS.index()].nonce.clone();
    assert_eq!(script.answer(EDS, "s/a s/b", ACK), ["eds s/b=1"]);
    assert_eq!(script.request(EDS, "s/b", &old, ACK), NOTHING);
    assert_eq!(script.request(EDS, "s/a s/b", &old, ACK), NOTHING);
    assert_eq!(script.answer(EDS, "s/a s/b", ACK), ["eds s/a=1"]);
}

/// A response with clusters must contain all of them, because the client deletes the others.
#[test]
fn one_more_name_is_answered_and_clusters_come_all_together() {
    let mut script = Script::of(Dialect::Grpc, two_services());
    assert_eq!(script.begin(CDS, "s/a"), ["cds s/a=1"]);
    assert_eq!(script.answer(CDS, "s/a s/b", ACK), ["cds s/a=1 s/b=1"]);
    assert_eq!(script.begin(EDS, "s/a"), ["eds s/a=1"]);
    assert_eq!(script.answer(EDS, "s/a s/b", ACK), ["eds s/b=1"]);
    assert_eq!(script.answer(EDS, "s/b", ACK), NOTHING, "less is no question");
    assert_eq!(script.change(|view| view.put(EDS, "s/a", "2")), NOTHING);
}

/// An empty list after names unsubscribes from everything, also for types with a wildcard.
#[test]
fn an_empty_list_ends_a_subscription() {
    for kind in ResourceType::ALL {
        let mut script = Script::of(Dialect::Grpc, two_services());
        assert_eq!(script.begin(kind, "s/a").len(), 1);
        assert_eq!(script.answer(kind, "", ACK), NOTHING);
        assert_eq!(script.answer(kind, "", ACK), NOTHING);
        assert_eq!(script.change(|view| view.put(kind, "s/a", "2")), NOTHING);
        assert_eq!(script.delivered_text(kind), "");
        assert!(script.protocol.state().type_state(kind).sent().is_empty());
        assert_eq!(script.answer(kind, "s/a", ACK), [format!("{} s/a=2", kind.label())]);
    }
    for kind in [EDS, RDS] {
        assert_eq!(Script::envoy().begin(kind, ""), NOTHING, "all is never asked for");
    }
}

/// Removing the wildcard leaves the names subscribed.
#[test]
fn a_name_stays_when_all_is_taken_away() {
    let mut script = Script::envoy();
    script.view.put(CDS, "hidden/c", "1");
    assert_eq!(script.begin(CDS, "* hidden/c"), ["cds hidden/c=1 s/a=1 s/b=1"]);
    assert_eq!(script.answer(CDS, "hidden/c", ACK), NOTHING);
    assert_eq!(script.change(|view| view.put(CDS, "s/a", "2")), NOTHING);
    assert_eq!(script.change(|view| view.put(CDS, "hidden/c", "2")), ["cds hidden/c=2"]);
}

#[test]
fn a_name_beside_all_is_followed() {
    let mut script = Script::envoy();
    script.view.put(CDS, "hidden/c", "1");
    script.begin(CDS, "* hidden/c");
    script.answer(CDS, "* hidden/c", ACK);
    assert_eq!(script.change(|view| view.put(CDS, "hidden/c", "2")), ["cds hidden/c=2 s/a=1 s/b=1"]);
    script.answer(CDS, "* hidden/c", ACK);
    assert_eq!(script.change(|view| view.remove(CDS, "hidden/c")), ["cds s/a=1 s/b=1 ?hidden/c"]);
    script.answer(CDS, "* hidden/c", ACK);
    assert_eq!(script.change(|view| view.put(LDS, "s/a", "2")), NOTHING);
}

/// Unserved types get one empty response each, and the stream continues.
#[test]
fn types_that_are_not_served_get_nothing_and_none_ends_the_stream() {
    let mut script = Script::envoy();
    let secrets = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
    let request = DiscoveryRequest { type_url: secrets.to_owned(), ..Default::default() };
    for expected in [vec![secrets.to_owned()], vec![]] {
        script.take(request.clone()).expect("nothing is wrong with it");
        assert_eq!(script.responses(), expected);
    }
    for number in 0..1000 {
        script.take(DiscoveryRequest { type_url: format!("t/{number}"), ..Default::default() }).expect("served");
    }
    assert!(script.responses().len() < limits::XDS_UNKNOWN_TYPES_MAX);
    let empty = script.take(DiscoveryRequest::default());
    assert!(matches!(empty, Err(StreamFault::Invalid(_))));
}

#[test]
fn too_many_names_end_the_stream() {
    let many = |count: usize| (0..count).map(|number| format!("s/{number}")).collect();
    let request = |kind: ResourceType, names: Vec<String>| DiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        resource_names: names,
        ..Default::default()
    };
    let mut script = Script::envoy();
    assert_eq!(script.take(request(EDS, many(limits::XDS_NAMES_MAX))), Ok(()));
    let one_more = script.take(request(RDS, many(1)));
    assert!(matches!(one_more, Err(StreamFault::TooMany(_))), "{one_more:?}");
    let long = script.take(request(LDS, vec!["x".repeat(limits::XDS_NAMES_BYTES_MAX + 1)]));
    assert!(matches!(long, Err(StreamFault::TooMany(_))));
}

#[test]
fn what_is_not_there_is_said_once() {
    let mut script = Script::of(Dialect::Grpc, two_services());
    assert_eq!(script.begin(LDS, "s/x"), ["lds ?s/x"]);
    let error = script.last[LDS.index()].resource_errors[0].error_detail.clone().expect("a reason");
    assert_eq!(error.message, "no service x in namespace s");
    assert_eq!(script.answer(LDS, "s/x", ACK), NOTHING);
    assert_eq!(script.change(|view| view.put(CDS, "s/a", "2")), NOTHING);
    assert_eq!(script.change(|view| view.put(LDS, "s/x", "1")), ["lds s/x=1"]);
    assert_eq!(script.begin(RDS, "s/a s/y"), ["rds s/a=1 ?s/y"]);
    script.answer(RDS, "s/a s/y", ACK);
    assert_eq!(script.change(|view| view.remove(RDS, "s/a")), ["rds ?s/a"]);
    script.answer(RDS, "s/a s/y", ACK);
    assert_eq!(script.change(|view| view.put(RDS, "s/a", "1")), ["rds s/a=1"], "there again");
}

/// A larger response would make the client reconnect every second.
#[test]
fn a_grpc_client_is_sent_nothing_that_it_cannot_take() {
    let large = "x".repeat(limits::XDS_RESPONSE_BYTES_MAX / 2 + 1);
    let mut view = FakeView::default();
    for name in ["s/a", "s/b", "s/c"] {
        view.put(CDS, name, &large);
        view.put(EDS, name, &large);
    }
    view.put(EDS, "s/d", &format!("{large}{large}"));
    let lengths = |responses: Vec<String>| responses.iter().map(String::len).collect::<Vec<_>>();
    let mut script = Script::of(Dialect::Grpc, view.clone());
    assert_eq!(script.begin(CDS, "s/a s/b s/c"), NOTHING);
    assert!(matches!(script.protocol.state_mut().take_events()[..], [Event::TooLarge { kind: CDS, .. }]));
    assert_eq!(script.change(|view| view.put(LDS, "s/a", "2")), NOTHING);
    assert!(script.protocol.state_mut().take_events().is_empty(), "not tried again");
    assert_eq!(script.begin(EDS, "s/a s/b s/c s/d").len(), 1);
    for expected in [1, 1, 0] {
        let next = script.answer(EDS, "s/a s/b s/c s/d", ACK);
        assert_eq!(next.len(), expected, "in parts");
    }
    assert!(script.protocol.state_mut().take_events().iter().any(|event| matches!(event, Event::TooLarge { .. })));
    let mut envoy = Script::of(Dialect::Envoy, view);
    assert!(lengths(envoy.begin(CDS, ""))[0] > limits::XDS_RESPONSE_BYTES_MAX);
}

#[test]
fn routes_of_a_new_cluster_wait_for_it_and_not_for_long() {
    let mut script = Script::envoy();
    script.begin(CDS, "");
    assert_eq!(script.begin(RDS, "s/a s/b"), NOTHING, "no cluster is acknowledged yet");
    assert_eq!(script.answer(CDS, "", ACK), ["rds s/a=1 s/b=1"]);
    script.answer(RDS, "s/a s/b", ACK);
    let sent = script.change(|view| {
        view.put(CDS, "s/c", "1");
        view.put_naming(RDS, "s/a", "2", &["s/a", "s/c"]);
        view.put_naming(RDS, "s/b", "2", &["s/b", "elsewhere"]);
    });
    assert_eq!(sent, ["cds s/a=1 s/b=1 s/c=1", "rds s/b=2"], "one that is not there is not waited for");
    assert_eq!(script.answer(RDS, "s/a s/b", ACK), NOTHING);
    let deadline = script.protocol.state().deadline().expect("it waits");
    assert_eq!(deadline, script.now + Duration::from_secs(5));
    script.now = deadline;
    assert_eq!(script.responses(), ["rds s/a=2"]);
    assert_eq!(script.protocol.state().deadline(), None);
}

#[test]
fn routes_go_on_once_their_cluster_was_refused() {
    let mut script = Script::envoy();
    script.begin(CDS, "");
    script.answer(CDS, "", ACK);
    script.begin(RDS, "s/a");
    script.answer(RDS, "s/a", ACK);
    script.change(|view| {
        view.put(CDS, "s/c", "1");
        view.put_naming(RDS, "s/a", "2", &["s/c"]);
    });
    assert_eq!(script.answer(CDS, "", Some("cluster(s) s/c: bad")), ["rds s/a=2"]);
}

#[test]
fn grpc_clients_are_never_kept_waiting() {
    let mut script = Script::of(Dialect::Grpc, two_services());
    script.begin(CDS, "s/a");
    assert_eq!(script.begin(RDS, "s/a"), ["rds s/a=1"]);
}

/// A release is promoted whose resources have the same bytes.
#[test]
fn equal_bytes_are_not_sent_and_their_new_version_is_had() {
    for (dialect, names) in [(Dialect::Envoy, ""), (Dialect::Grpc, "s/a s/b")] {
        let mut script = Script::of(dialect, two_services());
        script.begin(CDS, names);
        script.answer(CDS, names, ACK);
        assert_eq!(script.change(|view| view.put(CDS, "s/b", "1")), NOTHING);
        let has = script.protocol.state().type_state(CDS).delivered().acked.clone();
        assert_eq!(has.get("s/b").expect("had").version.index, script.view.index);
    }
}

#[test]
fn one_of_a_type_is_under_way_and_the_next_is_the_newest() {
    let mut script = Script::envoy();
    script.begin(EDS, "s/a");
    for content in ["2", "3", "4"] {
        assert_eq!(script.change(|view| view.put(EDS, "s/a", content)), NOTHING);
    }
    assert_eq!(script.answer(EDS, "s/a", ACK), ["eds s/a=4"]);
}

/// Names, versions and bytes depend on the state alone.
#[test]
fn two_nodes_with_one_state_send_the_same_versions() {
    let view = two_services();
    let [mut one, mut other] = [view.clone(), view.rebuilt()].map(|view| Script::of(Dialect::Envoy, view));
    for (kind, names) in [(CDS, ""), (EDS, "s/b s/a"), (LDS, "")] {
        one.begin(kind, names);
        other.begin(kind, names);
        assert_eq!(one.last[kind.index()], other.last[kind.index()]);
    }
}

#[test]
fn a_wildcard_takes_no_memory_of_its_own() {
    let mut script = Script::envoy();
    script.begin(CDS, "");
    script.answer(CDS, "", ACK);
    for round in 0..3 {
        script.change(|view| view.put(CDS, "s/a", &round.to_string()));
        script.answer(CDS, "", ACK);
    }
    use super::super::View;
    let type_state = script.protocol.state().type_state(CDS);
    assert!(type_state.sent().ptr_eq(&script.view.all(CDS)) && type_state.delivered().acked.ptr_eq(type_state.sent()));
}
