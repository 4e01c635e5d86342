//! Contracts: their administration, and the validation of files and rules.
//!
//! The node that receives a request validates it, after the caller is authorized and before anything is proposed. The
//! proposal is conditional on what was validated: on the content of a file, the revision of a rule, the release of a
//! promotion, and on the release in force if the contract compares with it. What cannot be validated is not published:
//! the caller gets the reason, and a rollout step is retried.
//!
//! Validation waits for a linearizable read, so it sees every acknowledged contract.

mod files;
mod rollouts;
mod rules;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::rounds::{Rounds, Slot};
use super::write::checked;
use super::{Caller, Items, Operations};
use crate::catalog::{Catalog, Command, Op, Outcome};
use crate::contracts::{Compiled, ValidationSubject, compile, compile_kept, judge};
use crate::model::code::Refusal;
use crate::model::contract::{Contract, ContractDraft, ContractMode, Violation};
use crate::model::release::Pin;

pub(super) use files::JudgedFile;
pub(super) use rules::written;
pub use trial::TrialDraft;

/// Limit for the memory of all compiled contracts, in bytes.
const ENGINES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Compiled contracts, the most recently used last.
#[derive(Default)]
pub(super) struct CompiledContracts(Mutex<VecDeque<Arc<Compiled>>>);

impl CompiledContracts {
    /// Returns the compiled contract from the cache, or compiles it and evicts the least recently used ones.
    fn of(&self, contract: &Arc<Contract>) -> Arc<Compiled> {
        let is_same = |kept: &Arc<Compiled>| kept.contract.revision == contract.revision;
        {
            let mut kept = self.0.lock();
            if let Some(found) = kept.iter().position(is_same).and_then(|at| kept.remove(at)) {
                kept.push_back(found.clone());
                return found;
            }
        }
        let made = Arc::new(compile_kept(contract.clone()));
        let mut kept = self.0.lock();
        kept.retain(|other| !is_same(other) && other.contract.name != contract.name);
        kept.push_back(made.clone());
        let mut weight = kept.iter().map(|compiled| compiled.weight).sum::<usize>();
        while weight > ENGINES_BYTES_MAX && kept.len() > 1 {
            weight -= kept.pop_front().map_or(0, |oldest| oldest.weight);
        }
        made
    }

    fn judge(&self, contracts: &[Arc<Contract>], subject: &ValidationSubject) -> Vec<Violation> {
        judge(contracts, &|contract| self.of(contract), subject)
    }
}

/// Result of validating something to be published.
#[derive(Default)]
pub(super) struct ContractVerdict {
    /// Violations that refuse the publication.
    refused: Vec<Violation>,
    pub(super) warnings: Vec<String>,
    /// Reason why it could not be validated.
    unjudged: Option<Refusal>,
}

impl ContractVerdict {
    pub(super) fn of_judgement(broken: Result<Vec<Violation>, Refusal>) -> ContractVerdict {
        match broken {
            Ok(broken) => ContractVerdict::of(broken),
            Err(refusal) => ContractVerdict { unjudged: Some(refusal), ..ContractVerdict::default() },
        }
    }

    pub(super) fn of(broken: Vec<Violation>) -> ContractVerdict {
        let (refused, warned): (Vec<_>, Vec<_>) =
            broken.into_iter().partition(|broken| broken.mode == ContractMode::Refuse);
        ContractVerdict { refused, warnings: warned.iter().map(Violation::text).collect(), unjudged: None }
    }

    pub(super) fn refusal(&self) -> Option<Outcome> {
        let unjudged = self.unjudged.clone().map(Outcome::from);
        unjudged.or_else(|| (!self.refused.is_empty()).then(|| Outcome::broken(&self.refused)))
    }
}

impl Operations {
    /// Proposes items that satisfy their contracts. Items that the caller may not write are not validated: apply
    /// refuses them, and the caller learns nothing here. Each proposal is conditional on the pin of `find`, and is
    /// validated again if overtaken.
    async fn publish_rounds<T: Clone, J: Send + 'static>(
        &self,
        caller: &Caller,
        items: Items<T>,
        find: impl Fn(&Catalog, &T, &Caller) -> Option<(Option<J>, Pin)>,
        pin: impl Fn(&mut T, Option<Pin>),
        verdict: impl Fn(J) -> ContractVerdict + Clone + Send + 'static,
        command: impl Fn(Vec<T>) -> Command,
    ) -> Result<Vec<Outcome>, Refusal> {
        let mut rounds = Rounds::new(items);
        while let Some(by) = rounds.next(self, caller).await? {
            let comes_again = !rounds.is_last();
            let judged: Vec<Option<J>> = {
                let catalog = self.node.state().catalog();
                let look = |slot: &mut Slot<T>| {
                    let item = slot.item.as_mut()?;
                    let (judged, found) = find(&catalog, item, &by).unzip();
                    slot.again = comes_again.then(|| item.clone());
                    pin(item, found.map(|found| Pin { comes_again, ..found }));
                    judged.flatten()
                };
                rounds.slots.iter_mut().map(look).collect()
            };
            for (slot, judged) in rounds.slots.iter_mut().zip(judged) {
                let Some(judged) = judged else { continue };
                let verdict = verdict.clone();
                slot.judge(self.on_turn(&self.turns.judgements, move || verdict(judged)).await?);
            }
            rounds.propose(self, caller, &command).await?;
        }
        Ok(rounds.finish(self).0)
    }

    /// Writes contracts. Refuses a schema or expression that does not compile, with the place of the error.
    pub async fn contracts(
        &self,
        caller: &Caller,
        op: Op,
        items: Items<ContractDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let check = match op {
            Op::Create => ContractDraft::check_new,
            Op::Update => ContractDraft::check,
            Op::Delete => ContractDraft::check_named,
        };
        let mut items = checked(items, check);
        let has_engine = |draft: &ContractDraft| draft.schema.is_some() || draft.rules.is_some();
        if op != Op::Delete && items.iter().flatten().any(has_engine) {
            let compiled = move |item: Result<ContractDraft, Refusal>| {
                let draft = item?;
                let mut contract = Contract::new(&draft.name);
                draft.lay_over(&mut contract);
                if has_engine(&draft) { compile(Arc::new(contract)).map(|_| draft) } else { Ok(draft) }
            };
            items = self.in_pieces(&self.turns.trials, items, compiled).await?;
        }
        self.write(caller, items, |items| Command::Contracts(op, items)).await
    }
}
