//! Rounds of a batch that is published. The node validates what it sees, and proposes it on the condition that this is
//! unchanged. If it has changed meanwhile, apply reports it and the node tries again.

use super::contracts::ContractVerdict;
use super::write::{Items, WithWarnings};
use super::{Caller, Operations};
use crate::catalog::{Command, Outcome};
use crate::model::code::Refusal;
use crate::model::limits;

/// An item of a batch, from its first round to its outcome.
pub(super) struct Slot<T> {
    /// The item, until it is refused or proposed.
    pub(super) item: Option<T>,
    /// A copy for the next round, in case what it depends on is changed before this one is applied.
    pub(super) again: Option<T>,
    outcome: Outcome,
    pub(super) warnings: Vec<String>,
}

impl<T> Slot<T> {
    fn new(item: Result<T, Refusal>) -> Self {
        let mut slot = Slot { item: None, again: None, outcome: Outcome::default(), warnings: Vec::new() };
        slot.take(item);
        slot
    }

    fn take(&mut self, item: Result<T, Refusal>) {
        match item {
            Ok(item) => self.item = Some(item),
            Err(refusal) => self.refuse(refusal.into()),
        }
    }

    fn refuse(&mut self, outcome: Outcome) {
        (self.item, self.outcome) = (None, outcome);
    }

    /// Applies a step of a round to the item, unless it was refused before.
    pub(super) fn step(&mut self, step: impl FnOnce(T) -> Result<T, Refusal>) {
        if let Some(item) = self.item.take() {
            self.take(step(item));
        }
    }

    /// Adds the warnings of a verdict, and refuses the item if the verdict does.
    pub(super) fn judge(&mut self, verdict: ContractVerdict) {
        if let Some(outcome) = verdict.refusal() {
            self.refuse(outcome);
        }
        self.warnings.extend(verdict.warnings);
    }
}

/// A batch, from its first round to its outcomes.
pub(super) struct Rounds<T> {
    pub(super) slots: Vec<Slot<T>>,
    round: usize,
}

impl<T> Rounds<T> {
    pub(super) fn new(items: Items<T>) -> Rounds<T> {
        Rounds { slots: items.into_iter().map(Slot::new).collect(), round: 0 }
    }

    /// Reports whether the current round is the last one.
    pub(super) fn is_last(&self) -> bool {
        self.round >= limits::PUBLISH_ROUNDS_MAX
    }

    /// Begins a round after a linearizable read: contracts acknowledged by another node must bind here as well. Returns
    /// the caller with its present grants, or `None` once each item has its outcome.
    pub(super) async fn next(&mut self, operations: &Operations, caller: &Caller) -> Result<Option<Caller>, Refusal> {
        if self.is_last() || self.slots.iter().all(|slot| slot.item.is_none()) {
            return Ok(None);
        }
        self.round += 1;
        operations.node.await_linearizable().await?;
        caller.again(operations).map(Some)
    }

    /// Proposes the items that are not refused. Overtaken items that have a copy take part in the next round.
    pub(super) async fn propose(
        &mut self,
        operations: &Operations,
        caller: &Caller,
        command: impl FnOnce(Vec<T>) -> Command,
    ) -> Result<(), Refusal> {
        let mut proposed: Vec<&mut Slot<T>> = self.slots.iter_mut().filter(|slot| slot.item.is_some()).collect();
        if proposed.is_empty() {
            return Ok(());
        }
        let accepted = proposed.iter_mut().filter_map(|slot| slot.item.take()).collect();
        let applied = operations.ask(&caller.name, caller.asks(command(accepted))).await?;
        for (slot, outcome) in proposed.into_iter().zip(applied) {
            slot.item = slot.again.take().filter(|_| outcome.overtaken);
            slot.outcome = outcome;
        }
        Ok(())
    }

    /// Returns the outcomes and warnings, and counts the outcomes.
    pub(super) fn finish(self, operations: &Operations) -> WithWarnings {
        let (outcomes, warnings): WithWarnings =
            self.slots.into_iter().map(|slot| (slot.outcome, slot.warnings)).unzip();
        operations.count(&outcomes);
        (outcomes, warnings)
    }
}
