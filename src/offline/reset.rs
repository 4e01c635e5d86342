//! A new password for who has lost it, on any one stopped node of the cluster.
//!
//! The state is the same on every node because it follows from the log. So nothing of it is changed here:
//! the hash is left in the directory as an order ([`PasswordReset`]), and the node has it carried out by the
//! cluster when it runs again.

use std::io;
use std::path::Path;

use super::owned;
use crate::catalog::{Row, Table};
use crate::controllers::password_reset::PasswordReset;
use crate::format::level::LevelRange;
use crate::model::access::{PasswordHash, User};
use crate::store::ReadOnlyStore;

/// Leaves the order. The user has to be known to this directory; the error says who is.
pub fn reset_password(dir: &Path, name: &str, password_hash: PasswordHash) -> anyhow::Result<()> {
    let peek = ReadOnlyStore::open(dir, LevelRange::OWN)?;
    let mut users = Vec::new();
    peek.for_each_row(&mut |key, value| {
        // What is not of a table is the machine's own.
        if Table::of_key(key).is_ok_and(|table| table == Table::User) {
            let user = User::read(value);
            users.push(user.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?);
        }
        Ok(())
    })?;
    let Some(user) = users.iter().find(|user| user.name == name) else {
        let known: Vec<_> =
            users.iter().filter(|user| user.is_administrator()).map(|user| user.name.as_str()).collect();
        anyhow::bail!("there is no user {name:?} here; the administrators are: {}", known.join(", "));
    };
    let replaces = user.password_hash.clone();
    let order = PasswordReset { name: name.to_owned(), password_hash, replaces };
    let left = peek.leave_order(&serde_json::to_vec(&order)?);
    owned(dir, left.map_err(Into::into))
}
