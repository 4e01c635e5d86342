//! Contracts: how they are written, and what they say of what is saved and published.
//!
//! They are judged by the node that takes a request, after it is known that the caller may do it and before anything is
//! proposed. What was judged is what is published: a file is proposed for its content alone, a rule for its revision,
//! a promotion for its release, and each beside what was in force where that is compared. What cannot be judged is not
//! published: the caller is told why, and a step of a rollout is tried again.
//!
//! Judgements wait until this node knows what the cluster had acknowledged, contracts among it.

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

/// Bytes of memory that compiled contracts take together.
const ENGINES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Compiled contracts by their revision, the one that was used last at the end.
#[derive(Default)]
pub(super) struct CompiledContracts(Mutex<Vec<Arc<Compiled>>>);

impl CompiledContracts {
    /// Compiled once, as long as there is room for it.
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

/// Judgement of something that is to be published.
#[derive(Default)]
pub(super) struct ContractVerdict {
    /// Refuses it, if not empty.
    refused: Vec<Broken>,
    pub(super) warnings: Vec<String>,
    /// Reason why it could not be judged.
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

/// Items without those that a contract refuses, whose outcomes stand aside until the others have theirs.
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

/// Outcomes with the places at which contracts are broken.
fn with_places(mut outcomes: Vec<Outcome>, refused: Vec<Option<Outcome>>) -> Vec<Outcome> {
    for (outcome, refused) in outcomes.iter_mut().zip(refused) {
        if let Some(Outcome { entity: entity @ Entity::Broken(_), .. }) = refused {
            outcome.entity = entity;
        }
    }
    outcomes
}

impl Operations {
    /// Verdict of each; what no contract binds waits for nobody.
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

    /// Writes contracts that can be read: what is wrong with a schema or an expression is told with its place.
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
