use serde_json::json;

use super::*;

fn read_as(format: Format, text: &str) -> Located {
    read(format, text).expect("well-formed")
}

#[test]
fn each_format_is_a_value_with_lines() {
    let json = "{\n \"a\": {\"b\": 1,\n  \"c/d\": [true,\n null, \"x\\\"\\n,]\"]},\n \"e\": -1.5e3 }";
    let yaml = "# first\na:\n  b: 1\n  c/d: [true,\n    null, \"x\\\"\\n,]\"]\ne: -1.5e3\n";
    let toml = "e = -1.5e3\n\n[a]\nb = 1\n\"c/d\" = [ true,\n 1979-05-27, \"x\" ]\n";
    let expected = json!({ "a": { "b": 1, "c/d": [true, null, "x\"\n,]"] }, "e": -1500.0 });
    for (format, text, lines) in [(Format::Json, json, [2, 2, 3, 4, 5]), (Format::Yaml, yaml, [2, 3, 4, 5, 6])] {
        let read = read_as(format, text);
        assert_eq!(read.value(), expected, "{format:?}");
        let pointers = ["/a", "/a/b", "/a/c~1d", "/a/c~1d/2", "/e"];
        assert_eq!(pointers.map(|pointer| read.line_of(pointer)), lines, "{format:?}");
    }
    let read = read_as(Format::Toml, toml);
    assert_eq!(read.value(), json!({ "e": -1500.0, "a": { "b": 1, "c/d": [true, "1979-05-27", "x"] } }));
    assert_eq!(["/a", "/a/b", "/a/c~1d/0", "/a/c~1d/1", "/e"].map(|pointer| read.line_of(pointer)), [3, 4, 5, 6, 1]);
    let read = read_as(Format::Properties, "a=1\n# no\nb.c=\\\n  2\na=3\n");
    assert_eq!(read.value(), json!({ "a": "3", "b.c": "2" }));
    assert_eq!(["/a", "/b.c", "/none", ""].map(|pointer| read.line_of(pointer)), [5, 3, 1, 1]);
    assert_eq!(read_as(Format::Xml, "<a>1</a>").value(), json!("<a>1</a>"));
}

#[test]
fn json_is_read_as_its_parser_reads_it() {
    for text in
        ["[]", "{}", " [ 1 , 2 ] ", "{\"a\":{},\"b\":[[],{}]}", "\"\\u00e9\\\\\"", "1e400", "[{\"a\":1,\"a\":2}]"]
    {
        let Ok(value) = serde_json::from_str::<Value>(text) else { continue };
        assert_eq!(read_as(Format::Json, text).value(), value, "{text}");
    }
}

#[test]
fn scalars_of_yaml_are_those_of_the_core_schema() {
    for (text, value) in [
        ("1", json!(1)),
        ("-7", json!(-7)),
        ("+7", json!(7)),
        ("0x1F", json!(31)),
        ("0o17", json!(15)),
        ("0x-1", json!("0x-1")),
        (".5", json!(0.5)),
        ("1.", json!(1.0)),
        ("1.2.3", json!("1.2.3")),
        (".inf", json!(".inf")),
        ("yes", json!("yes")),
        ("~", json!(null)),
        ("'1'", json!("1")),
        ("!!str 1", json!("1")),
        ("!!int '1'", json!(1)),
        ("!mine 1", json!("1")),
        ("2026-11-20", json!("2026-11-20")),
        ("18446744073709551615", json!(u64::MAX)),
    ] {
        assert_eq!(read_as(Format::Yaml, text).value(), value, "{text}");
    }
}

#[test]
fn anchors_stand_for_what_they_name_and_merge_beneath() {
    let text = "base: &b {x: 1, y: 2}\none:\n  <<: *b\n  y: 3\ntwo: {<<: [{x: 5}, *b], z: *b}\n1: k\n";
    let read = read_as(Format::Yaml, text);
    let base = json!({ "x": 1, "y": 2 });
    let two = json!({ "x": 5, "y": 2, "z": base });
    assert_eq!(read.value(), json!({ "base": base, "one": { "x": 1, "y": 3 }, "two": two, "1": "k" }));
    assert_eq!(["/one/y", "/one/x", "/two/x"].map(|pointer| read.line_of(pointer)), [4, 1, 5]);
    assert_eq!(read_as(Format::Yaml, "a: 1\n---\nb: 2\n").value(), json!([{ "a": 1 }, { "b": 2 }]));
}

/// Aliases are counted before they are expanded.
#[test]
fn aliases_count_the_bytes_that_they_stand_for() {
    let of = |text: String| read(Format::Yaml, &text);
    let refused = |text: String| of(text).expect_err("refused").why;
    let aliases = |text: &str, count: usize| format!("a: &a {text}\nb: [{}]\n", vec!["*a"; count].join(","));
    let text = "x".repeat(100_000);
    assert!(of(aliases(&text, 100)).is_ok());
    assert!(refused(aliases(&text, 5000)).contains("bytes of values"));
    assert!(refused(aliases(&"x".repeat(600_000), 20_000)).contains("bytes of values"));
    let nested: String = (1..60).map(|level| format!("&a{level} [")).collect();
    let wide = format!("{nested}[{}1]{}", "1,".repeat(90_000), "]".repeat(59));
    assert_eq!(of(wide).expect("an anchor shares what it names").value().as_array().map(Vec::len), Some(1));
    let keys = format!("k: &k {{{text}: 1}}\n{}", (0..3000).map(|n| format!("m{n}: {{<<: *k}}\n")).collect::<String>());
    assert!(refused(keys).contains("bytes of values"));
    let largest = "x".repeat(limits::CONTRACT_CONTENT_BYTES_MAX - 10);
    assert!(of(format!("a: {largest}")).is_ok(), "whatever has no aliases is judged");
    let many = "k=1\n".repeat(limits::CONTRACT_VALUES_MAX);
    assert!(read(Format::Properties, &many).is_ok());
    assert!(read(Format::Properties, &(many + "k=1\n")).is_err());
    let toml = format!("a = [{}1]", "1,".repeat(limits::CONTRACT_VALUES_MAX * 2));
    assert!(read(Format::Toml, &toml).expect_err("refused").why.contains("values"), "it is not even parsed");
}

#[test]
fn what_is_too_much_is_refused_with_its_line() {
    let refused = |format, text: &str| read(format, text).expect_err("refused");
    let deep = "[".repeat(DEPTH_MAX + 1) + &"]".repeat(DEPTH_MAX + 1);
    for format in [Format::Json, Format::Yaml] {
        assert!(refused(format, &deep).why.contains("deeper than the 64"), "{format:?}");
    }
    let wide = format!("\n[{}1]", "1,".repeat(limits::CONTRACT_VALUES_MAX));
    let fault = refused(Format::Json, &wide);
    assert!(fault.why.contains("values") && fault.line == 2, "{fault:?}");
    let mut bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
    for level in 1..5 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        bomb += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    assert!(refused(Format::Yaml, &bomb).why.contains("more than the"));
    assert_eq!(refused(Format::Json, "{\n\"a\": }").line, 2);
    assert!(refused(Format::Text, &"x".repeat(limits::CONTRACT_CONTENT_BYTES_MAX + 1)).why.contains("larger"));
}
