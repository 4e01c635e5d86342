//! Answers to writes: the outcome of each item.

use axum::response::Response;

use super::app::App;
use super::envelope::{self, Item};
use crate::catalog::Outcome;
use crate::operations::WithSecret;

/// Joins the warnings of each item with further ones.
pub(crate) fn joined(warnings: Vec<Vec<String>>, beside: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let count = warnings.len().max(beside.len());
    let filled = |lists: Vec<Vec<String>>| lists.into_iter().chain(std::iter::repeat_with(Vec::new));
    filled(warnings).zip(filled(beside)).take(count).map(|(own, beside)| [own, beside].concat()).collect()
}

/// Returns the envelope of a batch, with the warnings of its items.
pub(crate) fn batch(app: &App, outcomes: Vec<Outcome>, warnings: Vec<Vec<String>>) -> Response {
    envelope::batch(&items(app, outcomes, warnings))
}

/// Returns the envelope of a batch for an array, else the answer of the single object.
pub(crate) fn one_or_batch(app: &App, outcomes: Vec<Outcome>, warnings: Vec<Vec<String>>, is_single: bool) -> Response {
    envelope::one_or_batch(is_single, &items(app, outcomes, warnings))
}

/// Returns the envelope of a batch, with the secrets generated for its items: they are returned only once.
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
