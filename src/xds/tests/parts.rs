//! Order of responses, and responses in several parts.

use super::super::View;
use super::super::protocol::ProtocolVariant;
use super::super::stream_state::StreamFault;
use super::delta::{Script, request};
use super::*;
use crate::model::mesh::Dialect;

const ACK: Option<&str> = None;
const NOTHING: [&str; 0] = [];

fn with_routes() -> FakeView {
    let mut view = FakeView::default();
    for name in ["s/a", "s/b"] {
        view.put(CDS, name, "1");
        view.put(EDS, name, "1");
    }
    view.put_naming(RDS, "outbound", "1", &["s/a", "s/b"]);
    view
}

fn without_one(view: &mut FakeView) {
    view.remove(CDS, "s/b");
    view.remove(EDS, "s/b");
    view.put_naming(RDS, "outbound", "2", &["s/a"]);
}

#[test]
fn routes_leave_before_the_clusters_that_they_name() {
    let mut script = Script::of(with_routes());
    for (kind, names) in [(CDS, ""), (EDS, "s/a s/b"), (RDS, "outbound")] {
        script.ask(kind, names, "");
        script.answer(kind, ACK);
    }
    assert_eq!(script.change(without_one), ["rds outbound=2"]);
    let removed = script.answer(RDS, ACK);
    assert_eq!(removed, ["cds -s/b", "eds -s/b ?s/b"]);
}

#[test]
fn routes_leave_before_the_clusters_in_sotw() {
    let mut script = super::sotw::Script::of(Dialect::Envoy, with_routes());
    for (kind, names) in [(CDS, ""), (EDS, "s/a s/b"), (RDS, "outbound")] {
        script.begin(kind, names);
        script.answer(kind, names, ACK);
    }
    assert_eq!(script.change(without_one), ["rds outbound=2"]);
    assert_eq!(script.answer(RDS, "outbound", ACK), ["cds s/a=1", "eds ?s/b"]);
}

/// A cluster that waits for its removal does not delay other clusters.
#[test]
fn a_cluster_that_waits_to_be_removed_is_sent_with_others() {
    let mut script = super::sotw::Script::of(Dialect::Envoy, with_routes());
    for (kind, names) in [(CDS, ""), (RDS, "outbound")] {
        script.begin(kind, names);
        script.answer(kind, names, ACK);
    }
    let sent = script.change(|view| {
        view.remove(CDS, "s/b");
        view.put(CDS, "s/c", "1");
        view.put_naming(RDS, "outbound", "2", &["s/a", "s/c"]);
    });
    assert_eq!(sent, ["cds s/a=1 s/b=1 s/c=1"]);
    assert_eq!(script.answer(CDS, "", ACK), ["rds outbound=2"]);
    assert_eq!(script.answer(RDS, "outbound", ACK), ["cds s/a=1 s/c=1"]);
}

#[test]
fn endpoints_of_few_places_may_be_asked_for() {
    let mut script = Script::of(two_services());
    let names = |count: usize| (0..count).map(|number| format!("s/a@r/z/{number}")).collect::<Vec<_>>().join(" ");
    let ask = |script: &mut Script, count| {
        let first = request(EDS, &names(count), "");
        script.protocol.take(first, &script.view, now_at(script.now))
    };
    assert_eq!(ask(&mut script, 16), Ok(()));
    assert!(matches!(ask(&mut script, 17), Err(StreamFault::TooMany(_))));
}

/// Individually looked-up names are sent in parts of the response size, and a change in between is not lost.
#[test]
fn many_large_names_come_in_parts() {
    let (mut view, mut names) = (FakeView::default(), Vec::new());
    for number in 0..100 {
        let name = format!("hidden/{number:03}");
        view.put(EDS, &name, &"x".repeat(100_000));
        names.push(name);
    }
    let mut script = Script::of(view);
    let mut sent = script.ask(EDS, &names.join(" "), "");
    assert!(sent.len() == 1 && sent[0].len() < 4_000_000);
    script.protocol.state_mut().invalidate();
    assert_eq!(script.change(|view| view.put(EDS, "hidden/001", "new")), NOTHING);
    for _ in 0..5 {
        sent.extend(script.answer(EDS, ACK));
    }
    let all = sent.join(" ");
    assert!(names.iter().all(|name| all.contains(&format!("{name}="))) && all.contains("hidden/001=new"));
    assert_eq!(all.matches("hidden/").count(), 101);
    assert_eq!(script.answer(EDS, ACK), NOTHING);
}

/// A stream that subscribes to all resources by name shares their map, before and after a change.
#[test]
fn who_has_all_by_name_shares_it() {
    let (mut view, mut names) = (FakeView::default(), Vec::new());
    for number in 0..100 {
        let name = format!("s/{number:03}");
        view.put(EDS, &name, "1");
        names.push(name);
    }
    let mut script = Script::of(view);
    let shares = |script: &Script| {
        let (all, type_state) = (View::all(&script.view, EDS), script.protocol.state().type_state(EDS));
        (type_state.sent().ptr_eq(&all), type_state.delivered().acked.ptr_eq(&all))
    };
    script.ask(EDS, &names.join(" "), "");
    assert_eq!(shares(&script), (false, false), "it is not acknowledged");
    script.answer(EDS, ACK);
    assert_eq!(shares(&script), (true, true));
    assert_eq!(script.change(|view| view.put(EDS, "s/007", "2")), ["eds s/007=2"]);
    script.answer(EDS, ACK);
    assert_eq!(shares(&script), (true, true));
    assert_eq!(script.change(|view| view.put(EDS, "s/other", "1")), NOTHING);
    assert_eq!(script.change(|view| view.put(EDS, "s/008", "2")), ["eds s/008=2"]);
    assert_eq!(script.answer(EDS, Some("no")), NOTHING);
    let has = |script: &Script| script.protocol.state().type_state(EDS).delivered().acked["s/008"].bytes();
    assert_eq!(has(&script), "s/008=1", "what is refused is not had");
    assert_eq!(script.change(|view| view.remove(EDS, "s/other")), NOTHING);
    assert_eq!(has(&script), "s/008=1");
}
