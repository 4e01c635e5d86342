//! JSON Schema 2020-12, evaluated by the crate `jsonschema` over values that count accesses.
//!
//! A schema may take exponential time: references that branch double the work with each level. The crate cannot be
//! interrupted, but it reads values through a trait, and those of [`metered`] are null once the time is used up, so
//! that it ends at once. Work that reads no value is bounded by [`shape`] when a schema is saved. Patterns are regular
//! expressions without look-around and back-references, which take time in proportion to the text.

mod metered;
mod shape;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use super::fuel::Fuel;
use super::{DETAIL_CHARS_MAX, PlacedFault, shortened};
use crate::model::limits;
use metered::{Metered, MeteredJson};

/// Bytes of the compiled form of a pattern; below, of the tables that are built while it is matched.
const PATTERN_BYTES_MAX: usize = 64 * 1024;
const PATTERN_TABLE_BYTES_MAX: usize = 128 * 1024;

pub(super) struct Schema(Validator<MeteredJson>);

/// Estimates the bytes of the compiled form of a schema.
pub(super) fn weight(schema: &Value, bytes: usize) -> usize {
    // A node of the compiled form is larger than its text.
    bytes * 16 + shape::patterns(schema) * (PATTERN_BYTES_MAX + PATTERN_TABLE_BYTES_MAX)
}

impl Schema {
    /// Compiles a schema; `Err` gives the place of the fault.
    pub(super) fn compile(schema: &Value) -> Result<Schema, String> {
        shape::check(schema)?;
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_TABLE_BYTES_MAX);
        let options = jsonschema::options_for::<MeteredJson>().with_draft(Draft::Draft202012);
        options.offline().with_pattern_options(patterns).build(schema).map(Schema).map_err(|error| {
            let place = shape::place(error.instance_path().as_str());
            format!("{place}: {}", shortened(&error.to_string(), DETAIL_CHARS_MAX))
        })
    }

    /// Returns the faults of a value in the order of the schema. Faults of a secret value are masked.
    pub(super) fn judge(&self, value: &Value, is_secret: bool, fuel: &Fuel) -> Vec<PlacedFault> {
        let metered = Metered { value, fuel };
        if self.0.is_valid(metered) && !fuel.is_out() {
            return Vec::new();
        }
        let errors = self.0.iter_errors(metered).take(limits::CONTRACT_FAULTS_MAX);
        errors
            .map(|error| {
                let text = if is_secret { error.masked().to_string() } else { error.to_string() };
                let path = error.instance_path().as_str().to_owned();
                PlacedFault { path, message: shortened(&text, DETAIL_CHARS_MAX) }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
