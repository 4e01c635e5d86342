//! Null members of JSON objects, which count as absent. Nulls within a `schema` are values: a contract may require
//! null.

/// Member whose value is left unchanged.
const SCHEMA: &str = "\"schema\"";

/// Returns the text without null members; `None` if there are none. The text is valid JSON; the only allocation is a
/// text of at most its length.
pub(crate) fn without_nulls(text: &str) -> Option<String> {
    text.contains("null").then_some(())?;
    // Most texts have no null, and are neither parsed nor copied.
    if !text.contains("null") {
        return None;
    }
    let mut sieve = Sieve { text, at: 0, out: String::with_capacity(text.len()), has_dropped: false };
    sieve.value()?;
    sieve.has_dropped.then_some(sieve.out)
}

/// Copies a JSON text and leaves out null members.
struct Sieve<'a> {
    text: &'a str,
    at: usize,
    out: String,
    has_dropped: bool,
}

impl Sieve<'_> {
    /// Skips white space and returns the next byte.
    fn next(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..)?;
        self.at += rest.len() - rest.trim_start().len();
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then(|| self.at += 1)
    }

    fn value(&mut self) -> Option<()> {
        match self.next()? {
            b'{' => self.many(b'}', Sieve::member),
            b'[' => self.many(b']', Sieve::element),
            b'"' => self.copy_to(self.end_of_string()?),
            _ => self.copy_to(self.end_of_word()),
        }
    }

    /// Copies the parts between two brackets, separated by commas.
    fn many(&mut self, close: u8, one: fn(&mut Self, bool) -> Option<bool>) -> Option<()> {
        self.copy_to(self.at + 1)?;
        let mut is_first = true;
        while self.next()? != close {
            is_first &= !one(self, is_first)?;
            if self.next()? == b',' {
                self.at += 1;
            }
        }
        self.copy_to(self.at + 1)
    }

    /// Copies a member unless it is null; returns whether it was copied.
    fn member(&mut self, is_first: bool) -> Option<bool> {
        self.next()?;
        let (begin, end) = (self.at, self.end_of_string()?);
        self.at = end;
        self.skip(b':')?;
        self.next()?;
        if self.text.get(self.at..)?.starts_with("null") {
            self.at += "null".len();
            self.has_dropped = true;
            return Some(false);
        }
        if !is_first {
            self.out.push(',');
        }
        let key = self.text.get(begin..end)?;
        self.out.push_str(key);
        self.out.push(':');
        let (begin, kept, has_dropped) = (self.at, self.out.len(), self.has_dropped);
        self.value()?;
        if key == SCHEMA {
            self.out.truncate(kept);
            self.out.push_str(self.text.get(begin..self.at)?);
            self.has_dropped = has_dropped;
        }
        Some(true)
    }

    fn element(&mut self, is_first: bool) -> Option<bool> {
        if !is_first {
            self.out.push(',');
        }
        self.value()?;
        Some(true)
    }

    fn copy_to(&mut self, end: usize) -> Option<()> {
        self.out.push_str(self.text.get(self.at..end)?);
        self.at = end;
        Some(())
    }

    /// Returns the position after the string that begins here.
    fn end_of_string(&self) -> Option<usize> {
        let mut bytes = self.text.as_bytes().iter().enumerate().skip(self.at + 1);
        loop {
            match bytes.next()? {
                (_, b'\\') => drop(bytes.next()?),
                (at, b'"') => return Some(at + 1),
                _ => {}
            }
        }
    }

    /// Returns the position after a number, `true`, `false` or `null`.
    fn end_of_word(&self) -> usize {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_end = |character: char| matches!(character, ',' | '}' | ']') || character.is_whitespace();
        // At least one byte, so that invalid JSON ends as well.
        self.at + rest.find(is_end).unwrap_or(rest.len()).max(1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Removes nulls from a tree of values, for comparison.
    fn by_tree(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|_, member| !member.is_null());
                members.iter_mut().filter(|(key, _)| *key != "schema").for_each(|(_, member)| by_tree(member));
            }
            Value::Array(elements) => elements.iter_mut().for_each(by_tree),
            _ => {}
        }
    }

    #[test]
    fn members_that_are_null_are_left_out_and_nothing_else() {
        for (text, expected) in [
            (r#"{"a":null}"#, Some("{}")),
            (r#"{ "a" : null , "b" : 1 }"#, Some(r#"{"b":1}"#)),
            (r#"{"b":1,"a":null}"#, Some(r#"{"b":1}"#)),
            (r#"{"schema":{"const":null}}"#, None),
            (r#"{"schema":null,"a":{"schema":{"b":null},"c":null}}"#, Some(r#"{"a":{"schema":{"b":null}}}"#)),
            (r#"{"b":1,"a":null,"c":[null,{"d":null,"e":"null"}]}"#, Some(r#"{"b":1,"c":[null,{"e":"null"}]}"#)),
            (r#"{"a\\":null,"b\"":"\\","c":null}"#, Some(r#"{"b\"":"\\"}"#)),
            ("{\n\t\"ä\": -1.5e3,\r\"ö\": null}", Some("{\"ä\":-1.5e3}")),
            (r#"[null, null]"#, None),
            (r#"{"a":"null"}"#, None),
            (r#"{"null":[]}"#, None),
            (r#"{"a":1}"#, None),
            // Invalid JSON.
            ("null", None),
            (r#"{"a":null"#, None),
            (r#"{"a"}null"#, None),
            (r#"{:null}"#, None),
            (r#"{"a":}null"#, None),
        ] {
            assert_eq!(without_nulls(text).as_deref(), expected, "{text}");
            if let (Some(left), Ok(mut tree)) = (expected, serde_json::from_str(text)) {
                by_tree(&mut tree);
                assert_eq!(serde_json::from_str::<Value>(left).expect("JSON"), tree, "{text}");
            }
        }
    }
}
