//! Fault of a value deep inside a rule: its place and the reason why it is refused.

use crate::model::code::{Code, Refusal};

/// A refused field. It gets its path from the inside out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    path: String,
    why: String,
}

impl Fault {
    pub fn new(field: &str, why: impl Into<String>) -> Self {
        Fault { path: field.to_owned(), why: why.into() }
    }

    /// This fault as one of the content of `field`.
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

/// Refuses a number outside of `range`, whose words go into the text.
pub(super) fn within_range<T: PartialOrd>(
    field: &str,
    value: T,
    range: std::ops::RangeInclusive<T>,
    words: &str,
) -> Result<(), Fault> {
    if range.contains(&value) { Ok(()) } else { Err(Fault::new(field, format!("has to be {words}"))) }
}
