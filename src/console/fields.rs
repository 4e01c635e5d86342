//! Fields of a form or a query.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::Console;
use crate::model::limits;
use crate::model::text::NameFilter;

/// Decoded pairs of a form or a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

impl Fields {
    /// Parses the first [`limits::FORM_PAIRS_MAX`] pairs.
    pub(super) fn parse(text: &[u8]) -> Fields {
        Fields(url::form_urlencoded::parse(text).into_owned().take(limits::FORM_PAIRS_MAX).collect())
    }

    /// Returns the first value, trimmed.
    pub(super) fn get(&self, key: &str) -> &str {
        self.raw(key).trim()
    }

    /// Returns the first value, unchanged.
    pub(super) fn raw(&self, key: &str) -> &str {
        self.0.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value.as_str())
    }

    pub(super) fn given(&self, key: &str) -> Option<String> {
        Some(self.get(key)).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    pub(super) fn is_set(&self, key: &str) -> bool {
        !self.get(key).is_empty()
    }

    /// Returns an address with these pairs, changed in some keys; empty values are left out.
    pub(super) fn with(&self, path: &str, changes: &[(&str, &str)]) -> String {
        let is_changed = |key: &str| key == "done" || changes.iter().any(|(changed, _)| *changed == key);
        let pairs = self.pairs().filter(|(key, _)| !is_changed(key)).chain(changes.iter().copied());
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(pairs.filter(|(_, value)| !value.is_empty()));
        let query = query.finish();
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }

    /// Returns the filter of a search for names that contain a text; a text with `*` is used as it is.
    pub(super) fn name_filter(&self, key: &str) -> Option<NameFilter> {
        self.given(key).map(|text| NameFilter::parse(&searched(&text)))
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

impl FromRequestParts<Console> for Fields {
    type Rejection = std::convert::Infallible;

    /// Extracts the query.
    async fn from_request_parts(parts: &mut Parts, _: &Console) -> Result<Self, Self::Rejection> {
        Ok(Fields::parse(parts.uri.query().unwrap_or_default().as_bytes()))
    }
}

/// Returns the pattern for names that contain the text; one with `*` is used as it is.
fn searched(text: &str) -> String {
    if text.contains('*') { text.to_owned() } else { format!("*{text}*") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded() {
        let fields = Fields::parse(b"name=+a%20b&text=+x%0A&box=on");
        assert_eq!((fields.get("name"), fields.raw("text"), fields.is_set("box")), ("a b", " x\n", true));
        assert_eq!((fields.get("none"), fields.given("none"), fields.is_set("none")), ("", None, false));
    }

    #[test]
    fn a_part_of_a_name_is_enough() {
        assert_eq!((searched("pay").as_str(), searched("pay*").as_str()), ("*pay*", "pay*"));
    }
}
