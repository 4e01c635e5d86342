//! Services and their instances, as administered through the API.

use super::write::checked;
use super::{Caller, Items, Operations};
use crate::catalog::{Command, Op, Outcome};
use crate::model::code::Refusal;
use crate::model::instance::InstanceDraft;
use crate::model::service::ServiceDraft;

impl Operations {
    pub async fn services(&self, caller: &Caller, op: Op, items: Items<ServiceDraft>) -> Result<Vec<Outcome>, Refusal> {
        let check = match op {
            Op::Create => ServiceDraft::check_new,
            Op::Update => ServiceDraft::check,
            Op::Delete => ServiceDraft::check_name,
        };
        self.write(caller, checked(items, check), |items| Command::Services(op, items)).await
    }

    pub async fn instances(
        &self,
        caller: &Caller,
        op: Op,
        items: Items<InstanceDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let check = match op {
            Op::Create => InstanceDraft::check_new,
            Op::Update => InstanceDraft::check_update,
            Op::Delete => InstanceDraft::check_named,
        };
        self.write(caller, checked(items, check), |items| Command::Instances(op, items)).await
    }
}
