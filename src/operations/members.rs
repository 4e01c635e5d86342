//! Membership changes. Each one is recorded in the audit trail, whether it succeeds or not.

use super::{Caller, Operations};
use crate::model::code::{Code, Refusal};
use crate::model::host::is_host_and_port;
use crate::raft::MembershipChange;

impl Operations {
    pub async fn change_membership(&self, caller: &Caller, change: MembershipChange) -> Result<(), Refusal> {
        let (action, node_id) = match &change {
            MembershipChange::Add { node_id, peer } if *node_id == 0 || !is_host_and_port(peer) => {
                return Err(Refusal::new(Code::InvalidParameter, "id has to be above 0 and peer to be HOST:PORT"));
            }
            MembershipChange::Add { node_id, .. } => ("add", *node_id),
            MembershipChange::Promote { node_id } => ("promote", *node_id),
            MembershipChange::Remove { node_id } => ("remove", *node_id),
            MembershipChange::Transfer { node_id } => ("transfer", *node_id),
        };
        tracing::info!(?change, "membership change requested");
        let changed = self.node.member().change_membership(change).await.map_err(Refusal::from);
        let code = changed.as_ref().map_or_else(|refusal| refusal.code, |()| Code::ExecuteSuccess);
        self.note_done(caller, action, "member", &node_id.to_string(), code);
        changed
    }
}
