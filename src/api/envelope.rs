//! The bodies of all answers: `code` and `info` always, then what the operation adds.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::error::status;
use super::view::{Derived, View};
use crate::catalog::page::Listed;
use crate::catalog::{Catalog, Outcome};
use crate::model::code::Code;

const JSON: &str = "application/json";

/// An answer with `body` under the status of `code`.
pub(super) fn answer(code: Code, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => (status(code), [(CONTENT_TYPE, JSON)], bytes).into_response(),
        Err(error) => {
            tracing::error!(%error, "an answer could not be serialised");
            plain(Code::ExecuteException, Code::ExecuteException.info().to_owned())
        }
    }
}

/// Code and info alone.
pub(super) fn plain(code: Code, info: String) -> Response {
    #[derive(Serialize)]
    struct Plain {
        code: u32,
        info: String,
    }
    let body = serde_json::to_vec(&Plain { code: code.number(), info }).expect("a number and a text");
    (status(code), [(CONTENT_TYPE, JSON)], body).into_response()
}

/// Success with one named element.
pub(super) fn single(name: &'static str, element: &impl Serialize) -> Response {
    let info = Code::ExecuteSuccess.info();
    answer(Code::ExecuteSuccess, &Single { code: Code::ExecuteSuccess, info, name, element })
}

struct Single<'a, T> {
    code: Code,
    info: &'a str,
    name: &'static str,
    element: &'a T,
}

impl<T: Serialize> Serialize for Single<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &self.code)?;
        map.serialize_entry("info", self.info)?;
        map.serialize_entry(self.name, self.element)?;
        map.end()
    }
}

/// The answer of one item of a write: code, info and, where there is one, the entity under the
/// element name of its kind.
pub(super) struct Item {
    outcome: Outcome,
    derived: Derived,
    with_secrets: bool,
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &self.outcome.code)?;
        map.serialize_entry("info", &self.outcome.info())?;
        if let Some(view) = View::of(&self.outcome.entity, self.derived, self.with_secrets) {
            map.serialize_entry(view.element(), &view)?;
        }
        map.end()
    }
}

impl Item {
    /// A secret of an entity (the token of a service) is shown to who wrote it, never to who only
    /// ran into it.
    pub(super) fn new(outcome: Outcome, catalog: &Catalog) -> Self {
        let with_secrets = outcome.code.is_success();
        Item { derived: Derived::of(&outcome.entity, catalog), with_secrets, outcome }
    }
}

#[derive(Serialize)]
struct Batch<'a> {
    code: Code,
    info: &'a str,
    amount: usize,
    size: usize,
    responses: &'a [Item],
}

/// The answer of a batch: its code is the highest of its items.
pub(super) fn batch(responses: &[Item]) -> Response {
    let code = responses.iter().map(|item| item.outcome.code).max().unwrap_or(Code::ExecuteSuccess);
    answer(code, &Batch { code, info: code.info(), amount: responses.len(), size: responses.len(), responses })
}

/// The answer to a single object where one is the rule (the configuration centre).
pub(super) fn one(item: &Item) -> Response {
    answer(item.outcome.code, item)
}

/// A page of a list: `amount` counts all matches, `size` this page.
pub(super) fn list<'a, T, V: Serialize>(
    name: &'static str,
    listed: &'a Listed<T>,
    view: impl Fn(&'a T) -> V,
) -> Response {
    struct List<V> {
        name: &'static str,
        amount: usize,
        rows: Vec<V>,
    }
    impl<V: Serialize> Serialize for List<V> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry("code", &Code::ExecuteSuccess)?;
            map.serialize_entry("info", Code::ExecuteSuccess.info())?;
            map.serialize_entry("amount", &self.amount)?;
            // The configuration centre's word for the same number.
            map.serialize_entry("total", &self.amount)?;
            map.serialize_entry("size", &self.rows.len())?;
            map.serialize_entry(self.name, &self.rows)?;
            map.end()
        }
    }
    let rows = listed.rows.iter().map(view).collect();
    answer(Code::ExecuteSuccess, &List { name, amount: listed.amount, rows })
}
