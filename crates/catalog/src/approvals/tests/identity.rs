//! Requests and policies apply to things, releases and places by identity, whatever their names are at the approval.

use serde::de::DeserializeSeed;
use serde_json::{Value, json};

use super::*;
use crate::catalog::history::Thing;
use crate::catalog::releases::RolloutChange;
use crate::model::config_file::ConfigPublish;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, RuleDraft, RuleHead};

impl House {
    /// Creates a user with these roles, or sets the roles of an existing one.
    fn user(&mut self, name: &str, grants: &[(Role, &str, &str)]) {
        let grant = |(role, namespace, name): &(Role, &str, &str)| Grant {
            role: *role,
            namespace: (*namespace).into(),
            name: (*name).into(),
        };
        let grants = Grants::new(grants.iter().map(grant).collect::<Vec<_>>());
        let is_there = self.bench.catalog.access.user_named(name).is_some();
        let draft = UserDraft { name: name.into(), grants: Some(grants), ..UserDraft::default() };
        if is_there {
            assert_eq!(self.bench.codes(Command::Users(Op::Update, vec![draft])), [200_000]);
            return;
        }
        let draft = UserDraft { password_hash: Some(PasswordHash(name.into())), ..draft };
        assert_eq!(self.bench.codes(Command::Users(Op::Create, vec![draft])), [200_000]);
        let id = self.bench.catalog.access.user_named(name).expect("made").id.clone();
        self.bench.apply(Command::SignIn {
            hash: TokenHash(name.into()),
            user_id: id,
            password: PasswordHash(name.into()),
            from: Default::default(),
        });
    }

    /// Returns the id of the request that an action becomes.
    fn id_of_request(&mut self, user: &str, command: Command) -> String {
        let outcome = self.ask(user, command);
        assert_eq!(outcome.code.number(), 202_000, "{}", outcome.info());
        let Entity::Request(request) = outcome.entity else { panic!("{outcome:?}") };
        request.id.clone()
    }

    fn limit(&self, id: &str) -> Option<String> {
        let release = self.bench.catalog.rules.of(Family::RateLimit).active().normal(id)?;
        Some(release.rule.description.clone())
    }

    fn rule(&mut self, op: Op, fields: Value) -> (u32, String) {
        let outcome = self.ask("rita", Command::Rules(op, vec![rule(fields)]));
        let Entity::Rule(rule) = &outcome.entity else { return (outcome.code.number(), String::new()) };
        (outcome.code.number(), rule.id.clone())
    }
}

fn write(key: (&str, &str), fields: Value) -> Command {
    let (group, file) = key;
    let content = fields["content"].as_str().unwrap_or("a=1").to_owned();
    let mut release = fields;
    release["namespace"] = json!("shop");
    (release["group"], release["file_name"]) = (json!(group), json!(file));
    let release: ConfigReleaseDraft = serde_json::from_value(release).expect("a draft");
    let draft = ConfigFileDraft {
        namespace: "shop".into(),
        group: group.into(),
        name: file.into(),
        content: Some(content),
        ..ConfigFileDraft::default()
    };
    Command::ConfigCreateAndPublish(vec![ConfigPublish { file: draft, release, md5: None }])
}

fn file_release(op: ReleaseOp, fields: Value) -> Command {
    let mut item = fields;
    (item["namespace"], item["group"], item["file_name"]) = (json!("shop"), json!("pay"), json!("app.properties"));
    Command::ConfigReleases(op, vec![serde_json::from_value(item).expect("a draft")])
}

fn rule(fields: Value) -> RuleDraft {
    let text = |field: &str| fields[field].as_str().map(str::to_owned);
    let head = RuleHead {
        id: text("id"),
        name: text("name"),
        namespace: text("namespace"),
        description: text("description"),
        request: text("request"),
        ..RuleHead::default()
    };
    let mut body = json!({});
    if let Some(service) = text("service") {
        body = json!({"service": service, "rules": [{"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]});
        if let Some(namespace) = text("of") {
            body["callee"] = json!({"namespace": namespace, "service": service});
            body.as_object_mut().expect("an object").remove("service");
        }
    }
    RuleDraft { head, body: DeserializeSeed::deserialize(Family::RateLimit, body).expect("a body") }
}

fn rule_release(fields: Value) -> Vec<RuleReleaseDraft> {
    vec![serde_json::from_value(fields).expect("a draft")]
}

fn gray(name: &str) -> Value {
    json!({"release_name": name, "release_type": "gray", "client_percent": {"by": "zone", "percent": 1}})
}

fn publish_rule(fields: Value) -> Command {
    Command::PublishRules(Family::RateLimit, rule_release(fields))
}

fn release_of_rule(op: ReleaseOp, fields: Value) -> Command {
    Command::RuleReleases(Family::RateLimit, op, rule_release(fields))
}

const BOTH: [(Role, &str, &str); 4] = [
    (Role::Releaser, "shop", "*"),
    (Role::Editor, "shop", "*"),
    (Role::Releaser, "lab", "*"),
    (Role::Editor, "lab", "*"),
];

#[test]
fn a_file_that_is_not_there_yet_takes_the_rights_to_make_it() {
    let mut house = House::with_policy(policy(r#"{"name":"p","namespace":"shop"}"#));
    house.user("eve", &[(Role::Reader, "shop", "*")]);
    house.user("rel", &[(Role::Releaser, "shop", "*")]);
    let held = house.id_of_request("rita", write(("pay", "held.yml"), json!({"request": "please", "hold": true})));
    let id = house.id_of_request("rita", write(("pay", "new.yml"), json!({"request": "please"})));
    assert_eq!(house.decide("abe", RequestOp::Approve, &held), done("approved"));
    assert_eq!(house.decide("eve", RequestOp::Run, &held), (401_001, "approved".into()));
    assert_eq!(house.decide("rel", RequestOp::Run, &held), (401_001, "approved".into()), "it takes edit, too");
    house.user("rita", &[(Role::Releaser, "shop", "*")]);
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), (409_000, "failed".into()), "without edit");
    house.user("rita", &[(Role::Reader, "other", "*")]);
    assert_eq!(house.decide("eva", RequestOp::Run, &held).0, 401_001, "who runs it has no edit");
    assert!(house.bench.catalog.configs.file(&ConfigKey::new("shop", "pay", "held.yml")).is_none());
}

#[test]
fn a_group_with_a_slash_is_its_own() {
    let mut house = House::with_policy(policy(r#"{"name":"p","namespace":"shop","names":["pay/eu//*"]}"#));
    house.user("art", &[(Role::Approver, "shop", "pay/eu")]);
    house.user("pam", &[(Role::Approver, "shop", "pay")]);
    house.user("rita", &[(Role::Releaser, "shop", "pay/eu"), (Role::Editor, "shop", "pay/eu")]);
    let id = house.id_of_request("rita", write(("pay/eu", "app.yml"), json!({"request": "please"})));
    let request = house.bench.catalog.approvals.get(&id).expect("kept").clone();
    assert_eq!((request.group.as_str(), request.own_name()), ("pay/eu", "app.yml"));
    assert_eq!(house.decide("pam", RequestOp::Approve, &id), (400_202, "open".into()));
    assert_eq!(house.decide("art", RequestOp::Approve, &id), done("done"));
    house.user("rita", &BOTH);
    assert_eq!(house.code("rita", write(("pay", "eu/app.yml"), json!({}))), 200_000, "of another group");
}

#[test]
fn a_request_is_for_the_rule_that_was_meant_whatever_its_name_is_now() {
    let mut house = House::with_policy(policy(r#"{"name":"p","namespace":"shop"}"#));
    house.user("rita", &BOTH);
    let (_, meant) = house.rule(Op::Create, json!({"name": "x", "namespace": "shop", "service": "pay"}));
    let asked = json!({"rule_name": "x", "namespace": "shop", "request": "please"});
    let id = house.id_of_request("rita", publish_rule(asked));
    assert_eq!(house.rule(Op::Update, json!({"id": meant, "name": "y", "namespace": "shop"})).0, 200_000);
    let (code, other) = house.rule(Op::Create, json!({"name": "x", "namespace": "shop", "service": "pay"}));
    assert!(code == 200_000 && other != meant);
    let catalog = &house.bench.catalog;
    let request = catalog.approvals.get(&id).expect("kept");
    assert_eq!(catalog.thing_of_request(request), Some(Thing::Rule(Family::RateLimit, meant)));
}

#[test]
fn a_release_that_was_exchanged_is_not_promoted() {
    let gates = policy(r#"{"name":"p","namespace":"shop","gates":["publish","promote","rollback"]}"#);
    let mut house = House::with_policy(gates);
    house.user("rita", &BOTH);
    let named = |name: &str| json!({"release_name": name});
    let asked = |name: &str| json!({"release_name": name, "request": "please"});
    let with = |mut draft: Value, content: &str| {
        draft["content"] = json!(content);
        write(("pay", "app.properties"), draft)
    };
    assert_eq!(house.code("rita", with(gray("g"), "limit=10")), 200_000);
    let id = house.id_of_request("rita", file_release(ReleaseOp::Promote, asked("g")));
    let hash = house.bench.catalog.approvals.get(&id).expect("kept").hash.clone();
    for op in [ReleaseOp::StopGray, ReleaseOp::Delete] {
        assert_eq!(house.code("rita", file_release(op, named("g"))), 200_000);
    }
    assert_eq!(house.code("rita", with(gray("g"), "limit=999999")), 200_000);
    let request = house.bench.catalog.approvals.get(&id).expect("kept").clone();
    assert!(house.bench.catalog.pending(&request).is_none(), "nothing of it is left to be read");
    let other = house.id_of_request("rita", file_release(ReleaseOp::Promote, asked("g")));
    assert_ne!(house.bench.catalog.approvals.get(&other).expect("kept").hash, hash, "it covers the content");
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), (409_000, "stale".into()));
    assert_eq!(house.decide("abe", RequestOp::Approve, &other), done("done"));

    let (_, rule) = house.rule(Op::Create, json!({"name": "x", "namespace": "shop", "service": "pay"}));
    let mut draft = gray("g");
    draft["rule_id"] = json!(rule);
    let outcome = house.ask("rita", publish_rule(draft.clone()));
    let Entity::RuleRelease(first) = &outcome.entity else { panic!("{outcome:?}") };
    let first = json!({"id": first.id});
    let id = house
        .id_of_request("rita", release_of_rule(ReleaseOp::Promote, json!({"id": first["id"], "request": "please"})));
    for op in [ReleaseOp::StopGray, ReleaseOp::Delete] {
        assert_eq!(house.code("rita", release_of_rule(op, first.clone())), 200_000);
    }
    house.rule(Op::Update, json!({"id": rule, "description": "other"}));
    assert_eq!(house.code("rita", publish_rule(draft)), 200_000);
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), (409_000, "stale".into()));
    assert_eq!(house.limit(&rule), None);
}

#[test]
fn another_release_than_the_one_that_was_to_come_back_does_not_come_back() {
    let mut house = House::with_policy(policy(r#"{"name":"p","namespace":"shop","gates":["rollback"]}"#));
    house.user("rita", &BOTH);
    for name in ["r1", "r2", "r3"] {
        let draft = json!({"release_name": name, "content": format!("limit={name}")});
        assert_eq!(house.code("rita", write(("pay", "app.properties"), draft)), 200_000);
    }
    let back = json!({"release_name": "r3", "to_previous": true, "request": "please"});
    let id = house.id_of_request("rita", file_release(ReleaseOp::Withdraw, back));
    let request = house.bench.catalog.approvals.get(&id).expect("kept").clone();
    let brief = request.payload.as_ref().expect("it waits").brief();
    assert_eq!((brief.release_name, brief.previous_release), ("r3", "r2"));
    assert_eq!(house.code("rita", file_release(ReleaseOp::Delete, json!({"release_name": "r2"}))), 200_000);
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), (409_000, "stale".into()));
}

#[test]
fn a_rule_stays_in_the_policies_of_what_clients_have_and_are_to_have() {
    let mut house = House::new();
    house.user("rita", &BOTH);
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        let (code, id) = house.rule(Op::Create, json!({"name": name, "namespace": "shop", "service": "pay"}));
        assert_eq!(code, 200_000);
        ids.push(id);
    }
    // By name only, so that the services of the rules do not bring them under the policy.
    let names = policy(r#"{"name":"p","namespace":"shop","names":["one","two","three"]}"#);
    for id in &ids[..2] {
        let mut draft = gray("g");
        draft["rule_id"] = json!(id);
        assert_eq!(house.code("rita", publish_rule(draft)), 200_000);
    }
    assert_eq!(house.bench.codes(Command::Policies(Op::Create, vec![names])), [200_000]);
    for (id, name) in [(&ids[0], "x"), (&ids[1], "y")] {
        assert_eq!(house.rule(Op::Update, json!({"id": id, "name": name, "namespace": "lab"})).0, 200_000);
    }
    let promote = json!({"rule_id": ids[0], "release_name": "g"});
    assert_eq!(house.code("rita", release_of_rule(ReleaseOp::Promote, promote)), 409_001);
    assert_eq!(house.rule(Op::Delete, json!({"id": ids[1]})).0, 409_001);

    let strict = r#"{"name":"strict","namespace":"shop","names":["three"],"approvals":2,"gates":["publish"]}"#;
    assert_eq!(house.bench.codes(Command::Policies(Op::Create, vec![policy(strict)])), [200_000]);
    let id = house.id_of_request("rita", publish_rule(json!({"rule_id": ids[2], "request": "please"})));
    assert_eq!(house.rule(Op::Update, json!({"id": ids[2], "name": "z", "namespace": "lab"})).0, 200_000);
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("open"), "one of two");
    assert_eq!(house.decide("bea", RequestOp::Approve, &id), done("done"));
}

#[test]
fn a_rule_that_is_made_again_is_another_one() {
    let mut house = House::with_policy(policy(r#"{"name":"p","namespace":"shop"}"#));
    house.user("rita", &BOTH);
    let made = json!({"id": "own", "name": "one", "namespace": "shop", "service": "pay"});
    assert_eq!(house.rule(Op::Create, made.clone()).0, 200_000);
    let id = house.id_of_request("rita", publish_rule(json!({"rule_id": "own", "request": "please"})));
    assert_eq!(house.rule(Op::Delete, json!({"id": "own"})).0, 200_000);
    assert_eq!(
        house.rule(Op::Create, json!({"id": "own", "name": "x", "namespace": "lab", "service": "s"})).0,
        200_000
    );
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), (409_000, "stale".into()));
    assert_eq!(house.rule(Op::Delete, json!({"id": "own"})).0, 200_000);
    assert_eq!(house.rule(Op::Create, made).0, 200_000);
    let id = house.id_of_request("rita", publish_rule(json!({"rule_id": "own", "request": "please"})));
    assert_eq!(house.rule(Op::Delete, json!({"id": "own"})).0, 200_000);
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), (409_000, "stale".into()), "it is gone");
}

/// Callers choose ids of rules and releases, and the versions of a rule that was created again start anew.
#[test]
fn a_release_of_a_rule_that_is_made_again_is_another_one() {
    let mut house = House::with_policy(policy(r#"{"name":"p","namespace":"shop","gates":["promote"]}"#));
    house.user("rita", &BOTH);
    let make = |house: &mut House, description: &str| {
        let made =
            json!({"id": "own", "name": "one", "namespace": "shop", "service": "pay", "description": description});
        assert_eq!(house.rule(Op::Create, made).0, 200_000);
        let mut draft = gray("g");
        (draft["rule_id"], draft["id"]) = (json!("own"), json!("own-g"));
        assert_eq!(house.code("rita", publish_rule(draft)), 200_000);
    };
    make(&mut house, "limit=10");
    let promote = json!({"id": "own-g", "request": "please"});
    let id = house.id_of_request("rita", release_of_rule(ReleaseOp::Promote, promote));
    assert_eq!(house.rule(Op::Delete, json!({"id": "own"})).0, 200_000);
    make(&mut house, "limit=999999");
    let request = house.bench.catalog.approvals.get(&id).expect("kept").clone();
    assert!(house.bench.catalog.pending(&request).is_none(), "it does not read as the one that was asked for");
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), (409_000, "stale".into()));
    assert_eq!(house.limit("own"), None);
}

#[test]
fn a_release_of_a_rule_has_the_id_that_was_asked_for() {
    let mut house = House::with_policy(policy(r#"{"name":"p","namespace":"shop"}"#));
    house.user("rita", &BOTH);
    let (_, rule) = house.rule(Op::Create, json!({"name": "one", "namespace": "shop", "service": "pay"}));
    let draft = json!({"rule_id": rule, "id": "own-r", "request": "please"});
    let id = house.id_of_request("rita", publish_rule(draft));
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("done"));
    let by_id = house.bench.catalog.rules.of(Family::RateLimit).release_by_id("own-r").expect("made");
    assert_eq!(by_id.rule.id, rule);
}

#[test]
fn a_plan_takes_the_approvals_of_a_promotion() {
    let mut house = House::with_policy(policy(r#"{"name":"few","namespace":"shop","gates":["gray"]}"#));
    let all = policy(r#"{"name":"all","namespace":"shop","approvals":2,"gates":["publish","promote"]}"#);
    assert_eq!(house.bench.codes(Command::Policies(Op::Create, vec![all])), [200_000]);
    let plan = json!({"by": "zone", "steps": [{"percent": 1, "hold_s": 0}, {"percent": 100}]});
    let draft = json!({"release_name": "g", "release_type": "gray", "plan": plan, "request": "to one percent"});
    let id = house.id_of_request("rita", write(("pay", "app.properties"), draft));
    let request = house.bench.catalog.approvals.get(&id).expect("kept").clone();
    let brief = request.payload.as_ref().expect("it waits").brief();
    assert_eq!((brief.release_name, brief.plan.map(|plan| plan.steps.len())), ("g", Some(2)));
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("open"));
    assert_eq!(house.decide("bea", RequestOp::Approve, &id), done("done"));
}

#[test]
fn a_move_of_a_rollout_is_of_the_release_that_was_looked_at() {
    let mut house = House::with_policy(policy(r#"{"name":"p","namespace":"shop","gates":["gray","promote"]}"#));
    let plan = json!({"by": "zone", "steps": [{"percent": 1, "hold_s": 0}, {"percent": 100}]});
    let draft = json!({"release_name": "g", "release_type": "gray", "plan": plan, "request": "please"});
    let id = house.id_of_request("rita", write(("pay", "app.properties"), draft.clone()));
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("done"));
    let found = house.bench.catalog.live_rollouts().remove(0);
    for op in [ReleaseOp::StopGray, ReleaseOp::Delete] {
        assert_eq!(house.code("rita", file_release(op, json!({"release_name": "g"}))), 200_000);
    }
    let id = house.id_of_request("rita", write(("pay", "app.properties"), draft));
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("done"));
    let now = house.bench.catalog.live_rollouts().remove(0);
    let stop = || RolloutChange::Stop("refused".into());
    assert_eq!(house.bench.codes(Command::Rollouts(vec![found.moved(stop())])), [200_002], "of another version");
    assert_eq!(house.bench.codes(Command::Rollouts(vec![now.moved(stop())])), [200_000]);
}

/// A guard is measured on one release; by the time of the entry, another release has its ids.
#[test]
fn a_move_of_a_rollout_is_of_the_rule_that_was_looked_at() {
    let mut house = House::new();
    house.user("rita", &BOTH);
    let make = |house: &mut House| {
        let made = json!({"id": "own", "name": "one", "namespace": "shop", "service": "pay"});
        assert_eq!(house.rule(Op::Create, made).0, 200_000);
        let plan = json!({"by": "zone", "steps": [{"percent": 1, "hold_s": 0}, {"percent": 100}]});
        let gray = json!({"rule_id": "own", "id": "own-g", "release_name": "g", "release_type": "gray", "plan": plan});
        assert_eq!(house.code("rita", publish_rule(gray)), 200_000);
        house.bench.catalog.live_rollouts().remove(0)
    };
    let found = make(&mut house);
    assert_eq!(house.rule(Op::Delete, json!({"id": "own"})).0, 200_000);
    let now = make(&mut house);
    let stop = || RolloutChange::Stop("refused".into());
    assert_eq!(house.bench.codes(Command::Rollouts(vec![found.moved(stop())])), [200_002], "of another rule");
    assert_eq!(house.bench.codes(Command::Rollouts(vec![now.moved(stop())])), [200_000]);
}

#[test]
fn policies_hold_where_a_rule_acts_and_their_approvers_approve() {
    let mut house = House::with_policy(policy(r#"{"name":"p","namespace":"shop"}"#));
    house.user("rita", &BOTH);
    house.user("sue", &[(Role::Approver, "shop", "*")]);
    house.user("lou", &[(Role::Approver, "lab", "*")]);
    let wide = json!({"name": "wide", "namespace": "lab", "service": "pay", "of": "shop"});
    let (_, rule) = house.rule(Op::Create, wide);
    assert_eq!(house.code("rita", publish_rule(json!({"rule_id": rule}))), 409_001);
    let id = house.id_of_request("rita", publish_rule(json!({"rule_id": rule, "request": "please"})));
    assert_eq!(house.decide("lou", RequestOp::Approve, &id), done("open"), "no approver of shop");
    assert_eq!(house.decide("sue", RequestOp::Approve, &id), done("done"));
    let (_, own) = house.rule(Op::Create, json!({"name": "own", "namespace": "lab", "service": "s"}));
    assert_eq!(house.code("rita", publish_rule(json!({"rule_id": own}))), 200_000);
}

#[test]
fn a_policy_covers_each_name_that_serves_the_same_clients() {
    let names = r#"{"name":"p","namespace":"shop","names":["pay/application.properties","pay/App.json"]}"#;
    let mut house = House::with_policy(policy(names));
    for name in ["application", "APPLICATION", "Application.properties", "app.json"] {
        let outcome = house.ask("rita", write(("pay", name), json!({"content": "{}"})));
        assert_eq!(outcome.code.number(), 409_001, "{name}: {}", outcome.info());
    }
    assert_eq!(house.code("rita", write(("pay", "app.yml"), json!({}))), 200_000);
}
