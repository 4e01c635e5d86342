//! Tables of conditions with the comparisons of clients of each dialect.

use serde_json::{Value, json};

use super::*;
use crate::model::mesh::library::Library;

const ENVOY_CLIENT: Abilities = Abilities {
    dialect: Dialect::Envoy,
    is_gateway: false,
    has_caller_header: false,
    takes_large_expressions: false,
    is_callee_grpc: false,
    library: Library::Core,
};
const GRPC_CLIENT: Abilities = Abilities {
    dialect: Dialect::Grpc,
    is_gateway: false,
    has_caller_header: false,
    takes_large_expressions: false,
    is_callee_grpc: false,
    library: Library::Core,
};

fn text(value: &TextMatch) -> String {
    match value {
        TextMatch::Present => "present".into(),
        TextMatch::Exact(text) => format!("={text}"),
        TextMatch::Not(text) => format!("!={text}"),
        TextMatch::Expression(text) => format!("~{text}"),
        TextMatch::NotExpression(text) => format!("!~{text}"),
        TextMatch::Range(low, end) => format!("[{low},{end})"),
    }
}

fn text_of(condition: &Condition<'_>) -> String {
    match condition {
        Condition::Path(value) => format!("path {}", text(value)),
        Condition::Header(part) => format!("{} {}", part.name, text(&part.value)),
        Condition::Query(part) => format!("?{} {}", part.name, text(&part.value)),
        Condition::Caller(_) => "caller".into(),
    }
}

fn argument(json: &Value) -> Argument<ArgumentType> {
    let argument: Argument<ArgumentType> = serde_json::from_value(json.clone()).expect("a condition");
    argument
}

/// Returns the alternatives with their warnings, as `a & b | c W4`.
fn ways(json: &Value, is_path_taken: bool, to: Abilities) -> String {
    let argument = argument(json);
    match carried(AskedCondition::from(&argument), "R", is_path_taken, to) {
        Err(warning) => format!("refused W{}", warning.number),
        Ok(found) => {
            let way = |way: &Vec<Condition<'_>>| match way.as_slice() {
                [] => "always".to_owned(),
                all => all.iter().map(text_of).collect::<Vec<_>>().join(" & "),
            };
            let mut words: Vec<String> = vec![found.any_of.iter().map(way).collect::<Vec<_>>().join(" | ")];
            if found.any_of.is_empty() {
                words = vec!["never".into()];
            }
            words.extend(found.warnings.iter().map(|warning| format!("W{}", warning.number)));
            words.join(" ")
        }
    }
}

fn on(kind: &str, key: &str, how: &str, value: &str) -> Value {
    json!({ "type": kind, "key": key, "value": { "type": how, "value": value } })
}

fn check(rows: &[(Value, &str, &str)]) {
    for (json, grpc, envoy) in rows {
        assert_eq!(ways(json, false, GRPC_CLIENT), *grpc, "gRPC: {json}");
        assert_eq!(ways(json, false, ENVOY_CLIENT), *envoy, "Envoy: {json}");
    }
}

#[test]
fn comparisons() {
    let header = |how: &str, value: &str| on("HEADER", "Env", how, value);
    let parameter = json!({ "type": "HEADER", "key": "Env", "value": { "type": "REGEX", "value": "x",
        "value_type": "PARAMETER" } });
    let alike = [
        (header("EXACT", "gray"), "env =gray"),
        (header("EXACT", "*"), "env present"),
        (header("EXACT", ""), "env present"),
        (json!({ "type": "HEADER", "key": "Env" }), "env present"),
        (parameter, "env present"),
        (header("NOT_EQUALS", "gray"), "env !=gray"),
        (header("NOT_EQUALS", ""), "env !="),
        (header("NOT_EQUALS", "*"), "env !=*"),
        (header("IN", "gray"), "env =gray"),
        (header("IN", "gray,a.b,gray"), r"env ~(?:gray|a\.b)"),
        (header("IN", "a, b"), "env ~(?:a| b)"),
        (header("IN", ""), "env ="),
        (header("NOT_IN", "gray,b"), "env !=gray & env !=b"),
        (header("REGEX", "^v[0-9]$"), "env ~(?:v[0-9])"),
        (header("REGEX", "v1"), "env ~(?s:.*)(?:v1)(?s:.*)"),
        (header("REGEX", ".*"), "env present"),
        (header("REGEX", r"\b{start}a"), "refused W25"),
        (header("RANGE", "1~5"), "env [1,6)"),
        (header("RANGE", "0~9223372036854775806"), "env [0,9223372036854775807)"),
        (header("RANGE", "0~18446744073709551615"), "env [0,9223372036854775807) W15"),
        (header("RANGE", "9223372036854775807~9223372036854775807"), "never W15"),
        (on("HEADER", "", "EXACT", "a"), "never W4"),
        (on("HEADER", "a b", "EXACT", "a"), "never W4"),
    ];
    for (json, expected) in alike {
        check(&[(json, expected, expected)]);
    }
}

#[test]
fn parts_of_a_request() {
    let query = r":path !~[^?]*\?(?:.*&)?v=";
    let query_in = on("QUERY", "v", "NOT_IN", "1,2");
    let not_two = format!("?v present & {query}1(?:&.*)? & {query}2(?:&.*)?");
    check(&[
        (on("QUERY", "v", "EXACT", "1"), "never W4", "?v =1"),
        (on("QUERY", "v", "EXACT", "*"), "never W4", "?v present"),
        (on("QUERY", "v", "EXACT", "a b"), "never W4", "?v =a b W5"),
        (on("QUERY", "v", "REGEX", "^a+$"), "never W4", "?v ~(?:a+)"),
        (on("QUERY", "v", "RANGE", "5~12"), "never W4", "?v ~0*(?:[5-9]|1[0-2])"),
        (query_in, "never W4", &not_two),
        (on("QUERY", "v", "NOT_EQUALS", ""), "never W4", r"?v present & :path !~[^?]*\?(?:.*&)?v=?(?:&.*)?"),
        (on("COOKIE", "u", "EXACT", "1"), "never W4", "cookie ~(?:.*; ?)?u=1(?:;.*)?"),
        (on("COOKIE", "u", "IN", "1,2;3"), "never W4", "cookie ~(?:.*; ?)?u=1(?:;.*)?"),
        (on("COOKIE", "u", "EXACT", "*"), "never W4", "cookie ~(?:.*; ?)?u=.*"),
        (on("COOKIE", "u", "NOT_EQUALS", "1"), "never W4", "cookie ~(?:.*; ?)?u=.* & cookie !~(?:.*; ?)?u=1(?:;.*)?"),
        (on("COOKIE", "u", "REGEX", "^a$"), "never W4", "cookie ~(?:.*; ?)?u=(?:a)(?:;.*)?"),
        (on("COOKIE", "u", "RANGE", "1~3"), "never W4", r"cookie ~(?:.*; ?)?u=\+?0*(?:[1-3])(?:;.*)?"),
        (on("CUSTOM", "l", "EXACT", "1"), "never W4", "never W4"),
        (on("CALLER_IP", "", "EXACT", "10.0.0.1"), "caller", "caller"),
        (on("CALLER_SERVICE", "shop", "EXACT", "web"), "caller", "caller"),
        (on("CALLER_METADATA", "env", "EXACT", "gray"), "caller", "caller"),
        (on("HEADER", "User-Agent", "EXACT", "x"), "refused W4", "user-agent =x"),
        (on("HEADER", "k-bin", "EXACT", "x"), "refused W4", "k-bin =x"),
    ]);
}

#[test]
fn method_and_path() {
    let either = r":path ~[^?]*/(?:GET|PUT)(?:\?.*)?";
    // Texts that depart from the word at any letter, end within it or continue after it.
    let other = "path ~.*/(?:[^/P][^/]*|P(?:[^/a][^/]*|a(?:[^/y][^/]*|y[^/]+)?)?)?";
    let rows = [
        ("EXACT", "POST", "always", ":method =POST", "always"),
        ("EXACT", "GET", "never", ":method =GET", "never"),
        ("EXACT", "*", "always", "always", "always"),
        ("EXACT", "post", "path ~.*/post", ":method =post", r":path ~[^?]*/post(?:\?.*)?"),
        ("EXACT", "Pay", "path ~.*/Pay", ":method =Pay", r":path ~[^?]*/Pay(?:\?.*)?"),
        ("NOT_EQUALS", "GET", "always", ":method !=GET", "always"),
        ("NOT_EQUALS", "POST", "never", ":method !=POST", "never"),
        ("NOT_EQUALS", "Pay", other, ":method !=Pay", r":path !~[^?]*/Pay(?:\?.*)?"),
        ("IN", "GET,Pay", "path ~.*/Pay", ":method ~(?:GET|Pay)", r":path ~[^?]*/Pay(?:\?.*)?"),
        ("IN", "a,Pay", "path ~.*/(?:a|Pay)", ":method ~(?:a|Pay)", r":path ~[^?]*/(?:a|Pay)(?:\?.*)?"),
        ("IN", "POST,Pay", "always", ":method ~(?:POST|Pay)", "always"),
        ("IN", "GET,PUT", "never", ":method ~(?:GET|PUT)", "never"),
        ("NOT_IN", "GET,Pay", other, ":method !=GET & :method !=Pay", r":path !~[^?]*/Pay(?:\?.*)?"),
        ("NOT_IN", "POST,Pay", "never", ":method !=POST & :method !=Pay", "never"),
        ("REGEX", "^(GET|PUT)$", "path ~.*/(?:GET|PUT)", ":method ~(?:GET|PUT)", either),
        ("REGEX", "^Get$", "path ~.*/(?:Get)", ":method ~(?:Get)", r":path ~[^?]*/(?:Get)(?:\?.*)?"),
    ];
    for (how, value, grpc, to_http, to_grpc) in rows {
        let json = on("METHOD", "", how, value);
        assert_eq!(ways(&json, false, GRPC_CLIENT), grpc, "gRPC: {json}");
        assert_eq!(ways(&json, false, ENVOY_CLIENT), to_http, "Envoy to HTTP: {json}");
        let to = Abilities { is_callee_grpc: true, ..ENVOY_CLIENT };
        assert_eq!(ways(&json, false, to), to_grpc, "Envoy to gRPC: {json}");
    }
    let not_a = "path ~(?:[^/](?s:.)*|/(?:[^a](?s:.)*|a(?s:.)+)?)?";
    check(&[
        (on("PATH", "", "EXACT", "/a"), "path =/a", "path =/a"),
        (on("PATH", "", "EXACT", "*"), "always", "always"),
        (on("PATH", "", "IN", "/a,/b"), "path ~(?:/a|/b)", "path ~(?:/a|/b)"),
        (on("PATH", "", "REGEX", "^/a"), "path ~(?:/a)(?s:.*)", "path ~(?:/a)(?s:.*)"),
        (on("PATH", "", "NOT_EQUALS", "/a"), not_a, r":path !~/a(?:\?.*)?"),
        (on("HEADER", ":Path", "NOT_EQUALS", "/a"), not_a, ":path !=/a"),
        (on("HEADER", ":path", "EXACT", "/a"), "path =/a", ":path =/a"),
        (on("PATH", "", "RANGE", "1~2"), "never", "never"),
    ]);
    let second = [
        (on("PATH", "", "EXACT", "/a"), ":path =/a", r":path ~/a(?:\?.*)?"),
        (on("PATH", "", "IN", "/a,/b"), ":path ~(?:/a|/b)", r":path ~(?:/a|/b)(?:\?.*)?"),
        (on("PATH", "", "NOT_EQUALS", "/a"), ":path !=/a", r":path !~/a(?:\?.*)?"),
        (on("METHOD", "", "NOT_EQUALS", "Pay"), ":path !~.*/Pay", ":method !=Pay"),
        (on("METHOD", "", "EXACT", "POST"), "always", ":method =POST"),
        (on("PATH", "", "REGEX", "^/a"), ":path ~(?:/a)(?s:.*)", r":path ~(?:/a)[^\x{3F}]*(?:\?.*)?"),
        (on("PATH", "", "EXACT", "/a?b"), ":path =/a?b", "never"),
    ];
    for (json, grpc, envoy) in second {
        assert_eq!(ways(&json, true, GRPC_CLIENT), grpc, "gRPC: {json}");
        for library in Library::WITHOUT_PATH_HEADER {
            let expected = if grpc.starts_with(":path") { "refused W27" } else { grpc };
            assert_eq!(ways(&json, true, Abilities { library, ..GRPC_CLIENT }), expected, "{library:?}: {json}");
        }
        assert_eq!(ways(&json, true, ENVOY_CLIENT), envoy, "Envoy: {json}");
    }
}

#[test]
fn a_gateway_has_no_caller() {
    let gateway = Abilities { is_gateway: true, ..ENVOY_CLIENT };
    for kind in ["CALLER_IP", "CALLER_SERVICE", "CALLER_METADATA"] {
        assert_eq!(ways(&on(kind, "k", "EXACT", "a"), false, gateway), "refused W6");
    }
}

#[test]
fn a_header_names_the_caller_to_a_gateway() {
    let gateway = Abilities { is_gateway: true, has_caller_header: true, ..ENVOY_CLIENT };
    for (namespace, how, value, expected) in [
        ("shop", "EXACT", "web", ":caller ~shop/web"),
        ("", "EXACT", "web", ":caller ~[^/]*/web"),
        ("*", "EXACT", "*", ":caller ~[^/]*/.*"),
        ("a/b", "IN", "x,y", ":caller ~a%2Fb/(?:x|y)"),
        ("shop", "NOT_EQUALS", "web", ":caller ~shop/.* & :caller !~shop/web"),
    ] {
        let condition = on("CALLER_SERVICE", namespace, how, value);
        assert_eq!(ways(&condition, false, gateway), expected, "{condition}");
    }
    for kind in ["CALLER_IP", "CALLER_METADATA"] {
        assert_eq!(ways(&on(kind, "k", "EXACT", "a"), false, gateway), "refused W6");
    }
    let end = |namespace: &str, service: &str| End { namespace: namespace.into(), service: service.into() };
    let named = |end: End| match named_caller(&end, "caller", gateway) {
        Ok(Condition::Header(PartMatch { name, value: TextMatch::Expression(expression) })) => {
            format!("{name} {expression}")
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(named(end("shop", "web")), ":caller shop/web");
    assert_eq!(named(end("shop", "*")), ":caller shop/.*");
    assert_eq!(named(end("*", "web")), ":caller [^/]*/web");
    let long = named_caller(&end("shop", &"w".repeat(200)), "caller", gateway).expect_err("too large");
    assert_eq!(long.number, 7);
}

/// Lists are split to fit Envoy's limit, and single large expressions are refused.
#[test]
fn programs_have_a_bound() {
    let words: Vec<String> = (0..40).map(|word| format!("word-{word:02}")).collect();
    let list = on("HEADER", "h", "IN", &words.join(","));
    let split = ways(&list, false, ENVOY_CLIENT);
    assert_eq!(split.matches(" | ").count() + 1, 4, "{split}");
    for word in &words {
        assert_eq!(split.matches(&word.replace('-', r"\-")).count(), 1, "{word}");
    }
    for expression in split.split(" | ").map(|way| way.trim_start_matches("h ~")) {
        assert!(re2::steps(expression) <= re2::PROGRAM_STEPS_MAX, "{expression}");
    }
    let large = Abilities { takes_large_expressions: true, ..ENVOY_CLIENT };
    for to in [large, GRPC_CLIENT] {
        assert!(!ways(&list, false, to).contains(" | "), "{to:?}");
    }
    let long = on("HEADER", "h", "REGEX", &"(a|bc)".repeat(40));
    assert_eq!(ways(&long, false, ENVOY_CLIENT), "refused W7");
    assert!(ways(&long, false, large).starts_with("h ~"));
    assert!(ways(&long, false, GRPC_CLIENT).starts_with("h ~"));
    let huge = on("HEADER", "h", "REGEX", &"[a-z]{999}[^a]{99}".repeat(30));
    assert_eq!(ways(&huge, false, GRPC_CLIENT), "refused W25");
    let word = "w".repeat(200);
    assert_eq!(ways(&on("HEADER", "h", "EXACT", &word), false, ENVOY_CLIENT), format!("h ={word}"));
    assert_eq!(ways(&on("COOKIE", "h", "EXACT", &word), false, ENVOY_CLIENT), "refused W7");
}

#[test]
fn numbers_are_matched_by_their_digits() {
    let rows = [(0, 0), (0, 9), (5, 12), (19, 21), (0, 255), (100, 2_000), (999, 1_001), (7, 123_456)];
    for (low, high) in rows {
        let judge = regex::Regex::new(&format!("^(?:{})$", predicate::digits(low, high))).expect("an expression");
        let around = (low.saturating_sub(30)..low + 200).chain(high.saturating_sub(200)..high + 1_200);
        for number in around {
            assert_eq!(judge.is_match(&number.to_string()), (low..=high).contains(&number), "{low}~{high}: {number}");
        }
    }
    let all = regex::Regex::new(&format!("^(?:{})$", predicate::digits(3, u64::MAX))).expect("an expression");
    for (number, expected) in
        [("2", false), ("3", true), ("18446744073709551615", true), ("18446744073709551616", false)]
    {
        assert_eq!(all.is_match(number), expected, "{number}");
    }
}
