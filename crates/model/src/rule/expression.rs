//! Compiled regular expressions with bounded memory.
//!
//! An expression has a program, and a working memory per matching thread: states of a DFA that are created on demand.
//! The engine retains that memory for every thread that ever matched, up to its own limit each. An expression that is
//! stored ([`KeptExpression`]) instead shares one bound with all those of the same audience.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use regex_automata::meta::{BuildError, Cache, Config, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};

use super::fault::Fault;
use crate::model::limits;

/// Highest size of the states of one DFA during a match, in bytes.
const STATES_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a program that the engine does not report: its own pool, which stays empty.
const UNCOUNTED_BYTES: usize = 1024;

/// An expression of the specification, with linear time: no look-around and back-references.
#[derive(Debug)]
pub struct Expression(Regex);

impl Expression {
    pub fn compile(expression: &str) -> Result<Expression, Fault> {
        let refuse = |why: String| Err(Fault::new("value", why));
        if expression.len() > limits::REGEX_BYTES_MAX {
            return refuse(format!("an expression has at most {} bytes", limits::REGEX_BYTES_MAX));
        }
        let config = Config::new()
            .match_kind(MatchKind::LeftmostFirst)
            .utf8_empty(true)
            .nfa_size_limit(Some(limits::REGEX_COMPILED_BYTES_MAX))
            .hybrid_cache_capacity(STATES_BYTES_MAX)
            .which_captures(WhichCaptures::Implicit)
            .dfa(false)
            .onepass(false)
            .backtrack(false);
        let mut builder = Regex::builder();
        let built = builder.configure(config).syntax(syntax::Config::new().utf8(true)).build(expression);
        built
            .map(Expression)
            .or_else(|error| refuse(format!("is no expression that can be matched in linear time: {}", reason(&error))))
    }

    /// Returns the size in bytes without working memory.
    pub fn bytes(&self) -> usize {
        self.0.memory_usage() + UNCOUNTED_BYTES
    }

    pub fn is_found_in(&self, value: &str) -> bool {
        self.0.is_match(value)
    }

    pub fn kept(self) -> KeptExpression {
        KeptExpression { program: self.0, idle: Mutex::default() }
    }
}

fn reason(error: &BuildError) -> String {
    match (error.size_limit(), error.syntax_error()) {
        (Some(limit), _) => format!("it takes more than {limit} bytes once it is compiled"),
        (None, Some(syntax)) => {
            let shown = syntax.to_string();
            shown.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
        (None, None) => error.to_string(),
    }
}

/// An expression that many threads match against many values.
#[derive(Debug)]
pub struct KeptExpression {
    program: Regex,
    /// Idle working memories with their sizes in bytes.
    idle: Mutex<Vec<(usize, Cache)>>,
}

impl KeptExpression {
    /// Reports whether the expression is found in a value. `idle_bytes` is the idle working memory of all expressions
    /// with a common bound.
    pub fn is_found_in(&self, value: &str, idle_bytes: &AtomicUsize) -> bool {
        let idle = self.idle.lock().pop();
        let mut cache = match idle {
            Some((bytes, cache)) => {
                idle_bytes.fetch_sub(bytes, Ordering::Relaxed);
                cache
            }
            None => self.program.create_cache(),
        };
        let found = self.program.search_half_with(&mut cache, &Input::new(value).earliest(true));
        let bytes = cache.memory_usage();
        if idle_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= limits::AUDIENCE_IDLE_BYTES_MAX {
            self.idle.lock().push((bytes, cache));
        } else {
            idle_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_expression_judges_as_the_other_does() {
        let expressions = [r"^eu-[0-9]+$", r"v[0-9]", "", r"\bpay\b", r"(?i)straße$", r"\pL{3}", "^$", "(a+)+$"];
        let values =
            ["eu-1", "eu-x", "", "pay", "repay", "é pay é", "STRASSE", "STRAßE", "ab", "abc", "aaaaaaaaaaaaa!"];
        for expression in expressions {
            let compiled = Expression::compile(expression).expect(expression);
            let expected = values.map(|value| compiled.is_found_in(value));
            let kept = compiled.kept();
            let idle_bytes = AtomicUsize::new(0);
            for _ in 0..2 {
                assert_eq!(values.map(|value| kept.is_found_in(value, &idle_bytes)), expected, "{expression}");
            }
            let idle: usize = kept.idle.lock().iter().map(|(bytes, _)| bytes).sum();
            assert_eq!(idle_bytes.load(Ordering::Relaxed), idle, "{expression}");
            assert_eq!(kept.idle.lock().len(), 1, "it is used again");
        }
    }

    #[test]
    fn working_memory_beyond_the_bound_is_given_back() {
        let kept = Expression::compile("^eu-[0-9]+$").expect("an expression").kept();
        let idle_bytes = AtomicUsize::new(limits::AUDIENCE_IDLE_BYTES_MAX);
        assert!(kept.is_found_in("eu-1", &idle_bytes));
        assert_eq!(idle_bytes.load(Ordering::Relaxed), limits::AUDIENCE_IDLE_BYTES_MAX);
        assert!(kept.idle.lock().is_empty());
    }
}
