//! Languages of the sentences.

/// Language of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    Chinese,
}
