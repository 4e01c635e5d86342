//! Bounded answers: rows are looked up and rendered one by one into a buffer with a maximum size. An answer that would
//! exceed it costs at most that much, and its refusal has the number of rows that fit.

use std::cell::Cell;
use std::io::{self, Write};

use axum::response::Response;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::json;
use crate::model::code::{Code, info_of};
use crate::model::limits;

/// Bytes reserved for the position of the next page.
const AFTER_BYTES_MAX: usize = 16 * 1024;
/// Initial capacity, enough for most answers.
const BODY_BYTES_USUAL: usize = 1024;

/// Maximum bytes of an answer, and the bytes written so far.
pub(crate) struct Measure {
    bytes_max: usize,
    bytes: Cell<usize>,
    /// Number of rows that fit.
    rows: Cell<usize>,
}

impl Measure {
    pub(crate) fn of_answer() -> Self {
        Measure::new(limits::ANSWER_BYTES_MAX)
    }

    fn new(bytes_max: usize) -> Self {
        Measure { bytes_max, bytes: Cell::default(), rows: Cell::default() }
    }

    fn row_is_written(&self) {
        if self.bytes.get() + AFTER_BYTES_MAX <= self.bytes_max {
            self.rows.set(self.rows.get() + 1);
        }
    }
}

/// Reason why no answer was written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// The answer would exceed its maximum; `limit` rows fit.
    TooLong {
        limit: usize,
    },
    Failed(serde_json::Error),
}

struct Buffer<'a> {
    bytes: Vec<u8>,
    measure: &'a Measure,
}

impl Buffer<'_> {
    /// Grows the buffer to at least `length` bytes: doubles it, up to the maximum.
    #[cold]
    fn grow(&mut self, length: usize) -> io::Result<()> {
        if length > self.measure.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let capacity = length.max(self.measure.bytes_max.min(2 * self.bytes.capacity()));
        self.bytes.reserve_exact(capacity - self.bytes.len());
        Ok(())
    }
}

impl Write for Buffer<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.write_all(part).map(|()| part.len())
    }

    /// Appends a part; called for every token of the JSON text.
    #[inline]
    fn write_all(&mut self, part: &[u8]) -> io::Result<()> {
        let length = self.bytes.len() + part.len();
        if length > self.bytes.capacity().min(self.measure.bytes_max) {
            self.grow(length)?;
        }
        self.bytes.extend_from_slice(part);
        self.measure.bytes.set(length);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serializes `body`, whose rows count themselves in `measure`.
pub(crate) fn write(measure: &Measure, body: &impl Serialize) -> Result<Vec<u8>, Unwritten> {
    let mut buffer = Buffer { bytes: Vec::with_capacity(BODY_BYTES_USUAL), measure };
    match serde_json::to_writer(&mut buffer, body) {
        Ok(()) => Ok(buffer.bytes),
        Err(error) if error.io_error_kind() == Some(io::ErrorKind::FileTooLarge) => {
            Err(Unwritten::TooLong { limit: measure.rows.get() })
        }
        Err(error) => Err(Unwritten::Failed(error)),
    }
}

/// Answers with `body`, whose rows count themselves in `measure`, or refuses an answer that would be too long.
pub(crate) fn answer(code: Code, measure: &Measure, body: &impl Serialize) -> Response {
    write(measure, body).map_or_else(unwritten, |bytes| json::written(code, bytes))
}

pub(crate) fn unwritten(why: Unwritten) -> Response {
    match why {
        Unwritten::TooLong { limit } => {
            let code = Code::AnswerTooLong;
            let why = format!("it has at most {} bytes, which {limit} rows fit into", limits::ANSWER_BYTES_MAX);
            json::answer(code, &TooLong { code, info: info_of(code, &why), limit })
        }
        Unwritten::Failed(error) => json::failed(&error),
    }
}

/// Refusal of a list that would be too long, with the largest `limit` that fits.
#[derive(Serialize)]
struct TooLong {
    code: Code,
    info: String,
    limit: usize,
}

/// Rows that are rendered one by one while the answer is written.
pub(crate) struct Rows<'a, 'm, T, F> {
    rows: &'a [T],
    view: F,
    measure: &'m Measure,
}

impl<'a, 'm, T, V: Serialize, F: Fn(&'a T) -> V> Rows<'a, 'm, T, F> {
    pub(crate) fn of(rows: &'a [T], measure: &'m Measure, view: F) -> Self {
        Rows { rows, view, measure }
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }
}

impl<'a, T, V: Serialize, F: Fn(&'a T) -> V> Serialize for Rows<'a, '_, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(Some(self.rows.len()))?;
        for row in self.rows {
            sequence.serialize_element(&(self.view)(row))?;
            self.measure.row_is_written();
        }
        sequence.end()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use serde_json::Value;

    use super::*;
    use crate::api::http::envelope::{self, Item};
    use crate::catalog::{Catalog, Entity, Outcome};
    use crate::model::namespace::Namespace;

    fn written(bytes_max: usize, rows: &[String]) -> (Result<Vec<u8>, Unwritten>, usize) {
        let (measure, shown) = (Measure::new(bytes_max), Cell::new(0));
        let view = |row| {
            shown.set(shown.get() + 1);
            row
        };
        let answer = write(&measure, &Rows::of(rows, &measure, view));
        (answer, shown.get())
    }

    /// The reported limit fits, one row more does not, and rows beyond the limit are not rendered.
    #[test]
    fn an_answer_ends_at_its_bound_and_says_what_fits() {
        let rows = vec!["x".repeat(1000); 500];
        for bytes_max in [AFTER_BYTES_MAX, AFTER_BYTES_MAX + 1003, 100_000, 400_000] {
            let (refused, shown) = written(bytes_max, &rows);
            let Err(Unwritten::TooLong { limit }) = refused else { panic!("{bytes_max}: {refused:?}") };
            assert_eq!(shown, bytes_max.saturating_sub(1) / 1003 + 1, "{bytes_max}: rows that were rendered");
            let fitting = |count: usize| 1 + 1003 * count + AFTER_BYTES_MAX <= bytes_max + 1;
            assert!(limit == 0 || fitting(limit), "{bytes_max}: {limit}");
            assert!(!fitting(limit + 1), "{bytes_max}: {limit}");
            let bytes = written(bytes_max, &rows[..limit]).0.expect("so many fit");
            assert!(bytes.len() <= bytes_max && bytes.capacity() <= bytes_max, "{bytes_max}: {}", bytes.capacity());
        }
        let bytes = written(1_000_000, &rows).0.expect("all fit");
        assert_eq!(serde_json::from_slice::<Vec<String>>(&bytes).expect("a list"), rows);
    }

    #[tokio::test]
    async fn a_batch_that_would_be_too_long_tells_what_came_of_its_items() {
        let outcome = || Outcome::done(Entity::Namespace(Arc::new(Namespace::default())));
        let items = [outcome(), outcome()].map(|outcome| Item::new(outcome, &Catalog::default()));
        for (bytes_max, is_whole) in [(100_000, true), (200, false)] {
            let answer = envelope::batch_within(Measure::new(bytes_max), Some(Code::ExecuteSuccess), &items);
            let bytes = answer.into_body().collect().await.expect("a body").to_bytes();
            let answer: Value = serde_json::from_slice(&bytes).expect("JSON");
            assert_eq!((&answer["code"], &answer["amount"]), (&200_000.into(), &2.into()), "{answer}");
            for item in answer["responses"].as_array().expect("items") {
                assert_eq!((&item["code"], item["namespace"].is_object()), (&200_000.into(), is_whole), "{answer}");
            }
        }
    }
}
