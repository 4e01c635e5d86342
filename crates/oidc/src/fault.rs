//! Reason why a token, a key, a document or a response is refused.

/// Maximum characters of a foreign value that is quoted in a sentence.
const QUOTED_CHARS_MAX: usize = 80;

/// Reason for a refusal: the field and a sentence about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct OidcFault {
    field: &'static str,
    text: String,
    cause: FaultCause,
}

/// Kind of a refusal, by what can change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCause {
    /// Content that is refused at any time.
    Content,
    /// Time claims: the token has ended or is not valid yet.
    Time,
    /// No key of the set verifies the signature. A newer set may have one.
    Key,
}

impl OidcFault {
    /// Creates a fault of content. `rest` continues the name of the field: "`aud` names …".
    pub(crate) fn new(field: &'static str, rest: impl AsRef<str>) -> OidcFault {
        OidcFault { field, text: format!("`{field}` {}", rest.as_ref()), cause: FaultCause::Content }
    }

    /// Creates a fault about a whole document or token. `text` is the sentence.
    pub(crate) fn whole(field: &'static str, text: impl Into<String>) -> OidcFault {
        OidcFault { field, text: text.into(), cause: FaultCause::Content }
    }

    pub(crate) fn with(self, cause: FaultCause) -> OidcFault {
        OidcFault { cause, ..self }
    }

    /// Returns the name of the field, as the standard spells it, or `token`, `document`, `response`.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// Returns the kind of the refusal.
    pub fn cause(&self) -> FaultCause {
        self.cause
    }
}

/// Quotes a foreign text: escaped and shortened.
pub(crate) fn quoted(text: &str) -> String {
    let mut chars = text.chars();
    let short: String = chars.by_ref().take(QUOTED_CHARS_MAX).collect();
    let rest = if chars.next().is_some() { "…" } else { "" };
    format!("{short:?}{rest}")
}

/// Shortens an error of a parser, which can quote the whole input.
pub(crate) fn shortened(error: &serde_json::Error) -> String {
    error.to_string().chars().take(2 * QUOTED_CHARS_MAX).collect()
}
