//! Cache of compiled expressions in conditions that are evaluated for many clients.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;

use super::expression::{Expression, KeptExpression};
use super::matching::MatchString;
use crate::model::limits;

/// Compiled expressions by their text; the least recently used are evicted first.
#[derive(Debug, Default)]
pub struct Matchers {
    kept: Mutex<Kept>,
    /// Bytes of idle working memory.
    idle_bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Kept {
    by_text: HashMap<String, Compiled>,
    bytes: usize,
    uses: u64,
}

#[derive(Debug)]
struct Compiled {
    /// `None` for an invalid expression, which matches nothing.
    expression: Option<Arc<KeptExpression>>,
    bytes: usize,
    used: u64,
}

impl Matchers {
    /// Evaluates like [`MatchString::matches`].
    pub fn matches(&self, condition: &MatchString, value: &str) -> bool {
        let Some(text) = condition.expression() else { return condition.matches(value) };
        // Compiles without holding the lock.
        let known = self.known(text);
        let expression = known.unwrap_or_else(|| self.compile(text));
        expression.is_some_and(|expression| expression.is_found_in(value, &self.idle_bytes))
    }

    fn known(&self, text: &str) -> Option<Option<Arc<KeptExpression>>> {
        let mut kept = self.kept.lock();
        kept.uses += 1;
        let uses = kept.uses;
        let compiled = kept.by_text.get_mut(text)?;
        compiled.used = uses;
        Some(compiled.expression.clone())
    }

    fn compile(&self, text: &str) -> Option<Arc<KeptExpression>> {
        let compiled = Expression::compile(text).ok();
        let bytes = text.len() + compiled.as_ref().map_or(0, Expression::bytes);
        let expression = compiled.map(|compiled| Arc::new(compiled.kept()));
        let mut kept = self.kept.lock();
        kept.make_room(bytes);
        let used = kept.uses;
        let new = Compiled { expression: expression.clone(), bytes, used };
        kept.bytes += bytes;
        if let Some(old) = kept.by_text.insert(text.to_owned(), new) {
            kept.bytes -= old.bytes;
        }
        expression
    }
}

impl Kept {
    fn make_room(&mut self, bytes: usize) {
        while !self.by_text.is_empty() && self.bytes + bytes > limits::MATCHERS_BYTES_MAX {
            let oldest = self.by_text.iter().min_by_key(|(_, compiled)| compiled.used).map(|(text, _)| text.clone());
            let gone = oldest.and_then(|text| self.by_text.remove(&text));
            self.bytes -= gone.map_or(0, |gone| gone.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rule::matching::{MatchType, ValueType};

    fn condition(kind: MatchType, value: &str) -> MatchString {
        MatchString { kind, value: value.into(), value_type: ValueType::Text }
    }

    #[test]
    fn an_expression_is_compiled_once() {
        let matchers = Matchers::default();
        let rows = [
            (condition(MatchType::Regex, r"^\w{1,3}$"), "abc", true),
            (condition(MatchType::Regex, r"^\w{1,3}$"), "abcd", false),
            (condition(MatchType::Regex, "("), "(", false),
            (condition(MatchType::In, "a,b"), "b", true),
            (condition(MatchType::Exact, "*"), "b", true),
        ];
        for (condition, value, expected) in &rows {
            assert_eq!(matchers.matches(condition, value), *expected, "{condition:?}");
        }
        let known = || matchers.known(r"^\w{1,3}$").flatten().expect("compiled");
        let first = known();
        assert!(matchers.matches(&rows[0].0, "x") && Arc::ptr_eq(&first, &known()));
        assert_eq!(matchers.kept.lock().by_text.len(), 2);
    }

    #[test]
    fn compiled_expressions_keep_within_their_bytes() {
        let matchers = Matchers::default();
        let mut last = MatchString::default();
        for number in 0..400 {
            last = condition(MatchType::Regex, &format!(r"^{number}\w{{1,20}}$"));
            assert!(matchers.matches(&last, &format!("{number}x")));
        }
        let kept = matchers.kept.lock();
        assert!(kept.bytes <= limits::MATCHERS_BYTES_MAX && kept.by_text.contains_key(&last.value));
        assert_eq!(kept.bytes, kept.by_text.values().map(|compiled| compiled.bytes).sum::<usize>());
    }
}
