//! Limits on the texts of a client that are stored.

use crate::model::limits;
use crate::model::text::first_bytes;

/// Returns the labels of a list in the form of a map's.
pub(super) fn pairs(labels: &[(String, String)]) -> impl Iterator<Item = (&String, &String)> {
    labels.iter().map(|(key, value)| (key, value))
}

/// Returns the labels that fit: the first ones, each truncated.
fn fitting<'a>(labels: impl Iterator<Item = (&'a String, &'a String)>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut room = limits::SUBSCRIPTION_LABELS_BYTES_MAX;
    labels.take(limits::SUBSCRIPTION_LABELS_MAX).map_while(move |(key, value)| {
        let [key, value] = [key, value].map(|text| first_bytes(text, limits::SUBSCRIPTION_LABEL_BYTES_MAX));
        room = room.checked_sub(key.len() + value.len())?;
        Some((key, value))
    })
}

/// Returns the labels to store.
pub(super) fn kept<'a>(labels: impl Iterator<Item = (&'a String, &'a String)>) -> Box<[(String, String)]> {
    fitting(labels).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Reports whether `stored` is what [`kept`] returns.
pub(super) fn are_kept<'a>(
    labels: impl Iterator<Item = (&'a String, &'a String)>,
    stored: &[(String, String)],
) -> bool {
    let mut stored = stored.iter();
    let is_next = |label| stored.next().is_some_and(|(key, value)| label == (key.as_str(), value.as_str()));
    fitting(labels).all(is_next) && stored.next().is_none()
}
