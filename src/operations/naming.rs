//! Names that contain other resources: namespaces, config groups, service aliases.

use super::write::{checked, made};
use super::{Caller, Items, Operations};
use crate::catalog::{Command, Op, Outcome};
use crate::model::alias::AliasDraft;
use crate::model::code::Refusal;
use crate::model::config_file::ConfigGroupDraft;
use crate::model::name;
use crate::model::namespace::NamespaceDraft;

impl Operations {
    pub async fn namespaces(
        &self,
        caller: &Caller,
        op: Op,
        items: Items<NamespaceDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let items = match op {
            Op::Create | Op::Update => checked(items, NamespaceDraft::check),
            Op::Delete => checked(items, |draft| name::check_namespace(&draft.name)),
        };
        self.write(caller, items, |items| Command::Namespaces(op, items)).await
    }

    pub async fn config_groups(
        &self,
        caller: &Caller,
        op: Op,
        items: Items<ConfigGroupDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        self.write(caller, checked(items, ConfigGroupDraft::check), |items| Command::ConfigGroups(op, items)).await
    }

    pub async fn aliases(&self, caller: &Caller, op: Op, items: Items<AliasDraft>) -> Result<Vec<Outcome>, Refusal> {
        let items = match op {
            Op::Create => checked(made(items, |draft| Ok(draft.named_alike())), AliasDraft::check_new),
            Op::Update => checked(items, AliasDraft::check_update),
            Op::Delete => checked(items, AliasDraft::check_named),
        };
        self.write(caller, items, |items| Command::Aliases(op, items)).await
    }
}
