//! Password reset of a stopped node. The rows of one node are never edited by hand, so the reset is left as an order in
//! the data directory and goes through the log like any other change.
//!
//! The order names the password that it replaces. So it takes effect once, however often a crash has it
//! repeated, and never undoes a change that was made after it was given.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalog::{Command, Op, Outcome};
use crate::model::access::{CLUSTER, PasswordHash, UserDraft};
use crate::model::code::Code;
use crate::raft::node::Node;

/// Between two looks whether it can be done by now.
const ROUND: Duration = Duration::from_millis(200);

/// Order that `thuban reset-password` leaves in the data directory; hashes only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordReset {
    pub name: String,
    pub password_hash: PasswordHash,
    /// Password hash that the data directory had for the user.
    pub replaces: PasswordHash,
}

/// Has the order in the directory done, if there is one; ends when there is none any more.
pub(super) async fn carry_out(node: Node) {
    let order = match node.store().order() {
        Ok(Some(order)) => order,
        Ok(None) => return,
        Err(error) => return tracing::error!(%error, "the order in the data directory could not be read"),
    };
    match serde_json::from_slice::<PasswordReset>(&order) {
        Ok(reset) => {
            while !is_settled(&node, &reset).await {
                tokio::time::sleep(ROUND).await;
            }
        }
        Err(error) => tracing::error!(%error, "the order in the data directory is damaged, nothing was done"),
    }
    if let Err(error) = node.store().forget_order() {
        tracing::error!(%error, "the order in the data directory could not be removed");
    }
}

/// Done, or found to be no longer what was meant. Without a leader it waits.
async fn is_settled(node: &Node, reset: &PasswordReset) -> bool {
    if !node.has_caught_up() || node.leader().is_none() {
        return false;
    }
    let PasswordReset { name, password_hash, replaces } = reset.clone();
    let command = Command::ChangePassword { name, password_hash: password_hash.clone(), replaces: Some(replaces) };
    let user = || node.state().catalog().access.user_named(&reset.name);
    let is_new = || user().is_some_and(|user| user.password_hash == password_hash);
    let mut why = String::new();
    // It may have been done before a crash that kept the order.
    if !is_new() {
        let Some(outcome) = first(node, command).await else { return false };
        why = outcome.info();
    }
    let is_new = is_new();
    match user() {
        Some(user) if is_new && user.disabled => {
            let draft = UserDraft { name: user.name.clone(), disabled: Some(false), ..UserDraft::default() };
            if first(node, Command::Users(Op::Update, vec![draft])).await.is_none() {
                return false;
            }
            tracing::warn!(user = reset.name, "the password was reset, and the user enabled");
        }
        Some(_) if is_new => tracing::warn!(user = reset.name, "the password was reset"),
        Some(_) => tracing::error!(
            user = reset.name,
            why,
            "the password was not reset: it was changed after this node was stopped"
        ),
        None => tracing::error!(user = reset.name, "the password was not reset: the user is gone"),
    }
    true
}

/// Nothing where it could not be proposed, or not now.
async fn first(node: &Node, command: Command) -> Option<Outcome> {
    match node.propose(CLUSTER, command).await {
        Ok(outcomes) => Some(outcomes.into_iter().next().unwrap_or_else(|| Code::ExecuteException.into())),
        Err(error) => {
            tracing::debug!(%error, "the password could not be reset yet");
            None
        }
    }
}
