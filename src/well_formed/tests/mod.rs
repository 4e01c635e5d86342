use proptest::prelude::*;

use super::*;

fn told(format: Format, text: &str) -> String {
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
        assert_eq!(told(format, text), "", "{format:?} {text}");
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
        (Format::Yaml, "a: 1\nb: 2\na: 3\n", "line 3, column 1: the key \"a\" is there twice"),
        (Format::Yaml, "a: *nowhere\n", "line 1, column "),
        (Format::Yaml, "a:\n\t- b\n", "line 2, column "),
        (Format::Toml, "a = 1\nb = \n", "line 2, column "),
        (Format::Toml, "a = 1\na = 2\n", "line 2, column 1: "),
        (Format::Xml, "<a>\n  <b></c>\n</a>", "line 2, column "),
        (Format::Xml, "<a>\n<b>", "line 2, column "),
        (Format::Xml, "<a/>\n<b/>", "line 2, column 1: a second element"),
        (Format::Xml, "<a/>\nmore", "line "),
        (Format::Xml, "just text", "line 1, column 1: text stands outside"),
        (Format::Xml, "<a x=1/>", "line 1, column 1: the value of an attribute is not quoted"),
        (Format::Xml, "<a x='1' x='2'/>", "line 1, column 1: the attribute x is there twice"),
        (Format::Xml, "<a>R & D</a>", "line 1, column "),
        (Format::Xml, "<a>\n&nbsp;</a>", "line 2, column 1: the entity &nbsp; is not declared"),
    ];
    for (format, text, begin) in rows {
        let told = told(format, text);
        assert!(told.starts_with(begin), "{format:?} {text}: {told:?}");
    }
}

/// Input that is small to send and large to read costs no more than its length.
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
        let told = told(format, &text);
        assert!(told.contains(part) && told.is_empty() == part.is_empty(), "{format:?} {text:.60}: {told}");
        assert!(told.len() < 400, "{told:.500}");
    }
}

/// Pieces that texts of all formats are made of.
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

    /// Whatever the text, there is a verdict, and a fault lies within the text or right behind it.
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
