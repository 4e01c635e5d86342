//! Printed expressions compared with the originals.

use proptest::prelude::*;
use regex::bytes::Regex as Judge;

use super::*;
use crate::model::rule::expression::Expression;

/// Compiles an expression as RE2 reads it: for the whole text, and with word boundaries of ASCII.
fn judged(printed: &str) -> Judge {
    let printed = printed.replace(r"\b", r"(?-u:\b)").replace(r"\B", r"(?-u:\B)");
    Judge::new(&format!(r"\A(?:{printed})\z")).expect("an expression that compiles")
}

fn whole(expression: &str) -> Result<String, Unfit> {
    Pattern::parse(expression).map(|pattern| pattern.whole())
}

#[test]
fn expressions_are_printed_in_the_syntax_of_both() {
    let rows = [
        ("^abc$", "(?:abc)"),
        ("^abc", "(?:abc)(?s:.*)"),
        ("abc$", "(?s:.*)(?:abc)"),
        ("abc", "(?s:.*)(?:abc)(?s:.*)"),
        ("^a$|^xyz", "(?:(?:a)|(?:xyz)(?s:.*))"),
        (r"^(?<n>a)(?P<m>b)$", "(?:ab)"),
        (r"^/api/v[0-9]+$", "(?:/api/v[0-9]+)"),
        (r"^a\.b\x41-$", r"(?:a\.bA\-)"),
        (r"^[a-z--b]$", "(?:[ac-z])"),
        (r"^[a-z&&b-d]{2}$", "(?:[b-d]{2})"),
        (r"^[a[bc]]+?$", "(?:[a-c]+)"),
        (r"(?x)^ a b $", "(?:ab)"),
        (r"^(?i)a$", "(?:[Aa])"),
        (r"^\d$", "(?:[0-9])"),
        (r"^\w$", r"(?:[0-9A-Z\x{5F}a-z])"),
        (r"^[^/]*$", r"(?:[^\x{2F}]*)"),
        (r"^.é$", r"(?:.é)"),
        (r"^(?s).(?:ab)*a*$", "(?:(?s:.)(?:ab)*a*)"),
        (r"^a{2,5}(b|cd|)$", r"(?:a{2,5}(?:b|cd|))"),
        (r"\bab$", r"[\x{0}-\x{7F}]*(?:\bab)"),
        (r"(?m)a^b", "(?s:.*)(?:a(?m:^)b)(?s:.*)"),
    ];
    for (expression, expected) in rows {
        assert_eq!(whole(expression).as_deref(), Ok(expected), "{expression}");
    }
}

#[test]
fn what_re2_lacks_is_refused() {
    let long = "a".repeat(limits::REGEX_BYTES_MAX + 1);
    for expression in [r"(?Rm)a$", r"(?mR)^a", r"\b{start}a", r"\<a", "a{1001}", "(?:a{100}b){11}", "(", &long] {
        assert!(whole(expression).is_err(), "{expression:.20}");
    }
    assert!(whole("(?:a{100}b){10}").is_ok());
}

#[test]
fn an_expression_that_is_always_found_is_known() {
    for (expression, expected) in
        [("", true), (".*", true), ("a*|b", true), ("^", false), ("a", false), ("^.*$", false)]
    {
        let pattern = Pattern::parse(expression).expect("an expression");
        assert_eq!(pattern.is_always_found(), expected, "{expression}");
    }
}

#[test]
fn a_part_keeps_to_its_place() {
    let rows = [
        ("a.*c", "abc", true),
        ("a.*c", "a;c", false),
        ("^abc$", "abc", true),
        ("^b", "abc", false),
        ("[^a]", "a", false),
        ("a;?b", "ab", true),
        ("a;b", "a", false),
    ];
    for (expression, value, expected) in rows {
        let part = Pattern::parse(expression).and_then(|pattern| pattern.part(&[';'])).expect("a part");
        let judge = judged(&format!("x=(?:{part})(?:;.*)?"));
        assert_eq!(judge.is_match(format!("x={value};c=abc").as_bytes()), expected, "{expression} on {value}");
    }
    let pattern = Pattern::parse("a^b|c").expect("an expression");
    assert!(pattern.part(&[';']).is_err(), "an anchor that has no place there");
}

/// Sizes that RE2 reports for its programs, compared with the estimate from above.
#[test]
fn steps_are_estimated_from_above() {
    let words: Vec<&str> = vec!["abcde"; 26];
    let rows = [
        ("", 4),
        ("abcdefghij", 14),
        ("(?:abc|xyz|foo)", 13),
        (".*", 12),
        ("(?s:.*)a(?s:.*)", 19),
        ("[^/]+", 13),
        ("é", 6),
        ("[äöü]", 8),
        ("[一-龥]", 13),
        ("a{2,5}", 12),
        ("(?:.*; ?)?NAME=VALUE(?:;.*)?", 38),
        ("(?:ab|cd){3}", 16),
    ];
    for (expression, told) in rows {
        let estimated = steps(expression);
        assert!((told..told * 2 + 6).contains(&estimated), "{expression}: {estimated}, told {told}");
    }
    assert!(steps(&words.join("|")) > PROGRAM_STEPS_MAX);
}

/// Generates expressions over few characters, so that random texts often match.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["a", "b", "ab", "é", "1", "_", "-", r"\."]),
        prop::sample::select(vec![".", r"\d", r"\w", r"\W", r"\s", r"\S", r"\pL", "[a-c]", "[^a]", "[a-z--b]"]),
        prop::sample::select(vec!["[a-c&&b-d]", "[é-ü]", "[^;é]", "(?i)B", "(?s).", "(?-u:[ab])", "(?i:k)"]),
        prop::sample::select(vec!["^", "$", r"\b", r"\B", r"(?-u:\b)", "(?m:^)", "(?m:$)", r"\A", r"\z", ""]),
    ];
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 4, |inner| {
        let times = prop::sample::select(vec!["*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|items| items.concat()),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|items| format!("({})", items.join("|"))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|items| items.join("|")),
            (inner, times).prop_map(|(item, times)| format!("(?:{item}){times}")),
        ]
    })
}

proptest! {
    #![proptest_config(crate::test_seed::cases(2_000))]

    /// Equal on ASCII texts; on other texts it never matches more than the original.
    #[test]
    fn a_printed_expression_judges_as_the_original(
        expression in expressions(),
        texts in prop::collection::vec("[ab1_k. é;\n-]{0,6}", 8),
    ) {
        let original = Expression::compile(&expression).expect("an expression");
        let Ok(pattern) = Pattern::parse(&expression) else { return Ok(()) };
        let judge = judged(&pattern.whole());
        for text in texts {
            let (expected, found) = (original.is_found_in(&text), judge.is_match(text.as_bytes()));
            prop_assert!(!found || expected, "{expression} as {} takes {text:?}", pattern.whole());
            prop_assert!(!text.is_ascii() || found == expected, "{expression} as {} on {text:?}", pattern.whole());
        }
    }

    #[test]
    fn a_part_judges_as_the_original(
        expression in expressions(),
        texts in prop::collection::vec("[ab1_k. -]{0,6}", 8),
        behind in prop::sample::select(vec!["", ";", ";c=ab", "; a"]),
    ) {
        let original = Expression::compile(&expression).expect("an expression");
        let Ok(part) = Pattern::parse(&expression).and_then(|pattern| pattern.part(&[';'])) else { return Ok(()) };
        let judge = judged(&format!("c=(?:{part})(?:;.*)?"));
        for text in texts {
            let found = judge.is_match(format!("c={text}{behind}").as_bytes());
            prop_assert_eq!(found, original.is_found_in(&text), "{} as {} on {:?}", expression, part, text);
        }
    }
}
