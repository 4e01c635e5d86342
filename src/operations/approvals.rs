//! Policies, and requests for approval.

use super::write::checked;
use super::{Caller, Items, Operations};
use crate::catalog::{Command, Op, Outcome};
use crate::model::approval::{RequestDraft, RequestOp};
use crate::model::code::Refusal;
use crate::model::policy::PolicyDraft;

impl Operations {
    pub async fn policies(&self, caller: &Caller, op: Op, items: Items<PolicyDraft>) -> Result<Vec<Outcome>, Refusal> {
        let check = match op {
            Op::Create | Op::Update => PolicyDraft::check,
            Op::Delete => PolicyDraft::check_named,
        };
        self.write(caller, checked(items, check), |items| Command::Policies(op, items)).await
    }

    /// Approves, refuses, withdraws or runs requests.
    pub async fn requests(
        &self,
        caller: &Caller,
        op: RequestOp,
        items: Items<RequestDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        self.write(caller, checked(items, RequestDraft::check), |items| Command::Requests(op, items)).await
    }
}
