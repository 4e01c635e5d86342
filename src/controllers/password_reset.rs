//! Password reset on a stopped node. The rows of one node are never edited directly, so the reset is left as an order
//! in the data directory and goes through the log like any other change.
//!
//! The order has the hash of the password that it replaces. So it takes effect once, however often a crash repeats it,
//! and never undoes a later change.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalog::{Command, Op, Outcome};
use crate::model::access::{CLUSTER, PasswordHash, UserDraft};
use crate::model::code::Code;
use crate::raft::node::Node;

/// Pause between two attempts.
const ROUND: Duration = Duration::from_millis(200);

/// Order that `thuban reset-password` leaves in the data directory; hashes only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordReset {
    pub name: String,
    pub password_hash: PasswordHash,
    /// Hash of the password in the data directory when the order was made.
    pub replaces: PasswordHash,
}

/// Executes the order in the directory, if there is one; returns once there is none.
pub(super) async fn carry_out(node: Node) {
    let order = match node.store().order() {
        Ok(Some(order)) => order,
        Ok(None) => return,
        Err(error) => return tracing::error!(%error, "the password reset in the data directory could not be read"),
    };
    match serde_json::from_slice::<PasswordReset>(&order) {
        Ok(reset) => {
            while !is_settled(&node, &reset).await {
                tokio::time::sleep(ROUND).await;
            }
        }
        Err(error) => tracing::error!(%error, "the password reset in the data directory is damaged, nothing was done"),
    }
    if let Err(error) = node.store().forget_order() {
        tracing::error!(%error, "the password reset in the data directory could not be removed");
    }
}

/// Reports whether the order was executed, or no longer applies. Waits for a leader.
async fn is_settled(node: &Node, reset: &PasswordReset) -> bool {
    if !node.has_caught_up() || node.leader().is_none() {
        return false;
    }
    let PasswordReset { name, password_hash, replaces } = reset.clone();
    let command = Command::ChangePassword { name, password_hash: password_hash.clone(), replaces: Some(replaces) };
    let user = || node.state().catalog().access.user_named(&reset.name);
    let is_new = || user().is_some_and(|user| user.password_hash == password_hash);
    let mut why = String::new();
    // It may have been executed before a crash that left the order.
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
        None => tracing::error!(user = reset.name, "the password was not reset: the user no longer exists"),
    }
    true
}

/// Proposes the command and returns its outcome; `None` if it could not be proposed now.
async fn first(node: &Node, command: Command) -> Option<Outcome> {
    match node.propose(CLUSTER, command).await {
        Ok(outcomes) => Some(outcomes.into_iter().next().unwrap_or_else(|| Code::ExecuteException.into())),
        Err(error) => {
            tracing::debug!(%error, "the password could not be reset yet");
            None
        }
    }
}
