//! Updates and deletions of rules.

use serde::de::DeserializeSeed;
use serde_json::json;

use super::rules::{by_id, rule, rule_for};
use super::*;
use crate::format::pack;
use crate::model::rule::{Body, Family, RuleDraft, RuleHead};

fn patch_of(family: Family, json: serde_json::Value) -> RuleDraft {
    let body = family.deserialize(json).expect("a body");
    RuleDraft { head: rule(family, "x").head, body }
}

#[test]
fn a_flat_probe_becomes_a_nested_one() {
    let family = Family::FaultDetect;
    {
        let mut bench = Bench::founded();
        let flat = json!({"target_service": {"service": "s"}, "interval": 30, "http_config": {"url": "/"}});
        let left = |bench: &Bench| {
            let rule = bench.catalog.rules.of(family).named("a", "x").expect("kept").clone();
            let Body::FaultDetect(body) = &rule.body else { panic!("another family") };
            (body.interval.is_some(), body.http_config.is_some(), body.target_service.is_some(), body.rules.len())
        };
        bench.codes(Command::Rules(Op::Create, vec![patch_of(family, flat)]));
        bench.codes(Command::Rules(Op::Update, vec![patch_of(family, json!({"rules": [{}], "interval": 31}))]));
        assert_eq!(left(&bench), (true, true, true, 1), "one of the older fields is there");
        bench.codes(Command::Rules(Op::Update, vec![patch_of(family, json!({"service": "t"}))]));
        assert_eq!(left(&bench), (true, true, true, 1), "no sub-rules are there");
        bench.codes(Command::Rules(Op::Update, vec![patch_of(family, json!({"rules": [{}, {}]}))]));
        assert_eq!(left(&bench), (false, false, true, 2));
        assert_eq!(bench.reloaded(), bench.catalog);
    }
}

#[test]
fn an_optional_object_is_taken_away_by_an_empty_one() {
    let there = json!({"namespace": "a", "service": "s"});
    let route = |caller: serde_json::Value, callee: serde_json::Value| {
        json!({"routing_config": {"caller": caller,
            "callee": callee}})
    };
    for (family, set, empty) in [
        (Family::RateLimit, json!({"report": {"interval": "1s"}}), json!({"report": {}})),
        (Family::RateLimit, json!({"cluster": there}), json!({"cluster": {}})),
        (Family::RateLimit, json!({"callee": there}), json!({"callee": {"service": "", "namespace": ""}})),
        (Family::FaultDetect, json!({"target_service": there}), json!({"target_service": {}})),
        (Family::Routing, route(there.clone(), there.clone()), route(json!({}), json!({}))),
    ] {
        {
            let mut bench = Bench::founded();
            let whole = |bench: &Bench, name: &str| {
                let rule = bench.catalog.rules.of(family).named("a", name).expect("kept").clone();
                serde_json::to_value(rule.body.fields()).expect("fields")
            };
            let without = RuleDraft { head: rule(family, "without").head, ..patch_of(family, json!({})) };
            bench.codes(Command::Rules(Op::Create, vec![without, patch_of(family, set.clone())]));
            assert_ne!(whole(&bench, "x"), whole(&bench, "without"), "{set}");
            bench.codes(Command::Rules(Op::Update, vec![patch_of(family, empty.clone())]));
            let made = RuleDraft { head: rule(family, "made").head, ..patch_of(family, empty.clone()) };
            bench.codes(Command::Rules(Op::Create, vec![made]));
            for name in ["x", "made"] {
                assert_eq!(whole(&bench, name), whole(&bench, "without"), "{name} {empty}");
            }
            assert_eq!(bench.reloaded(), bench.catalog);
        }
    }
}

/// The rule is read, one of two fields is changed, and the rule is sent back.
#[test]
fn the_switch_is_turned_by_what_was_changed() {
    let family = Family::RateLimit;
    let mut bench = Bench::founded();
    bench.codes(Command::Rules(Op::Create, vec![rule(family, "x")]));
    let read = |bench: &Bench| {
        let rule = bench.catalog.rules.of(family).named("a", "x").expect("kept");
        (rule.enable, rule.revision.clone())
    };
    for (enable, disable, expected) in
        [(false, false, false), (true, true, true), (true, true, false), (false, false, true), (true, false, true)]
    {
        let mut draft = rule(family, "x");
        draft.head = RuleHead { enable: Some(enable), disable: Some(disable), ..draft.head };
        if enable == disable {
            assert!(draft.check_update().is_err(), "sent twice it would be turned twice");
        }
        draft.head.revision = Some(read(&bench).1);
        assert_eq!((draft.check_update(), draft.check_new().is_err()), (Ok(()), enable == disable));
        bench.codes(Command::Rules(Op::Update, vec![draft.clone()]));
        assert_eq!(read(&bench).0, expected, "{enable} {disable}");
        if enable == disable {
            assert_eq!(bench.codes(Command::Rules(Op::Update, vec![draft])), [409000], "the same again");
        }
    }
}

#[test]
fn a_rule_is_not_deleted_under_the_name_of_another() {
    {
        for wrong in [("name", "y"), ("namespace", "b")] {
            let family = Family::Routing;
            let mut bench = Bench::founded();
            bench.codes(Command::Rules(Op::Create, vec![rule(family, "x"), rule(family, "y")]));
            let id = bench.catalog.rules.of(family).named("a", "x").expect("kept").id.clone();
            let mut draft = by_id(family, &id);
            match wrong {
                ("name", name) => draft.head.name = Some(name.into()),
                (_, namespace) => draft.head.namespace = Some(namespace.into()),
            }
            assert_eq!(bench.codes(Command::Rules(Op::Delete, vec![draft])), [200000], "as of one that is not there");
            let left = bench.catalog.rules.len();
            assert_eq!(left, 2, "{wrong:?}");
            let mut draft = by_id(family, &id);
            (draft.head.name, draft.head.namespace) = (Some("x".into()), Some("a".into()));
            bench.codes(Command::Rules(Op::Delete, vec![draft]));
            assert_eq!(bench.catalog.rules.len(), 1);
        }
    }
}

/// Golden bytes of the first version.
#[test]
fn golden_bytes_of_a_circuit_breaker() {
    let command = Command::Rules(Op::Create, vec![rule_for(Family::CircuitBreaker, "r", "s")]);
    let golden = "81a552756c657392a64372656174659182a46865616482a46e616d65a172a96e616d657370616365a161a4626f647981ae43\
        697263756974427265616b657281ac72756c655f6d61746368657282a6736f7572636582a773657276696365a0a96e616d657370616365\
        a0ab64657374696e6174696f6e82a773657276696365a173a96e616d657370616365a161";
    assert_eq!(hex::encode(pack::to_bytes(&command)), golden);
    assert_eq!(pack::from_bytes::<Command>(&hex::decode(golden).expect("hex")).expect("readable for ever"), command);
}
