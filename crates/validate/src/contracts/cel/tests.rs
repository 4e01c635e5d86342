use std::time::{Duration, Instant};

use cel::Context;
use serde_json::json;

use super::*;
use crate::model::limits;

fn new() -> Value {
    json!({
        "timeout": 30,
        "ratio": 0.5,
        "whole": 2.0,
        "name": "pay",
        "on": true,
        "none": null,
        "hosts": ["a.example", "b.example"],
        "limits": { "cpu": 2, "memory": "1Gi" },
        "list": [3, 1, 2],
        "of": [{ "n": 1 }, { "n": 2 }, { "m": 3 }],
    })
}

fn run(source: &str, new: &Value) -> Result<bool, Stop> {
    let program = Program::compile(source).unwrap_or_else(|why| panic!("{source}: {why}"));
    let old = json!({ "timeout": 20 });
    let facts = Facts { new, old: &old, kind: "configfile", namespace: "prod", name: "pay/app.yml", user: "eva" };
    program.holds(&facts, &Fuel::start(limits::CONTRACT_TIME, limits::CONTRACT_MADE_BYTES_MAX))
}

/// Expressions that are true; their negations are false.
const HOLD: [&str; 46] = [
    "new.timeout == 30 && new.timeout <= 60",
    "new.timeout > old.timeout",
    "old != null && has(old.timeout) && !has(old.none)",
    "new.ratio == 0.5 && new.ratio < 1",
    "new.none == null",
    "type(new.timeout) == int && type(new.ratio) == double && type(new.name) == string",
    "type(new.hosts) == list && type(new.limits) == map && type(new.on) == bool && type(new.none) == null_type",
    "new.hosts.all(h, h.endsWith('.example'))",
    "new.hosts.exists(h, h.startsWith('a'))",
    "new.list.exists_one(n, n == 1)",
    "new.list.map(n, n * 2) == [6, 2, 4]",
    "new.list.filter(n, n > 1) == [3, 2]",
    "new.list.map(n, n > 1, n + 1) == [4, 3]",
    "size(new.hosts) == 2 && new.name.size() == 3 && size(new.limits) == 2",
    "'cpu' in new.limits && !('gpu' in new.limits) && 3 in new.list",
    "new.limits['cpu'] == 2 && new.list[0] == 3",
    "new.limits.map(k, k) == ['cpu', 'memory']",
    "kind == 'configfile' && namespace == 'prod' && name == 'pay/app.yml' && user == 'eva'",
    "new.name + '-' + user == 'pay-eva'",
    "[1] + [2, 3] == [1, 2, 3]",
    "{'a': 1, 'b': [1]} == {'b': [1], 'a': 1}",
    "{1: 'x'}[1] == 'x'",
    "1 == 1.0 && 1 == 1u && 1u == 1.0",
    "1 < 1.5 && 2u > 1 && 1.5 > 1",
    "'1' != 1",
    "7 / 2 == 3 && 7 % 2 == 1 && -7 / 2 == -3 && -7 % 2 == -1",
    "7.0 / 2.0 == 3.5",
    "int('42') == 42 && int(2.9) == 2 && double('1.5') == 1.5 && string(1) == '1'",
    "double(new.timeout) * 0.5 == 15.0",
    "new.on ? new.timeout == 30 : false",
    "!false || new.missing",
    "new.missing || true",
    "!(new.missing && false)",
    "new.of.exists(e, e.n == 2)",
    "!new.of.all(e, e.n == 1)",
    "[[1, 2], [3]].map(l, l.map(n, n + 1)) == [[2, 3], [4]]",
    "[1, 2].all(a, [3, 4].all(b, a < b))",
    "new.list.filter(n, new.list.exists(m, m > n)).size() == 2",
    "'abc' < 'abd' && false < true",
    "'päy'.contains('ä') && size('päy') == 3",
    "dyn(1) == 1",
    "bool('true') && string(true) == 'true'",
    "9223372036854775807 > 9223372036854775806",
    "0.1 + 0.2 > 0.3",
    "!(0.0 / 0.0 == 0.0 / 0.0)",
    "{}.size() == 0 && [].all(x, false) && ![].exists(x, true)",
];

/// Expressions without a value.
const FAIL: [&str; 12] = [
    "new.missing == 1",
    "new.timeout + 'x' == 'x'",
    "new.timeout + 0.5 > 1.0",
    "1 / 0 == 1",
    "9223372036854775807 + 1 > 0",
    "new.list[9] == 1",
    "new.name.missing == 1",
    "new.of.all(e, e.n < 9)",
    "int('x') == 1",
    "-(-9223372036854775807 - 1) > 0",
    "new.name < 1",
    "new.name.all(c, true)",
];

#[test]
fn expressions_mean_what_the_specification_says() {
    for source in HOLD {
        assert_eq!(run(source, &new()), Ok(true), "{source}");
        assert_eq!(run(&format!("!({source})"), &new()), Ok(false), "{source}");
    }
    for source in FAIL {
        assert!(matches!(run(source, &new()), Err(Stop::Failed(_))), "{source}");
    }
    for source in ["new", "1", "'true'", "null", "[true]"] {
        assert_eq!(run(source, &new()), Ok(false), "{source}: what is not true is broken");
    }
    assert_eq!(run("new.name.matches('^[a-z]+$') && !matches(new.name, 'x')", &new()), Ok(true));
    assert!(matches!(run("new.name.matches('(')", &new()), Err(Stop::Failed(_))));
}

/// The evaluation of the crate gives the same results.
#[test]
fn expressions_mean_what_they_mean_elsewhere() {
    let new = new();
    let mut context = Context::default();
    // The crate does not read whole numbers from JSON.
    let mut whole = new.clone();
    whole["whole"] = json!(2);
    // Literals of CEL have whole numbers of type `int`, and JSON is a subset of them.
    for (name, value) in [("new", whole), ("old", json!({ "timeout": 20 }))] {
        let literal = cel::Program::compile(&value.to_string()).expect("a literal").execute(&Context::default());
        context.add_variable_from_value(name, literal.expect("a value"));
    }
    for (name, value) in [("kind", "configfile"), ("namespace", "prod"), ("name", "pay/app.yml"), ("user", "eva")] {
        context.add_variable(names::renamed(name), value).expect("a value");
    }
    let holds = |source: &str| {
        let program =
            cel::Program::compile(&names::renamed(source)).unwrap_or_else(|error| panic!("{source}: {error}"));
        program.execute(&context).map(|value| value == cel::Value::Bool(true))
    };
    let mut unlike = Vec::new();
    for source in HOLD.iter().chain(&FAIL) {
        let (own, theirs) = (run(source, &new), holds(source));
        if own.as_ref().ok() != theirs.as_ref().ok() {
            unlike.push(format!("{source}: {own:?} here, {theirs:?} there"));
        }
    }
    // The crate does not preserve the order of members of a map.
    unlike.retain(|line| !line.contains("map(k, k)"));
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
}

#[test]
fn whole_numbers_of_json_are_int() {
    for (number, kind) in [
        ("1", "int"),
        ("1.0", "int"),
        ("-0.0", "int"),
        ("1e3", "int"),
        ("1.5", "double"),
        ("9223372036854775807", "int"),
        ("18446744073709551615", "double"),
        ("1e300", "double"),
    ] {
        let new = serde_json::from_str(number).expect("a number");
        assert_eq!(run(&format!("type(new) == {kind}"), &new), Ok(true), "{number}");
    }
}

#[test]
fn what_cannot_be_found_is_refused_where_it_is_taken() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let chain = vec!["1"; 400].join("+");
    for (source, why) in [
        ("new.a ==", "line 1"),
        ("foo == 1", "there is no \"foo\""),
        ("new.all(x, y)", "there is no \"y\""),
        ("new.all(x, true) && x", "there is no \"x\""),
        ("fetch(new)", "there is no function fetch"),
        ("new.fetch()", "there is no function fetch"),
        ("size(new, 1) == 1", "takes 1 arguments"),
        ("b'x' == b'x'", "bytes"),
        ("timestamp('2026-01-01T00:00:00Z') != null", "timestamp"),
        ("Message{a: 1} == null", "messages"),
        (deep.as_str(), "recursion"),
        (chain.as_str(), "one inside the other"),
        ("'\n", ""),
        ("`", ""),
        ("{", ""),
    ] {
        let told = Program::compile(source).err().unwrap_or_else(|| panic!("{source} is taken"));
        assert!(told.contains(why), "{source}: {told}");
    }
}

/// Without limits each of these would run for ever or exhaust the memory.
#[test]
fn expressions_come_to_their_end() {
    let double = |seed: &str, step: &str| format!("[{seed}]{} == []", format!(".map(x, {step})").repeat(100));
    let long = "new".to_owned() + &".all(a, new".repeat(12) + ".size() > 0" + &")".repeat(12);
    let many = json!(vec![1; 1000]);
    for source in [
        double("'0123456789'", "x + x"),
        double("[1]", "x + x"),
        double("[1]", "[x, x]"),
        format!("{0} == {0}", format!("[[1]]{}", ".map(x, [x, x])".repeat(80))),
        long,
        "new.all(a, new.all(b, new.all(c, a + b + c > 0)))".to_owned(),
        "new.map(a, new.map(b, new)) == []".to_owned(),
        "new.all(a, matches('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '(a|a|a|aa)*b'))".to_owned(),
    ] {
        let begun = Instant::now();
        let told = run(&source, &many);
        assert!(begun.elapsed() < Duration::from_secs(60), "{source}: {:?}", begun.elapsed());
        assert!(!matches!(told, Ok(true)), "{source}: {told:?}");
    }
}
