//! Check of the names in an expression: each variable and function must exist.

use cel::common::ast::{EntryExpr, Expr, LiteralValue, operators};
use cel::parser::Expression;

use super::VARIABLES;
use super::functions::{FUNCTIONS, METHODS};
use super::names::NAMESPACE;
use super::value::TYPES;

/// Highest depth of the parsed form. Each operator of a chain is one level.
const NESTING_MAX: usize = 256;

const OPERATORS: [&str; 18] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::IN,
];

pub(super) fn check(expression: &Expression) -> Result<(), String> {
    NameCheck { locals: Vec::new() }.walk(expression, 0)
}

/// Names bound by the enclosing macros, innermost last.
struct NameCheck<'a> {
    locals: Vec<&'a str>,
}

impl<'a> NameCheck<'a> {
    fn walk(&mut self, expression: &'a Expression, depth: usize) -> Result<(), String> {
        if depth > NESTING_MAX {
            return Err(format!("more than {NESTING_MAX} operators, one inside the other"));
        }
        let depth = depth + 1;
        match &expression.expr {
            Expr::Ident(name) => self.ident(name),
            Expr::Literal(LiteralValue::Bytes(_)) => Err("there are no bytes here".to_owned()),
            Expr::Literal(_) => Ok(()),
            Expr::Select(select) => self.walk(&select.operand, depth),
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.walk(element, depth)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.walk(&entry.key, depth)?;
                    self.walk(&entry.value, depth)
                }
                EntryExpr::StructField(_) => Err("there are no messages here".to_owned()),
            }),
            Expr::Call(call) => {
                self.call(&call.func_name, call.target.is_some(), call.args.len())?;
                call.target.iter().try_for_each(|target| self.walk(target, depth))?;
                call.args.iter().try_for_each(|argument| self.walk(argument, depth))
            }
            Expr::Comprehension(loops) => {
                if loops.iter_var2.is_some() {
                    return Err("macros have one variable here".to_owned());
                }
                self.walk(&loops.iter_range, depth)?;
                self.walk(&loops.accu_init, depth)?;
                self.locals.extend([loops.accu_var.as_str(), loops.iter_var.as_str()]);
                self.walk(&loops.loop_cond, depth)?;
                self.walk(&loops.loop_step, depth)?;
                self.locals.pop();
                self.walk(&loops.result, depth)?;
                self.locals.pop();
                Ok(())
            }
            Expr::Struct(_) => Err("there are no messages here".to_owned()),
            Expr::Unspecified => Err("part of it cannot be read".to_owned()),
        }
    }

    fn ident(&self, name: &str) -> Result<(), String> {
        let is_known = self.locals.contains(&name) || VARIABLES.contains(&name) || TYPES.contains(&name);
        if is_known {
            return Ok(());
        }
        let known = VARIABLES.join(", ").replace(NAMESPACE, "namespace");
        Err(format!("there is no {name:?}, only {known}"))
    }

    fn call(&self, name: &str, has_target: bool, count: usize) -> Result<(), String> {
        let known = if has_target { &METHODS[..] } else { &FUNCTIONS[..] };
        if let Some((_, arguments)) = known.iter().find(|(known, _)| *known == name) {
            let is_right = *arguments == count;
            return if is_right { Ok(()) } else { Err(format!("{name} takes {arguments} arguments")) };
        }
        if !has_target && (OPERATORS.contains(&name) || name == operators::NOT_STRICTLY_FALSE) {
            return Ok(());
        }
        let names: Vec<_> = known.iter().map(|(known, _)| *known).collect();
        Err(format!("there is no function {name}, only {}", names.join(", ")))
    }
}
