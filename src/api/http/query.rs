//! Query strings: form decoding, typed access, and the parameters of every read (paging, consistency).

use std::convert::Infallible;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::admission;
use super::app::App;
use super::doc::{Input, PROPOSED, Sketch};
use super::error::ApiError;
use crate::catalog::page::{After, Page};
use crate::model::code::Code;
use crate::model::limits;
use crate::model::spelling::is_same_name;
use crate::model::text::NameFilter;
use crate::openapi::Param;

/// Decoded pairs. Unknown keys are reported by the layer before the handler ([`super::unknown::QueryKeys`]).
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
    /// Record, set by a test, of the keys that a handler reads.
    #[cfg(test)]
    asked: Asked,
}

/// Keys that were read.
#[cfg(test)]
pub(crate) type Asked = std::sync::Arc<parking_lot::Mutex<std::collections::BTreeSet<String>>>;

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        #[cfg(test)]
        let query = Query { asked: parts.extensions.get::<Asked>().cloned().unwrap_or_default(), ..query };
        Ok(query)
    }
}

/// Keys are read one by one, so the documentation of a route names them.
impl Input for Query {}

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = url::form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        Query {
            pairs,
            #[cfg(test)]
            asked: Asked::default(),
        }
    }

    /// Returns all keys, as sent.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(key, _)| key.as_str())
    }

    /// Returns the values of `key`, in either spelling. All accessors use this.
    fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        #[cfg(test)]
        self.asked.lock().insert(key.to_owned());
        self.pairs.iter().filter(move |(name, _)| is_same_name(name, key)).map(|(_, value)| value.as_str())
    }

    /// Reports whether `key` is present, with or without a value.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.values(key).next().is_some()
    }

    /// Returns the first value of `key`; an empty one counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.values(key).next().filter(|value| !value.is_empty())
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.get(key).map(str::to_owned)
    }

    pub(crate) fn required(&self, key: &str) -> Result<&str, ApiError> {
        self.get(key).ok_or_else(|| ApiError::new(Code::InvalidParameter, format!("{key} is required")))
    }

    pub(crate) fn name(&self, key: &str) -> Option<NameFilter> {
        self.get(key).map(NameFilter::parse)
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, ApiError> {
        self.get(key)
            .map(|value| match value {
                "true" | "1" => Ok(true),
                "false" | "0" => Ok(false),
                _ => Err(ApiError::new(Code::InvalidParameter, format!("{key} has to be true or false"))),
            })
            .transpose()
    }

    /// Returns all values of `key`, repeated or separated by commas.
    pub(crate) fn all(&self, key: &str) -> Vec<&str> {
        self.values(key).flat_map(|value| value.split(',')).filter(|value| !value.is_empty()).collect()
    }

    /// Returns the values of [`Query::all`] as owned texts.
    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        self.all(key).into_iter().map(str::to_owned).collect()
    }

    pub(crate) fn ports(&self, key: &str) -> Result<Vec<u16>, ApiError> {
        let refuse = |_| ApiError::new(Code::InvalidParameter, format!("{key} has to be a number up to 65535"));
        self.all(key).into_iter().map(|port| port.parse().map_err(refuse)).collect()
    }

    /// Pairs two lists of equal length.
    pub(crate) fn pairs(&self, keys: &str, values: &str) -> Result<Vec<(String, String)>, ApiError> {
        let (names, texts) = (self.all(keys), self.all(values));
        if names.len() != texts.len() {
            let why = format!("{keys} and {values} have to come in pairs");
            return Err(ApiError::new(Code::InvalidParameter, why));
        }
        Ok(names.into_iter().map(str::to_owned).zip(texts.into_iter().map(str::to_owned)).collect())
    }

    /// Reads `offset` (default 0) and `limit` (default and at most 100), and with `order=key` or `after` a page by key.
    pub(crate) fn page(&self) -> Result<Page, ApiError> {
        let refuse = |why| Err(ApiError::new(Code::InvalidParameter, why));
        let (offset, limit) = (self.number("offset")?.unwrap_or_default(), self.number("limit")?);
        let page = Page::new(offset, limit.unwrap_or(limits::PAGE_ROWS_MAX));
        let (order, after) = (self.get("order"), self.get("after"));
        if order.is_some_and(|order| order != "key") {
            return refuse("order has to be key, or absent for the order of the list");
        }
        match after.map(After::read) {
            None if order.is_none() => Ok(page),
            None => Ok(page.by_key(None)),
            Some(None) => refuse("after has to be what a page of this list ended with"),
            Some(_) if offset > 0 => refuse("offset and after exclude each other"),
            Some(after) => Ok(page.by_key(after)),
        }
    }

    /// Reads the page of a list that is complete without a `limit`, and never cut to another one.
    pub(crate) fn page_of_all(&self) -> Result<Page, ApiError> {
        Ok(Page { limit: self.number("limit")?.unwrap_or(usize::MAX), ..self.page()? })
    }

    pub(crate) fn number<T: FromStr>(&self, key: &str) -> Result<Option<T>, ApiError> {
        let refuse = |_| ApiError::new(Code::InvalidParameter, format!("{key} has to be a whole number from 0 on"));
        self.get(key).map(|text| text.parse().map_err(refuse)).transpose()
    }
}

/// State from which a read is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consistency {
    /// Includes everything acknowledged before the read began, on any node.
    Linearizable,
    /// State that this node has applied; works without a majority.
    Local,
}

impl Consistency {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Consistency::Linearizable => "linearizable",
            Consistency::Local => "local",
        }
    }
}

/// Consistency of a read, which [`Fresh`] records in the handler and the layer writes into a header.
#[derive(Clone, Default)]
pub(crate) struct Freshness(Arc<AtomicBool>);

impl Freshness {
    pub(crate) fn consistency(&self) -> Consistency {
        if self.0.load(Ordering::Relaxed) { Consistency::Linearizable } else { Consistency::Local }
    }
}

/// Extractor of every read: waits until the state is as fresh as the caller demanded.
pub(crate) struct Fresh;

impl FromRequestParts<App> for Fresh {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let consistency = match Query::parse(parts.uri.query().unwrap_or("")).get("consistency") {
            None | Some("linearizable") => Consistency::Linearizable,
            Some("local") => Consistency::Local,
            Some(_) => {
                let why = "consistency has to be linearizable or local";
                return Err(ApiError::new(Code::InvalidParameter, why));
            }
        };
        if consistency == Consistency::Linearizable {
            app.node().await_linearizable().await?;
            if let Some(Freshness(is_linearizable)) = parts.extensions.get() {
                is_linearizable.store(true, Ordering::Relaxed);
            }
            admission::admit_again(app, &mut parts.extensions)?;
        }
        Ok(Fresh)
    }
}

impl Input for Fresh {
    fn describe(sketch: &mut Sketch<'_>) {
        const CONSISTENCY: Param = Param::word(
            "consistency",
            "Whether everything acknowledged before is seen, which needs a majority, or what this node has applied.",
            &["linearizable", "local"],
        );
        sketch.query.push(CONSISTENCY);
        sketch.codes.insert(Code::InvalidParameter);
        sketch.codes.extend(PROPOSED);
    }
}
