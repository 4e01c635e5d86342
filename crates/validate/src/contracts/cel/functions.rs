//! Functions of expressions.

use std::collections::HashMap;

use regex_automata::meta::Regex;

use super::Stop;
use super::eval::{Run, failed, whole};
use super::value::Val;
use crate::contracts::fuel::Fuel;
use crate::model::limits;

/// Functions, with the number of their arguments.
pub(super) const FUNCTIONS: [(&str, usize); 9] = [
    ("size", 1),
    ("int", 1),
    ("uint", 1),
    ("double", 1),
    ("string", 1),
    ("bool", 1),
    ("type", 1),
    ("dyn", 1),
    ("matches", 2),
];
/// Methods, with the number of their arguments.
pub(super) const METHODS: [(&str, usize); 5] =
    [("size", 0), ("contains", 1), ("startsWith", 1), ("endsWith", 1), ("matches", 1)];

/// Bytes of the compiled form of a pattern; below, the patterns of one evaluation.
const PATTERN_BYTES_MAX: usize = 64 * 1024;
const PATTERNS_MAX: usize = 16;
/// Bytes of the tables that are built while a pattern is matched.
const PATTERN_TABLE_BYTES_MAX: usize = 128 * 1024;

/// Patterns that an evaluation has compiled.
#[derive(Default)]
pub(super) struct Patterns(HashMap<String, Regex>); // bound: contract-work

impl Patterns {
    fn get(&mut self, pattern: &str, fuel: &Fuel) -> Result<&Regex, Stop> {
        if !self.0.contains_key(pattern) {
            // Parsing takes far more memory than the text, before any limit of the library applies.
            let most = limits::CONTRACT_PATTERN_BYTES_MAX;
            if pattern.len() > most {
                return failed(format!("a pattern of {} bytes, at most {most}", pattern.len()));
            }
            // Large enough for each pattern to check the clock.
            if !fuel.step(1 << 10) {
                return Err(Stop::Out);
            }
            if self.0.len() >= PATTERNS_MAX {
                return failed(format!("more than {PATTERNS_MAX} patterns"));
            }
            let limits = Regex::config()
                .nfa_size_limit(Some(PATTERN_BYTES_MAX))
                .onepass_size_limit(Some(0))
                .hybrid_cache_capacity(PATTERN_TABLE_BYTES_MAX);
            let compiled = Regex::builder().configure(limits).build(pattern);
            let compiled =
                compiled.map_err(|_| Stop::Failed("the pattern cannot be read, or is too large".to_owned()))?;
            self.0.insert(pattern.to_owned(), compiled);
        }
        self.0.get(pattern).ok_or(Stop::Out)
    }
}

impl<'a> Run<'a> {
    pub(super) fn function(
        &mut self,
        name: &str,
        target: Option<Val<'a>>,
        arguments: Vec<Val<'a>>,
    ) -> Result<Val<'a>, Stop> {
        let mut values = target.into_iter().chain(arguments);
        let (Some(one), other) = (values.next(), values.next()) else { return failed("arguments are missing") };
        let looked_at = one.text().map_or(0, str::len) + other.as_ref().and_then(Val::text).map_or(0, str::len);
        if !self.fuel.step(looked_at as u64 / 16) {
            return Err(Stop::Out);
        }
        let Some(other) = other else { return self.unary(name, one) };
        let (Some(text), Some(part)) = (one.text(), other.text()) else {
            return failed(format!("{name} is not for {} and {}", one.kind(), other.kind()));
        };
        Ok(Val::Bool(match name {
            "contains" => memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some(),
            "startsWith" => text.starts_with(part),
            "endsWith" => text.ends_with(part),
            _ => {
                let matches = self.patterns.get(part, self.fuel)?.is_match(text);
                // Compiling and matching cost more than other steps.
                if !self.fuel.step(256 + text.len() as u64) {
                    return Err(Stop::Out);
                }
                matches
            }
        }))
    }

    fn unary(&mut self, name: &str, value: Val<'a>) -> Result<Val<'a>, Stop> {
        let refused = |value: &Val<'a>| failed(format!("{name} is not for {}", value.kind()));
        match name {
            "size" => {
                let size = value.len().or_else(|| value.text().map(|text| text.chars().count()));
                size.map_or_else(|| refused(&value), |size| whole(i64::try_from(size).ok().map(Val::Int)))
            }
            "type" => Ok(Val::Type(value.kind())),
            "dyn" => Ok(value),
            "int" => match &value {
                Val::Int(number) => Ok(Val::Int(*number)),
                Val::Uint(number) => whole(i64::try_from(*number).ok().map(Val::Int)),
                Val::Double(number) => {
                    whole(truncated(*number).and_then(|number| i64::try_from(number).ok()).map(Val::Int))
                }
                _ => parsed(&value, Val::Int, refused),
            },
            "uint" => match &value {
                Val::Uint(number) => Ok(Val::Uint(*number)),
                Val::Int(number) => whole(u64::try_from(*number).ok().map(Val::Uint)),
                Val::Double(number) => {
                    whole(truncated(*number).and_then(|number| u64::try_from(number).ok()).map(Val::Uint))
                }
                _ => parsed(&value, Val::Uint, refused),
            },
            #[expect(clippy::cast_precision_loss, reason = "as CEL has it")]
            "double" => match &value {
                Val::Int(number) => Ok(Val::Double(*number as f64)),
                Val::Uint(number) => Ok(Val::Double(*number as f64)),
                Val::Double(number) => Ok(Val::Double(*number)),
                _ => parsed(&value, Val::Double, refused),
            },
            "string" => match &value {
                Val::Int(number) => self.made_text(number.to_string()),
                Val::Uint(number) => self.made_text(number.to_string()),
                Val::Double(number) => self.made_text(number.to_string()),
                Val::Bool(boolean) => self.made_text(boolean.to_string()),
                Val::Str(_) | Val::MadeStr(_) => Ok(value),
                _ => refused(&value),
            },
            _ => match (&value, value.text()) {
                (Val::Bool(boolean), _) => Ok(Val::Bool(*boolean)),
                (_, Some("true" | "True" | "TRUE" | "t" | "1")) => Ok(Val::Bool(true)),
                (_, Some("false" | "False" | "FALSE" | "f" | "0")) => Ok(Val::Bool(false)),
                _ => refused(&value),
            },
        }
    }
}

fn truncated(number: f64) -> Option<i128> {
    #[expect(clippy::cast_possible_truncation, reason = "it saturates beyond what is asked for")]
    number.is_finite().then_some(number.trunc() as i128)
}

fn parsed<'a, T: std::str::FromStr>(
    value: &Val<'a>,
    make: impl Fn(T) -> Val<'a>,
    refused: impl Fn(&Val<'a>) -> Result<Val<'a>, Stop>,
) -> Result<Val<'a>, Stop> {
    match value.text() {
        Some(text) => text.parse().map_or_else(|_| failed("the text is no such number"), |number| Ok(make(number))),
        None => refused(value),
    }
}
