//! CEL, the Common Expression Language: the parser is the crate's, the evaluation our own.
//!
//! The crate's evaluation cannot be interrupted, and each twenty characters of an expression may double the memory in
//! use. This one counts each step, each byte created and each byte read, so that every expression ends in time. Tests
//! compare its results with those of the crate.
//!
//! All macros and operators are supported, and these functions of the standard library: `size`, `contains`,
//! `startsWith`, `endsWith`, `matches`, `int`, `uint`, `double`, `string`, `bool`, `type` and `dyn`. There are no
//! bytes, timestamps, durations and messages. Whole numbers of JSON are `int`.

mod check;
mod eval;
mod functions;
mod names;
#[cfg(test)]
mod tests;
mod value;

use cel::parser::{Expression, PrattParser};
use serde_json::Value;

use super::fuel::Fuel;
use eval::Run;
use value::Val;

/// Nesting of an expression, since parser and evaluation recurse; below, the number of its nodes.
const DEPTH_MAX: u16 = 64;
const PARTS_MAX: usize = 4096;

/// Variables of every expression.
pub(super) const VARIABLES: [&str; 6] = ["new", "old", "kind", names::NAMESPACE, "name", "user"];

pub(super) struct Program(Expression);

/// Values of the variables.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) new: &'a Value,
    /// Null if nothing is in force.
    pub(super) old: &'a Value,
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) user: &'a str,
}

/// Reason why an expression has no value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stop {
    Failed(String),
    /// Time or memory are used up.
    Out,
}

impl Program {
    /// Parses an expression; `Err` gives line, column and fault.
    pub(super) fn compile(source: &str) -> Result<Program, String> {
        let parser = PrattParser::new().max_recursion_depth(DEPTH_MAX).max_expression_node_count(PARTS_MAX);
        let expression = parser.parse(&names::renamed(source)).map_err(|errors| match errors.errors.first() {
            Some(error) => format!("line {}, column {}: {}", error.pos.0.max(1), error.pos.1.max(1), error.msg),
            None => "it cannot be read".to_owned(),
        })?;
        check::check(&expression)?;
        Ok(Program(expression))
    }

    /// Reports whether the expression evaluates to `true`.
    pub(super) fn holds(&self, facts: &Facts<'_>, fuel: &Fuel) -> Result<bool, Stop> {
        let values = [
            Val::of(facts.new),
            Val::of(facts.old),
            Val::Str(facts.kind),
            Val::Str(facts.namespace),
            Val::Str(facts.name),
            Val::Str(facts.user),
        ];
        let value = Run::new(&values, fuel).eval(&self.0)?;
        Ok(matches!(value, Val::Bool(true)))
    }
}
