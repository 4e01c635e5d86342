//! Bindings: roles for those whose claims fulfil conditions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Claims, invalid, pattern};
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grant, Role};
use crate::model::{limits, name};

/// A condition on one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// Name of the claim, or a path with dots to it.
    pub claim: String,
    /// Value that the claim has to have, or a list has to contain; `*` covers any characters, anywhere in it.
    pub value: String,
}

impl Condition {
    fn holds(&self, claims: &Claims) -> bool {
        claims.values(&self.claim).iter().any(|value| pattern::covers(&self.value, value))
    }

    fn check(&self) -> Result<(), Refusal> {
        check_text("bindings: claim", &self.claim, limits::CLAIM_NAME_CHARS_MAX)?;
        check_text("bindings: value", &self.value, limits::CLAIM_PATTERN_CHARS_MAX)
    }
}

/// A role for those who fulfil a condition (`claim` and `value`), or each of several (`all`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Binding {
    /// Name of the claim, or a path with dots to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub claim: String,
    /// Value that the claim has to have, or a list has to contain; `*` covers any characters, anywhere in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Conditions of which each has to hold, in place of `claim` and `value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all: Vec<Condition>,
    pub role: Role,
    /// A namespace, a prefix followed by `*`, or `*` for all.
    pub namespace: String,
    /// Name of a service, config group or rule, a prefix followed by `*`, or `*` for all.
    #[serde(default = "everything")]
    pub name: String,
}

fn everything() -> String {
    "*".to_owned()
}

impl Binding {
    /// Reports whether the claims fulfil the conditions. Without a condition nobody does.
    pub fn holds(&self, claims: &Claims) -> bool {
        if self.all.is_empty() {
            return !self.claim.is_empty()
                && claims.values(&self.claim).iter().any(|value| pattern::covers(&self.value, value));
        }
        self.all.iter().all(|condition| condition.holds(claims))
    }

    /// Returns the grant that it gives.
    pub fn grant(&self) -> Grant {
        Grant { role: self.role, namespace: self.namespace.clone(), name: self.name.clone() }
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        let has_one = !self.claim.is_empty() || !self.value.is_empty();
        match (has_one, self.all.len()) {
            (true, 0) => Condition { claim: self.claim.clone(), value: self.value.clone() }.check()?,
            (false, 1..=limits::BINDING_CONDITIONS_MAX) => self.all.iter().try_for_each(Condition::check)?,
            (false, 0) => return Err(invalid("bindings: claim and value are required, or all")),
            (true, _) => return Err(invalid("bindings: claim and value, or all, but not both")),
            (false, _) => {
                return Err(invalid(format!("bindings: all has at most {} of them", limits::BINDING_CONDITIONS_MAX)));
            }
        }
        self.grant().check_in("bindings")
    }
}

/// Checks a text that is required and may not hold control characters.
pub(super) fn check_text(field: &str, text: &str, chars_max: usize) -> Result<(), Refusal> {
    if text.is_empty() {
        return Err(invalid(format!("{field} is required")));
    }
    name::check_length(field, text, chars_max, Code::InvalidParameter)?;
    if text.chars().any(char::is_control) {
        return Err(invalid(format!("{field} may not hold control characters")));
    }
    Ok(())
}
