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
mod rounds;
mod rules;
#[cfg(test)]
mod tests;
mod trial;

use std::sync::Arc;

use parking_lot::Mutex;

use super::write::checked;
use super::{Caller, Items, Operations};
use crate::catalog::{Command, Entity, Op, Outcome};
use crate::contracts::{Compiled, ValidationSubject, compile, compile_kept, judge};
use crate::model::code::Refusal;
use crate::model::contract::{Broken, Contract, ContractDraft, ContractMode};

pub(super) use files::JudgedFile;
pub(super) use rules::written;
pub use trial::TrialDraft;

/// Limit for the memory of all compiled contracts, in bytes.
const ENGINES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Compiled contracts, the most recently used last.
#[derive(Default)]
pub(super) struct CompiledContracts(Mutex<Vec<Arc<Compiled>>>);

impl CompiledContracts {
    /// Returns the compiled contract from the cache, or compiles it and evicts the least recently used ones.
    fn of(&self, contract: &Arc<Contract>) -> Arc<Compiled> {
        let is_same = |kept: &Arc<Compiled>| kept.contract.revision == contract.revision;
        {
            let mut kept = self.0.lock();
            if let Some(at) = kept.iter().position(is_same) {
                let found = kept.remove(at);
                kept.push(found.clone());
                return found;
            }
        }
        let made = Arc::new(compile_kept(contract.clone()));
        let mut kept = self.0.lock();
        kept.retain(|other| !is_same(other) && other.contract.name != contract.name);
        kept.push(made.clone());
        let mut weight = kept.iter().map(|compiled| compiled.weight).sum::<usize>();
        while weight > ENGINES_BYTES_MAX && kept.len() > 1 {
            weight -= kept.remove(0).weight;
        }
        made
    }

    fn judge(&self, contracts: &[Arc<Contract>], subject: &ValidationSubject) -> Vec<Broken> {
        judge(contracts, &|contract| self.of(contract), subject)
    }
}

/// Result of validating something to be published.
#[derive(Default)]
pub(super) struct ContractVerdict {
    /// Violations that refuse the publication.
    refused: Vec<Broken>,
    pub(super) warnings: Vec<String>,
    /// Reason why it could not be validated.
    unjudged: Option<Refusal>,
}

impl ContractVerdict {
    pub(super) fn of_judgement(broken: Result<Vec<Broken>, Refusal>) -> ContractVerdict {
        match broken {
            Ok(broken) => ContractVerdict::of(broken),
            Err(refusal) => ContractVerdict { unjudged: Some(refusal), ..ContractVerdict::default() },
        }
    }

    pub(super) fn of(broken: Vec<Broken>) -> ContractVerdict {
        let (refused, warned): (Vec<_>, Vec<_>) =
            broken.into_iter().partition(|broken| broken.mode == ContractMode::Refuse);
        ContractVerdict { refused, warnings: warned.iter().map(Broken::text).collect(), unjudged: None }
    }

    pub(super) fn refusal(&self) -> Option<Outcome> {
        let unjudged = self.unjudged.clone().map(Outcome::from);
        unjudged.or_else(|| (!self.refused.is_empty()).then(|| Outcome::broken(&self.refused)))
    }
}

/// Items without those that a contract refuses, and the outcomes of the refused ones.
struct Screened<T> {
    items: Items<T>,
    refused: Vec<Option<Outcome>>,
}

impl<T> Screened<T> {
    fn new(items: Items<T>, verdicts: Vec<ContractVerdict>) -> Screened<T> {
        let mut sifted = Screened { items: Vec::new(), refused: Vec::new() };
        for (item, verdict) in items.into_iter().zip(verdicts) {
            let refusal = verdict.refusal();
            sifted.items.push(match &refusal {
                Some(outcome) => Err(Refusal::new(outcome.code, outcome.detail.clone())),
                None => item,
            });
            sifted.refused.push(refusal);
        }
        sifted
    }
}

/// Adds to each outcome the places at which contracts are broken.
fn with_places(mut outcomes: Vec<Outcome>, refused: Vec<Option<Outcome>>) -> Vec<Outcome> {
    for (outcome, refused) in outcomes.iter_mut().zip(refused) {
        if let Some(Outcome { entity: entity @ Entity::Broken(_), .. }) = refused {
            outcome.entity = entity;
        }
    }
    outcomes
}

impl Operations {
    /// Returns the verdict of each item. Items that no contract binds do not wait for a turn.
    async fn verdicts<T: Send + 'static>(
        &self,
        judged: Vec<Option<T>>,
        verdict: impl Fn(T) -> ContractVerdict + Clone + Send + 'static,
    ) -> Result<Vec<ContractVerdict>, Refusal> {
        let mut verdicts = Vec::with_capacity(judged.len());
        for judged in judged {
            let verdict = verdict.clone();
            verdicts.push(match judged {
                Some(judged) => self.on_turn(&self.turns.judgements, move || verdict(judged)).await?,
                None => ContractVerdict::default(),
            });
        }
        Ok(verdicts)
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
