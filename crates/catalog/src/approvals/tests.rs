//! Evaluation of actions by policies, and decisions on requests.

mod identity;
mod model;
mod persons;
mod places;
mod providers;
mod sets;

use super::*;
use crate::catalog::testing::Bench;
use crate::catalog::{AuthorizedCommand, Command, Credential, Entity, Op, Outcome};
use crate::model::access::{PasswordHash, TokenHash, UserDraft};
use crate::model::approval::{Obstacle, RequestDraft, RequestOp, RequestStanding};
use crate::model::code::Code;
use crate::model::config_file::{ConfigFileDraft, ConfigKey, ConfigReleaseDraft};
use crate::model::grant::{Grant, Grants, Role};
use crate::model::policy::PolicyDraft;
use crate::model::release::ReleaseOp;
use crate::model::wire::Words;

const NOW: &str = "1970-01-01T00:16:40Z";

/// A cluster with an administrator, and users who each hold a role on everything.
struct House {
    bench: Bench,
}

impl House {
    fn new() -> House {
        let mut house = House { bench: Bench::founded() };
        let both = |one, other| vec![Grant::of(one), Grant::of(other)];
        for (name, grants) in [
            ("rita", both(Role::Releaser, Role::Editor)),
            ("abe", both(Role::Approver, Role::Reader)),
            ("bea", both(Role::Approver, Role::Reader)),
            ("eva", both(Role::Releaser, Role::Approver)),
        ] {
            house.hire(name, grants);
        }
        house
    }

    /// Creates a user and logs it in.
    fn hire(&mut self, name: &str, grants: Vec<Grant>) {
        let user = UserDraft {
            name: name.into(),
            password_hash: Some(PasswordHash(name.into())),
            grants: Some(Grants::new(grants)),
            ..UserDraft::default()
        };
        assert_eq!(self.bench.codes(Command::Users(Op::Create, vec![user])), [200_000]);
        let user_id = self.bench.catalog.access.user_named(name).expect("made").id.clone();
        let (hash, password) = (TokenHash(name.into()), PasswordHash(name.into()));
        self.bench.apply(Command::SignIn { hash, user_id, password, from: Default::default() });
    }

    fn with_policy(policy: PolicyDraft) -> House {
        let mut house = House::new();
        assert_eq!(house.bench.codes(Command::Policies(Op::Create, vec![policy])), [200_000]);
        house
    }

    /// Returns the outcome of a user's command of one item.
    fn ask(&mut self, user: &str, command: Command) -> Outcome {
        self.bench.index += 1;
        self.bench.pass_time();
        let mut ctx = self.bench.ctx(self.bench.index);
        user.clone_into(&mut ctx.by);
        let asked = AuthorizedCommand {
            credential: Credential::Token(TokenHash(user.into())),
            address: None,
            request: String::new(),
            self_registration: false,
            mutes_refusals: false,
            command,
        };
        let applied = self.bench.apply_as(&ctx, Command::Authorized(Box::new(asked)));
        crate::catalog::fuzzing::check(&self.bench);
        applied.outcomes.into_iter().next().expect("an outcome")
    }

    fn code(&mut self, user: &str, command: Command) -> u32 {
        self.ask(user, command).code.number()
    }

    fn save(&mut self, content: &str) {
        let is_there = self.bench.catalog.configs.file(&key()).is_some();
        let op = if is_there { Op::Update } else { Op::Create };
        assert_eq!(self.code("rita", Command::ConfigFiles(op, vec![file(content)])), 200_000);
    }

    /// Publishes a file, and returns the id of the resulting request.
    fn request(&mut self, draft: ConfigReleaseDraft) -> String {
        let outcome = self.ask("rita", Command::ConfigPublish(vec![draft]));
        assert_eq!(outcome.code.number(), 202_000, "{}", outcome.info());
        let Entity::Request(request) = outcome.entity else { panic!("{outcome:?}") };
        request.id.clone()
    }

    fn decide(&mut self, user: &str, op: RequestOp, id: &str) -> (u32, String) {
        let parts = self.bench.catalog.approvals.get(id).map(|request| request.parts).filter(|parts| *parts > 0);
        let draft = RequestDraft { id: id.into(), comment: None, parts };
        let code = self.code(user, Command::Requests(op, vec![draft]));
        (code, self.bench.catalog.approvals.get(id).map_or("none", |request| request.state.word()).to_owned())
    }

    fn standing(&self, id: &str) -> RequestStanding {
        let catalog = &self.bench.catalog;
        catalog.standing(catalog.clock(), catalog.approvals.get(id).expect("a request"))
    }

    fn has_approved(&self, name: &str, id: &str) -> bool {
        let catalog = &self.bench.catalog;
        catalog.is_approved_by(catalog.clock(), name, catalog.approvals.get(id).expect("a request"))
    }

    fn in_force(&self) -> Option<String> {
        let release = self.bench.catalog.configs.active_release(&key())?;
        Some(release.content.to_string())
    }
}

fn key() -> ConfigKey {
    ConfigKey::new("prod", "pay", "app.properties")
}

fn file(content: &str) -> ConfigFileDraft {
    ConfigFileDraft {
        namespace: "prod".into(),
        group: "pay".into(),
        name: "app.properties".into(),
        content: Some(content.into()),
        sealing: None,
        ..ConfigFileDraft::default()
    }
}

fn publish() -> ConfigReleaseDraft {
    ConfigReleaseDraft {
        namespace: "prod".into(),
        group: "pay".into(),
        file_name: "app.properties".into(),
        ..ConfigReleaseDraft::default()
    }
}

fn asked() -> ConfigReleaseDraft {
    ConfigReleaseDraft { request: Some("please".into()), ..publish() }
}

fn policy(json: &str) -> PolicyDraft {
    let draft: PolicyDraft = serde_json::from_str(json).expect("a policy");
    draft.check().expect("a policy that may be kept");
    draft
}

fn done(state: &str) -> (u32, String) {
    (200_000, state.to_owned())
}

#[test]
fn what_was_approved_is_released_byte_for_byte() {
    let mut house = House::with_policy(policy(r#"{"name":"two","namespace":"prod","approvals":2}"#));
    house.save("a=1");
    let outcome = house.ask("rita", Command::ConfigPublish(vec![publish()]));
    assert_eq!(outcome.code.number(), 409_001);
    assert!(outcome.info().contains("two") && outcome.info().contains('2'), "{}", outcome.info());
    let Entity::PolicyBlock(held) = &outcome.entity else { panic!("{outcome:?}") };
    assert_eq!((&held.policies[..], held.until), (&["two".to_owned()][..], None));

    let id = house.request(asked());
    house.save("a=2");
    assert_eq!(house.in_force(), None);
    assert_eq!(house.decide("rita", RequestOp::Approve, &id).0, 401_001, "no approver");
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("open"));
    assert_eq!(house.decide("abe", RequestOp::Approve, &id).0, 200_002, "twice the same");
    assert_eq!(house.decide("bea", RequestOp::Approve, &id), done("done"));
    assert_eq!(house.in_force().as_deref(), Some("a=1"));
    let draft = house.bench.catalog.configs.file(&key()).expect("there");
    assert_eq!(&*draft.content, "a=2", "the draft stays as it is by then");
    let release = house.bench.catalog.configs.active_release(&key()).expect("in force");
    assert_eq!(release.created.by, "rita", "in the name of who asked");
    assert_eq!(house.decide("bea", RequestOp::Approve, &id).0, 409_000, "nothing comes of it any more");
}

#[test]
fn a_requester_does_not_approve_and_one_refusal_is_enough() {
    let mut house = House::with_policy(policy(r#"{"name":"p"}"#));
    house.save("a=1");
    let outcome = house.ask("eva", Command::ConfigPublish(vec![asked()]));
    let Entity::Request(request) = outcome.entity else { panic!("{outcome:?}") };
    assert_eq!(house.decide("eva", RequestOp::Approve, &request.id).0, 401_001);
    assert_eq!(house.decide("rita", RequestOp::Withdraw, &request.id).0, 401_001);
    assert_eq!(house.decide("abe", RequestOp::Refuse, &request.id), done("refused"));
    assert_eq!(house.bench.catalog.approvals.get(&request.id).expect("kept").refused_by, "abe");
    let id = house.request(asked());
    assert_eq!(house.decide("rita", RequestOp::Withdraw, &id), done("withdrawn"));
    assert_eq!(house.in_force(), None);
    let contents = house.bench.catalog.configs.content_count();
    assert_eq!(contents, 1, "what a closed request would have released is let go");
}

#[test]
fn what_is_in_force_must_be_what_it_was_when_it_was_asked_for() {
    let mut house = House::with_policy(policy(r#"{"name":"p"}"#));
    house.save("a=1");
    let (first, second) = (house.request(asked()), house.request(asked()));
    assert_eq!(house.decide("abe", RequestOp::Approve, &first), done("done"));
    assert_eq!(house.decide("abe", RequestOp::Approve, &second), (409_000, "stale".into()));
}

#[test]
fn a_freeze_holds_what_it_gates_and_lets_requests_wait() {
    let until = "1970-01-01T01:00:00Z";
    let freeze =
        format!(r#"{{"name":"ice","approvals":1,"freezes":[{{"from":"{NOW}","until":"{until}","comment":"cold"}}]}}"#);
    let mut house = House::with_policy(policy(&freeze));
    house.save("a=1");
    let outcome = house.ask("rita", Command::ConfigPublish(vec![publish()]));
    assert_eq!(outcome.code.number(), 409_002);
    assert!(outcome.info().contains("cold") && outcome.info().contains(until), "{}", outcome.info());
    let id = house.request(asked());
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("approved"));
    let frozen = house.standing(&id);
    let end = Timestamp::parse(until).expect("a time");
    let freeze = Obstacle::Freeze { policies: vec!["ice".into()], until: Some(end) };
    assert_eq!((frozen.given, frozen.needed, frozen.obstacles), (1, 1, vec![freeze]), "nothing is released");
    assert!(house.has_approved("abe", &id) && !house.has_approved("bea", &id));
    assert_eq!(house.decide("rita", RequestOp::Run, &id), (409_002, "approved".into()));
    house.bench.index += 4000;
    house.bench.pass_time();
    assert_eq!(house.standing(&id).obstacles, [], "somebody may carry it out now");
    assert_eq!(house.decide("abe", RequestOp::Run, &id).0, 401_001, "who may not publish does not run it");
    assert_eq!(house.decide("rita", RequestOp::Run, &id), done("done"));
    assert_eq!(house.in_force().as_deref(), Some("a=1"));
}

#[test]
fn what_is_held_waits_until_it_is_run() {
    let mut house = House::with_policy(policy(r#"{"name":"p"}"#));
    house.save("a=1");
    let id = house.request(ConfigReleaseDraft { hold: Some(true), ..asked() });
    assert_eq!(house.decide("rita", RequestOp::Run, &id).0, 409_000, "not approved yet");
    assert_eq!(
        house.standing(&id).obstacles,
        [Obstacle::Approvals { missing: 1, policies: vec!["p".into()] }, Obstacle::Hold]
    );
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("approved"));
    assert_eq!(house.standing(&id).obstacles, [Obstacle::Hold]);
    assert_eq!(house.in_force(), None);
    assert_eq!(house.decide("rita", RequestOp::Run, &id), done("done"));
}

#[test]
fn an_emergency_needs_both_rights_and_passes_everything() {
    let freeze = format!(r#"{{"name":"ice","freezes":[{{"from":"{NOW}","until":"1970-01-02T00:00:00Z"}}]}}"#);
    let mut house = House::with_policy(policy(&freeze));
    house.save("a=1");
    let emergency = || ConfigReleaseDraft { emergency: Some("the house is on fire".into()), ..publish() };
    assert_eq!(house.code("rita", Command::ConfigPublish(vec![emergency()])), 401_001);
    assert_eq!(house.code("eva", Command::ConfigPublish(vec![emergency()])), 200_000);
    assert_eq!(house.in_force().as_deref(), Some("a=1"));
}

#[test]
fn acts_that_no_policy_gates_are_done_at_once() {
    let mut house = House::with_policy(policy(r#"{"name":"p","namespace":"test"}"#));
    house.save("a=1");
    assert_eq!(house.code("rita", Command::ConfigPublish(vec![asked()])), 200_000);
    let named = |name: &str| ConfigReleaseDraft { name: Some(name.into()), ..publish() };
    let all = policy(r#"{"name":"all"}"#);
    assert_eq!(house.bench.codes(Command::Policies(Op::Create, vec![all])), [200_000]);
    let first = house.bench.catalog.configs.active_release(&key()).expect("in force").name.clone();
    let withdraw = |draft| Command::ConfigReleases(ReleaseOp::Withdraw, vec![draft]);
    assert_eq!(house.code("rita", withdraw(named(&first))), 409_001);
    assert_eq!(house.code("rita", withdraw(named("none"))), 409_001, "before it is missing");
    let back = |draft| Command::ConfigReleases(ReleaseOp::Rollback, vec![draft]);
    assert_eq!(house.code("rita", back(named(&first))), 200_002, "back is free");
    let delete = ConfigFileDraft { content: None, ..file("") };
    assert_eq!(house.code("rita", Command::ConfigFiles(Op::Delete, vec![delete])), 409_001);
}

#[test]
fn approvers_and_requesters_are_judged_when_it_is_carried_out() {
    let mut house = House::with_policy(policy(r#"{"name":"two","approvals":2}"#));
    house.save("a=1");
    let id = house.request(asked());
    let disabled = |name: &str| UserDraft { name: name.into(), disabled: Some(true), ..UserDraft::default() };
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("open"));
    let missing = |missing| Obstacle::Approvals { missing, policies: vec!["two".into()] };
    let open = house.standing(&id);
    assert_eq!((open.given, open.needed, open.obstacles), (1, 2, vec![missing(1)]));
    assert_eq!(house.bench.codes(Command::Users(Op::Update, vec![disabled("abe")])), [200_000]);
    let open = house.standing(&id);
    assert_eq!((open.given, open.obstacles), (0, vec![missing(2)]), "the first counts no more");
    assert!(!house.has_approved("abe", &id));
    assert_eq!(house.decide("bea", RequestOp::Approve, &id), done("open"), "the first counts no more");
    assert_eq!(house.bench.codes(Command::Users(Op::Update, vec![disabled("rita")])), [200_000]);
    assert_eq!(
        house.decide("eva", RequestOp::Approve, &id),
        (409_000, "failed".into()),
        "its requester may not any more"
    );
    assert_eq!(house.in_force(), None);
}

#[test]
fn requests_expire_by_the_time_of_the_log() {
    let mut house = House::with_policy(policy(r#"{"name":"p"}"#));
    house.save("a=1");
    let id = house.request(asked());
    assert_eq!(house.bench.codes(Command::ExpireRequests), [200_002]);
    house.bench.index += 2_592_000;
    assert!(house.bench.catalog.approvals.has_pending_before(house.bench.ctx(house.bench.index).time));
    assert_eq!(house.bench.codes(Command::ExpireRequests), [200_000]);
    assert_eq!(house.bench.catalog.approvals.get(&id).expect("kept").state, RequestState::Expired);
}
