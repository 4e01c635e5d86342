//! `/naming/v1/{kind}`: rules and their releases, for all families; the family comes from the route.

pub(crate) mod docs;
pub(crate) mod drafts;
pub(crate) mod explain;
pub(crate) mod releases;

use super::http::{App, Caller};
use crate::catalog::Outcome;
use crate::operations::{RuleAdvice, XdsWarnings};

/// Appends to the warnings of each item its probable mistakes, the contracts that it violates, and the parts that xDS
/// clients do not implement.
async fn with_advice(
    app: &App,
    caller: &Caller,
    outcomes: &[Outcome],
    (warnings, due): (Vec<Vec<String>>, XdsWarnings),
) -> Vec<Vec<String>> {
    let mut all = app.operations.advice(caller, outcomes, due).await;
    all.resize_with(outcomes.len(), RuleAdvice::default);
    let own = warnings.into_iter().chain(std::iter::repeat_with(Vec::new));
    let joined = |(advice, own): (RuleAdvice, Vec<String>)| {
        let RuleAdvice { mistakes, broken, not_carried } = advice;
        [own, mistakes, broken, not_carried].concat()
    };
    all.into_iter().zip(own).map(joined).collect()
}
