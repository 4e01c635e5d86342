//! Reset of a lost password, on any one stopped node of the cluster.
//!
//! The state is the same on every node because it follows from the log. So it is not changed here: the hash is left in
//! the directory as an order ([`PasswordReset`]), which the node submits to the cluster at its next run.

use std::io;
use std::path::Path;

use super::owned;
use crate::catalog::{Row, Table};
use crate::controllers::password_reset::PasswordReset;
use crate::format::level::LevelRange;
use crate::model::access::{PasswordHash, User};
use crate::store::ReadOnlyStore;

/// Leaves the order. The user has to exist in this directory; otherwise the error lists the users.
pub fn reset_password(dir: &Path, name: &str, password_hash: PasswordHash) -> anyhow::Result<()> {
    let peek = ReadOnlyStore::open(dir, LevelRange::OWN)?;
    let mut users = Vec::new();
    peek.for_each_row(&mut |key, value| {
        // Keys outside the tables belong to the state machine.
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
