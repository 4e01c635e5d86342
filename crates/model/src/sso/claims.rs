//! Claims of a token: a JSON object within limits.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use super::unfit;
use crate::model::code::Refusal;
use crate::model::limits;

/// Name under which a provider lists claims that it left out of the token.
const LEFT_OUT: &str = "_claim_names";

/// The claims of one token. They are stored as JSON text, and compared by it; copies share the memory.
#[derive(Clone, Default)]
pub struct Claims(Arc<Parsed>);

#[derive(Default)]
struct Parsed {
    text: String,
    object: Map<String, Value>,
}

impl Claims {
    /// Returns the claims of an object. Refuses one whose text is too long, or that holds too many values.
    pub fn new(object: Map<String, Value>) -> Result<Claims, Refusal> {
        let text = serde_json::to_string(&object).map_err(|error| unfit(format!("claims: {error}")))?;
        Self::of(text, object)
    }

    /// Parses a JSON object.
    pub fn parse(text: &str) -> Result<Claims, Refusal> {
        check_length(text)?;
        let object = serde_json::from_str(text).map_err(|error| unfit(format!("claims: {error}")))?;
        Self::of(text.to_owned(), object)
    }

    fn of(text: String, object: Map<String, Value>) -> Result<Claims, Refusal> {
        check_length(&text)?;
        let count: usize = object.values().map(count_of).sum();
        if count > limits::CLAIM_VALUES_MAX {
            let most = limits::CLAIM_VALUES_MAX;
            return Err(unfit(format!("the token has {count} values, at most {most}: the provider has to send fewer")));
        }
        Ok(Claims(Arc::new(Parsed { text, object })))
    }

    pub fn object(&self) -> &Map<String, Value> {
        &self.0.object
    }

    /// Returns the JSON text.
    pub fn as_text(&self) -> &str {
        &self.0.text
    }

    /// Returns the value of a claim. Its name is looked up whole, then as a path with dots; a part of the path may hold
    /// dots itself, and the longest first part that leads to a value is used.
    pub fn get(&self, claim: &str) -> Option<&Value> {
        find(&self.0.object, claim)
    }

    /// Returns the values of a claim: a text is one, a list has its texts, and anything else has none.
    pub fn values(&self, claim: &str) -> Vec<&str> {
        match self.get(claim) {
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the text of a claim; `None` if it is absent or anything but a text.
    pub fn text(&self, claim: &str) -> Option<&str> {
        self.get(claim)?.as_str()
    }

    /// Reports whether a claim is true, also as text.
    pub(super) fn is_true(&self, claim: &str) -> bool {
        matches!(self.get(claim), Some(Value::Bool(true))) || self.text(claim) == Some("true")
    }

    /// Refuses claims of which the provider left some out, because they were too many for the token.
    pub fn check_complete(&self) -> Result<(), Refusal> {
        let names = match self.0.object.get(LEFT_OUT) {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Object(names)) if names.is_empty() => return Ok(()),
            Some(Value::Object(names)) => names.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
            Some(_) => "some".to_owned(),
        };
        Err(unfit(format!(
            "the provider left {names} out of the token ({LEFT_OUT}): it has to send fewer groups, for example only \
             those that are assigned to this application"
        )))
    }
}

fn check_length(text: &str) -> Result<(), Refusal> {
    match text.len() {
        length if length > limits::CLAIMS_BYTES_MAX => {
            let most = limits::CLAIMS_BYTES_MAX;
            Err(unfit(format!("the claims have {length} bytes, at most {most}: the provider has to send fewer")))
        }
        _ => Ok(()),
    }
}

/// Returns the number of values within a value, itself included.
fn count_of(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(count_of).sum::<usize>(),
        Value::Object(object) => 1 + object.values().map(count_of).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

fn find<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| {
        name.rmatch_indices('.').find_map(|(at, _)| find(object.get(&name[..at])?.as_object()?, &name[at + 1..]))
    })
}

impl PartialEq for Claims {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for Claims {}

impl Hash for Claims {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

/// Leaves the values out, which may be personal data.
impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claims").field(&self.0.object.keys().collect::<Vec<_>>()).finish()
    }
}

impl Serialize for Claims {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text)
    }
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Claims::parse(&String::deserialize(deserializer)?).map_err(|refusal| de::Error::custom(refusal.info()))
    }
}
