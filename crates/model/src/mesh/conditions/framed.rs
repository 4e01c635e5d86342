//! Conditions on a part of a header, with other text before and after it.

use super::predicate::{TextPredicate, digits};
use super::{Condition, Found, Obstacle, Ways, Writer};
use crate::model::mesh::Dialect;
use crate::model::mesh::plan::{CALLER_HEADER, PATH_HEADER, PartMatch, TextMatch};
use crate::model::mesh::re2;
use crate::model::rule::matching::ALL;

/// Position of a text within a header.
pub(super) struct Frame {
    header: &'static str,
    /// Expression for the text before it.
    before: String,
    /// Expression for the text before it if the part is empty.
    before_empty: String,
    /// Expression for the text after it.
    after: &'static str,
    /// Characters that terminate it.
    excluded: &'static [char],
    /// True if requests may lack it.
    is_optional: bool,
}

const QUERY_BEHIND: &str = r"(?:\?.*)?";

impl Frame {
    fn new(header: &'static str, before: String, after: &'static str, excluded: &'static [char]) -> Self {
        Frame { header, before_empty: before.clone(), before, after, excluded, is_optional: false }
    }

    /// Returns the frame of the path of a request to a proxy, which may be followed by a query.
    pub(super) fn path() -> Self {
        Frame::new(PATH_HEADER, String::new(), QUERY_BEHIND, &['?'])
    }

    /// Returns the frame of `Method` in `/package.Service/Method`.
    pub(super) fn method(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Grpc => Frame::new(PATH_HEADER, ".*/".into(), "", &['/']),
            Dialect::Envoy => Frame::new(PATH_HEADER, "[^?]*/".into(), QUERY_BEHIND, &['/', '?']),
        }
    }

    pub(super) fn cookie(name: &str) -> Self {
        let before = format!("(?:.*; ?)?{}=", re2::escaped(name));
        Frame { is_optional: true, ..Frame::new("cookie", before, "(?:;.*)?", &[';']) }
    }

    /// Returns the frame of a query parameter that is present.
    pub(super) fn query(name: &str) -> Self {
        let before = format!(r"[^?]*\?(?:.*&)?{}=", re2::escaped(name));
        Frame { before_empty: format!("{before}?"), ..Frame::new(PATH_HEADER, before, "(?:&.*)?", &['&']) }
    }

    /// Returns the frame of `SERVICE` in `NAMESPACE/SERVICE`, in the header by which requests to a gateway name their
    /// caller.
    pub(super) fn caller(namespace: &str) -> Self {
        let before = match namespace {
            "" | ALL => "[^/]*/".to_owned(),
            namespace => format!("{}/", re2::escaped(&namespace.replace('/', "%2F"))),
        };
        Frame { is_optional: true, ..Frame::new(CALLER_HEADER, before, "", &[]) }
    }

    fn can_hold(&self, word: &str) -> bool {
        !word.contains(self.excluded)
    }

    pub(super) fn around(&self, expression: &str) -> String {
        let before = if expression.is_empty() { &self.before_empty } else { &self.before };
        format!("{before}{expression}{}", self.after)
    }

    fn header<'a>(&self, value: TextMatch) -> Condition<'a> {
        Condition::Header(PartMatch { name: self.header.to_owned(), value })
    }
}

impl Writer {
    pub(super) fn framed<'a>(&self, frame: &Frame, predicate: &TextPredicate<'_>) -> Found<'a> {
        let way = |expression| self.fitting(expression).map(|text| vec![frame.header(TextMatch::Expression(text))]);
        Ok(Ways::of(match predicate {
            TextPredicate::Never => Vec::new(),
            TextPredicate::Always => vec![self.present(frame)?],
            TextPredicate::AnyOf(words) => {
                let possible: Vec<&str> = words.iter().copied().filter(|word| frame.can_hold(word)).collect();
                let chunks = chunks(&possible, re2::steps(&frame.around("")), self.limit);
                chunks.iter().map(|words| way(frame.around(&any_of(words)))).collect::<Result<_, _>>()?
            }
            TextPredicate::NoneOf(words) => {
                let mut way = self.present(frame)?;
                for word in words.iter().filter(|word| frame.can_hold(word)) {
                    let unwanted = self.fitting(frame.around(&re2::escaped(word)))?;
                    way.push(frame.header(TextMatch::NotExpression(unwanted)));
                }
                vec![way]
            }
            TextPredicate::Found(pattern) => {
                let part = pattern.part(frame.excluded).map_err(Obstacle::Syntax)?;
                vec![way(frame.around(&part))?]
            }
            TextPredicate::Within(low, high) => vec![way(frame.around(&format!(r"\+?0*(?:{})", digits(*low, *high))))?],
        }))
    }

    /// Returns conditions that hold if the part is present.
    fn present<'a>(&self, frame: &Frame) -> Result<Vec<Condition<'a>>, Obstacle> {
        if !frame.is_optional {
            return Ok(Vec::new());
        }
        let expression = self.fitting(format!("{}.*", frame.before))?;
        Ok(vec![frame.header(TextMatch::Expression(expression))])
    }
}

/// Returns an expression that matches any of the words; several are grouped, since not every client adds a group.
pub(super) fn any_of(words: &[&str]) -> String {
    match words {
        [word] => re2::escaped(word),
        words => {
            let words: Vec<_> = words.iter().map(|word| re2::escaped(word)).collect();
            format!("(?:{})", words.join("|"))
        }
    }
}

/// Splits the words into lists whose programs, including the frame, have at most `limit` steps; a longer word is alone.
pub(super) fn chunks<'w>(words: &[&'w str], frame_steps: usize, limit: usize) -> Vec<Vec<&'w str>> {
    let mut chunks: Vec<Vec<&str>> = Vec::new();
    let mut steps = usize::MAX;
    for word in words {
        let own = word.len() + 1;
        match chunks.last_mut() {
            Some(chunk) if steps.saturating_add(own) <= limit => {
                chunk.push(word);
                steps += own;
            }
            _ => {
                chunks.push(vec![word]);
                steps = frame_steps.saturating_add(own);
            }
        }
    }
    chunks
}
