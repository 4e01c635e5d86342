//! Requesters and approvers as persons, whichever of their service tokens they use, and whatever happens to the tokens.
//! A token `token:NAME` has the secret `token:NAME` here.

use super::*;
use crate::catalog::history::Thing;
use crate::catalog::releases::{RolloutChange, RolloutTransition};
use crate::model::release::GivenTime;
use crate::model::service_token::{Rotation, ServiceTokenChange, ServiceTokenDraft};
use crate::model::time::Timestamp;

impl House {
    /// Creates a service token in the name of a user.
    fn token(&mut self, name: &str, by: &str, roles: &[Role]) {
        let draft = ServiceTokenDraft {
            name: name.into(),
            hash: TokenHash(format!("token:{name}")),
            grants: Grants::new(roles.iter().copied().map(Grant::of).collect::<Vec<_>>()),
            ..ServiceTokenDraft::default()
        };
        assert_eq!(self.code(by, Command::ServiceTokens(Op::Create, vec![draft])), 200_000);
    }

    fn change(&mut self, name: &str, change: ServiceTokenChange) {
        let change = ServiceTokenChange { name: name.into(), ..change };
        assert_eq!(self.bench.codes(Command::ChangeTokens(vec![change])), [200_000]);
    }

    fn disable(&mut self, name: &str) {
        self.change(name, ServiceTokenChange { disabled: Some(true), ..ServiceTokenChange::default() });
    }

    fn delete_token(&mut self, name: &str) {
        let draft = ServiceTokenDraft { name: name.into(), ..ServiceTokenDraft::default() };
        assert_eq!(self.bench.codes(Command::ServiceTokens(Op::Delete, vec![draft])), [200_000]);
    }

    fn delete_user(&mut self, name: &str) {
        let draft = UserDraft { name: name.into(), ..UserDraft::default() };
        assert_eq!(self.bench.codes(Command::Users(Op::Delete, vec![draft])), [200_000]);
    }

    /// Returns the request that a user makes.
    fn asked_by(&mut self, user: &str, draft: ConfigReleaseDraft) -> String {
        let outcome = self.ask(user, Command::ConfigPublish(vec![draft]));
        let Entity::Request(request) = &outcome.entity else { panic!("{outcome:?}") };
        request.id.clone()
    }
}

fn two() -> PolicyDraft {
    policy(r#"{"name":"two","approvals":2}"#)
}

fn one() -> PolicyDraft {
    policy(r#"{"name":"one","approvals":1}"#)
}

#[test]
fn a_token_that_was_disabled_approves_nothing_and_has_nothing_released() {
    let mut house = House::with_policy(two());
    house.hire("ann", vec![Grant::of(Role::Admin)]);
    house.token("bot", "ann", &[Role::Approver, Role::Reader]);
    house.token("asks", "ann", &[Role::Releaser, Role::Editor]);
    house.save("a=1");
    let id = house.request(asked());
    assert_eq!(house.decide("token:bot", RequestOp::Approve, &id), done("open"));
    house.disable("bot");
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("open"), "the first counts no more");
    let id = house.asked_by("token:asks", asked());
    house.disable("asks");
    house.decide("abe", RequestOp::Approve, &id);
    assert_eq!(
        house.decide("bea", RequestOp::Approve, &id),
        (409_000, "failed".into()),
        "its requester may not any more"
    );
    assert_eq!(house.in_force(), None);
}

#[test]
fn a_token_that_was_disabled_has_nothing_published_that_it_planned() {
    let mut house = House::new();
    house.hire("ann", vec![Grant::of(Role::Admin)]);
    house.token("plans", "ann", &[Role::Releaser, Role::Editor]);
    house.save("a=1");
    let at = Timestamp(house.bench.ctx(house.bench.index).time.0 + 5_000);
    let planned = ConfigReleaseDraft { publish_at: Some(GivenTime(at)), name: Some("p".into()), ..publish() };
    assert_eq!(house.code("token:plans", Command::ConfigPublish(vec![planned])), 200_000);
    let plan = serde_json::from_str(r#"{"by":"CLIENT_IP","steps":[{"percent":1,"hold_s":1},{"percent":100}]}"#);
    let gray = ConfigReleaseDraft {
        name: Some("g".into()),
        release_type: Some("gray".into()),
        plan: Some(plan.expect("a plan")),
        ..publish()
    };
    assert_eq!(house.code("token:plans", Command::ConfigPublish(vec![gray])), 200_000);
    house.disable("plans");
    house.bench.index += 10;
    let due = house.bench.catalog.due(house.bench.ctx(house.bench.index).time);
    assert_eq!(house.bench.codes(Command::PublishDue(due)), [409_000], "a gray one is in force");
    let step = RolloutTransition {
        change: RolloutChange::Advance,
        ..house.bench.catalog.live_rollouts().iter().map(move_of).next().expect("one is live")
    };
    house.bench.apply(Command::Rollouts(vec![step]));
    let gray = house.bench.catalog.configs.release(&key(), "g").expect("kept").clone();
    let rollout = gray.rollout.as_ref().expect("it has one");
    assert!(gray.active && rollout.reason.contains("author"), "{rollout:?}");
}

#[test]
fn nobody_approves_what_they_asked_for_by_tokens_of_tokens() {
    let mut house = House::with_policy(one());
    house.hire("ann", vec![Grant::of(Role::Admin)]);
    house.save("a=1");
    house.token("one", "ann", &[Role::Admin]);
    house.token("two", "token:one", &[Role::Approver, Role::Releaser, Role::Editor, Role::Reader]);
    let (own, other) = (house.asked_by("ann", asked()), house.asked_by("token:two", asked()));
    house.delete_token("one");
    assert_eq!(house.decide("token:two", RequestOp::Approve, &own), (401_001, "open".into()));
    assert_eq!(house.decide("ann", RequestOp::Approve, &other), (401_001, "open".into()));
    house.delete_token("two");
    assert_eq!(house.decide("ann", RequestOp::Approve, &other), (401_001, "open".into()), "gone, and still theirs");
}

#[test]
fn whoever_was_given_the_secret_of_a_token_is_behind_it() {
    let mut house = House::with_policy(one());
    house.hire("ann", vec![Grant::of(Role::Admin)]);
    house.hire("cy", vec![Grant::of(Role::Admin)]);
    house.save("a=1");
    house.token("bot", "ann", &[Role::Approver, Role::Reader]);
    let (of_ann, of_cy) = (house.asked_by("ann", asked()), house.asked_by("cy", asked()));
    let rotation = Some(Rotation { hash: TokenHash("token:bot anew".into()), overlap_s: 3600 });
    let change = ServiceTokenChange { name: "bot".into(), rotation, ..ServiceTokenChange::default() };
    assert_eq!(house.code("cy", Command::ChangeTokens(vec![change])), 200_000);
    let mut by_secret = |hash: &str, id: &str| {
        let draft = RequestDraft { id: id.into(), ..RequestDraft::default() };
        house.code(hash, Command::Requests(RequestOp::Approve, vec![draft]))
    };
    assert_eq!(by_secret("token:bot", &of_ann), 401_001, "the old secret is ann's");
    assert_eq!(by_secret("token:bot anew", &of_cy), 401_001, "the new one is cy's");
    assert_eq!(by_secret("token:bot anew", &of_ann), 200_000);
}

#[test]
fn whoever_comes_to_be_called_so_is_somebody_else() {
    let mut house = House::with_policy(two());
    house.save("a=1");
    let id = house.request(asked());
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("open"));
    house.delete_user("abe");
    house.hire("abe", vec![Grant::of(Role::Approver), Grant::of(Role::Reader)]);
    assert_eq!(house.decide("bea", RequestOp::Approve, &id), done("open"), "another abe has approved nothing");
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("done"), "and may");
    assert_eq!(house.bench.catalog.approvals.get(&id).expect("kept").approvals.len(), 3);

    house.save("a=2");
    let in_set = || ConfigReleaseDraft { request_set: Some("s".into()), ..asked() };
    let id = house.request(in_set());
    house.delete_user("rita");
    house.hire("rita", vec![Grant::of(Role::Releaser), Grant::of(Role::Editor)]);
    let other = house.request(in_set());
    assert_eq!(house.bench.catalog.approvals.get(&other).expect("kept").part_of, "", "a set of another rita");
    assert_eq!(house.decide("rita", RequestOp::Withdraw, &id).0, 401_001);
    house.decide("abe", RequestOp::Approve, &id);
    assert_eq!(house.decide("bea", RequestOp::Approve, &id), (409_000, "failed".into()), "its requester is gone");
}

#[test]
fn an_approval_that_counts_no_more_is_replaced() {
    let mut house = House::with_policy(two());
    house.hire("ann", vec![Grant::of(Role::Admin)]);
    house.token("late", "ann", &[Role::Approver, Role::Reader]);
    house.save("a=1");
    let id = house.request(asked());
    assert_eq!(house.decide("token:late", RequestOp::Approve, &id), done("open"));
    assert_eq!(house.decide("ann", RequestOp::Approve, &id).0, 200_002, "the same person");
    let change = ServiceTokenChange { expires_in_s: Some(1), ..ServiceTokenChange::default() };
    house.change("late", change);
    house.bench.index += 10;
    assert_eq!(house.decide("ann", RequestOp::Approve, &id), done("open"));
    let given: Vec<_> = house.bench.catalog.approvals.get(&id).expect("kept").approvals.clone();
    assert_eq!(given.iter().map(|given| given.user.as_str()).collect::<Vec<_>>(), ["ann"]);
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("done"));
}

/// Returns a change of a rollout as the leader would find it.
fn move_of(live: &crate::catalog::releases::LiveRollout) -> RolloutTransition {
    live.clone().moved(RolloutChange::GoOn)
}

#[test]
fn the_end_of_a_rollout_is_in_the_name_of_who_planned_it() {
    let mut house = House::new();
    house.save("a=1");
    let plan = serde_json::from_str(r#"{"by":"CLIENT_IP","steps":[{"percent":1,"hold_s":1},{"percent":100}]}"#);
    let gray = ConfigReleaseDraft {
        name: Some("g".into()),
        release_type: Some("gray".into()),
        plan: Some(plan.expect("a plan")),
        ..publish()
    };
    assert_eq!(house.code("rita", Command::ConfigPublish(vec![gray])), 200_000);
    house.bench.index += 10;
    let found = house.bench.catalog.live_rollouts().iter().map(move_of).next().expect("one is live");
    let mut ctx = house.bench.ctx(house.bench.index);
    crate::model::access::CLUSTER.clone_into(&mut ctx.by);
    house.bench.apply_as(&ctx, Command::Rollouts(vec![RolloutTransition { change: RolloutChange::Advance, ..found }]));
    let release = house.bench.catalog.configs.active_release(&key()).expect("for all");
    assert_eq!(release.created.by, "rita");
    let newest = house.bench.catalog.history.of(&Thing::File(key())).next().expect("an event").clone();
    assert_eq!((newest.action.word(), newest.user.as_str()), ("promote", "rita"));
}

/// A leader whose clock was ahead has stamped an entry, and the following entries have its time.
#[test]
fn who_is_called_so_within_the_same_millisecond_is_somebody_else() {
    let mut house = House::with_policy(two());
    house.save("a=1");
    house.bench.index += 1;
    let mut ctx = house.bench.ctx(house.bench.index);
    ctx.time = Timestamp(ctx.time.0 + 3_600_000);
    house.bench.apply_as(&ctx, Command::Policies(Op::Create, vec![policy(r#"{"name":"none","approvals":0}"#)]));
    let id = house.request(asked());
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("open"));
    house.delete_user("abe");
    house.hire("abe", vec![Grant::of(Role::Approver), Grant::of(Role::Reader)]);
    assert_eq!(house.bench.catalog.access.user_named("abe").expect("made").ctime, house.bench.catalog.clock());
    assert_eq!(house.decide("bea", RequestOp::Approve, &id), done("open"), "another abe has approved nothing");
    house.delete_user("rita");
    house.hire("rita", vec![Grant::of(Role::Releaser), Grant::of(Role::Editor)]);
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), (409_000, "failed".into()), "its requester is gone");
}

/// An approved action is planned and rolled out whatever policies require later.
#[test]
fn nothing_is_run_as_approved_whose_approvers_are_gone() {
    let mut house = House::with_policy(one());
    house.save("a=1");
    let id = house.request(ConfigReleaseDraft { hold: Some(true), ..asked() });
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("approved"));
    house.delete_user("abe");
    assert_eq!(house.bench.codes(Command::Policies(Op::Delete, vec![one()])), [200_000]);
    assert_eq!(house.decide("rita", RequestOp::Run, &id), (409_001, "open".into()));
    assert_eq!(house.decide("bea", RequestOp::Approve, &id), done("approved"));
    assert_eq!(house.decide("rita", RequestOp::Run, &id), done("done"));
}
