//! Parts of what a client says of itself that are kept: little, whatever it says.

use crate::model::limits;

/// As much of a text as is kept.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The labels of a client that are kept: the first ones, each cut, as many as fit.
pub(super) fn kept(labels: &[(String, String)]) -> Box<[(String, String)]> {
    let mut room = limits::SUBSCRIPTION_LABELS_BYTES_MAX;
    let fitting = labels.iter().take(limits::SUBSCRIPTION_LABELS_MAX).map_while(|(key, value)| {
        let [key, value] = [key, value].map(|text| cut(text, limits::SUBSCRIPTION_LABEL_BYTES_MAX));
        room = room.checked_sub(key.len() + value.len())?;
        Some((key.to_owned(), value.to_owned()))
    });
    fitting.collect()
}
