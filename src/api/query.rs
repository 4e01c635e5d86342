//! Query strings: form decoding, typed access, and what every read takes (paging, consistency).

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::App;
use super::error::ApiError;
use crate::catalog::page::Page;
use crate::model::code::Code;
use crate::model::limits;
use crate::model::text::NameFilter;

/// The decoded pairs; unknown keys are ignored because nobody asks for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Query::parse(parts.uri.query().unwrap_or("")))
    }
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        Query(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The first value of `key`; an empty one counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.get(key).map(str::to_owned)
    }

    pub(super) fn required(&self, key: &str) -> Result<&str, ApiError> {
        self.get(key).ok_or_else(|| ApiError::new(Code::InvalidParameter, format!("{key} is required")))
    }

    pub(super) fn name(&self, key: &str) -> Option<NameFilter> {
        self.get(key).map(NameFilter::parse)
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ApiError> {
        self.get(key)
            .map(|value| match value {
                "true" | "1" => Ok(true),
                "false" | "0" => Ok(false),
                _ => Err(ApiError::new(Code::InvalidParameter, format!("{key} has to be true or false"))),
            })
            .transpose()
    }

    /// All values of `key`, repeated or separated by commas.
    pub(super) fn all(&self, key: &str) -> Vec<&str> {
        let values = self.0.iter().filter(|(name, _)| name == key);
        values.flat_map(|(_, value)| value.split(',')).filter(|value| !value.is_empty()).collect()
    }

    /// [`Query::all`], kept.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        self.all(key).into_iter().map(str::to_owned).collect()
    }

    pub(super) fn ports(&self, key: &str) -> Result<Vec<u16>, ApiError> {
        let refuse = |_| ApiError::new(Code::InvalidParameter, format!("{key} has to be a number up to 65535"));
        self.all(key).into_iter().map(|port| port.parse().map_err(refuse)).collect()
    }

    /// Two lists of equal length as pairs.
    pub(super) fn pairs(&self, keys: &str, values: &str) -> Result<Vec<(String, String)>, ApiError> {
        let (names, texts) = (self.all(keys), self.all(values));
        if names.len() != texts.len() {
            let why = format!("{keys} and {values} have to come in pairs");
            return Err(ApiError::new(Code::InvalidParameter, why));
        }
        Ok(names.into_iter().map(str::to_owned).zip(texts.into_iter().map(str::to_owned)).collect())
    }

    /// `offset` (default 0) and `limit` (default and at most 100).
    pub(super) fn page(&self) -> Result<Page, ApiError> {
        let (offset, limit) = (self.number("offset")?, self.number("limit")?);
        Ok(Page::new(offset.unwrap_or_default(), limit.unwrap_or(limits::PAGE_ROWS_MAX)))
    }

    pub(super) fn number<T: FromStr>(&self, key: &str) -> Result<Option<T>, ApiError> {
        let refuse = |_| ApiError::new(Code::InvalidParameter, format!("{key} has to be a whole number from 0 on"));
        self.get(key).map(|text| text.parse().map_err(refuse)).transpose()
    }
}

/// Which state a read answers from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consistency {
    /// Everything acknowledged before the read began, on any node.
    Linearizable,
    /// What this node has applied; works without a majority.
    Local,
}

impl Consistency {
    pub(super) fn word(self) -> &'static str {
        match self {
            Consistency::Linearizable => "linearizable",
            Consistency::Local => "local",
        }
    }
}

/// Extracted by every read: the state is then as fresh as the caller asked for.
pub(super) struct Fresh;

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
            app.node.await_linearizable().await?;
        }
        Ok(Fresh)
    }
}
