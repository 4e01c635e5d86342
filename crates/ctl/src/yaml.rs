//! YAML documents as JSON values: YAML that JSON cannot express is refused.

use anyhow::{Context, bail};
use saphyr::{LoadableYamlNode, Mapping, MarkedYaml, Scalar, Yaml, YamlData, YamlEmitter};
use serde_json::{Map, Number, Value};
use thuban_validate::well_formed;

use super::errors::Usage;

/// Parses the documents of a text, each with the line on which it begins.
pub fn read(text: &str) -> anyhow::Result<Vec<(usize, Value)>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // This check bounds depth and aliases, and refuses duplicates, of which the parser would silently drop one.
    let text = well_formed::readable_yaml(text).map_err(|fault| Usage(fault.to_string()))?.text;
    let documents = MarkedYaml::load_from_str(&text).map_err(|error| Usage(error.to_string()))?;
    documents.iter().map(|one| Ok((one.span.start.line(), value(one)?))).collect()
}

fn value(node: &MarkedYaml<'_>) -> anyhow::Result<Value> {
    let line = node.span.start.line();
    Ok(match &node.data {
        YamlData::Value(scalar) => of_scalar(scalar).with_context(|| format!("line {line}"))?,
        YamlData::Sequence(items) => Value::Array(items.iter().map(value).collect::<Result<_, _>>()?),
        YamlData::Mapping(pairs) => {
            let mut members = Map::new();
            for (key, node) in pairs {
                let key = match value(key)? {
                    Value::String(key) => key,
                    key @ (Value::Bool(_) | Value::Number(_)) => key.to_string(),
                    _ => return Err(Usage(format!("line {line}: a key has to be a text")).into()),
                };
                members.insert(key, value(node)?);
            }
            Value::Object(members)
        }
        YamlData::Tagged(_, _) => return Err(Usage(format!("line {line}: a tag means nothing here")).into()),
        YamlData::Representation(..) | YamlData::Alias(_) | YamlData::BadValue => {
            return Err(Usage(format!("line {line}: this cannot be read")).into());
        }
    })
}

fn of_scalar(scalar: &Scalar<'_>) -> anyhow::Result<Value> {
    Ok(match scalar {
        Scalar::Null => Value::Null,
        Scalar::Boolean(flag) => Value::Bool(*flag),
        Scalar::Integer(number) => Value::Number((*number).into()),
        Scalar::FloatingPoint(number) => match Number::from_f64(number.into_inner()) {
            Some(number) => Value::Number(number),
            None => bail!(Usage("a number that is none".to_owned())),
        },
        Scalar::String(text) => Value::String(text.to_string()),
    })
}

/// Formats one document, with its separator line.
pub fn write(value: &Value) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut emitter = YamlEmitter::new(&mut text);
    emitter.multiline(true);
    emitter.dump(&of_value(value)?)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

fn of_value(value: &Value) -> anyhow::Result<Yaml<'_>> {
    Ok(match value {
        Value::Null => Yaml::Value(Scalar::Null),
        Value::Bool(flag) => Yaml::Value(Scalar::Boolean(*flag)),
        Value::Number(number) => Yaml::Value(match number.as_i64() {
            Some(number) => Scalar::Integer(number),
            None => Scalar::FloatingPoint(number.as_f64().context("a number that is none")?.into()),
        }),
        Value::String(text) => Yaml::Value(Scalar::String(text.into())),
        Value::Array(items) => Yaml::Sequence(items.iter().map(of_value).collect::<Result<_, _>>()?),
        Value::Object(members) => {
            let mut pairs = Mapping::new();
            for (key, value) in members {
                pairs.insert(Yaml::Value(Scalar::String(key.into())), of_value(value)?);
            }
            Yaml::Mapping(pairs)
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_read_with_their_lines() {
        let text = "# first\nkind: a\nspec: {n: 1, on: true, off: no, at: 1s}\n---\n- 1.5\n- |\n  two\n  lines\n---\n";
        let read = read(text).expect("readable");
        assert_eq!(read[0], (2, json!({"kind": "a", "spec": {"n": 1, "on": true, "off": "no", "at": "1s"}})));
        assert_eq!(read[1], (5, json!([1.5, "two\nlines\n"])));
        assert!(read[2].1.is_null());
    }

    #[test]
    fn what_json_cannot_say_is_refused() {
        for (text, words) in [
            ("a: 1\na: 2\n", "occurs twice"),
            ("a: .nan\n", "line 1"),
            ("a: [\n", "line"),
            ("[1]: 2\n", "a key has to be a text"),
            ("a: !thing 1\n", "line 1"),
        ] {
            let refused = format!("{:#}", read(text).expect_err(text));
            assert!(refused.contains(words), "{text}: {refused}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof!["[ -~]{0,12}", "[a-z\n\t #:\\-|>'\"]{0,20}", "\\PC{0,8}", any::<String>()];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.prop_map(Value::from),
            prop_oneof![
                Just("1e3"),
                Just("0x1f"),
                Just("yes"),
                Just("~"),
                Just("null"),
                Just("- a"),
                Just("a: b"),
                Just("1\r\n2\r\n")
            ]
            .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{0,8}", inner, 0..5).prop_map(|pairs| json!(pairs)),
            ]
        })
    }

    proptest! {
        #![proptest_config(thuban_base::test_seed::cases(256))]

        /// Output can be applied again unchanged.
        #[test]
        fn what_is_written_is_read_again(value in values(), next in values()) {
            let (value, next) = (json!({ "spec": value }), json!({ "spec": next }));
            let text = format!("{}{}", write(&value).expect("written"), write(&next).expect("written"));
            let read: Vec<_> = read(&text).expect(&text).into_iter().map(|(_, value)| value).collect();
            prop_assert_eq!(read, vec![value, next], "{}", text);
        }
    }
}
