use proptest::prelude::*;

use super::*;

fn fault_text(format: Format, text: &str) -> String {
    check(format, text).map_or_else(|fault| fault.to_string(), |()| String::new())
}

#[test]
fn what_is_well_formed_passes() {
    let rows = [
        (Format::Text, "{ <a"),
        (Format::Html, "<p>one<br>two &nbsp;"),
        (Format::Properties, "a=1\nb"),
        (Format::Json, "{\"a\": [1, -2.5e3, \"[[[\", null]}"),
        (Format::Json, "3"),
        (Format::Json, "\u{feff}{}"),
        (Format::Json, " \n"),
        (Format::Yaml, "a: 1\nb:\n  - x\n  - {y: [1, 2]}\n"),
        (Format::Yaml, "base: &b {x: 1}\none:\n  <<: *b\n  <<: *b\n  x: 2\n"),
        (Format::Yaml, "a: 1\n---\na: 2\n"),
        (Format::Yaml, "# nothing yet\n"),
        (Format::Yaml, "url: http://x:80/?a=b\ntext: |\n  a: 1\n  a: 1\n"),
        (Format::Toml, "a = 1\n[b.c]\nd = [1, 2]\n[[e]]\nf = 1979-05-27T07:32:00Z\n"),
        (Format::Xml, "<?xml version=\"1.0\"?>\n<!-- c -->\n<a x='1' y=\"2\"><b/>t &amp; &#65;<![CDATA[<]]></a>\n"),
        (Format::Xml, "<!DOCTYPE a SYSTEM \"a.dtd\">\n<a>&own;</a>"),
        (Format::Xml, "<a xmlns:n=\"u\"><n:b n:c=\"1\" c=\"2\"/></a>"),
    ];
    for (format, text) in rows {
        assert_eq!(fault_text(format, text), "", "{format:?} {text}");
    }
}

#[test]
fn faults_are_told_with_line_and_column() {
    let rows = [
        (Format::Properties, "a=1\nb=\\u12", "line 2, column 3: \\u must"),
        (Format::Properties, "a=1\\\n  \\ud800", "line 2, column 3: a \\u escape"),
        (Format::Properties, "\u{feff}ä\\u=1", "line 1, column 2: "),
        (Format::Json, "{\"a\": 1,\n \"b\": }", "line 2, column 7: "),
        (Format::Json, "{\"ä\": 1,}", "line 1, column 9: "),
        (Format::Json, "{} {}", "line 1, column 4: "),
        (Format::Json, "{\n  // no\n}", "line 2, column 3: "),
        (Format::Yaml, "a: 1\n b: 2\n", "line 2, column "),
        (Format::Yaml, "a: [1, 2\nb: 3\n", "line "),
        (Format::Yaml, "a: 1\nb: 2\na: 3\n", "line 3, column 1: the key \"a\" occurs twice"),
        (Format::Yaml, "a: *nowhere\n", "line 1, column "),
        (Format::Yaml, "a:\n\t- b\n", "line 2, column "),
        (Format::Toml, "a = 1\nb = \n", "line 2, column "),
        (Format::Toml, "a = 1\na = 2\n", "line 2, column 1: "),
        (Format::Xml, "<a>\n  <b></c>\n</a>", "line 2, column "),
        (Format::Xml, "<a>\n<b>", "line 2, column "),
        (Format::Xml, "<a/>\n<b/>", "line 2, column 1: there is a second root element"),
        (Format::Xml, "<a/>\nmore", "line "),
        (Format::Xml, "just text", "line 1, column 1: there is text outside"),
        (Format::Xml, "<a x=1/>", "line 1, column 1: the value of an attribute is not quoted"),
        (Format::Xml, "<a x='1' x='2'/>", "line 1, column 1: the attribute x occurs twice"),
        (Format::Xml, "<a>R & D</a>", "line 1, column "),
        (Format::Xml, "<a>\n&nbsp;</a>", "line 2, column 1: the entity &nbsp; is not declared"),
    ];
    for (format, text, begin) in rows {
        let told = fault_text(format, text);
        assert!(told.starts_with(begin), "{format:?} {text}: {told:?}");
    }
}

/// XML that no parser reads, with the lines that the error may name.
#[test]
fn xml_that_no_parser_reads_is_refused_with_its_line() {
    let rows: [(&str, &[usize]); 22] = [
        ("<c>\n <p name=\"url\" value=\"jdbc:mysql://h/d?x=1&y=2\"/>\n</c>\n", &[2]),
        ("<c>\n <p v=\"x & y\"/>\n</c>\n", &[2]),
        ("<c>\n <p v=\"&nope;\"/>\n</c>\n", &[2]),
        ("<c>\n <p v=\"&#xZZ;\"/>\n</c>\n", &[2]),
        ("\n<?xml version=\"1.0\"?>\n<a/>\n", &[1, 2]),
        ("  <?xml version=\"1.0\"?>\n<a/>\n", &[1]),
        ("<!-- c -->\n<?xml version=\"1.0\"?>\n<a/>\n", &[1, 2]),
        ("<a>\n<?xml version=\"1.0\"?>\n</a>\n", &[2]),
        ("<a><b<c/></a>", &[1]),
        ("<a u='x'v='y'/>", &[1]),
        ("<a><b;/></a>", &[1]),
        ("<a,b/>", &[1]),
        ("<a 1u='x'/>", &[1]),
        ("<a $u='x'/>", &[1]),
        ("<a>\n\u{1}</a>", &[2]),
        ("<a>\n<b c='\u{8}'/></a>", &[2]),
        ("<a>\n<!-- \u{b} --></a>", &[2]),
        ("<a>\n&#0;</a>", &[2]),
        ("<a>\n&#xFFFF;</a>", &[2]),
        ("<a>\nx ]]> y</a>", &[2]),
        ("<a>\n<b u/></a>", &[2]),
        ("<a>\n<b\n u='&'/></a>", &[3]),
    ];
    for (text, lines) in rows {
        let fault = check(Format::Xml, text).expect_err(text);
        assert!(lines.contains(&fault.line), "{text}: {fault}");
    }
    for text in [
        "\u{feff}<?xml version=\"1.0\"?>\n<a/>\n",
        "\n<a/>\n",
        "<?xml-stylesheet href='x'?>\n<a/>",
        "<?xml version='1.0' encoding='GBK'?>\n<a>\u{5b57}</a>",
        "<a v=\"jdbc:mysql://h/d?x=1&amp;y=2\" w='&#65;&#x41;&quot;'/>",
        "<!DOCTYPE a SYSTEM \"a.dtd\">\n<a b='&own;'>&own;</a>",
        "<p:q>1</p:q>",
        "<a>&#9;&#x1F600;\t\u{85}\u{200b}</a>",
        "<a><![CDATA[if (a < b && c) { x(\"]]\") }]]></a>",
        "<a\n  b = '1'\n  c='>'\n></a >",
        "<ä·1 ö='ü'/>",
    ] {
        assert_eq!(fault_text(Format::Xml, text), "", "{text}");
    }
}

/// Readers of YAML in Java, Python and C accept them.
#[test]
fn brackets_of_yaml_may_have_lines_at_the_margin() {
    for text in [
        "ports: [80,\n443]\n",
        "a:\n  ports: [\n    80\n]\n",
        "a:\n  map: {\n  x: 1\n  }\n",
        "ports: [\n  80,\n  443\n]\n",
        "a: [1,\n# ]\n'it''s ]', \"\\\"]\",\ndon't]\nb: {c: [\n1\n],\nd: 2\n}\ne: 3\n",
        "a:\r\n- b: [\r\n1,\r\n2\r\n]\r\n- c: [\r\n]\r\n",
        "a: ['x\ny']\nb: {\"k\":\n\"v\n w\"\n}\n",
    ] {
        assert_eq!(fault_text(Format::Yaml, text), "", "{text}");
    }
    for (text, begin) in [
        ("a: [1, 2\nb: 3\n", "line "),
        ("a: [1, 2]]\n", "line 1"),
        ("a: [1,\n2\n", "line "),
        ("a: [1,\n---\n2]\n", "line "),
        ("a: [1,\n2]\nb: 1\nb: 2\n", "line 4, column 1: the key"),
        ("a: {x: 1,\nx: 2}\n", "line 2, column 1: the key"),
        ("a:\n b: [\n1]\n  c: 2\n", "line 4"),
    ] {
        let told = fault_text(Format::Yaml, text);
        assert!(told.starts_with(begin), "{text}: {told:?}");
    }
    let many = "a:\n- [1,\n2]\n".to_owned() + &"- [1,\n2]\n".repeat(20_000);
    assert!(fault_text(Format::Yaml, &many).starts_with("line "), "it is parsed so many times and not more");
    let directive = format!("%TAG !a! tag:{}\n---\n!a!b c\n", "x".repeat(2000));
    assert!(fault_text(Format::Yaml, &directive).contains("a directive of more than"));
}

/// The cost of a check is bounded by the length of the text.
#[test]
fn bombs_are_refused_at_their_length() {
    let deep = 500_000;
    let laughs: String = (1..40).map(|n| format!("l{n}: &l{n} [*l{0}, *l{0}, *l{0}]\n", n - 1)).collect();
    let attributes: String = (0..100_000).map(|n| format!(" a{n}=''")).collect();
    let entities = "<!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>";
    let rows = [
        (Format::Json, "[".repeat(deep), "nested deeper"),
        (Format::Json, format!("{}{}", "[".repeat(129), "]".repeat(129)), "line 1, column 129: nested deeper"),
        (Format::Yaml, "[".repeat(deep), "line 1"),
        (Format::Yaml, "- ".repeat(deep), "line 1"),
        (Format::Yaml, format!("l0: &l0 [x, y, z]\n{laughs}"), "the aliases stand for more"),
        (Format::Toml, format!("a = {}", "[".repeat(deep)), "line 1"),
        (Format::Xml, "<a>".repeat(deep), "nested deeper"),
        (Format::Xml, format!("<a{attributes}></a>"), ""),
        (Format::Xml, format!("{entities}<a>{}</a>", "&b;".repeat(100_000)), ""),
    ];
    for (format, text, part) in rows {
        let told = fault_text(format, &text);
        assert!(told.contains(part) && told.is_empty() == part.is_empty(), "{format:?} {text:.60}: {told}");
        assert!(told.len() < 400, "{told:.500}");
    }
}

/// Fragments of texts in all formats.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n"),
        Just(" "),
        Just("- "),
        Just("a"),
        Just(": "),
        Just("["),
        Just("]"),
        Just("{"),
        Just("}"),
        Just("\""),
        Just("'"),
        Just("&a"),
        Just("*a"),
        Just("<a>"),
        Just("</a>"),
        Just("<a b='"),
        Just("/>"),
        Just("<!--"),
        Just("-->"),
        Just("<![CDATA["),
        Just("<!DOCTYPE "),
        Just("<?"),
        Just("&lt;"),
        Just("= "),
        Just("[["),
        Just("#"),
        Just("|\n"),
        Just(","),
        Just("\\u00"),
        Just("ä"),
        Just("🌟"),
        Just("\t"),
        Just("\r\n"),
        Just("---\n"),
        Just("<<"),
        Just("!!map"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(crate::test_seed::cases(256))]

    /// Every text is accepted or refused, and a fault lies within the text or right after it.
    #[test]
    fn every_text_gets_a_verdict(text in pieces()) {
        for format in Format::ALL {
            if let Err(fault) = check(format, &text) {
                let lines: Vec<&str> = text.split('\n').collect();
                prop_assert!((1..=lines.len() + 1).contains(&fault.line), "{format:?} {fault}");
                let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
                prop_assert!((1..=longest + 2).contains(&fault.column), "{format:?} {fault}");
            }
        }
    }
}
