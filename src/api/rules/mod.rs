//! `/naming/v1/{kind}`: rules and their releases, once for all families; which one a request is about comes with the
//! route.

pub(crate) mod docs;
pub(crate) mod documents;
pub(crate) mod drafts;
pub(crate) mod explain;
pub(crate) mod releases;
pub(crate) mod upstream;

use super::http::{App, Caller};
use crate::catalog::Outcome;
use crate::operations::{RuleAdvice, XdsWarnings};

/// The warnings of the items of a write of rules: behind their own the contracts that each breaks, and what clients of
/// xDS do not carry out of it.
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
