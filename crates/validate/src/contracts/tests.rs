use serde_json::json;

use super::*;
use crate::model::contract::{ContractDraft, ContractMode};
use crate::model::rule::Family;

fn contract(fields: Value) -> Arc<Contract> {
    let draft: ContractDraft = serde_json::from_value(fields).expect("a draft");
    let mut contract = Contract::new("c");
    draft.lay_over(&mut contract);
    Arc::new(contract)
}

fn compiled(fields: Value) -> Arc<Compiled> {
    Arc::new(compile(contract(fields)).unwrap_or_else(|refusal| panic!("{refusal:?}")))
}

/// Evaluates compiled contracts.
fn judge(contracts: &[Arc<Compiled>], subject: &ValidationSubject) -> Vec<Violation> {
    let named: Vec<_> = contracts.iter().map(|compiled| compiled.contract.clone()).collect();
    let of = |contract: &Arc<Contract>| {
        contracts.iter().find(|compiled| Arc::ptr_eq(&compiled.contract, contract)).expect("it is compiled").clone()
    };
    super::judge(&named, &of, subject)
}

fn file(format: Format, text: &str) -> ContractDocument {
    ContractDocument::File { format, text: text.to_owned(), is_sealed: false }
}

fn subject(new: ContractDocument, old: Option<ContractDocument>) -> ValidationSubject {
    ValidationSubject {
        kind: PolicyKind::ConfigFile,
        namespace: "prod".into(),
        name: "pay/app.yml".into(),
        user: "eva".into(),
        new,
        old,
        may_see: true,
    }
}

#[test]
fn faults_are_told_by_path_line_and_message() {
    let timeout =
        compiled(json!({ "schema": { "properties": { "timeout": { "maximum": 60 } }, "required": ["name"] } }));
    let yaml = || file(Format::Yaml, "# comment\nname: x\ntimeout: 70\n");
    let broken = judge(std::slice::from_ref(&timeout), &subject(yaml(), None));
    assert_eq!(broken.len(), 1);
    assert_eq!(broken[0].text(), "contract c: line 3, /timeout: 70 is greater than the maximum of 60");
    let broken = judge(std::slice::from_ref(&timeout), &subject(file(Format::Properties, "timeout=70"), None));
    assert_eq!(broken[0].text(), "contract c: line 1, /: \"name\" is a required property");
    let broken = judge(&[timeout], &subject(file(Format::Json, "{\"name\":\n}"), None));
    assert_eq!((broken[0].path.as_str(), broken[0].line), ("/", Some(2)), "it cannot be read: {broken:?}");
    let grows = json!({ "rules": [
        { "expression": "old == null || new.timeout >= old.timeout", "message": "never shorter" },
        { "expression": "new.missing" },
        { "expression": "new.timeout == 7" },
    ]});
    let broken = judge(&[compiled(grows)], &subject(yaml(), Some(file(Format::Json, r#"{"timeout":80}"#))));
    let told: Vec<_> = broken.iter().map(|broken| broken.message.as_str()).collect();
    let failed = "the expression failed: there is no missing";
    assert_eq!(told, ["never shorter", failed, "not true: new.timeout == 7"]);
    assert!(broken.iter().all(|broken| broken.path == "/" && broken.line == Some(2)));
}

#[test]
fn rules_have_no_lines_and_the_order_is_that_of_lines() {
    let any = compiled(json!({ "schema": { "properties": { "priority": { "maximum": 3 } } } }));
    let of_rule = ValidationSubject {
        kind: PolicyKind::Rule(Family::Routing),
        ..subject(ContractDocument::Rule(json!({ "priority": 5 })), None)
    };
    let broken = judge(&[any], &of_rule);
    assert_eq!(broken[0].text(), "contract c: /priority: 5 is greater than the maximum of 3");
    let two = compiled(json!({ "schema": { "properties": { "b": false, "a": false } } }));
    let broken = judge(&[two], &subject(file(Format::Json, "{\"a\":1,\n\"b\":1}"), None));
    assert_eq!(broken.iter().map(|broken| broken.path.as_str()).collect::<Vec<_>>(), ["/a", "/b"]);
}

#[test]
fn a_sealed_content_is_not_told() {
    let contract = compiled(json!({ "schema": { "properties": { "a": { "const": 1 } } } }));
    let sealed = |may_see| ValidationSubject {
        may_see,
        ..subject(ContractDocument::File { format: Format::Json, text: r#"{"a":4711}"#.into(), is_sealed: true }, None)
    };
    let seen = judge(std::slice::from_ref(&contract), &sealed(true));
    assert!(seen[0].path == "/a" && !seen[0].message.contains("4711"), "{seen:?}");
    let hidden = judge(&[contract], &sealed(false));
    assert_eq!(hidden[0].text(), format!("contract c: /: {HIDDEN}"));
}

#[test]
fn what_takes_too_long_is_broken() {
    let again = json!({ "$ref": "#" });
    let slow = compiled(json!({ "schema": { "anyOf": [
        { "items": again, "minItems": 2 }, { "items": again, "minItems": 3 }, { "items": again, "minItems": 4 },
    ]}, "mode": "refuse" }));
    let deep = format!("{}1{}", "[".repeat(60), "]".repeat(60));
    let kept = compiled(json!({ "schema": true }));
    let broken = judge(&[slow, kept], &subject(file(Format::Json, &deep), None));
    assert_eq!((broken[0].message.as_str(), broken[0].mode), (TOO_LONG, ContractMode::Refuse), "{broken:?}");
    let long = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, true))"
        .replace("true", "new.all(c, new.all(d, c < d + 9))");
    let rules = compiled(json!({ "rules": [{ "expression": long }] }));
    let numbers = format!("[{}1]", "1,".repeat(5000));
    let broken = judge(&[rules], &subject(file(Format::Json, &numbers), None));
    assert!(broken[0].message.starts_with(TOO_LONG), "{broken:?}");
}

#[test]
fn what_refuses_is_told_before_warnings() {
    let warns = compiled(json!({ "schema": { "items": { "maximum": 0 } } }));
    let refuses = compiled(json!({ "schema": { "maxItems": 1 }, "mode": "refuse" }));
    let many = format!("[{}1]", "1,".repeat(50));
    let broken = judge(&[warns, refuses], &subject(file(Format::Json, &many), None));
    assert_eq!(broken.len(), limits::CONTRACT_FAULTS_MAX);
    assert!(broken.iter().any(|one| one.mode == ContractMode::Refuse), "{broken:?}");
}

#[test]
fn a_pattern_is_as_long_as_it_may_be_to_be_read() {
    let matching = compiled(json!({ "rules": [{ "expression": "'x'.matches(new)" }] }));
    let of = |pattern: &str| judge(std::slice::from_ref(&matching), &subject(file(Format::Text, pattern), None));
    assert_eq!(of(&format!("(?x)x{}", " ".repeat(limits::CONTRACT_PATTERN_BYTES_MAX - 5))).len(), 0);
    let broken = of(&r"\w".repeat(limits::CONTRACT_PATTERN_BYTES_MAX));
    assert!(broken[0].message.contains("a pattern of 8192 bytes, at most 4096"), "{broken:?}");
}

#[test]
fn contracts_are_refused_with_the_place_of_what_is_wrong() {
    for (fields, place) in [
        (json!({ "schema": { "items": { "$ref": "other.json" } } }), "schema: /items/$ref: "),
        (
            json!({ "schema": { "items": { "pattern": "a".repeat(4097) } } }),
            "schema: /items/pattern: a pattern of more",
        ),
        (
            json!({ "schema": { "patternProperties": { "a".repeat(4097): {} } } }),
            "schema: /patternProperties: a pattern",
        ),
        (json!({ "rules": [{ "expression": "true" }, { "expression": "new." }] }), "rules[1].expression: line 1"),
    ] {
        let refusal = compile(contract(fields)).err().expect("refused");
        assert!(refusal.code == Code::InvalidParameter && refusal.detail.starts_with(place), "{refusal:?}");
    }
    let unreadable = Arc::new(compile_kept(contract(json!({ "schema": { "$ref": "other.json" } }))));
    assert_eq!(judge(&[unreadable], &subject(file(Format::Json, "1"), None)).len(), 1, "it binds all the same");
}
