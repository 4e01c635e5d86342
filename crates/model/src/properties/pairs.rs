//! Pairs of a properties text, in the order of the text.

use std::fmt;

use indexmap::IndexMap;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Key-value pairs in the order of their text, as Apollo serves them. Equality ignores the order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(IndexMap<String, String>);

impl Pairs {
    /// Sets a value; an existing key retains its position.
    pub fn insert(&mut self, key: String, value: String) {
        self.0.insert(key, value);
    }

    pub fn get(&self, key: &str) -> Option<&String> {
        self.0.get(key)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter()
    }

    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

impl FromIterator<(String, String)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Pairs(pairs.into_iter().collect())
    }
}

impl Serialize for Pairs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Pairs::default();
                while let Some((key, value)) = map.next_entry()? {
                    pairs.insert(key, value);
                }
                Ok(pairs)
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
