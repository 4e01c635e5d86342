//! Well-formed JSON, read together with the lines of its values.

use serde_json::Value;

use super::{DEPTH_MAX, Fault, Located, LocatedNode, ReadCount, fault, too_deep};

pub(super) fn read(text: &str, count: ReadCount) -> Result<Located, Fault> {
    let mut walk = JsonWalk { text, at: 0, line: 1, count };
    walk.value(0)
}

struct JsonWalk<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    count: ReadCount,
}

impl JsonWalk<'_> {
    /// Skips white space and returns the next byte.
    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            match byte {
                b'\n' => self.line += 1,
                b' ' | b'\t' | b'\r' => {}
                _ => return Some(byte),
            }
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Located, Fault> {
        let (first, line) = (self.next(), self.line);
        self.count.one(line, 0)?;
        if depth >= DEPTH_MAX {
            return Err(too_deep(line));
        }
        let node = match first {
            Some(b'{') => {
                let mut members = Vec::new();
                self.at += 1;
                while self.more(b'}') {
                    let line = self.line;
                    let key = match self.scalar()? {
                        Value::String(key) => key,
                        other => other.to_string(),
                    };
                    self.next();
                    self.at += 1;
                    let member = self.value(depth + 1)?;
                    members.push((key, Located { line, ..member }));
                }
                LocatedNode::map(members)
            }
            Some(b'[') => {
                let mut elements = Vec::new();
                self.at += 1;
                while self.more(b']') {
                    elements.push(self.value(depth + 1)?);
                }
                LocatedNode::list(elements)
            }
            _ => return Ok(Located::scalar(line, self.scalar()?)),
        };
        Ok(Located { line, node })
    }

    /// Reports whether another element follows; consumes the comma before it, or the closing bracket.
    fn more(&mut self, close: u8) -> bool {
        if self.next() == Some(b',') {
            self.at += 1;
        }
        match self.next() {
            Some(byte) if byte != close => true,
            _ => {
                self.at += 1;
                false
            }
        }
    }

    /// Reads a string, a number or a literal.
    fn scalar(&mut self) -> Result<Value, Fault> {
        let rest = &self.text[self.at..];
        let end = if rest.starts_with('"') {
            end_of_string(rest)
        } else {
            rest.find(|letter: char| matches!(letter, ',' | '}' | ']' | ':') || letter.is_whitespace())
        };
        let end = end.unwrap_or(rest.len());
        self.count.many(0, end.saturating_mul(2), self.line)?;
        let value = serde_json::from_str(&rest[..end]).map_err(|error| fault(self.line, error.to_string()))?;
        self.at += end;
        Ok(value)
    }
}

/// Returns the position after the quotation mark that ends the string.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    let is_end = |byte: &u8| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    };
    text.as_bytes().iter().skip(1).position(is_end).map(|at| at + 2)
}
