//! TOML with the lines of its values.

use serde_json::{Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{DEPTH_MAX, Fault, Located, LocatedNode, ReadCount, fault, too_deep};
use crate::model::limits;

/// Signs that may begin a value, per allowed value. The parser builds the whole document at once, so it is bounded by
/// its text.
const SIGNS_PER_VALUE: usize = 2;

/// Refuses a text that would take far more memory to parse than its values may have.
pub(super) fn check_size(text: &str) -> Result<(), Fault> {
    let is_sign = |byte: &&u8| matches!(byte, b',' | b'=' | b'[' | b'{' | b'.');
    let signs = text.as_bytes().iter().filter(is_sign).count();
    if signs > limits::CONTRACT_VALUES_MAX * SIGNS_PER_VALUE {
        let most = limits::CONTRACT_VALUES_MAX;
        return Err(fault(1, format!("more than the {most} values that contracts judge")));
    }
    Ok(())
}

pub(super) fn read(text: &str, count: ReadCount) -> Result<Located, Fault> {
    let table = DeTable::parse(text).map_err(|error| fault(1, error.message()))?;
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).collect();
    let mut reading = TomlReading { ends, count };
    reading.table(table.get_ref(), 1, 0)
}

struct TomlReading {
    /// Offsets of the line breaks.
    ends: Vec<usize>,
    count: ReadCount,
}

impl TomlReading {
    fn line_at(&self, byte: usize) -> usize {
        self.ends.partition_point(|end| *end < byte) + 1
    }

    fn table(&mut self, table: &DeTable<'_>, line: usize, depth: usize) -> Result<Located, Fault> {
        let mut members = Vec::new();
        for (key, member) in table {
            let line = self.line_at(key.span().start);
            self.count.many(0, key.get_ref().len().saturating_mul(2), line)?;
            let member = self.value(member, depth + 1)?;
            members.push((key.get_ref().to_string(), Located { line, ..member }));
        }
        Ok(Located { line, node: LocatedNode::map(members) })
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Located, Fault> {
        let line = self.line_at(value.span().start);
        let span = value.span();
        self.count.one(line, 0)?;
        if depth >= DEPTH_MAX {
            return Err(too_deep(line));
        }
        if !matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_)) {
            self.count.many(0, span.len().saturating_mul(2), line)?;
        }
        let scalar = match value.get_ref() {
            DeValue::Table(table) => return self.table(table, line, depth),
            DeValue::Array(elements) => {
                let elements = elements.iter().map(|element| self.value(element, depth + 1));
                let elements = elements.collect::<Result<_, _>>()?;
                return Ok(Located { line, node: LocatedNode::list(elements) });
            }
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Integer(integer) => {
                let number = i64::from_str_radix(integer.as_str(), integer.radix());
                number.map_or_else(|_| Value::String(integer.as_str().to_owned()), Value::from)
            }
            DeValue::Float(float) => {
                let number = float.as_str().parse().ok().and_then(Number::from_f64);
                number.map_or_else(|| Value::String(float.as_str().to_owned()), Value::Number)
            }
            DeValue::Boolean(boolean) => Value::Bool(*boolean),
            DeValue::Datetime(time) => Value::String(time.to_string()),
        };
        Ok(Located::scalar(line, scalar))
    }
}
