//! Labels that clients have, as the form of a release offers them.

use std::collections::BTreeMap;

const KEYS_MAX: usize = 50;
const VALUES_MAX: usize = 200;
/// Maximum length of an offered name or value.
const CHARS_MAX: usize = 128;

/// Names and values of labels, each with the number of its clients, the most frequent first.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ClientLabels {
    pub(super) keys: Vec<(String, usize)>,
    /// Values with the names of their labels.
    pub(super) values: Vec<(String, String, usize)>,
}

impl ClientLabels {
    /// Counts the labels of clients.
    pub(super) fn of<'a>(clients: impl Iterator<Item = &'a [(String, String)]>) -> ClientLabels {
        let mut tally: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new(); // bound: request
        for (key, value) in clients.flatten() {
            if !key.is_empty() && key.chars().count() <= CHARS_MAX && value.chars().count() <= CHARS_MAX {
                *tally.entry(key).or_default().entry(value).or_default() += 1;
            }
        }
        let mut keys: Vec<_> =
            tally.iter().map(|(key, values)| ((*key).to_owned(), values.values().sum::<usize>())).collect();
        keys.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
        keys.truncate(KEYS_MAX);
        let offered = |key: &str| keys.iter().any(|(offered, _)| offered == key);
        let values = tally.iter().filter(|(key, _)| offered(key));
        let mut values: Vec<_> =
            values.flat_map(|(key, values)| values.iter().map(|(value, number)| (*value, *key, *number))).collect();
        values.sort_by(|one, other| (other.2, one.1, one.0).cmp(&(one.2, other.1, other.0)));
        values.truncate(VALUES_MAX);
        let values = values.into_iter().map(|(value, key, number)| (value.to_owned(), key.to_owned(), number));
        ClientLabels { values: values.collect(), keys }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_labels_are_offered_and_no_more_than_a_bound() {
        let pair = |key: &str, value: String| (key.to_owned(), value);
        let clients: Vec<Vec<(String, String)>> = (0..500)
            .map(|number| {
                let zone = if number % 5 == 0 { "a" } else { "b" };
                vec![pair("CLIENT_IP", format!("10.0.0.{number}")), pair("zone", zone.to_owned())]
            })
            .chain([vec![pair("zone", "x".repeat(CHARS_MAX + 1)), pair("", "y".to_owned())]])
            .collect();
        let offered = ClientLabels::of(clients.iter().map(Vec::as_slice));
        assert_eq!(offered.keys, [("CLIENT_IP".to_owned(), 500), ("zone".to_owned(), 500)]);
        let first: Vec<_> = offered.values.iter().take(2).map(|(value, _, number)| (value.as_str(), *number)).collect();
        assert_eq!((first, offered.values.len()), (vec![("b", 400), ("a", 100)], VALUES_MAX));
        assert_eq!(ClientLabels::of([].into_iter()), ClientLabels::default());
    }
}
