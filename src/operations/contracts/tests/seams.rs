//! Events between validation and apply: contracts of other nodes, other writes, no free turn, an unreadable content.

use super::*;
use crate::catalog::Command;
use crate::catalog::history::Thing;
use crate::model::config_file::ConfigKey;
use crate::operations::scan_limiter::of_caller;

fn founded() -> Bench {
    crate::catalog::fuzzing::founded()
}

fn contract_command(fields: Value) -> Command {
    Command::Contracts(Op::Create, vec![serde_json::from_value(fields).expect("a contract")])
}

fn refuses_all() -> Value {
    json!({ "name": "no", "mode": "refuse", "rules": [{ "expression": "false" }] })
}

fn both(content: &str, name: &str) -> Items<ConfigPublish> {
    let publish = ConfigPublish {
        file: serde_json::from_value(file(content)).expect("a file"),
        release: serde_json::from_value(release(name)).expect("a release"),
        md5: None,
    };
    vec![Ok(publish)]
}

fn gray(name: &str) -> Value {
    let mut gray = release(name);
    gray["release_type"] = json!("gray");
    gray["client_percent"] = json!({ "percent": 5, "by": "CLIENT_IP" });
    gray
}

fn rule_draft(head: Value, priority: u64) -> Items<RuleDraft> {
    let mut head = head;
    head["priority"] = json!(priority);
    let body = json!({ "routing_config": { "rules": [{ "name": "one", "destinations": [] }] } });
    let head: RuleHead = serde_json::from_value(head).expect("a head");
    vec![Ok(RuleDraft { head, body: DeserializeSeed::deserialize(Family::Routing, body).expect("a body") })]
}

/// The first contract of a cluster is acknowledged by another node.
#[tokio::test(start_paused = true)]
async fn a_contract_that_was_acknowledged_elsewhere_binds() {
    for way in ["force", "promote", "rule"] {
        let (operations, memory, caller) = over(founded(), "a");
        operations.config_files(&caller, Op::Create, item(file("{}"))).await.expect("saved");
        operations.publish_files(&caller, item(gray("g")), false).await.expect("a batch");
        let rule = rule_draft(json!({ "name": "r", "namespace": "prod" }), 1);
        operations.rules(&caller, Op::Create, rule).await.expect("saved");
        memory.acknowledged_elsewhere(contract_command(refuses_all()));
        let outcome = match way {
            "force" => operations.publish_files(&caller, item(gray("h")), true).await.map(|(outcomes, _)| outcomes),
            "promote" => operations.change_config_releases(&caller, ReleaseOp::Promote, item(release("g"))).await,
            _ => operations.publish_rules(&caller, Family::Routing, item(json!({ "rule_name": "r" }))).await,
        };
        assert_eq!(outcome.expect("a batch")[0].code.number(), 400107, "{way}");
    }
}

/// Another release comes into force after validation: the item is validated again, against that release.
#[tokio::test(start_paused = true)]
async fn what_was_compared_with_is_in_force_still_when_it_is_published() {
    let steady = json!({ "name": "steady", "mode": "refuse", "rules": [
        { "expression": "old == null || new.v >= old.v", "message": "v does not fall" }] });
    let publish_5 = || {
        let Ok(publish) = both(r#"{"v":5}"#, "five").remove(0) else { panic!("a publish") };
        Command::ConfigCreateAndPublish(vec![publish])
    };
    let (operations, memory, caller) = over(founded(), "a");
    assert_eq!(contract(&operations, &caller, steady).await, 200000);
    memory.overtaken_by(publish_5());
    let (outcomes, _) =
        operations.create_and_publish_files(&caller, both(r#"{"v":3}"#, "three"), false).await.expect("a batch");
    assert_eq!(code_and_text(&outcomes[0]), (400107, "/ Some(1) v does not fall".to_owned()));
}

/// A gray release that is replaced between validation and promotion is validated again.
#[tokio::test(start_paused = true)]
async fn what_was_judged_is_what_is_promoted() {
    let (operations, memory, caller) = over(founded(), "a");
    operations.config_files(&caller, Op::Create, item(file("{\"timeout\": 1}"))).await.expect("saved");
    operations.publish_files(&caller, item(gray("g")), false).await.expect("a batch");
    assert_eq!(contract(&operations, &caller, timeout("refuse")).await, 200000);
    let named = || vec![serde_json::from_value(release("g")).expect("a release")];
    memory.overtaken_by(Command::ConfigStopGray(named()));
    memory.overtaken_by(Command::ConfigDeleteReleases(named()));
    let draft = serde_json::from_value(file("{\"timeout\": 70}")).expect("a file");
    memory.overtaken_by(Command::ConfigFiles(Op::Update, vec![draft]));
    memory.overtaken_by(Command::ConfigPublish(vec![serde_json::from_value(gray("g")).expect("a release")]));
    let promoted = operations.change_config_releases(&caller, ReleaseOp::Promote, item(release("g"))).await;
    assert_eq!(promoted.expect("a batch")[0].code.number(), 400107);
}

/// A rule that no contract binds is renamed before its publication, to a name that one binds.
#[tokio::test(start_paused = true)]
async fn a_rule_is_published_under_the_name_that_was_judged() {
    let (operations, memory, caller) = over(founded(), "a");
    let saved = operations.rules(&caller, Op::Create, rule_draft(json!({ "name": "r", "namespace": "lab" }), 1)).await;
    let id = written(&saved.expect("saved")[0]).expect("a rule").id.clone();
    let fields = json!({ "name": "no", "namespace": "prod", "mode": "refuse", "rules": [{ "expression": "false" }] });
    assert_eq!(contract(&operations, &caller, fields).await, 200000);
    let Ok(renamed) = rule_draft(json!({ "id": id, "name": "r", "namespace": "prod" }), 1).remove(0) else {
        panic!("a rule")
    };
    memory.overtaken_by(Command::Rules(Op::Update, vec![renamed]));
    let published = operations.publish_rules(&caller, Family::Routing, item(json!({ "rule_id": id }))).await;
    assert_eq!(published.expect("a batch")[0].code.number(), 400107);
}

/// Rights are checked for the rule's present name, as in apply.
#[tokio::test(start_paused = true)]
async fn who_may_promote_is_judged_whatever_the_rule_was_called() {
    let (operations, memory, caller) = over(founded(), "a");
    let saved = operations.rules(&caller, Op::Create, rule_draft(json!({ "name": "r", "namespace": "prod" }), 7)).await;
    let id = written(&saved.expect("saved")[0]).expect("a rule").id.clone();
    let labels = json!([{ "key": "zone", "value": { "type": "EXACT", "value": "a" } }]);
    let gray = json!({ "rule_id": id, "release_name": "g", "release_type": "gray", "client_labels": labels });
    operations.publish_rules(&caller, Family::Routing, item(gray)).await.expect("a batch");
    let fields = json!({ "name": "no", "namespace": "prod", "mode": "refuse", "rules": [{ "expression": "false" }] });
    assert_eq!(contract(&operations, &caller, fields).await, 200000);
    let renamed = rule_draft(json!({ "id": id, "name": "r", "namespace": "lab" }), 7);
    operations.rules(&caller, Op::Update, renamed).await.expect("a batch");
    let catalog = memory.bench().catalog;
    let of_lab =
        Grants::new([crate::model::grant::Grant { role: Role::Releaser, namespace: "lab".into(), name: "*".into() }]);
    let draft = serde_json::from_value(json!({ "rule_id": id, "release_name": "g" })).expect("a release");
    assert!(catalog.lets_change_release(&of_lab, Family::Routing, &draft));
    let named = json!({ "rule_id": id, "release_name": "g" });
    let promoted = operations.change_rule_releases(&caller, Family::Routing, ReleaseOp::Promote, item(named)).await;
    assert_eq!(promoted.expect("a batch")[0].code.number(), 400107);
}

/// Each of two files that clients find by the same lookups gets a warning, in either order.
#[tokio::test(start_paused = true)]
async fn a_file_beside_its_twin_is_told_of() {
    let (operations, caller) = operations();
    let named = |name: &str| {
        let mut file = file("{}");
        file["name"] = json!(name);
        let release = json!({ "namespace": "prod", "group": "pay", "file_name": name });
        let release = serde_json::from_value(release).expect("a release");
        vec![Ok(ConfigPublish { file: serde_json::from_value(file).expect("a file"), release, md5: None })]
    };
    let mut warnings = Vec::new();
    for name in ["App.json", "app.json", "other.json", "x.properties", "X"] {
        let (outcomes, told) = operations.create_and_publish_files(&caller, named(name), false).await.expect("a batch");
        assert_eq!(outcomes[0].code.number(), 200000, "{name}");
        warnings.push(told[0].join(" "));
    }
    let begins = |number: usize, twin: &str| warnings[number].starts_with(&format!("{twin:?} is published in this"));
    assert!(begins(1, "App.json") && begins(4, "x.properties"), "{warnings:?}");
    assert!([0, 2, 3].iter().all(|number| warnings[*number].is_empty()), "{warnings:?}");
    let mut draft = file("{}");
    draft["name"] = json!("APP.json");
    let (_, told) = operations.config_files(&caller, Op::Create, item(draft)).await.expect("saved");
    assert!(told[0][0].starts_with("\"App.json\" is published"), "{told:?}");
    for (name, twin) in [("y", None), ("y.properties", Some("y")), ("Y", Some("y.properties")), ("z.json", None)] {
        let mut draft = file("{}");
        draft["name"] = json!(name);
        let (_, told) = operations.config_files(&caller, Op::Create, item(draft)).await.expect("saved");
        let begins = twin.map(|twin| format!("{twin:?} is in this group as well; once both are published, "));
        assert_eq!(
            told[0].first().map(|told| begins.is_some_and(|begins| told.starts_with(&begins))),
            twin.map(|_| true),
            "{name}: {told:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_opened_is_not_promoted() {
    let (operations, memory, caller) = over(founded(), "a");
    let mut sealed = file("{\"timeout\": 1}");
    sealed["encrypted"] = json!(true);
    operations.config_files(&caller, Op::Create, item(sealed)).await.expect("saved");
    operations.publish_files(&caller, item(gray("g")), false).await.expect("a batch");
    assert_eq!(contract(&operations, &caller, timeout("refuse")).await, 200000);
    let (elsewhere, _, caller) = over(memory.bench(), "b");
    let promoted = elsewhere.change_config_releases(&caller, ReleaseOp::Promote, item(release("g"))).await;
    assert_eq!(promoted.expect("a batch")[0].code.number(), 503005);
}

/// Trials wait only for trials, and one caller has only its share of their turns.
#[tokio::test(start_paused = true)]
async fn trials_keep_no_publish_waiting_and_judgements_none_of_the_lists() {
    let (operations, caller) = operations();
    assert_eq!(contract(&operations, &caller, timeout("refuse")).await, 200000);
    let mut held = Vec::new();
    for name in 0..64 {
        let turn = of_caller(&format!("reader{name}"), operations.turns.trials.next());
        match tokio::time::timeout(Duration::from_millis(1), turn).await {
            Ok(turn) => held.push(turn),
            Err(_) => break,
        }
    }
    let mut one = Vec::new();
    while let Ok(turn) =
        tokio::time::timeout(Duration::from_millis(1), of_caller("one", operations.turns.judgements.next())).await
    {
        one.push(turn);
    }
    assert!(one.len() < crate::operations::scan_limiter::at_once(), "one caller leaves turns");
    let published =
        of_caller("eva", operations.create_and_publish_files(&caller, both("{\"timeout\": 60}", "r"), false));
    assert_eq!(published.await.expect("a batch").0[0].code.number(), 200000);
    assert!(operations.on_scan_turn(|| true).await.expect("a turn"), "lists have turns of their own");
    let trial = json!({ "namespace": "prod", "name": "pay/app.json", "content": "{}" });
    let refused = of_caller("eva", operations.try_contracts(&caller, item(trial))).await;
    assert_eq!(refused.expect_err("no turn comes").code.number(), 503002);
}

/// The last step of a rollout without a free turn counts as not validated, not as accepted.
#[tokio::test(start_paused = true)]
async fn without_a_turn_a_last_step_is_not_judged() {
    let (operations, memory, caller) = over(founded(), "a");
    operations.config_files(&caller, Op::Create, item(file("{\"timeout\": 70}"))).await.expect("saved");
    let mut planned = release("g");
    planned["release_type"] = json!("gray");
    planned["plan"] = json!({ "by": "CLIENT_IP", "steps": [{ "percent": 1, "hold_s": 1 }, { "percent": 100 }] });
    operations.publish_files(&caller, item(planned), false).await.expect("a batch");
    assert_eq!(contract(&operations, &caller, timeout("refuse")).await, 200000);
    let live = memory.bench().catalog.live_rollouts().remove(0);
    assert_eq!(live.thing, Thing::File(ConfigKey::new("prod", "pay", "app.json")));
    let told = operations.refused_last_step(live.clone()).await.expect("it is judged");
    assert!(told.expect("refused").contains("timeouts"));
    let mut held = Vec::new();
    for _ in 0..crate::operations::scan_limiter::at_once() {
        held.push(operations.turns.judgements.next().await);
    }
    assert_eq!(operations.refused_last_step(live).await.expect_err("not judged").code.number(), 503002);
}
