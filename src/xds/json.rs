//! Readable form of resources: JSON with the field names of Envoy's documentation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage};
use serde_json::{Map, Value, json};

use crate::proto::DESCRIPTORS;

const ANY: &str = "google.protobuf.Any";
const DURATION: &str = "google.protobuf.Duration";
const STRUCT: &str = "google.protobuf.Struct";
const VALUE: &str = "google.protobuf.Value";
const LIST: &str = "google.protobuf.ListValue";
/// Package of the wrapper messages, which are rendered as their only field.
const WRAPPERS: &str = "google.protobuf.";
/// Maximum nesting depth.
const DEPTH_MAX: usize = 64;

/// Converter of protobuf messages to JSON by their types.
pub struct MessageReader {
    pool: DescriptorPool,
}

/// Reason why a message cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableMessage {
    #[error("the type {0} is not known")]
    Type(String),
    #[error("the message cannot be read: {0}")]
    Bytes(#[from] prost::DecodeError),
    #[error("the message is nested too deeply")]
    Depth,
}

impl Default for MessageReader {
    fn default() -> Self {
        MessageReader { pool: DescriptorPool::decode(DESCRIPTORS).expect("the descriptors are this build's own") }
    }
}

impl MessageReader {
    /// Renders a message of this type, with `@type` as its first field. Unset fields are omitted.
    pub fn read(&self, type_url: &str, bytes: &[u8]) -> Result<Value, UnreadableMessage> {
        self.typed(type_url, bytes, 0)
    }

    fn typed(&self, type_url: &str, bytes: &[u8], depth: usize) -> Result<Value, UnreadableMessage> {
        let unknown = || UnreadableMessage::Type(type_url.to_owned());
        let name = type_url.rsplit('/').next().unwrap_or_default();
        let kind = self.pool.get_message_by_name(name).ok_or_else(unknown)?;
        let message = DynamicMessage::decode(kind, bytes)?;
        let mut fields = Map::new();
        fields.insert("@type".to_owned(), json!(type_url));
        match self.message(&message, depth)? {
            Value::Object(more) => fields.extend(more),
            other => drop(fields.insert("value".to_owned(), other)),
        }
        Ok(fields.into())
    }

    fn message(&self, message: &DynamicMessage, depth: usize) -> Result<Value, UnreadableMessage> {
        if depth > DEPTH_MAX {
            return Err(UnreadableMessage::Depth);
        }
        if let Some(value) = self.well_known(message, depth)? {
            return Ok(value);
        }
        let mut fields = Map::new();
        for (field, value) in message.fields() {
            fields.insert(field.name().to_owned(), self.value(&field, value, depth)?);
        }
        Ok(fields.into())
    }

    /// Renders messages for which JSON has a form of its own.
    fn well_known(&self, message: &DynamicMessage, depth: usize) -> Result<Option<Value>, UnreadableMessage> {
        let kind = message.descriptor();
        Ok(Some(match kind.full_name() {
            ANY => {
                let (url, bytes) = (message.get_field_by_name("type_url"), message.get_field_by_name("value"));
                let url = url.as_ref().and_then(|url| url.as_str()).unwrap_or_default();
                let bytes = bytes.as_ref().and_then(|bytes| bytes.as_bytes()).cloned().unwrap_or_default();
                self.typed(url, &bytes, depth + 1)?
            }
            DURATION => json!(duration(message)),
            STRUCT | LIST => {
                let inner = message.fields().next();
                let empty = if kind.full_name() == LIST { json!([]) } else { json!({}) };
                inner.map_or(Ok(empty), |(field, value)| self.value(&field, value, depth))?
            }
            VALUE => match message.fields().next() {
                Some((field, value)) if field.name() != "null_value" => self.value(&field, value, depth)?,
                _ => Value::Null,
            },
            _ => return self.wrapped(&kind, message, depth),
        }))
    }

    fn wrapped(
        &self,
        kind: &MessageDescriptor,
        message: &DynamicMessage,
        depth: usize,
    ) -> Result<Option<Value>, UnreadableMessage> {
        let is_wrapper = kind.full_name().strip_prefix(WRAPPERS).is_some_and(|name| name.ends_with("Value"));
        let Some(field) = kind.get_field_by_name("value").filter(|_| is_wrapper) else { return Ok(None) };
        self.value(&field, &message.get_field(&field), depth).map(Some)
    }

    fn value(
        &self,
        field: &FieldDescriptor,
        value: &prost_reflect::Value,
        depth: usize,
    ) -> Result<Value, UnreadableMessage> {
        use prost_reflect::Value as Of;
        Ok(match value {
            Of::Bool(value) => json!(value),
            Of::I32(value) => json!(value),
            Of::U32(value) => json!(value),
            // 64-bit integers are rendered as strings, because many JSON parsers would round them.
            Of::I64(value) => json!(value.to_string()),
            Of::U64(value) => json!(value.to_string()),
            Of::F32(value) => json!(value),
            Of::F64(value) => json!(value),
            Of::String(value) => json!(value),
            Of::Bytes(value) => json!(STANDARD.encode(value)),
            Of::EnumNumber(number) => enum_word(field, *number),
            Of::Message(message) => self.message(message, depth + 1)?,
            Of::List(values) => {
                let values: Result<Vec<_>, _> = values.iter().map(|value| self.value(field, value, depth)).collect();
                values?.into()
            }
            Of::Map(entries) => self.map(field, entries, depth)?,
        })
    }

    fn map(
        &self,
        field: &FieldDescriptor,
        entries: &std::collections::HashMap<MapKey, prost_reflect::Value>,
        depth: usize,
    ) -> Result<Value, UnreadableMessage> {
        let Kind::Message(entry) = field.kind() else { return Ok(Value::Null) };
        let of_value = entry.map_entry_value_field();
        let mut sorted: Vec<_> = entries.iter().map(|(key, value)| (key_text(key), value)).collect();
        sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
        let shown = sorted.into_iter().map(|(key, value)| Ok((key, self.value(&of_value, value, depth)?)));
        Ok(shown.collect::<Result<Map<_, _>, UnreadableMessage>>()?.into())
    }
}

fn enum_word(field: &FieldDescriptor, number: i32) -> Value {
    let Kind::Enum(words) = field.kind() else { return json!(number) };
    words.get_value(number).map_or_else(|| json!(number), |word| json!(word.name()))
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

/// Formats a duration in seconds with the necessary decimals: `5s`, `0.250s`.
fn duration(message: &DynamicMessage) -> String {
    let seconds = message.get_field_by_name("seconds").and_then(|seconds| seconds.as_i64()).unwrap_or_default();
    let nanos = message.get_field_by_name("nanos").and_then(|nanos| nanos.as_i32()).unwrap_or_default();
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let (seconds, nanos) = (seconds.unsigned_abs(), nanos.unsigned_abs());
    match nanos {
        0 => format!("{sign}{seconds}s"),
        _ if nanos % 1_000_000 == 0 => format!("{sign}{seconds}.{:03}s", nanos / 1_000_000),
        _ => format!("{sign}{seconds}.{nanos:09}s"),
    }
}

#[cfg(test)]
mod tests {
    use prost::{Message, Name};

    use super::*;
    use crate::proto::Any;
    use crate::proto::envoy::config::cluster::v3::Cluster;
    use crate::proto::envoy::config::route::v3::RouteConfiguration;

    fn read(url: &str, bytes: &[u8]) -> Value {
        MessageReader::default().read(url, bytes).expect("readable")
    }

    fn bytes_of(hex: &str) -> Vec<u8> {
        hex::decode(hex).expect("digits")
    }

    #[test]
    fn fields_are_shown_by_their_names() {
        let cluster = Cluster {
            name: "shop/pay".into(),
            connect_timeout: Some(prost_types::Duration { seconds: 0, nanos: 250_000_000 }),
            ..Cluster::default()
        };
        let url = format!("type.googleapis.com/{}", Cluster::full_name());
        let shown = read(&url, &cluster.encode_to_vec());
        assert_eq!(shown, json!({ "@type": url, "name": "shop/pay", "connect_timeout": "0.250s" }));
    }

    #[test]
    fn messages_within_any_are_shown_with_their_types() {
        let inner = RouteConfiguration { name: "shop/pay".into(), ..RouteConfiguration::default() };
        let shown = read("type.googleapis.com/google.protobuf.Any", &Any::pack(&inner).encode_to_vec());
        assert_eq!(shown["name"], "shop/pay");
        assert!(shown["@type"].as_str().is_some_and(|url| url.ends_with(".RouteConfiguration")), "{shown}");
    }

    #[test]
    fn values_have_the_forms_of_json() {
        for (kind, bytes, expected) in [
            ("Duration", "0805", json!("5s")),
            ("Duration", "08ffffffffffffffffff01", json!("-1s")),
            ("UInt32Value", "0807", json!(7)),
            ("UInt32Value", "", json!(0)),
            ("BoolValue", "0801", json!(true)),
        ] {
            let shown = read(&format!("type.googleapis.com/google.protobuf.{kind}"), &bytes_of(bytes));
            assert_eq!(shown["value"], expected, "{kind} {bytes}");
        }
    }

    #[test]
    fn structs_are_what_they_say() {
        use prost_types::value::Kind as Of;
        let of = |kind| prost_types::Value { kind: Some(kind) };
        let list = prost_types::ListValue { values: vec![of(Of::NumberValue(1.5)), of(Of::StringValue("x".into()))] };
        let fields = [("a", Of::NullValue(0)), ("b", Of::ListValue(list)), ("c", Of::BoolValue(false))];
        let fields = fields.map(|(key, kind)| (key.to_owned(), of(kind)));
        let bytes = prost_types::Struct { fields: fields.into() }.encode_to_vec();
        let url = "type.googleapis.com/google.protobuf.Struct";
        assert_eq!(read(url, &bytes), json!({ "@type": url, "a": null, "b": [1.5, "x"], "c": false }));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let reader = MessageReader::default();
        assert!(matches!(reader.read("type.googleapis.com/no.Such", b""), Err(UnreadableMessage::Type(_))));
        let url = format!("type.googleapis.com/{}", Cluster::full_name());
        assert!(matches!(reader.read(&url, b"\xff"), Err(UnreadableMessage::Bytes(_))));
    }
}
