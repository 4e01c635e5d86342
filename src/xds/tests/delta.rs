//! Corner cases of the delta variant.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::super::View;
use super::super::delta::Delta;
use super::super::protocol::ProtocolVariant;
use super::super::stream_state::StreamFault;
use super::*;
use crate::model::mesh::Dialect;
use crate::proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};

const ACK: Option<&str> = None;
const NOTHING: [&str; 0] = [];

/// A stream with a scripted client.
pub(super) struct Script {
    pub(super) protocol: Delta,
    pub(super) view: FakeView,
    pub(super) now: Instant,
    last: [DeltaDiscoveryResponse; 4],
}

impl Script {
    pub(super) fn of(view: FakeView) -> Script {
        let protocol = Delta::new(Dialect::Envoy, "thuban test".into());
        Script { protocol, view, now: Instant::now(), last: std::array::from_fn(|_| DeltaDiscoveryResponse::default()) }
    }

    fn take(&mut self, request: DeltaDiscoveryRequest) -> Vec<String> {
        self.protocol.take(request, &self.view, now_at(self.now)).expect("a request that makes sense");
        self.responses()
    }

    pub(super) fn ask(&mut self, kind: ResourceType, subscribe: &str, unsubscribe: &str) -> Vec<String> {
        self.take(request(kind, subscribe, unsubscribe))
    }

    /// Sends a first request with the versions that the client has.
    fn come_back(&mut self, kind: ResourceType, subscribe: &str, has: &BTreeMap<String, String>) -> Vec<String> {
        self.take(DeltaDiscoveryRequest { initial_resource_versions: has.clone(), ..request(kind, subscribe, "") })
    }

    pub(super) fn answer(&mut self, kind: ResourceType, refused: Option<&str>) -> Vec<String> {
        let nonce = self.last[kind.index()].nonce.clone();
        self.answer_nonce(kind, &nonce, refused)
    }

    fn answer_nonce(&mut self, kind: ResourceType, nonce: &str, refused: Option<&str>) -> Vec<String> {
        let (response_nonce, error_detail) = (nonce.to_owned(), refused.map(refusal));
        self.take(DeltaDiscoveryRequest { response_nonce, error_detail, ..request(kind, "", "") })
    }

    fn responses(&mut self) -> Vec<String> {
        std::iter::from_fn(|| {
            let response = self.protocol.next(&self.view, now_at(self.now))?;
            let resources: Vec<_> = response.resources.iter().filter_map(|found| found.resource.as_ref()).collect();
            let told = in_short(&response.type_url, &resources, &response.removed_resources, &response.resource_errors);
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

pub(super) fn request(kind: ResourceType, subscribe: &str, unsubscribe: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        resource_names_subscribe: strings(subscribe),
        resource_names_unsubscribe: strings(unsubscribe),
        ..Default::default()
    }
}

/// Returns the names and versions of all resources of a type.
fn versions(view: &FakeView, kind: ResourceType) -> BTreeMap<String, String> {
    view.all(kind).iter().map(|(name, found)| (name.to_string(), found.version.to_string())).collect()
}

fn names(view: &FakeView, kind: ResourceType) -> String {
    let all = view.all(kind);
    all.keys().map(|name| name.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_changed_is_sent_and_what_is_gone_removed() {
    let mut script = Script::of(two_services());
    assert_eq!(script.ask(CDS, "", ""), ["cds s/a=1 s/b=1"]);
    let first = script.last[CDS.index()].resources[0].clone();
    assert_eq!((first.name.as_str(), first.version), ("s/a", script.view.all(CDS)["s/a"].version.to_string()));
    assert_eq!(script.answer(CDS, ACK), NOTHING);
    let sent = script.change(|view| {
        view.put(CDS, "s/a", "2");
        view.remove(CDS, "s/b");
    });
    assert_eq!(sent, ["cds s/a=2 -s/b"]);
    script.answer(CDS, ACK);
    assert_eq!(script.delivered_text(CDS), "s/a=2");
}

/// Without the endpoints Envoy would wait 15 s to use the changed cluster.
#[test]
fn endpoints_go_out_behind_a_changed_cluster_unasked() {
    let mut script = Script::of(two_services());
    script.view.put(EDS, "s/a@eu/1/c", "1");
    script.ask(CDS, "", "");
    script.answer(CDS, ACK);
    script.ask(EDS, "s/a s/a@eu/1/c s/b", "");
    script.answer(EDS, ACK);
    let version = script.last[EDS.index()].resources[0].version.clone();
    let sent = script.change(|view| view.put(CDS, "s/a", "2"));
    assert_eq!(sent, ["cds s/a=2", "eds s/a=1 s/a@eu/1/c=1"]);
    assert_eq!(script.last[EDS.index()].resources[0].version, version);
    assert_eq!((script.answer(EDS, ACK), script.answer(CDS, ACK)), (vec![], vec![]));
    script.change(|view| view.put(EDS, "s/b", "2"));
    let sent = script.change(|view| view.put(CDS, "s/b", "2"));
    assert_eq!(sent, ["cds s/b=2"], "endpoints are under way");
    assert_eq!(script.answer(EDS, ACK), ["eds s/b=2"]);
}

/// Without the empty response the start of Envoy takes 16 s.
#[test]
fn nothing_is_an_answer_to_the_first_question_for_all() {
    let mut script = Script::of(FakeView::default());
    assert_eq!(script.ask(CDS, "", ""), ["cds"]);
    assert_eq!(script.ask(LDS, "*", ""), ["lds"]);
    assert!(!script.last[LDS.index()].nonce.is_empty());
    assert_eq!((script.answer(CDS, ACK), script.answer(LDS, ACK)), (vec![], vec![]));
    assert_eq!(script.ask(EDS, "", ""), NOTHING);
}

/// Removing the wildcard leaves the names subscribed.
#[test]
fn a_name_stays_when_all_is_taken_away() {
    let mut script = Script::of(two_services());
    assert_eq!(script.ask(CDS, "* s/a", ""), ["cds s/a=1 s/b=1"]);
    script.answer(CDS, ACK);
    assert_eq!(script.ask(CDS, "", "*"), NOTHING);
    assert_eq!(script.change(|view| view.put(CDS, "s/b", "2")), NOTHING);
    assert_eq!(script.change(|view| view.put(CDS, "s/a", "2")), ["cds s/a=2"]);
    script.answer(CDS, ACK);
    assert_eq!(script.ask(CDS, "*", ""), ["cds s/b=2"], "all again");
}

#[test]
fn a_name_dropped_beside_all_is_told_once_more() {
    let mut script = Script::of(two_services());
    script.view.put(CDS, "hidden/c", "1");
    assert_eq!(script.ask(CDS, "* s/a hidden/c", ""), ["cds hidden/c=1 s/a=1 s/b=1"]);
    script.answer(CDS, ACK);
    assert_eq!(script.ask(CDS, "", "s/a hidden/c"), ["cds s/a=1 -hidden/c"]);
    script.answer(CDS, ACK);
    assert_eq!(script.delivered_text(CDS), "s/a=1 s/b=1");
}

/// After a reconnect, equal resources are not sent and missing ones are removed.
#[test]
fn who_comes_back_is_sent_what_differs() {
    let before = two_services();
    let mut now = before.rebuilt();
    now.put(CDS, "s/a", "2");
    now.remove(CDS, "s/b");
    now.put(CDS, "s/c", "1");
    now.put(EDS, "s/a", "2");
    now.remove(EDS, "s/b");
    let mut script = Script::of(now);
    assert_eq!(script.come_back(CDS, "", &versions(&before, CDS)), ["cds s/a=2 s/c=1 -s/b"]);
    assert_eq!(script.come_back(EDS, "s/a s/b", &versions(&before, EDS)), ["eds s/a=2 -s/b ?s/b"]);
    assert_eq!(script.come_back(RDS, "s/a s/b", &versions(&before, RDS)), NOTHING);
    assert_eq!(script.delivered_text(RDS), "s/a=1 s/b=1");
}

/// The other node has reached the same state by a different sequence of changes.
#[test]
fn who_comes_back_to_an_equal_node_costs_nothing() {
    let before = two_services();
    let mut script = Script::of(before.rebuilt());
    for kind in [CDS, LDS] {
        assert_eq!(script.come_back(kind, "", &versions(&before, kind)), [kind.label()], "an empty answer");
        script.answer(kind, ACK);
        assert!(script.protocol.state().type_state(kind).sent().ptr_eq(&script.view.all(kind)));
    }
    for kind in [EDS, RDS] {
        assert_eq!(script.come_back(kind, &names(&before, kind), &versions(&before, kind)), NOTHING);
        assert_eq!(script.delivered_text(kind), "s/a=1 s/b=1");
    }
}

/// The first request for endpoints after a reconnect arrives after the changed clusters were sent.
#[test]
fn endpoints_that_a_client_has_go_out_behind_clusters_sent_before() {
    let before = two_services();
    let mut script = Script::of(before.clone());
    script.view.put(CDS, "s/a", "2");
    assert_eq!(script.come_back(CDS, "", &versions(&before, CDS)), ["cds s/a=2"]);
    assert_eq!(script.come_back(EDS, "s/a s/b", &versions(&before, EDS)), ["eds s/a=1"]);
}

#[test]
fn what_a_client_has_from_before_is_removed_though_it_was_never_sent() {
    let before = two_services();
    let mut script = Script::of(before.clone());
    script.view.put(CDS, "s/a", "2");
    let first = DeltaDiscoveryRequest { initial_resource_versions: versions(&before, CDS), ..request(CDS, "", "") };
    script.protocol.take(first, &script.view, now_at(script.now)).expect("a request");
    assert_eq!(script.change(|view| view.remove(CDS, "s/a")), ["cds -s/a"]);
}

#[test]
fn foreign_versions_and_names_are_no_obstacle() {
    let mut script = Script::of(two_services());
    let foreign = [("s/a", "v7"), ("s/b", ""), ("zzz", "42-00000000000000ab"), ("s/é", "-1-x")];
    let foreign = foreign.map(|(name, version)| (name.to_owned(), version.to_owned())).into();
    let told = script.come_back(CDS, "", &foreign);
    assert_eq!(told, ["cds s/a=1 s/b=1 -s/é -zzz"]);
    assert_eq!(script.come_back(EDS, "s/a", &foreign), ["eds s/a=1"], "others are not asked for");
}

/// A repeated subscription is answered, and a removed one is not.
#[test]
fn a_name_asked_for_again_is_sent_again() {
    let mut script = Script::of(two_services());
    assert_eq!(script.ask(EDS, "s/a", ""), ["eds s/a=1"]);
    script.answer(EDS, ACK);
    assert_eq!(script.ask(EDS, "s/a", ""), ["eds s/a=1"]);
    script.answer(EDS, ACK);
    assert_eq!(script.ask(EDS, "", "s/a"), NOTHING);
    assert_eq!(script.delivered_text(EDS), "");
    assert_eq!(script.change(|view| view.put(EDS, "s/a", "2")), NOTHING);
    assert_eq!(script.ask(EDS, "s/a", ""), ["eds s/a=2"]);
}

/// ACKs and a NACK of several outstanding responses arrive in another order.
#[test]
fn answers_in_any_order_are_booked_to_their_responses() {
    let mut script = Script::of(two_services());
    for kind in [CDS, EDS, LDS] {
        script.ask(kind, "s/a", "");
    }
    script.answer(CDS, ACK);
    script.ask(RDS, "s/a", "");
    script.answer(LDS, ACK);
    let sent = script.change(|view| ResourceType::ALL.into_iter().for_each(|kind| view.put(kind, "s/a", "2")));
    assert_eq!(sent, ["cds s/a=2", "lds s/a=2"], "the others are under way");
    assert_eq!(script.answer(RDS, Some("bad")), ["rds s/a=2"], "the next change");
    assert_eq!(script.delivered_text(RDS), " refused s/a");
    script.answer(LDS, ACK);
    assert_eq!(script.answer(EDS, ACK), ["eds s/a=2"]);
    let nonce = script.last[CDS.index()].nonce.clone();
    assert_eq!(script.answer_nonce(EDS, &nonce, Some("of another type")), NOTHING);
    script.answer(CDS, ACK);
    script.answer(EDS, ACK);
    script.answer(RDS, ACK);
    for kind in ResourceType::ALL {
        assert_eq!(script.delivered_text(kind), "s/a=2");
        assert!(!script.protocol.state().type_state(kind).is_in_flight());
    }
}

#[test]
fn what_was_refused_is_not_sent_again_by_itself() {
    let mut script = Script::of(two_services());
    script.ask(CDS, "", "");
    assert_eq!(script.answer(CDS, Some("Error adding/updating cluster(s) s/a: bad")), NOTHING);
    assert_eq!(script.delivered_text(CDS), "s/b=1 refused s/a");
    assert_eq!(script.change(|view| view.put(CDS, "s/b", "2")), ["cds s/b=2"]);
    script.answer(CDS, ACK);
    assert_eq!(script.delivered_text(CDS), "s/b=2", "the other one is still lacking");
    assert_eq!(script.change(|view| view.put(CDS, "s/a", "2")), ["cds s/a=2"]);
    script.answer(CDS, ACK);
    assert_eq!(script.delivered_text(CDS), "s/a=2 s/b=2");
}

/// Removed resources, and names that never existed.
#[test]
fn what_is_not_there_is_removed_and_said() {
    let mut script = Script::of(two_services());
    assert_eq!(script.ask(EDS, "s/a s/x", ""), ["eds s/a=1 -s/x ?s/x"]);
    script.answer(EDS, ACK);
    assert_eq!(script.change(|view| view.put(EDS, "s/b", "2")), NOTHING);
    assert_eq!(script.ask(EDS, "s/x", ""), ["eds -s/x ?s/x"], "asked for again");
    script.answer(EDS, ACK);
    assert_eq!(script.change(|view| view.put(EDS, "s/x", "1")), ["eds s/x=1"]);
    script.answer(EDS, ACK);
    assert_eq!(script.change(|view| view.remove(EDS, "s/x")), ["eds -s/x ?s/x"]);
}

#[test]
fn routes_wait_for_their_new_cluster_alone() {
    let mut script = Script::of(two_services());
    script.ask(CDS, "", "");
    assert_eq!(script.ask(RDS, "s/a s/b", ""), NOTHING);
    assert_eq!(script.answer(CDS, ACK), ["rds s/a=1 s/b=1"]);
    script.answer(RDS, ACK);
    let sent = script.change(|view| {
        view.put(CDS, "s/c", "1");
        view.put_naming(RDS, "s/a", "2", &["s/c"]);
        view.put_naming(RDS, "s/b", "2", &["s/b"]);
    });
    assert_eq!(sent, ["cds s/c=1", "rds s/b=2"]);
    script.answer(RDS, ACK);
    script.now += Duration::from_millis(4_999);
    assert_eq!(script.responses(), NOTHING);
    script.now += Duration::from_millis(1);
    assert_eq!(script.responses(), ["rds s/a=2"]);
}

#[test]
fn who_comes_back_waits_for_no_cluster_that_it_has() {
    let before = two_services();
    let mut script = Script::of(before.clone());
    script.view.put_naming(RDS, "s/a", "2", &["s/b"]);
    script.come_back(CDS, "", &versions(&before, CDS));
    assert_eq!(script.come_back(RDS, "s/a", &versions(&before, RDS)), ["rds s/a=2"]);
}

#[test]
fn listeners_are_not_said_to_be_none_while_they_wait() {
    let mut script = Script::of(FakeView::default());
    script.view.put(CDS, "s/a", "1");
    script.view.put_naming(LDS, "outbound", "1", &["s/a"]);
    script.ask(CDS, "", "");
    assert_eq!(script.ask(LDS, "", ""), NOTHING);
    assert_eq!(script.answer(CDS, ACK), ["lds outbound=1"]);
}

#[test]
fn an_index_that_a_client_names_is_the_newest_it_has_seen() {
    let mut script = Script::of(two_services());
    let has = [("a", "7-00000000000000ab"), ("b", "9-00000000000000ab"), ("c", "x")];
    let has: BTreeMap<_, _> = has.map(|(name, version)| (name.to_owned(), version.to_owned())).into();
    let first = DeltaDiscoveryRequest { initial_resource_versions: has, ..request(CDS, "", "") };
    assert_eq!(script.protocol.named_index(&first), Some(9));
    script.take(first.clone());
    assert_eq!(script.protocol.named_index(&first), None, "later ones name what this stream sent");
    let no_type = script.protocol.take(DeltaDiscoveryRequest::default(), &script.view, now_at(script.now));
    assert!(matches!(no_type, Err(StreamFault::Invalid(_))));
}

#[test]
fn large_states_come_in_parts_and_end_shared() {
    let mut view = FakeView::default();
    let content = "x".repeat(1024 * 1024);
    for number in 0..8 {
        view.put(CDS, &format!("s/{number}"), &content);
    }
    let mut script = Script::of(view);
    let mut parts = script.ask(CDS, "", "").len();
    while !script.answer(CDS, ACK).is_empty() {
        parts += 1;
    }
    assert_eq!(parts, 4);
    let type_state = script.protocol.state().type_state(CDS);
    assert!(type_state.sent().ptr_eq(&script.view.all(CDS)) && type_state.delivered().acked.ptr_eq(type_state.sent()));
}

/// Resources under this many names are compared as a whole instead of being looked up individually.
#[test]
fn many_names_are_followed_as_few_are() {
    let mut view = FakeView::default();
    let mut names = vec!["hidden/x".to_owned(), "s/late".to_owned()];
    view.put(EDS, "hidden/x", "1");
    view.put(EDS, "s/unasked", "1");
    for number in 0..100 {
        view.put(EDS, &format!("s/{number:03}"), "1");
        names.push(format!("s/{number:03}"));
    }
    let mut script = Script::of(view);
    let first = script.ask(EDS, &names.join(" "), "");
    assert!(first[0].ends_with("s/099=1 -s/late ?s/late"), "{first:?}");
    assert_eq!(script.answer(EDS, ACK), NOTHING);
    let rows: [(&str, &str, &str); 8] = [
        ("s/007", "2", "eds s/007=2"),
        ("s/unasked", "2", ""),
        ("hidden/x", "2", "eds hidden/x=2"),
        ("s/late", "1", "eds s/late=1"),
        ("s/late", "2", "eds s/late=2"),
        ("s/late", "", "eds -s/late ?s/late"),
        ("s/unasked", "", ""),
        ("s/late", "3", "eds s/late=3"),
    ];
    for (name, content, expected) in rows {
        let sent = script.change(|view| match content {
            "" => view.remove(EDS, name),
            content => view.put(EDS, name, content),
        });
        assert_eq!(sent.join(""), expected);
        assert_eq!(script.answer(EDS, ACK), NOTHING);
    }
    assert_eq!(script.ask(EDS, "s/unasked", "s/007"), ["eds -s/unasked ?s/unasked"]);
    script.answer(EDS, ACK);
    assert_eq!(script.change(|view| view.put(EDS, "s/007", "9")), NOTHING);
    assert_eq!(script.change(|view| view.put(EDS, "s/unasked", "9")), ["eds s/unasked=9"]);
}
