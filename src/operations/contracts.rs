//! Contracts: how they are written, and what they say of what is saved and published.

use super::write::checked;
use super::{Caller, Items, Operations};
use crate::catalog::{Command, Op, Outcome};
use crate::model::code::Refusal;
use crate::model::contract::ContractDraft;

impl Operations {
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
        self.write(caller, checked(items, check), |items| Command::Contracts(op, items)).await
    }
}
