//! Forms in which scalars of the specification's tables are read and written: enums by name or number, whole numbers
//! also as text, durations as in protobuf's JSON.
//!
//! Several forms are read, one is written: names, numbers, `"1.5s"`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, IgnoredAny, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A fieldless enum with names for its values, in order of their numbers.
pub trait Words: Copy + Sized + 'static {
    const ALL: &'static [(Self, &'static str)];

    fn word(self) -> &'static str;

    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(value, _)| *value)
    }

    fn of_number(number: u64) -> Option<Self> {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number)).map(|(value, _)| *value)
    }
}

/// Visitor that reads a value by name, or by number, also as text.
pub(super) struct WordVisitor<T>(pub(super) PhantomData<T>);

impl<T: Words> Visitor<'_> for WordVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = T::ALL.iter().map(|(_, word)| *word).collect();
        write!(f, "one of {}", words.join(", "))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        let by_number = || text.parse().ok().and_then(T::of_number);
        T::of_word(text).or_else(by_number).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        T::of_number(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}

/// Returns the schema of an enum: names, which are also written, or numbers.
pub(super) fn words_schema<T: Words>() -> Schema {
    let words: Vec<_> = T::ALL.iter().map(|(_, word)| *word).collect();
    json_schema!({ "anyOf": [
        { "type": "string", "enum": words },
        { "type": "integer", "minimum": 0, "maximum": words.len() - 1 },
    ]})
}

/// Declares an enum with a name per value; the name may be omitted if it equals the variant's.
#[macro_export]
macro_rules! word_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident { $( $(#[$variant_meta:meta])* $variant:ident $(= $word:literal)? ),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        $vis enum $name { $( $(#[$variant_meta])* $variant, )+ }

        impl $crate::wire::Words for $name {
            const ALL: &'static [(Self, &'static str)] =
                &[ $( ($name::$variant, $crate::wire::word_enum!(@word $variant $($word)?)), )+ ];

            fn word(self) -> &'static str {
                match self { $( $name::$variant => $crate::wire::word_enum!(@word $variant $($word)?), )+ }
            }
        }
    };
    (@word $variant:ident) => { stringify!($variant) };
    (@word $variant:ident $word:literal) => { $word };
}
pub use word_enum;

/// Declares an enum with names on the wire, which is also read by number. The first variant is the default, and numbers
/// count from 0. A name may be omitted if it equals the variant's.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident { $( $(#[$variant_meta:meta])* $variant:ident $(= $word:literal)? ),+ $(,)? }
    ) => {
        $crate::wire::word_enum! {
            $(#[$meta])*
            $vis enum $name { $( $(#[$variant_meta])* $variant $(= $word)? ),+ }
        }

        impl Default for $name {
            fn default() -> Self {
                <$name as $crate::wire::Words>::ALL[0].0
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::wire::Words::word(*self))
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any($crate::wire::WordVisitor(std::marker::PhantomData))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::wire::words_schema::<Self>()
            }
        }
    };
}
pub(crate) use wire_enum;

macro_rules! whole_number {
    ($(#[$meta:meta])* $name:ident($inner:ty), $range:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Number;
                impl Visitor<'_> for Number {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("a whole number from ", $range))
                    }

                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$name, E> {
                        let fitting = <$inner>::try_from(number).map($name);
                        fitting.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
                    }

                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$name, E> {
                        let fitting = <$inner>::try_from(number).map($name);
                        fitting.map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map($name).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
                    }
                }
                deserializer.deserialize_any(Number)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            /// Returns the schema of the form that is written.
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                <$inner>::json_schema(generator)
            }
        }
    };
}

whole_number! {
    /// A whole number from 0 to 2^32 - 1, read as a number or as its text.
    Uint32(u32), "0 to 4294967295"
}

whole_number! {
    /// A whole number from 0 to 2^64 - 1, read as a number or as its text.
    Uint64(u64), "0 to 18446744073709551615"
}

whole_number! {
    /// A whole number of 64 bits, read as a number or as its text.
    Int64(i64), "-9223372036854775808 to 9223372036854775807"
}

/// Reads a number that may be written as text; for `deserialize_with`.
pub fn optional_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Uint64>::deserialize(deserializer)?.map(|number| number.0))
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MS: u64 = 1_000_000;
/// Longest duration in seconds, about 292 years: the nanoseconds fit into 63 bits.
const SECONDS_MAX: u64 = 9_223_372_036;

/// A nonnegative span of time. On the wire decimal seconds with an `s`, with up to nine digits after the point: `"1s"`,
/// `"0.500s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    nanos: u64,
}

impl Span {
    pub const fn of_seconds(seconds: u64) -> Self {
        Span { nanos: seconds * NANOS_PER_SECOND }
    }

    pub const fn as_nanos(self) -> u64 {
        self.nanos
    }

    fn of_ms(ms: u64) -> Option<Self> {
        (ms / 1000 < SECONDS_MAX).then(|| Span { nanos: ms * NANOS_PER_MS })
    }

    fn parse(text: &str) -> Option<Self> {
        let number = text.strip_suffix('s')?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) || fraction.len() > 9 {
            return None;
        }
        let seconds = whole.parse().ok().filter(|seconds| *seconds < SECONDS_MAX)?;
        let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
        Some(Span { nanos: Span::of_seconds(seconds).nanos + nanos })
    }
}

/// Formats with 0, 3, 6 or 9 digits after the point, as protobuf does.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.nanos / NANOS_PER_SECOND, self.nanos % NANOS_PER_SECOND);
        if nanos == 0 {
            write!(f, "{seconds}s")
        } else if nanos.is_multiple_of(NANOS_PER_MS) {
            write!(f, "{seconds}.{:03}s", nanos / NANOS_PER_MS)
        } else if nanos.is_multiple_of(1000) {
            write!(f, "{seconds}.{:06}s", nanos / 1000)
        } else {
            write!(f, "{seconds}.{nanos:09}s")
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor { takes_ms: false })
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[0-9]{1,9}(\.[0-9]{1,9})?s$",
            "description": "Seconds with an `s`, up to nine digits after the point: `1s`, `0.500s`.",
        })
    }
}

struct SpanVisitor {
    takes_ms: bool,
}

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration in seconds such as \"1s\" or \"0.500s\"")?;
        if self.takes_ms { f.write_str(", or a number of milliseconds") } else { Ok(()) }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        Span::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Span, E> {
        let span = if self.takes_ms { Span::of_ms(number) } else { None };
        span.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}

/// Reads a [`Span`], or a number of milliseconds; for `deserialize_with`.
pub fn span_or_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    deserializer.deserialize_any(SpanVisitor { takes_ms: true })
}

/// Reads a field that only nodes write; in a request of a caller it is ignored as unknown.
pub fn of_no_caller<'de, T: Deserialize<'de>, D: Deserializer<'de>>(reader: D) -> Result<Option<T>, D::Error> {
    if reader.is_human_readable() { IgnoredAny::deserialize(reader).map(|_| None) } else { Option::deserialize(reader) }
}

#[cfg(test)]
mod tests {
    use super::*;

    wire_enum! {
        enum Fruit { Apple, Pear = "PEAR" }
    }

    #[test]
    fn enums_are_read_by_name_or_number_and_written_by_name() {
        let read = |text: &str| serde_json::from_str::<Fruit>(text);
        for (text, expected) in
            [("\"Apple\"", Fruit::Apple), ("\"PEAR\"", Fruit::Pear), ("1", Fruit::Pear), ("\"1\"", Fruit::Pear)]
        {
            assert_eq!(read(text).expect(text), expected);
        }
        for text in ["\"Pear\"", "2", "-1", "\"\"", "true", "null", "[]"] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains("expected one of Apple, PEAR"), "{text}: {error}");
        }
        assert_eq!(serde_json::to_string(&Fruit::Pear).expect("a word"), "\"PEAR\"");
        assert_eq!(Fruit::default(), Fruit::Apple);
    }

    #[test]
    fn numbers_are_read_as_text_too() {
        let read = |text: &str| serde_json::from_str::<Uint32>(text).map(|number| number.0);
        for (text, expected) in [("0", 0), ("\"7\"", 7), ("4294967295", u32::MAX)] {
            assert_eq!(read(text).expect(text), expected);
        }
        for text in ["4294967296", "-1", "1.5", "\"x\"", "\"\"", "\"-1\"", "1e400", "null", "[1]"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        let rows = [
            ("1s", "1s"),
            ("1.5s", "1.500s"),
            ("0.000001s", "0.000001s"),
            ("2.000000001s", "2.000000001s"),
            ("1.0s", "1s"),
        ];
        for (text, written) in rows {
            assert_eq!(Span::parse(text).expect(text).to_string(), written);
        }
        for text in [
            "",
            "s",
            "1",
            "1h",
            "-1s",
            "1.s",
            ".5s",
            "1.0000000001s",
            "999ms",
            "1 s",
            "99999999999999999999s",
            "9223372036s",
        ] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
        let mut ms = serde_json::Deserializer::from_str("1500");
        assert_eq!(span_or_ms(&mut ms).expect("milliseconds").to_string(), "1.500s");
        assert!(serde_json::from_str::<Span>("1500").is_err());
        assert!(span_or_ms(&mut serde_json::Deserializer::from_str("18446744073709551615")).is_err());
    }
}
