//! Guards: conditions under which a rollout stops.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::invalid;
use crate::model::code::{Code, Refusal};
use crate::model::{limits, name};

/// Threshold of a guard; a percentage has at most two decimals.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Threshold(pub f64);

/// Compares bits, so that stored values are equal if they are written alike.
impl PartialEq for Threshold {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Threshold {}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if number.is_finite() { Ok(Threshold(number)) } else { Err(de::Error::custom("not a finite number")) }
    }
}

impl JsonSchema for Threshold {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Threshold".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number" })
    }
}

/// Condition for stopping a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Guard {
    /// Percentage of the clients with this release that report that they could not apply it. Evaluated once one client
    /// has it.
    Refused {
        max_percent: Threshold,
        /// True if it was added to a plan without `guards`: it passes if there is nothing to measure.
        #[serde(default, skip_serializing_if = "crate::model::is_false")]
        default: bool,
    },
    /// Percentage of unhealthy instances on hosts with this release, minus that on hosts with the previous one: highest
    /// difference in percentage points. Evaluated once an instance is on a host with this release; the comparison is
    /// with 0 percent if no instance is on a host with the previous one.
    Health {
        max_worse_percent: Threshold,
        /// True if it was added to a plan without `guards`: it passes if there is nothing to measure.
        #[serde(default, skip_serializing_if = "crate::model::is_false")]
        default: bool,
    },
    /// A signal that is not `ok` stops the rollout (`POST …/releases/signal`).
    Signal {},
    /// Prometheus query (`--prometheus-url`) whose value must not be above or below the given one in any series.
    /// Without an answer or a sample the rollout pauses until there is one.
    Prometheus {
        query: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        above: Option<Threshold>,
        #[serde(skip_serializing_if = "Option::is_none")]
        below: Option<Threshold>,
    },
}

/// Members of the guards of all kinds.
///
/// Serde's own form of an enum with a tag holds an object back until it has read the tag, so the reader of the whole
/// body does not learn which of its members are unknown.
#[derive(Deserialize)]
struct GuardFields {
    kind: String,
    #[serde(default, alias = "maxPercent")]
    max_percent: Option<Threshold>,
    #[serde(default, alias = "maxWorsePercent")]
    max_worse_percent: Option<Threshold>,
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    above: Option<Threshold>,
    #[serde(default)]
    below: Option<Threshold>,
    #[serde(default)]
    default: Option<bool>,
}

impl GuardFields {
    /// Returns the first given member that is not one of this kind's.
    fn foreign(&self, own: &[&str]) -> Option<&'static str> {
        let given = [
            ("max_percent", self.max_percent.is_some()),
            ("max_worse_percent", self.max_worse_percent.is_some()),
            ("query", self.query.is_some()),
            ("above", self.above.is_some()),
            ("below", self.below.is_some()),
            ("default", self.default.is_some()),
        ];
        given.into_iter().find(|(name, is_given)| *is_given && !own.contains(name)).map(|(name, _)| name)
    }
}

impl<'de> Deserialize<'de> for Guard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const KINDS: &[&str] = &["refused", "health", "signal", "prometheus"];
        let fields = GuardFields::deserialize(deserializer)?;
        let own: &[&str] = match fields.kind.as_str() {
            "refused" => &["max_percent", "default"],
            "health" => &["max_worse_percent", "default"],
            "signal" => &[],
            "prometheus" => &["query", "above", "below"],
            other => return Err(de::Error::unknown_variant(other, KINDS)),
        };
        if let Some(name) = fields.foreign(own) {
            return Err(de::Error::custom(format!("{name} does not belong to a guard of the kind {}", fields.kind)));
        }
        let missing = <D::Error as de::Error>::missing_field;
        let default = fields.default.unwrap_or_default();
        Ok(match fields.kind.as_str() {
            "refused" => {
                Guard::Refused { max_percent: fields.max_percent.ok_or_else(|| missing("max_percent"))?, default }
            }
            "health" => Guard::Health {
                max_worse_percent: fields.max_worse_percent.ok_or_else(|| missing("max_worse_percent"))?,
                default,
            },
            "signal" => Guard::Signal {},
            _ => Guard::Prometheus {
                query: fields.query.ok_or_else(|| missing("query"))?,
                above: fields.above,
                below: fields.below,
            },
        })
    }
}

impl Guard {
    /// Returns the guards of a plan that names none.
    pub fn defaults() -> Vec<Guard> {
        vec![
            Guard::Refused { max_percent: Threshold(1.0), default: true },
            Guard::Health { max_worse_percent: Threshold(10.0), default: true },
        ]
    }

    /// Reports whether it is measured periodically; signals arrive instead.
    pub fn is_measured(&self) -> bool {
        !matches!(self, Guard::Signal {})
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        let percent = |field: &str, value: Threshold| {
            let why = || invalid(format!("plan.guards: {field} has to be 0 to 100"));
            (0.0..=100.0).contains(&value.0).then_some(()).ok_or_else(why)
        };
        match self {
            Guard::Refused { max_percent, .. } => percent("max_percent", *max_percent),
            Guard::Health { max_worse_percent, .. } => percent("max_worse_percent", *max_worse_percent),
            Guard::Signal {} => Ok(()),
            Guard::Prometheus { query, above, below } => {
                if query.trim().is_empty() {
                    return Err(invalid("plan.guards: query is required".to_owned()));
                }
                let most = limits::ROLLOUT_QUERY_CHARS_MAX;
                name::check_length("plan.guards: query", query, most, Code::InvalidParameter)?;
                let why = || invalid("plan.guards: either above or below is required".to_owned());
                (above.is_some() != below.is_some()).then_some(()).ok_or_else(why)
            }
        }
    }
}
