//! Evaluation of an expression, step by step.

use std::cmp::Ordering;
use std::rc::Rc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::parser::Expression;

use super::functions::Patterns;
use super::value::{TYPES, Val, compare, equal};
use super::{Stop, VARIABLES};
use crate::contracts::fuel::Fuel;

type Evaluated<'a> = Result<Val<'a>, Stop>;

pub(super) struct Run<'a> {
    variables: &'a [Val<'a>; VARIABLES.len()],
    /// Names bound by macros, innermost last. The accumulator of a macro may hold an error, which a later step may
    /// override.
    locals: Vec<(&'a str, Evaluated<'a>)>,
    pub(super) fuel: &'a Fuel,
    pub(super) patterns: Patterns,
}

pub(super) fn failed<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(why.into()))
}

fn no_overload<'a>(operator: &str, values: &[&Val<'a>]) -> Evaluated<'a> {
    let kinds: Vec<_> = values.iter().map(|value| value.kind()).collect();
    failed(format!("{} is not for {}", operator.trim_matches('_'), kinds.join(" and ")))
}

impl<'a> Run<'a> {
    pub(super) fn new(variables: &'a [Val<'a>; VARIABLES.len()], fuel: &'a Fuel) -> Run<'a> {
        Run { variables, locals: Vec::new(), fuel, patterns: Patterns::default() }
    }

    pub(super) fn eval(&mut self, expression: &'a Expression) -> Evaluated<'a> {
        if !self.fuel.step(1) {
            return Err(Stop::Out);
        }
        match &expression.expr {
            Expr::Literal(literal) => Ok(literal_of(literal)),
            Expr::Ident(name) => self.named(name),
            Expr::Select(select) => {
                let operand = self.eval(&select.operand)?;
                let member = operand.member(&Val::Str(&select.field), self.fuel)?;
                match member {
                    _ if select.test => Ok(Val::Bool(member.is_some())),
                    Some(member) => Ok(member),
                    None => failed(format!("there is no {}", select.field)),
                }
            }
            Expr::List(list) => {
                self.make(list.elements.len() * size_of::<Val<'_>>())?;
                let elements = list.elements.iter().map(|element| self.eval(element));
                Ok(Val::MadeList(Rc::new(elements.collect::<Result<_, _>>()?)))
            }
            Expr::Map(map) => self.map(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(loops) => self.comprehend(loops),
            Expr::Struct(_) | Expr::Unspecified => failed("it cannot be evaluated"),
        }
    }

    pub(super) fn make(&self, bytes: usize) -> Result<(), Stop> {
        if self.fuel.make(bytes) { Ok(()) } else { Err(Stop::Out) }
    }

    pub(super) fn made_text(&self, text: String) -> Evaluated<'a> {
        self.make(text.len())?;
        Ok(Val::MadeStr(text.into()))
    }

    fn named(&self, name: &'a str) -> Evaluated<'a> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(local, _)| *local == name) {
            return value.clone();
        }
        if let Some(at) = VARIABLES.iter().position(|variable| *variable == name) {
            return Ok(self.variables[at].clone());
        }
        let kind = TYPES.iter().find(|kind| **kind == name);
        kind.map_or_else(|| failed(format!("there is no {name}")), |kind| Ok(Val::Type(kind)))
    }

    fn map(&mut self, entries: impl Iterator<Item = &'a EntryExpr>) -> Evaluated<'a> {
        let mut members: Vec<(Val<'a>, Val<'a>)> = Vec::new();
        for entry in entries {
            let EntryExpr::MapEntry(entry) = entry else { return failed("there are no messages here") };
            let (key, value) = (self.eval(&entry.key)?, self.eval(&entry.value)?);
            if !matches!(key.kind(), "string" | "int" | "uint" | "bool") {
                return failed(format!("a {} is no key", key.kind()));
            }
            for (there, _) in &members {
                if equal(there, &key, self.fuel)? {
                    return failed("a key occurs twice");
                }
            }
            self.make(2 * size_of::<Val<'_>>())?;
            members.push((key, value));
        }
        Ok(Val::MadeMap(Rc::new(members)))
    }

    fn call(&mut self, call: &'a CallExpr) -> Evaluated<'a> {
        let (name, arguments) = (call.func_name.as_str(), call.args.as_slice());
        match (name, arguments) {
            (operators::LOGICAL_AND, [one, other]) => self.logical(one, other, false),
            (operators::LOGICAL_OR, [one, other]) => self.logical(one, other, true),
            (operators::NOT_STRICTLY_FALSE, [one]) => match self.eval(one) {
                Err(Stop::Out) => Err(Stop::Out),
                value => Ok(Val::Bool(!matches!(value, Ok(Val::Bool(false))))),
            },
            (operators::CONDITIONAL, [condition, yes, no]) => match self.eval(condition)? {
                Val::Bool(true) => self.eval(yes),
                Val::Bool(false) => self.eval(no),
                other => no_overload("?:", &[&other]),
            },
            (operators::ADD, [one, other]) => {
                let gathered = match &one.expr {
                    Expr::Ident(name) => self.take_gathered(name),
                    _ => None,
                };
                let one = gathered.unwrap_or_else(|| self.eval(one))?;
                let other = self.eval(other)?;
                self.add(one, other)
            }
            (_, [one]) if call.target.is_none() && matches!(name, operators::LOGICAL_NOT | operators::NEGATE) => {
                match (name, self.eval(one)?) {
                    (operators::LOGICAL_NOT, Val::Bool(value)) => Ok(Val::Bool(!value)),
                    (operators::NEGATE, Val::Int(value)) => whole(value.checked_neg().map(Val::Int)),
                    (operators::NEGATE, Val::Double(value)) => Ok(Val::Double(-value)),
                    (_, other) => no_overload(name, &[&other]),
                }
            }
            (_, [one, other]) if call.target.is_none() && name.contains(['_', '@']) => {
                let (one, other) = (self.eval(one)?, self.eval(other)?);
                self.binary(name, &one, &other)
            }
            _ => {
                let target = call.target.as_ref().map(|target| self.eval(target)).transpose()?;
                let arguments = arguments.iter().map(|argument| self.eval(argument)).collect::<Result<Vec<_>, _>>()?;
                self.function(name, target, arguments)
            }
        }
    }

    /// Evaluates `&&` or `||`: a side that decides the result does so even if the other one fails.
    fn logical(&mut self, one: &'a Expression, other: &'a Expression, decides: bool) -> Evaluated<'a> {
        let one = self.eval(one);
        if matches!(one, Ok(Val::Bool(value)) if value == decides) || matches!(one, Err(Stop::Out)) {
            return one;
        }
        let other = self.eval(other);
        if matches!(other, Ok(Val::Bool(value)) if value == decides) || matches!(other, Err(Stop::Out)) {
            return other;
        }
        match (one?, other?) {
            (Val::Bool(_), Val::Bool(_)) => Ok(Val::Bool(!decides)),
            (one, other) => no_overload(if decides { "||" } else { "&&" }, &[&one, &other]),
        }
    }

    /// Moves out the accumulator of a macro; its next step puts the new value in its place.
    fn take_gathered(&mut self, name: &str) -> Option<Evaluated<'a>> {
        let is_gathered = name.starts_with('@');
        let slot = self.locals.iter_mut().rev().find(|(local, _)| is_gathered && *local == name)?;
        Some(std::mem::replace(&mut slot.1, Ok(Val::Null)))
    }

    fn comprehend(&mut self, loops: &'a ComprehensionExpr) -> Evaluated<'a> {
        let range = self.eval(&loops.iter_range)?;
        let Some(elements) = range.elements() else { return failed(format!("a {} has no elements", range.kind())) };
        let gathered = self.eval(&loops.accu_init);
        let depth = self.locals.len();
        self.locals.push((&loops.accu_var, gathered));
        for element in elements {
            self.locals.push((&loops.iter_var, Ok(element)));
            let goes_on = self.eval(&loops.loop_cond);
            let step = match &goes_on {
                Ok(Val::Bool(true)) => Some(self.eval(&loops.loop_step)),
                Ok(_) => None,
                Err(stop) => Some(Err(stop.clone())),
            };
            self.locals.truncate(depth + 1);
            match step {
                Some(Err(Stop::Out)) => return Err(Stop::Out),
                Some(step) => self.locals[depth].1 = step,
                None => break,
            }
        }
        let result = self.eval(&loops.result);
        self.locals.truncate(depth);
        result
    }

    fn add(&self, one: Val<'a>, other: Val<'a>) -> Evaluated<'a> {
        if let (Some(left), Some(right)) = (one.text(), other.text()) {
            self.make(left.len() + right.len())?;
            return Ok(Val::MadeStr([left, right].concat().into()));
        }
        match (one, other) {
            (Val::Int(one), Val::Int(other)) => whole(one.checked_add(other).map(Val::Int)),
            (Val::Uint(one), Val::Uint(other)) => whole(one.checked_add(other).map(Val::Uint)),
            (Val::Double(one), Val::Double(other)) => Ok(Val::Double(one + other)),
            (Val::MadeList(mut list), other @ (Val::List(_) | Val::MadeList(_))) => {
                let more = other.len().unwrap_or_default();
                let copied = if Rc::strong_count(&list) > 1 { list.len() } else { 0 };
                self.make((copied + more) * size_of::<Val<'_>>())?;
                Rc::make_mut(&mut list).extend(other.elements().into_iter().flatten());
                Ok(Val::MadeList(list))
            }
            (Val::List(list), other @ (Val::List(_) | Val::MadeList(_))) => {
                self.make((list.len() + other.len().unwrap_or_default()) * size_of::<Val<'_>>())?;
                let all = list.iter().map(Val::of).chain(other.elements().into_iter().flatten());
                Ok(Val::MadeList(Rc::new(all.collect())))
            }
            (one, other) => no_overload("+", &[&one, &other]),
        }
    }

    fn binary(&self, operator: &str, one: &Val<'a>, other: &Val<'a>) -> Evaluated<'a> {
        match operator {
            operators::EQUALS => Ok(Val::Bool(equal(one, other, self.fuel)?)),
            operators::NOT_EQUALS => Ok(Val::Bool(!equal(one, other, self.fuel)?)),
            operators::INDEX => one.index(other, self.fuel),
            operators::IN => self.is_in(one, other),
            operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
                let bytes = one.text().map_or(0, str::len);
                if !self.fuel.step(bytes as u64 / 64) {
                    return Err(Stop::Out);
                }
                match compare(one, other) {
                    Some(order) => Ok(Val::Bool(match operator {
                        operators::LESS => order == Ordering::Less,
                        operators::LESS_EQUALS => order != Ordering::Greater,
                        operators::GREATER => order == Ordering::Greater,
                        _ => order != Ordering::Less,
                    })),
                    // A comparison with NaN is false.
                    None if is_number(one) && is_number(other) => Ok(Val::Bool(false)),
                    None => no_overload(operator, &[one, other]),
                }
            }
            _ => arithmetic(operator, one, other),
        }
    }

    fn is_in(&self, one: &Val<'a>, many: &Val<'a>) -> Evaluated<'a> {
        if matches!(many, Val::Map(_) | Val::MadeMap(_)) {
            return Ok(Val::Bool(many.member(one, self.fuel)?.is_some()));
        }
        let Some(elements) = many.elements() else { return no_overload("in", &[one, many]) };
        for element in elements {
            if equal(one, &element, self.fuel)? {
                return Ok(Val::Bool(true));
            }
        }
        Ok(Val::Bool(false))
    }
}

fn is_number(value: &Val<'_>) -> bool {
    matches!(value, Val::Int(_) | Val::Uint(_) | Val::Double(_))
}

/// Returns a whole number, or an error if it overflowed.
pub(super) fn whole(value: Option<Val<'_>>) -> Evaluated<'_> {
    value.map_or_else(|| failed("the number is too large, or divided by zero"), Ok)
}

fn arithmetic<'a>(operator: &str, one: &Val<'a>, other: &Val<'a>) -> Evaluated<'a> {
    match (one, other) {
        (Val::Int(one), Val::Int(other)) => whole(
            match operator {
                operators::SUBSTRACT => one.checked_sub(*other),
                operators::MULTIPLY => one.checked_mul(*other),
                operators::DIVIDE => one.checked_div(*other),
                _ => one.checked_rem(*other),
            }
            .map(Val::Int),
        ),
        (Val::Uint(one), Val::Uint(other)) => whole(
            match operator {
                operators::SUBSTRACT => one.checked_sub(*other),
                operators::MULTIPLY => one.checked_mul(*other),
                operators::DIVIDE => one.checked_div(*other),
                _ => one.checked_rem(*other),
            }
            .map(Val::Uint),
        ),
        (Val::Double(one), Val::Double(other)) if operator != operators::MODULO => Ok(Val::Double(match operator {
            operators::SUBSTRACT => one - other,
            operators::MULTIPLY => one * other,
            _ => one / other,
        })),
        _ => no_overload(operator, &[one, other]),
    }
}

fn literal_of(literal: &LiteralValue) -> Val<'_> {
    match literal {
        LiteralValue::Boolean(value) => Val::Bool(*value.inner()),
        LiteralValue::Double(value) => Val::Double(*value.inner()),
        LiteralValue::Int(value) => Val::Int(*value.inner()),
        LiteralValue::UInt(value) => Val::Uint(*value.inner()),
        LiteralValue::String(value) => Val::Str(value.inner()),
        LiteralValue::Null | LiteralValue::Bytes(_) => Val::Null,
    }
}
