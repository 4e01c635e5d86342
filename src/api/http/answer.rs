//! Answers to writes: the outcome of each item, once the operation has done them.

use axum::response::Response;

use super::app::App;
use super::envelope::{self, Item};
use crate::catalog::Outcome;
use crate::operations::WithSecret;

/// The warnings of each item, and those that are said beside.
pub(crate) fn joined(warnings: Vec<Vec<String>>, beside: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let count = warnings.len().max(beside.len());
    let filled = |lists: Vec<Vec<String>>| lists.into_iter().chain(std::iter::repeat_with(Vec::new));
    filled(warnings).zip(filled(beside)).take(count).map(|(own, beside)| [own, beside].concat()).collect()
}

/// The envelope of a batch, with the warnings of its items; an item without any has none.
pub(crate) fn batch(app: &App, outcomes: Vec<Outcome>, warnings: Vec<Vec<String>>) -> Response {
    envelope::batch(&items(app, outcomes, warnings))
}

/// The same for an array; for a single object the answer of that one.
pub(crate) fn one_or_batch(app: &App, outcomes: Vec<Outcome>, warnings: Vec<Vec<String>>, is_single: bool) -> Response {
    envelope::one_or_batch(is_single, &items(app, outcomes, warnings))
}

/// The envelope of a batch, with the secrets that were drawn for its items: they are told once.
pub(crate) fn batch_with_secrets(app: &App, outcomes: Vec<WithSecret>) -> Response {
    let (outcomes, secrets): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
    let items = items(app, outcomes, Vec::new()).into_iter().zip(secrets);
    let items: Vec<_> = items.map(|(item, secret)| item.with_secret(secret)).collect();
    envelope::batch(&items)
}

fn items(app: &App, outcomes: Vec<Outcome>, warnings: Vec<Vec<String>>) -> Vec<Item> {
    let mut warnings = warnings.into_iter();
    let catalog = app.node().state().catalog();
    let item = |outcome| Item::new(outcome, &catalog).with_warnings(warnings.next().unwrap_or_default());
    outcomes.into_iter().map(item).collect()
}
