//! Authorization of rules by their effects, of deletions of what clients see, and the records of refusals.

use serde::de::DeserializeSeed;
use serde_json::{Value, json};

use super::trust::{asked, grant};
use super::*;
use crate::catalog::rules::RuleFilter;
use crate::model::access::UserDraft;
use crate::model::grant::{Grants, ReadScope, Role, Verb};
use crate::model::release::{GivenTime, ReleaseOp};
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, RuleDraft, RuleHead};

fn rule(name: &str, namespace: &str, fields: &Value) -> RuleDraft {
    let head = RuleHead { name: Some(name.into()), namespace: Some(namespace.into()), ..RuleHead::default() };
    RuleDraft { head, body: Family::RateLimit.deserialize(fields).expect("fields of a rate limit") }
}

fn callee(namespace: &str, service: &str) -> Value {
    json!({ "callee": { "namespace": namespace, "service": service } })
}

fn save(op: Op, draft: RuleDraft) -> Command {
    Command::Rules(op, vec![draft])
}

fn of_release(name: &str) -> RuleReleaseDraft {
    let name = Some(name.to_owned());
    RuleReleaseDraft {
        rule_name: name.clone(),
        release_name: name,
        namespace: Some("dev".into()),
        ..RuleReleaseDraft::default()
    }
}

fn publish(name: &str) -> Command {
    Command::PublishRules(Family::RateLimit, vec![of_release(name)])
}

fn become_of(op: ReleaseOp, name: &str) -> Command {
    Command::RuleReleases(Family::RateLimit, op, vec![of_release(name)])
}

/// Returns a bench in which Eva has all rights on rules of `dev`, and none elsewhere.
fn bench() -> Bench {
    let mut bench = Bench::trusting();
    bench.add("eva", &[grant(Role::Editor, "dev", "*"), grant(Role::Releaser, "dev", "*")]);
    bench
}

#[test]
fn a_rule_is_judged_where_it_acts() {
    let mut bench = bench();
    for (fields, code) in [
        (callee("dev", "pay"), 200000),
        (json!({}), 200000),
        (callee("prod", "pay"), 401001),
        (callee("prod", "*"), 401001),
        (callee("*", "*"), 401001),
    ] {
        let name = fields.to_string();
        assert_eq!(bench.by("eva", save(Op::Create, rule(&name, "dev", &fields))), [code], "{fields}");
        assert_eq!(bench.by("admin", save(Op::Delete, rule(&name, "dev", &fields))), [200000]);
    }
    // A rule made by an administrator acts on prod. Eva may own it, but not release, change or stop it.
    assert_eq!(bench.by("admin", save(Op::Create, rule("wide", "dev", &callee("prod", "pay")))), [200000]);
    let refused = bench.apply(asked("eva", publish("wide"))).outcomes;
    assert_eq!(refused[0].detail, "this needs release at prod/pay, which the rule acts on");
    assert_eq!(bench.by("admin", publish("wide")), [200000]);
    for op in [ReleaseOp::Withdraw, ReleaseOp::Rollback, ReleaseOp::Delete] {
        assert_eq!(bench.by("eva", become_of(op, "wide")), [401001], "{op:?}");
    }
    assert_eq!(bench.by("eva", save(Op::Delete, rule("wide", "dev", &json!({})))), [401001], "clients see it");
    // She may change the draft to act off prod, but its release would take a rule of prod out of force.
    assert_eq!(bench.by("eva", save(Op::Update, rule("wide", "dev", &callee("dev", "pay")))), [200000]);
    let other = RuleReleaseDraft { release_name: Some("next".into()), ..of_release("wide") };
    assert_eq!(bench.by("eva", Command::PublishRules(Family::RateLimit, vec![other])), [401001]);
    assert_eq!(bench.by("admin", become_of(ReleaseOp::Withdraw, "wide")), [200000]);
    assert_eq!(bench.by("eva", publish("wide")), [400201], "the name is taken, and nothing else is in the way");
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn an_alias_does_not_lead_around_the_judgement() {
    let mut bench = bench();
    assert_eq!(bench.by("admin", Command::Services(Op::Create, vec![service("prod", "pay")])), [200000]);
    let alias = AliasDraft {
        service: Some("pay".into()),
        namespace: Some("prod".into()),
        alias: Some("short".into()),
        alias_namespace: Some("dev".into()),
        ..AliasDraft::default()
    };
    assert_eq!(bench.by("admin", Command::Aliases(Op::Create, vec![alias])), [200000]);
    assert_eq!(bench.by("eva", save(Op::Create, rule("r", "dev", &callee("dev", "short")))), [401001]);
}

#[test]
fn the_setting_judges_by_name_alone() {
    let mut bench = bench();
    bench.add("op", &[grant(Role::Operator, "*", "*")]);
    let by_name = || Command::Settings(SettingsChange { rule_scope: Some(1), ..SettingsChange::default() });
    let of_trail = Command::Settings(SettingsChange { audit_kept_days: Some(1), ..SettingsChange::default() });
    assert_eq!(bench.by("op", by_name()), [401001]);
    assert_eq!(bench.by("op", of_trail), [401001]);
    assert_eq!(bench.by("admin", by_name()), [200000]);
    assert_eq!(bench.by("eva", save(Op::Create, rule("r", "dev", &callee("prod", "pay")))), [200000]);
    assert_eq!(bench.by("eva", publish("r")), [200000]);
}

#[test]
fn a_rule_is_seen_by_who_feels_it() {
    let mut bench = bench();
    bench.add("pia", &[grant(Role::Editor, "prod", "pay*")]);
    for (name, fields) in [("felt", callee("prod", "pay")), ("all", callee("*", "*")), ("far", callee("dev", "x"))] {
        assert_eq!(bench.by("admin", save(Op::Create, rule(name, "dev", &fields))), [200000]);
    }
    let grants = Grants::new([grant(Role::Reader, "prod", "pay*")]);
    let filter = RuleFilter { read_scope: ReadScope::new(&grants, &[Verb::Read]), ..RuleFilter::default() };
    let seen = bench.catalog.rules.of(Family::RateLimit).list(&filter, &Page::ALL).rows;
    let mut names: Vec<_> = seen.iter().map(|rule| rule.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["all", "felt"]);
    assert_eq!(bench.by("pia", save(Op::Update, rule("felt", "dev", &json!({})))), [401001], "seen, and not hers");
    assert_eq!(bench.by("pia", save(Op::Update, rule("far", "dev", &json!({})))), [400202], "not seen");
}

#[test]
fn what_clients_see_is_not_deleted_without_the_right_to_release() {
    let mut bench = Bench::trusting();
    bench.add("ed", &[grant(Role::Editor, "dev", "*")]);
    let file = |name: &str| ConfigFileDraft { namespace: "dev".into(), ..super::file(name, "a") };
    let delete = |name: &str| Command::ConfigFiles(Op::Delete, vec![file(name)]);
    for name in ["draft", "seen"] {
        assert_eq!(bench.by("ed", Command::ConfigFiles(Op::Create, vec![file(name)])), [200000]);
        assert_eq!(bench.by("ed", save(Op::Create, rule(name, "dev", &json!({})))), [200000]);
    }
    let release = ConfigReleaseDraft { namespace: "dev".into(), ..super::release("seen", "v") };
    assert_eq!(bench.by("admin", Command::ConfigPublish(vec![release])), [200000]);
    assert_eq!(bench.by("admin", publish("seen")), [200000]);
    let refused = bench.apply(asked("ed", delete("seen"))).outcomes;
    assert_eq!(refused[0].code.number(), 401001);
    assert!(refused[0].detail.contains("withdraw it first"), "{}", refused[0].detail);
    assert_eq!(bench.by("ed", save(Op::Delete, rule("seen", "dev", &json!({})))), [401001]);
    assert_eq!(bench.by("ed", delete("draft")), [200000]);
    assert_eq!(bench.by("ed", save(Op::Delete, rule("draft", "dev", &json!({})))), [200000]);
    assert_eq!(bench.by("admin", become_of(ReleaseOp::Withdraw, "seen")), [200000]);
    assert_eq!(bench.by("ed", save(Op::Delete, rule("seen", "dev", &json!({})))), [200000]);
    assert_eq!(bench.by("admin", delete("seen")), [200000]);
}

#[test]
fn what_is_planned_is_judged_again_when_its_time_comes() {
    for is_disabled in [false, true] {
        let mut bench = bench();
        assert_eq!(bench.by("eva", save(Op::Create, rule("r", "dev", &json!({})))), [200000]);
        let at = Timestamp(bench.ctx(bench.index).time.0 + 60_000);
        let planned = RuleReleaseDraft { publish_at: Some(GivenTime(at)), ..of_release("r") };
        let far =
            RuleReleaseDraft { publish_at: Some(GivenTime(Timestamp(at.0 + 400 * 86_400_000))), ..of_release("r") };
        assert_eq!(bench.by("eva", Command::PublishRules(Family::RateLimit, vec![far])), [400103]);
        bench.index += 1;
        let mut ctx = bench.ctx(bench.index);
        ctx.by = "eva".into();
        let planned = asked("eva", Command::PublishRules(Family::RateLimit, vec![planned]));
        assert!(bench.apply_as(&ctx, planned).outcomes[0].code.is_success());
        let change = UserDraft { name: "eva".into(), disabled: Some(is_disabled), ..UserDraft::default() };
        bench.by("admin", Command::Users(Op::Update, vec![change]));
        let due = bench.catalog.due(Timestamp(at.0 + 1));
        bench.index += 100;
        let code = if is_disabled { 401001 } else { 200000 };
        assert_eq!(bench.codes(Command::PublishDue(due)), [code]);
        let book = bench.catalog.rules.of(Family::RateLimit);
        let release = book.list_releases(&Default::default(), &Page::ALL).rows.remove(0);
        let failed = release.plan.as_ref().map(|plan| plan.failed.as_str());
        assert_eq!(failed, is_disabled.then_some("its author may not any more"));
        assert_eq!(release.active, !is_disabled);
    }
}

#[test]
fn a_contract_takes_edit_on_everything_that_it_covers() {
    let mut bench = Bench::trusting();
    bench.add("eva", &[grant(Role::Editor, "dev*", "*"), grant(Role::Editor, "prod", "pay")]);
    let mut codes = |op: Op, by: &str, json: &str| {
        let draft = serde_json::from_str(json).expect("a draft");
        bench.by(by, Command::Contracts(op, vec![draft]))[0]
    };
    for (fields, code) in [
        (r#""namespace":"dev","names":["*"]"#, 200000),
        (r#""namespace":"dev-*","names":["a*","b/c"]"#, 200000),
        (r#""namespace":"prod","names":["pay","pay/app.yml"],"kinds":["configfile"]"#, 200000),
        // A rule may have the name of a file.
        (r#""namespace":"prod","names":["pay/app.yml"]"#, 401001),
        (r#""namespace":"prod","names":["pay","other"]"#, 401001),
        (r#""namespace":"prod","names":["pay*"]"#, 401001),
        (r#""namespace":"de*","names":["*"]"#, 401001),
        (r#""names":["pay"]"#, 401001),
    ] {
        assert_eq!(codes(Op::Create, "eva", &format!(r#"{{"name":"c","schema":true,{fields}}}"#)), code, "{fields}");
        codes(Op::Delete, "admin", r#"{"name":"c"}"#);
    }
    codes(Op::Create, "admin", r#"{"name":"c","namespace":"dev","schema":true}"#);
    assert_eq!(codes(Op::Update, "eva", r#"{"name":"c","comment":"x"}"#), 200000);
    assert_eq!(codes(Op::Update, "eva", r#"{"name":"c","namespace":"*"}"#), 401001, "what it would cover");
    codes(Op::Update, "admin", r#"{"name":"c","namespace":"*"}"#);
    assert_eq!(codes(Op::Update, "eva", r#"{"name":"c","namespace":"dev"}"#), 400202, "what it covers is not seen");
    assert_eq!(codes(Op::Delete, "eva", r#"{"name":"c"}"#), 200000, "as if it were not there");
    assert_eq!(codes(Op::Update, "admin", r#"{"name":"c","comment":"y"}"#), 200000, "and it stays");
}

/// Returns code and count of each row in the trail of a batch.
fn codes_and_counts(bench: &mut Bench, by: &str, command: Command) -> Vec<(u32, u32)> {
    let audit = bench.apply(asked(by, command)).audit;
    audit.iter().flat_map(|row| row.events().map(|event| (event.code, event.count)).collect::<Vec<_>>()).collect()
}

#[test]
fn refusals_of_a_batch_are_one_row_and_a_delete_of_nothing_is_none() {
    let mut bench = bench();
    let many =
        |op, namespace: &str| Command::Services(op, (0..50).map(|n| service(namespace, &format!("s{n}"))).collect());
    assert_eq!(codes_and_counts(&mut bench, "eva", many(Op::Delete, "dev")), []);
    assert_eq!(codes_and_counts(&mut bench, "eva", many(Op::Create, "prod")), [(401001, 50)]);
    let two = Command::Services(Op::Create, vec![service("dev", "a"), service("prod", "a"), service("prod", "b")]);
    assert_eq!(codes_and_counts(&mut bench, "eva", two), [(401001, 2), (200000, 1)]);
    assert_eq!(
        codes_and_counts(&mut bench, "eva", Command::Services(Op::Delete, vec![service("dev", "a")])),
        [(200000, 1)]
    );
}

#[test]
fn muted_refusals_leave_no_row_and_what_was_done_does() {
    let mut bench = bench();
    let command = Command::Services(Op::Create, vec![service("dev", "a"), service("prod", "a")]);
    let Command::Authorized(mut muted) = asked("eva", command) else { panic!("asked for") };
    muted.mutes_refusals = true;
    let command = Command::Authorized(muted);
    let audit = bench.apply(command).audit;
    let events: Vec<_> =
        audit.iter().flat_map(|row| row.events().map(|event| event.code).collect::<Vec<_>>()).collect();
    assert_eq!(events, [200000]);
}
