//! `/naming/v1/{kind}`: rules and their releases, for all families; the family comes from the route.

pub(crate) mod docs;
pub(crate) mod documents;
pub(crate) mod drafts;
pub(crate) mod explain;
pub(crate) mod releases;
pub(crate) mod upstream;

use super::http::{App, Caller};
use crate::catalog::Outcome;
use crate::operations::{RuleAdvice, XdsWarnings};

/// Appends to the warnings of each item the contracts that it violates, and the parts that xDS clients do not
/// implement.
async fn with_advice(
    app: &App,
    caller: &Caller,
    outcomes: &[Outcome],
    (warnings, due): (Vec<Vec<String>>, XdsWarnings),
) -> Vec<Vec<String>> {
    let mut all = app.operations.advice(caller, outcomes, due).await;
    all.resize_with(outcomes.len(), RuleAdvice::default);
    let own = warnings.into_iter().chain(std::iter::repeat_with(Vec::new));
    all.into_iter().zip(own).map(|(advice, own)| [own, advice.broken, advice.not_carried].concat()).collect()
}
