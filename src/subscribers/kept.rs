//! Limits on the texts of a client that are stored.

use crate::model::limits;

/// Returns the longest prefix of `text` with at most this many bytes that ends at a character boundary.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the labels to store: the first ones, each truncated, as many as fit.
pub(super) fn kept(labels: &[(String, String)]) -> Box<[(String, String)]> {
    let mut room = limits::SUBSCRIPTION_LABELS_BYTES_MAX;
    let fitting = labels.iter().take(limits::SUBSCRIPTION_LABELS_MAX).map_while(|(key, value)| {
        let [key, value] = [key, value].map(|text| cut(text, limits::SUBSCRIPTION_LABEL_BYTES_MAX));
        room = room.checked_sub(key.len() + value.len())?;
        Some((key.to_owned(), value.to_owned()))
    });
    fitting.collect()
}
