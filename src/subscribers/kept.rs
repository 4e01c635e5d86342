//! Limits on the texts of a client that are stored.

use crate::model::limits;
use crate::model::text::first_bytes;

/// Returns the labels to store: the first ones, each truncated, as many as fit.
pub(super) fn kept(labels: &[(String, String)]) -> Box<[(String, String)]> {
    let mut room = limits::SUBSCRIPTION_LABELS_BYTES_MAX;
    let fitting = labels.iter().take(limits::SUBSCRIPTION_LABELS_MAX).map_while(|(key, value)| {
        let [key, value] = [key, value].map(|text| first_bytes(text, limits::SUBSCRIPTION_LABEL_BYTES_MAX));
        room = room.checked_sub(key.len() + value.len())?;
        Some((key.to_owned(), value.to_owned()))
    });
    fitting.collect()
}
