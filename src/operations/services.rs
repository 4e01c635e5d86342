//! Services and their instances, as administered through the API.

use super::write::checked;
use super::{Caller, Items, Operations};
use crate::catalog::{Catalog, Command, Op, Outcome};
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
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

    /// Returns the ids of instances that expect heartbeats from the caller, or the reason of a refusal. An instance
    /// that was just registered through another node may be unknown here, so a linearizable read decides.
    pub async fn expecting_beats(
        &self,
        caller: &Caller,
        named: Vec<Result<String, Refusal>>,
    ) -> Result<Vec<Result<String, Refusal>>, Refusal> {
        let first_look = {
            let catalog = self.node.state().catalog();
            named.iter().flatten().all(|id| expects_beats(&catalog, caller, id).is_ok())
        };
        if first_look {
            return Ok(named);
        }
        self.node.await_linearizable().await?;
        let catalog = self.node.state().catalog();
        let look = |id: String| expects_beats(&catalog, caller, &id).map(|()| id);
        Ok(named.into_iter().map(|named| named.and_then(look)).collect())
    }
}

/// Refuses an instance without health checks, an unknown one, or one that the caller may not register.
fn expects_beats(catalog: &Catalog, caller: &Caller, id: &str) -> Result<(), Refusal> {
    match catalog.instances.get(id) {
        Some(instance) if caller.grants.may(Verb::Register, &instance.namespace, &instance.service) => {
            instance.heartbeat_ttl.map(drop).ok_or_else(|| Code::HealthCheckNotOpen.into())
        }
        _ => Err(Code::NotFoundResource.into()),
    }
}
