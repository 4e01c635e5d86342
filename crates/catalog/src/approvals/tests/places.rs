//! Places for requests: a share for each person, and retention of closed requests. Results of `run`.

use super::*;
use crate::model::approval::ApprovalRequest;
use crate::model::limits;
use crate::model::time::Timestamp;

/// Returns a stored request of a person.
fn kept(person: &str, number: usize, state: RequestState, comment: &str) -> ApprovalRequest {
    let stamp = |time: usize| crate::model::stamp::Stamp { time: Timestamp(time as u64), by: person.into() };
    ApprovalRequest {
        id: format!("{person}-{number}"),
        state,
        kind: PolicyKind::ConfigFile,
        namespace: "n".into(),
        name: "g/f".into(),
        group: "g".into(),
        ends: Vec::new(),
        act: crate::model::policy::Gate::Publish,
        comment: comment.into(),
        hash: String::new(),
        base_version: 0,
        publish_at: None,
        hold: false,
        approvals: Vec::new(),
        refused_by: String::new(),
        reason: String::new(),
        created: stamp(number),
        person: person.into(),
        author: None,
        modified: stamp(number),
        payload: None,
        set: String::new(),
        parts: 0,
        part_of: String::new(),
    }
}

fn count(approvals: &Approvals, person: &str) -> usize {
    approvals.by_id.values().filter(|request| request.person == person).count()
}

#[test]
fn one_person_takes_no_more_places_than_a_share() {
    let mut approvals = Approvals::default();
    let mut changes = ChangeSet::default();
    for number in 0..limits::REQUESTS_OF_ONE_MAX {
        assert_eq!(approvals.shares.admit("rita"), Ok(()));
        approvals.put(kept("rita", number, RequestState::Open, ""), &mut changes);
    }
    assert_eq!(approvals.shares.admit("rita").expect_err("all taken").code, Code::TooMany);
    assert_eq!(approvals.shares.admit("olga"), Ok(()), "others may still ask");
    approvals.put(kept("rita", 3, RequestState::Withdrawn, ""), &mut changes);
    assert_eq!(approvals.shares.admit("rita"), Ok(()), "one has ended");
}

#[test]
fn what_waits_counts_by_its_bytes() {
    let mut house = House::with_policy(policy(r#"{"name":"p"}"#));
    house.save(&"x".repeat(100_000));
    let id = house.request(asked());
    let shares = &house.bench.catalog.approvals.shares;
    let request = house.bench.catalog.approvals.get(&id).expect("kept");
    assert!(shares.bytes_of_one(request.payer()) > 100_000, "with the text that it is a copy of");
    let mut approvals = Approvals::default();
    let mut changes = ChangeSet::default();
    let heavy = "x".repeat(1024 * 1024);
    let places = limits::REQUESTS_OF_ONE_BYTES_MAX as usize / heavy.len();
    for number in 0..places {
        assert_eq!(approvals.shares.admit("rita"), Ok(()), "{number}");
        approvals.put(kept("rita", number, RequestState::Open, &heavy), &mut changes);
    }
    assert_eq!(approvals.shares.admit("rita").expect_err("all taken").code, Code::TooMany);
    assert_eq!(approvals.shares.admit("olga"), Ok(()));
}

#[test]
fn whoever_fills_the_places_of_what_has_ended_pays() {
    let mut approvals = Approvals::default();
    let mut changes = ChangeSet::default();
    for number in 0..10 {
        approvals.put(kept("olga", number, RequestState::Refused, "why"), &mut changes);
    }
    for number in 10..10 + limits::REQUESTS_CLOSED_MAX + 500 {
        approvals.put(kept("rita", number, RequestState::Withdrawn, ""), &mut changes);
    }
    assert_eq!(count(&approvals, "olga"), 10, "what was decided for others stays");
    assert_eq!(approvals.len(), limits::REQUESTS_CLOSED_MAX);
    assert!(approvals.get("rita-10").is_none(), "the oldest goes first");
    let heavy = "x".repeat(64 * 1024);
    for number in 0..1000 {
        approvals.put(kept("heavy", number, RequestState::Withdrawn, &heavy), &mut changes);
    }
    let bytes = limits::REQUESTS_CLOSED_BYTES_MAX as usize;
    assert!(count(&approvals, "heavy") <= bytes / heavy.len() && count(&approvals, "olga") == 10);
    assert!(count(&approvals, "rita") > limits::REQUESTS_CLOSED_MAX - 1100, "bytes are paid by who has most of them");
}

#[test]
fn to_run_what_is_not_carried_out_is_no_success() {
    let mut house = House::with_policy(policy(r#"{"name":"p","approvals":1}"#));
    house.save("a=1");
    let held = || ConfigReleaseDraft { hold: Some(true), ..asked() };
    let (first, second) = (house.request(held()), house.request(held()));
    assert_eq!(house.decide("abe", RequestOp::Approve, &first), done("approved"));
    assert_eq!(house.decide("abe", RequestOp::Approve, &second), done("approved"));
    let more = policy(r#"{"name":"p","approvals":2}"#);
    assert_eq!(house.bench.codes(Command::Policies(Op::Update, vec![more])), [200_000]);
    let draft = RequestDraft { id: first.clone(), ..RequestDraft::default() };
    let outcome = house.ask("rita", Command::Requests(RequestOp::Run, vec![draft]));
    assert!(outcome.code == Code::ApprovalRequired && outcome.info().contains("p asks for 2"), "{outcome:?}");
    let Entity::Request(request) = outcome.entity else { panic!("{:?}", outcome.entity) };
    assert_eq!(request.state, RequestState::Open);
    assert_eq!(house.decide("bea", RequestOp::Approve, &first), done("approved"));
    assert_eq!(house.decide("rita", RequestOp::Run, &first), done("done"));
    assert_eq!(house.decide("bea", RequestOp::Approve, &second), done("approved"));
    assert_eq!(house.decide("rita", RequestOp::Run, &second), (409_000, "stale".into()));
}
