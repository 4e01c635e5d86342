//! Deserialization of structs from JSON objects only, with fields in snake_case and camelCase. The structs that `serde`
//! derives also accept a list of their fields in order, so `"report": []` would pass for an empty report, and they
//! accept only the declared spelling of a field.

mod fields;

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use fields::OfStruct;

/// Wraps a deserializer and everything nested in it: structs are requested as maps.
pub(crate) struct Objects<T>(pub(crate) T);

macro_rules! pass_on {
    ($( $method:ident($($argument:ident: $type:ty),*); )+) => {
        $( fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* Objects(visitor))
        } )+
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Objects<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(OfStruct { inner: Objects(visitor), fields })
    }

    pass_on! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }
}

macro_rules! visit {
    ($( $method:ident($type:ty); )+) => {
        $( fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        } )+
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Objects<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_bool(bool);
        visit_i64(i64);
        visit_u64(u64);
        visit_f64(f64);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Objects(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Objects(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Objects(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Objects(fields))
    }

    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(variant)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Objects<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Objects(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Objects<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Objects(seed))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Objects<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Objects(deserializer))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Outer {
        inner: Option<Inner>,
        list: Vec<Inner>,
        map: BTreeMap<String, Inner>,
        number: u32,
        text: String,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Inner {
        flag: bool,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Worded {
        valid_until: u32,
        #[serde(rename = "maxAmount", alias = "most")]
        max_amount: u32,
        by_name: BTreeMap<String, Option<Box<Worded>>>,
    }

    #[test]
    fn fields_are_read_in_both_spellings_and_keys_of_maps_as_they_are() {
        let expected = Worded {
            valid_until: 1,
            max_amount: 2,
            by_name: BTreeMap::from([("a_b".into(), Some(Box::new(Worded { valid_until: 3, ..Worded::default() })))]),
        };
        for text in [
            r#"{"valid_until":1,"max_amount":2,"by_name":{"a_b":{"valid_until":3}}}"#,
            r#"{"validUntil":1,"maxAmount":2,"byName":{"a_b":{"validUntil":3}}}"#,
            r#"{"validUntil":1,"most":2,"by_name":{"a_b":{"validUntil":3}}}"#,
        ] {
            let mut json = serde_json::Deserializer::from_str(text);
            assert_eq!(Worded::deserialize(Objects(&mut json)).expect(text), expected);
        }
        let mut json = serde_json::Deserializer::from_str(r#"{"valid_until":1,"validUntil":1}"#);
        let error = Worded::deserialize(Objects(&mut json)).expect_err("the same field twice").to_string();
        assert!(error.contains("duplicate field `valid_until`"), "{error}");
    }

    fn read(text: &str) -> Result<Outer, String> {
        let mut json = serde_json::Deserializer::from_str(text);
        Outer::deserialize(Objects(&mut json)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_is_no_struct_at_any_depth() {
        for text in ["[]", r#"{"inner":[]}"#, r#"{"list":[[true]]}"#, r#"{"map":{"a":[]}}"#] {
            let error = read(text).expect_err(text);
            assert!(error.contains("invalid type: sequence, expected struct"), "{text}: {error}");
        }
    }

    #[test]
    fn everything_else_is_read_as_ever() {
        let flag = |flag| Inner { flag };
        let read = read(
            r#"{"inner":{"flag":true},"list":[{},{"flag":true}],"map":{"a":{}},"number":7,"text":"x","more":[{}]}"#,
        );
        let expected = Outer {
            inner: Some(flag(true)),
            list: vec![flag(false), flag(true)],
            map: BTreeMap::from([("a".into(), flag(false))]),
            number: 7,
            text: "x".into(),
        };
        assert_eq!(read, Ok(expected));
        assert_eq!(self::read(r#"{"inner":null}"#), Ok(Outer::default()));
    }
}
