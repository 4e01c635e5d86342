//! Writes: a batch of items becomes one command, and the answer has one outcome per item.

use super::{Caller, Operations};
use crate::catalog::{AuthorizedCommand, Command, Outcome};
use crate::model::access_key::ClearSecret;
use crate::model::code::{Code, Refusal};

/// Items of a write as the API parsed them: each a draft, or the reason why it could not be read.
pub type Items<T> = Vec<Result<T, Refusal>>;

/// Outcome of an item, and its generated secret, which is returned once.
pub type WithSecret = (Outcome, Option<String>);

/// Outcomes of items, and the warnings of each.
pub type WithWarnings = (Vec<Outcome>, Vec<Vec<String>>);

/// Returns the outcome of the only item, or its refusal.
pub fn one(outcomes: Result<Vec<Outcome>, Refusal>) -> Result<Outcome, Refusal> {
    let outcome = outcomes?.into_iter().next().ok_or(Code::ExecuteException)?;
    if outcome.code.is_success() { Ok(outcome) } else { Err(Refusal::new(outcome.code, outcome.detail)) }
}

/// Returns the secret of the only item, or its refusal.
pub fn one_drawn(made: Result<Vec<WithSecret>, Refusal>) -> Result<Option<String>, Refusal> {
    let (outcomes, secrets): (Vec<_>, Vec<_>) = made?.into_iter().unzip();
    one(Ok(outcomes)).map(|_| secrets.into_iter().next().flatten())
}

/// Replaces items that `check` refuses by their refusal.
pub(crate) fn checked<T>(items: Items<T>, check: impl Fn(&T) -> Result<(), Refusal>) -> Items<T> {
    made(items, |item| check(&item).map(|()| item))
}

/// Applies `make` to each item.
pub(crate) fn made<T, U>(items: Items<T>, make: impl Fn(T) -> Result<U, Refusal>) -> Items<U> {
    items.into_iter().map(|item| item.and_then(&make)).collect()
}

impl Operations {
    /// Proposes the acceptable items as one command. Returns an outcome per item, in the order of the batch.
    pub async fn write<T>(
        &self,
        caller: &Caller,
        items: Items<T>,
        command: impl FnOnce(Vec<T>) -> Command,
    ) -> Result<Vec<Outcome>, Refusal> {
        self.carry_out(caller, items, command, false).await
    }

    /// Writes items like [`Self::write`], for an instance that registers itself.
    pub async fn write_of_itself<T>(
        &self,
        caller: &Caller,
        items: Items<T>,
        command: impl FnOnce(Vec<T>) -> Command,
    ) -> Result<Vec<Outcome>, Refusal> {
        self.carry_out(caller, items, command, true).await
    }

    /// Writes items like [`Self::write`], and returns their secrets, once.
    pub(super) async fn write_with_secrets<T>(
        &self,
        caller: &Caller,
        items: Items<(T, Option<ClearSecret>)>,
        command: impl FnOnce(Vec<T>) -> Command,
    ) -> Result<Vec<WithSecret>, Refusal> {
        let mut secrets = Vec::with_capacity(items.len());
        let mut drafts = Vec::with_capacity(items.len());
        for item in items {
            let (draft, secret) =
                item.map_or_else(|refusal| (Err(refusal), None), |(draft, secret)| (Ok(draft), secret));
            drafts.push(draft);
            secrets.push(secret.map(|secret| secret.expose().to_owned()));
        }
        let outcomes = self.write(caller, drafts, command).await?;
        Ok(outcomes.into_iter().zip(secrets).collect())
    }

    async fn carry_out<T>(
        &self,
        caller: &Caller,
        items: Items<T>,
        command: impl FnOnce(Vec<T>) -> Command,
        self_registration: bool,
    ) -> Result<Vec<Outcome>, Refusal> {
        let (accepted, parted) = SplitBatch::of(items);
        let mut applied = Vec::new();
        if !accepted.is_empty() {
            let asked = AuthorizedCommand { self_registration, ..caller.asks(command(accepted)) };
            applied = self.ask(&caller.name, asked).await?;
        }
        let outcomes = parted.whole(applied);
        self.count(&outcomes);
        Ok(outcomes)
    }

    pub(super) fn count(&self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let code = outcome.code.number().to_string();
            self.node.metrics().outcomes.with_label_values(&[&code]).inc();
        }
    }
}

/// Outcomes of a batch. Those of the refused items are in place from the start.
struct SplitBatch {
    /// Position in the batch of each accepted item.
    positions: Vec<usize>,
    outcomes: Vec<Outcome>,
}

impl SplitBatch {
    /// Splits the items into those to be proposed and those already refused.
    fn of<T>(items: Items<T>) -> (Vec<T>, SplitBatch) {
        let count = items.len();
        let mut accepted = Vec::with_capacity(count);
        let mut parted = SplitBatch { positions: Vec::with_capacity(count), outcomes: Vec::with_capacity(count) };
        for (position, item) in items.into_iter().enumerate() {
            match item {
                Ok(item) => {
                    parted.positions.push(position);
                    accepted.push(item);
                    parted.outcomes.push(Outcome::default());
                }
                Err(refusal) => parted.outcomes.push(refusal.into()),
            }
        }
        (accepted, parted)
    }

    /// Returns an outcome per item in the order of the batch; those of accepted items are from the catalog.
    fn whole(mut self, applied: Vec<Outcome>) -> Vec<Outcome> {
        for (position, outcome) in self.positions.into_iter().zip(applied) {
            self.outcomes[position] = outcome;
        }
        self.outcomes
    }
}
