//! Requests of several actions, which are decided and carried out as a whole.

use super::*;
use crate::format::pack;
use crate::model::limits;
use crate::model::release::Action;
use crate::model::rollout::RolloutAction;

/// Returns a file in a group of its own.
fn file_of(group: &str, content: &str) -> ConfigFileDraft {
    ConfigFileDraft { group: group.into(), ..file(content) }
}

fn asked_in_set(group: &str) -> ConfigReleaseDraft {
    ConfigReleaseDraft { group: group.into(), request_set: Some("tree".into()), ..asked() }
}

impl House {
    fn save_in(&mut self, group: &str, content: &str) {
        let key = ConfigKey::new("prod", group, "app.properties");
        let op = if self.bench.catalog.configs.file(&key).is_some() { Op::Update } else { Op::Create };
        assert_eq!(self.code("rita", Command::ConfigFiles(op, vec![file_of(group, content)])), 200_000);
    }

    fn in_force_of(&self, group: &str) -> Option<String> {
        let key = ConfigKey::new("prod", group, "app.properties");
        self.bench.catalog.configs.active_release(&key).map(|release| release.content.to_string())
    }

    fn request_of(&self, id: &str) -> Arc<ApprovalRequest> {
        self.bench.catalog.approvals.get(id).expect("kept").clone()
    }

    /// Requests three files as one set.
    fn ask_for_tree(&mut self) -> Vec<String> {
        let groups = ["a", "b", "c"];
        groups.iter().for_each(|group| self.save_in(group, &format!("{group}=1")));
        groups.iter().map(|group| self.request(asked_in_set(group))).collect()
    }
}

#[test]
fn acts_of_a_set_are_one_request() {
    let mut house = House::with_policy(policy(r#"{"name":"two","namespace":"prod","approvals":2}"#));
    let ids = house.ask_for_tree();
    assert_eq!((house.request_of(&ids[0]).parts, house.request_of(&ids[0]).head_id()), (2, ids[0].as_str()));
    assert!(ids[1..].iter().all(|id| house.request_of(id).part_of == ids[0]));
    let filter = RequestFilter { heads: true, read_scope: ReadScope::Everything, ..RequestFilter::default() };
    assert_eq!(house.bench.catalog.approvals.list(&filter, &Page::ALL).rows.len(), 1);
    let parts = RequestFilter { part_of: Some(ids[0].clone()), heads: false, ..filter };
    assert_eq!(house.bench.catalog.approvals.list(&parts, &Page::ALL).rows.len(), 2);

    assert_eq!(house.decide("abe", RequestOp::Approve, &ids[0]), done("open"));
    assert_eq!(house.decide("abe", RequestOp::Approve, &ids[1]).0, 200_002, "twice the same");
    assert_eq!(house.decide("bea", RequestOp::Approve, &ids[1]), done("approved"), "of one part");
    assert_eq!(house.in_force_of("b"), None, "it waits for the others");
    assert_eq!(house.decide("rita", RequestOp::Run, &ids[1]).0, 409_000, "not approved yet");
    assert_eq!(house.decide("bea", RequestOp::Approve, &ids[0]), done("done"));
    for (id, group) in ids.iter().zip(["a", "b", "c"]) {
        assert_eq!(house.request_of(id).state, RequestState::Done);
        assert_eq!(house.in_force_of(group), Some(format!("{group}=1")));
    }
    let again = house.request(asked_in_set("a"));
    assert_eq!(house.request_of(&again).part_of, "", "the set of the same word is another one by now");
}

#[test]
fn nothing_of_a_set_is_done_where_a_part_cannot_be() {
    let mut house = House::with_policy(policy(r#"{"name":"p"}"#));
    let ids = house.ask_for_tree();
    let emergency = ConfigReleaseDraft {
        request: None,
        request_set: None,
        emergency: Some("the house is on fire".into()),
        ..asked_in_set("b")
    };
    assert_eq!(house.code("eva", Command::ConfigPublish(vec![emergency])), 200_000);
    assert_eq!(house.decide("abe", RequestOp::Approve, &ids[0]), (409_000, "stale".into()));
    // Texts of hashed rows, which must not change.
    assert_eq!(house.request_of(&ids[1]).reason, "something else is in force than when it was asked for");
    assert_eq!(house.request_of(&ids[2]).reason, "another act that was asked for with it could not be done");
    assert_eq!((house.in_force_of("a"), house.in_force_of("c")), (None, None));

    house.save_in("d", "d=1");
    let ids = [house.request(asked_in_set("a")), house.request(asked_in_set("d"))];
    let draft = ConfigFileDraft { content: None, ..file_of("d", "") };
    assert_eq!(house.code("rita", Command::ConfigFiles(Op::Delete, vec![draft])), 200_000);
    assert_eq!(house.decide("abe", RequestOp::Approve, &ids[0]), done("done"), "a copy needs no draft");
    assert_eq!(house.in_force_of("d").as_deref(), Some("d=1"));
}

#[test]
fn a_set_is_refused_withdrawn_and_run_as_a_whole() {
    let mut house = House::with_policy(policy(r#"{"name":"p"}"#));
    let ids = house.ask_for_tree();
    assert_eq!(house.decide("rita", RequestOp::Approve, &ids[0]).0, 401_001);
    assert_eq!(house.decide("abe", RequestOp::Refuse, &ids[2]), done("refused"));
    assert!(ids.iter().all(|id| house.request_of(id).refused_by == "abe"));

    let ids: Vec<_> = ["a", "b"].map(|group| house.request(asked_in_set(group))).into();
    assert_eq!(house.decide("rita", RequestOp::Withdraw, &ids[0]), done("withdrawn"));
    assert_eq!(house.request_of(&ids[1]).state, RequestState::Withdrawn);
    let contents = house.bench.catalog.configs.content_count();
    assert_eq!(contents, 3, "what a closed set would have released is let go");

    let held = |group| ConfigReleaseDraft { hold: Some(true), ..asked_in_set(group) };
    let ids = [house.request(held("a")), house.request(asked_in_set("b"))];
    assert_eq!(house.decide("abe", RequestOp::Approve, &ids[0]), done("approved"));
    assert_eq!(house.request_of(&ids[1]).state, RequestState::Approved, "it waits for the held one");
    assert_eq!(house.decide("rita", RequestOp::Run, &ids[1]), done("done"));
    assert_eq!(house.in_force_of("a").as_deref(), Some("a=1"));
}

#[test]
fn a_set_has_its_limits() {
    let alone = ConfigReleaseDraft { request: None, ..asked_in_set("a") };
    assert!(alone.check().expect_err("a set of what is not asked for").info().contains("request_set"));
    let long = ConfigReleaseDraft { request_set: Some("x".repeat(65)), ..asked() };
    assert_eq!(long.check().expect_err("too long").code, Code::InvalidParameter);
}

/// An entry has numbers for a limited number of actions, and the next entry continues with its own.
#[test]
fn the_acts_of_one_entry_draw_numbers_of_that_entry_alone() {
    let mut house = House::with_policy(policy(r#"{"name":"p"}"#));
    let ask = |house: &mut House, set: &str, count: usize| -> Vec<String> {
        let act = |number: usize| {
            let group = format!("{set}{number}");
            house.save_in(&group, "a=1");
            house.request(ConfigReleaseDraft { request_set: Some(set.into()), ..asked_in_set(&group) })
        };
        (0..count).map(act).collect()
    };
    let sets = ["l", "m", "n", "s"].map(|set| ask(&mut house, set, limits::REQUEST_SET_ACTS_MAX));
    house.save_in("more", "a=1");
    let more = ConfigReleaseDraft { request_set: Some("l".into()), ..asked_in_set("more") };
    assert_eq!(house.code("rita", Command::ConfigPublish(vec![more])), 507_002);

    house.bench.index += 1;
    let mut ctx = house.bench.ctx(house.bench.index);
    ctx.by = "abe".into();
    let drafts = sets.each_ref().map(|set| RequestDraft {
        id: set[0].clone(),
        comment: None,
        parts: Some(limits::REQUEST_SET_ACTS_MAX as u64 - 1),
    });
    let asked = AuthorizedCommand {
        credential: Credential::Token(TokenHash("abe".into())),
        address: None,
        request: String::new(),
        self_registration: false,
        mutes_refusals: false,
        command: Command::Requests(RequestOp::Approve, drafts.to_vec()),
    };
    let applied = house.bench.apply_as(&ctx, Command::Authorized(Box::new(asked)));
    let codes: Vec<_> = applied.outcomes.iter().map(|outcome| outcome.code.number()).collect();
    assert_eq!(codes, [200_000, 200_000, 400_103, 400_103], "{:?}", applied.outcomes[2].info());
    let numbers = |set: &str, house: &House| -> Vec<u64> {
        let key = |number| ConfigKey::new("prod", format!("{set}{number}").as_str(), "app.properties");
        let of = |number| house.bench.catalog.configs.active_release(&key(number)).map(|one| one.id);
        (0..limits::REQUEST_SET_ACTS_MAX).filter_map(of).collect()
    };
    let drawn = ["l", "m"].map(|set| numbers(set, &house)).concat();
    let entry = house.bench.index * 1024..(house.bench.index + 1) * 1024;
    let distinct: std::collections::BTreeSet<_> = drawn.iter().collect();
    assert_eq!(distinct.len(), 2 * limits::REQUEST_SET_ACTS_MAX);
    assert!(drawn.iter().all(|number| entry.contains(number)), "{entry:?} {drawn:?}");
    assert_eq!(house.decide("bea", RequestOp::Approve, &sets[3][0]), done("done"), "by itself");
    assert_eq!(numbers("s", &house).len(), limits::REQUEST_SET_ACTS_MAX);
}

#[test]
fn what_joins_a_request_after_it_was_read_is_not_approved_with_it() {
    let mut house = House::with_policy(policy(r#"{"name":"p"}"#));
    let ids = house.ask_for_tree();
    let approve = |parts| {
        let draft = RequestDraft { id: ids[0].clone(), comment: None, parts };
        Command::Requests(RequestOp::Approve, vec![draft])
    };
    house.save_in("late", "a=1");
    house.request(asked_in_set("late"));
    assert_eq!(house.code("abe", approve(Some(2))), 409_000);
    assert_eq!(house.code("abe", approve(None)), 409_000, "who does not say it has not read it");
    assert_eq!(house.in_force_of("a"), None);
    assert_eq!(house.code("rita", Command::ConfigPublish(vec![asked_in_set("late")])), 409_000, "twice on one thing");
    assert_eq!(house.decide("abe", RequestOp::Approve, &ids[0]), done("done"));
    assert_eq!(house.in_force_of("late").as_deref(), Some("a=1"));
}

#[test]
fn a_part_that_no_policy_asks_for_any_more_waits_for_an_approver_all_the_same() {
    let mut house = House::with_policy(policy(r#"{"name":"p","approvals":2}"#));
    let ids = house.ask_for_tree();
    assert_eq!(house.decide("abe", RequestOp::Approve, &ids[1]), done("open"));
    let none = PolicyDraft { approvals: Some(0), ..policy(r#"{"name":"p"}"#) };
    assert_eq!(house.bench.codes(Command::Policies(Op::Update, vec![none])), [200_000]);
    assert_eq!(house.decide("bea", RequestOp::Approve, &ids[1]), done("approved"));
    assert_eq!(house.request_of(&ids[2]).state, RequestState::Open, "nobody has approved it");
    assert_eq!(house.decide("bea", RequestOp::Approve, &ids[0]), done("done"));
}

#[test]
fn an_empty_word_is_kept_as_none() {
    let of = |set: Option<&str>| {
        let mut bytes = Vec::new();
        let draft = ConfigReleaseDraft { request_set: set.map(str::to_owned), ..asked() };
        pack::put(&Command::ConfigPublish(vec![draft]), &mut bytes);
        bytes
    };
    assert_eq!(of(Some("")), of(None), "below level 9 nobody knows the field");
    assert_ne!(of(Some("x")), of(None));
}

#[test]
fn a_set_expires_with_its_head() {
    let mut house = House::with_policy(policy(r#"{"name":"p"}"#));
    let ids = house.ask_for_tree();
    house.bench.index += 500_000;
    house.save_in("late", "a=1");
    let late = house.request(asked_in_set("late"));
    assert_eq!(house.request_of(&late).part_of, ids[0]);
    house.bench.index += 2_100_000;
    assert_eq!(house.bench.codes(Command::ExpireRequests), [200_000]);
    assert_eq!(house.request_of(&late).state, RequestState::Expired);
}

/// The digest is the same as that of a release made without a request.
#[test]
fn a_release_by_approval_has_the_md5_of_its_content() {
    let mut house = House::with_policy(policy(r#"{"name":"p"}"#));
    let ids = house.ask_for_tree();
    assert_eq!(house.decide("abe", RequestOp::Approve, &ids[0]), done("done"));
    house.save_in("e", "a=1");
    let emergency = ConfigReleaseDraft { request: None, request_set: None, ..asked_in_set("e") };
    let emergency = ConfigReleaseDraft { emergency: Some("the house is on fire".into()), ..emergency };
    assert_eq!(house.code("eva", Command::ConfigPublish(vec![emergency])), 200_000);
    let md5 = |group: &str| {
        let key = ConfigKey::new("prod", group, "app.properties");
        house.bench.catalog.configs.active_release(&key).expect("in force").md5.clone()
    };
    assert_eq!((md5("a"), md5("e")), (md5("e"), "3872c9ae3f427af0be0ead09d07ae2cf".to_owned()));
}

/// The second of two requests for the next step would be for the step after it, which may be the promotion.
#[test]
fn an_advance_that_would_promote_by_now_is_stale() {
    let mut house = House::new();
    house.save("a=1");
    assert_eq!(house.code("rita", Command::ConfigPublish(vec![publish()])), 200_000);
    house.save("a=2");
    let plan = r#"{"by":"zone","steps":[{"percent":5,"hold_s":2},{"percent":50,"hold_s":2},{"percent":100}]}"#;
    let gray = ConfigReleaseDraft {
        name: Some("steps".into()),
        release_type: Some("gray".into()),
        plan: Some(serde_json::from_str(plan).expect("a plan")),
        ..publish()
    };
    assert_eq!(house.code("rita", Command::ConfigPublish(vec![gray])), 200_000);
    let gray = policy(r#"{"name":"p","gates":["gray","promote"]}"#);
    assert_eq!(house.bench.codes(Command::Policies(Op::Create, vec![gray])), [200_000]);
    let advance = || {
        let named = ConfigReleaseDraft { name: Some("steps".into()), action: Some(RolloutAction::Advance), ..asked() };
        Command::ConfigReleases(ReleaseOp::Rollout, vec![named])
    };
    let mut ids = Vec::new();
    for _ in 0..2 {
        let outcome = house.ask("rita", advance());
        let Entity::Request(request) = outcome.entity else { panic!("{outcome:?}") };
        ids.push(request.id.clone());
    }
    assert_eq!(house.decide("abe", RequestOp::Approve, &ids[0]), done("done"));
    assert_eq!(house.decide("abe", RequestOp::Approve, &ids[1]), (409_000, "stale".into()));
    let catalog = &house.bench.catalog;
    let promoted =
        catalog.history.of(&crate::catalog::history::Thing::File(key())).any(|one| one.action == Action::Promote);
    assert!(!promoted);
    assert_eq!(house.in_force().as_deref(), Some("a=1"));
}
