//! Fault in a field deep inside a rule.

use crate::model::code::{Code, Refusal};

/// A refused field with its path and the reason. The path is built from the innermost field outwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    path: String,
    why: String,
}

impl Fault {
    pub fn new(field: &str, why: impl Into<String>) -> Self {
        Fault { path: field.to_owned(), why: why.into() }
    }

    /// Prefixes the path with `field`.
    pub fn within(self, field: &str) -> Self {
        Fault { path: format!("{field}.{}", self.path), why: self.why }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Refusal::new(Code::InvalidParameter, format!("{} {}", fault.path, fault.why))
    }
}

/// Checks each item of a list under its index.
pub(super) fn each<T>(field: &str, items: &[T], check: impl Fn(&T) -> Result<(), Fault>) -> Result<(), Fault> {
    let mut numbered = items.iter().enumerate();
    numbered.try_for_each(|(index, item)| check(item).map_err(|fault| fault.within(&format!("{field}[{index}]"))))
}

/// Refuses an empty key among those of a map or of headers.
pub(super) fn filled_keys<'a>(field: &str, keys: impl IntoIterator<Item = &'a String>) -> Result<(), Fault> {
    let is_empty = keys.into_iter().any(|key| key.trim().is_empty());
    if is_empty { Err(Fault::new(field, "has an empty key")) } else { Ok(()) }
}

/// Refuses a number outside of `range`; `words` describes the range in the error.
pub(super) fn within_range<T: PartialOrd>(
    field: &str,
    value: T,
    range: std::ops::RangeInclusive<T>,
    words: &str,
) -> Result<(), Fault> {
    if range.contains(&value) { Ok(()) } else { Err(Fault::new(field, format!("has to be {words}"))) }
}
