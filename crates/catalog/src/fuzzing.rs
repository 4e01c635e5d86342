//! Support for `fuzzing` of the package `thuban`: a check that a catalog and its rows agree, and a reader of single
//! rows.

use super::rekey::Rebirth;
use super::testing::Bench;
use super::*;
use crate::model::access::{PasswordHash, TokenHash};

/// Login token of the administrator.
const TOKEN: &str = "5e884898da28047151d0e56f8dc6292773603d0d6aabbd62a11ef721d1542d8a";

/// Returns a cluster with its administrator logged in.
pub fn founded() -> Bench {
    let mut bench = Bench::founded();
    let password = PasswordHash("h".into());
    bench.apply(Command::SignIn { hash: token(), user_id: "u".into(), password, from: Default::default() });
    bench
}

pub fn token() -> TokenHash {
    TokenHash(TOKEN.into())
}

/// Wraps a command of the administrator.
pub fn asked(command: Command, itself: bool) -> Command {
    let credential = Credential::Token(token());
    let address = Some([192, 0, 2, 1].into());
    Command::Authorized(Box::new(AuthorizedCommand {
        credential,
        address,
        request: "r".into(),
        self_registration: itself,
        mutes_refusals: false,
        command,
    }))
}

/// Panics if loading the rows makes another catalog than the one in memory.
pub fn check(bench: &Bench) {
    let (one, other) = (&bench.reloaded(), &bench.catalog);
    let parts = [
        ("nodes", one.nodes == other.nodes),
        ("access", one.access == other.access),
        ("access keys", one.access_keys == other.access_keys),
        ("namespaces", one.namespaces == other.namespaces),
        ("services", one.services == other.services),
        ("aliases", one.aliases == other.aliases),
        ("configs", one.configs == other.configs),
        ("rules", one.rules == other.rules),
        ("instances", one.instances == other.instances),
        ("settings", one.settings == other.settings),
        ("templates", one.templates == other.templates),
        ("history", one.history == other.history),
        ("trail", one.trail == other.trail),
        ("webhooks", one.webhooks == other.webhooks),
        ("policies", one.policies == other.policies),
        ("contracts", one.contracts == other.contracts),
        ("approvals", one.approvals == other.approvals),
        ("time", one.time == other.time),
        ("requests", one.requests == other.requests),
    ];
    let unequal: Vec<_> = parts.iter().filter(|(_, is_equal)| !is_equal).map(|(part, _)| part).collect();
    assert!(unequal.is_empty() && one == other, "the rows make something else of {unequal:?}");
}

/// Reads a row, given as the first byte of its key and its value. Returns true if this version can read it.
pub fn read_row(row: &[u8]) -> bool {
    Table::of_key(row).is_ok_and(|table| table.round_trip(&row[1..]))
}

/// Reads the value of a row and returns true if this version can. Checks that the row is written unchanged, keeps its
/// key, and loads in a restored cluster as in the old one.
pub(super) fn round_trip<R: Row>(value: &[u8]) -> bool {
    let Ok(row) = R::read(value) else { return false };
    let (key, written) = (row.key(), row.value());
    assert_eq!(Table::of_key(&key).expect("a key that was made here"), R::TABLE);
    let again = R::read(&written).expect("a row that was written here");
    assert_eq!((again.key(), again.value()), (key.clone(), written.clone()), "it stays what it was");
    let rebirth = Rebirth { survivor: Some(1), members: [1].into(), ..Rebirth::of("new") };
    let reborn = rebirth.row(&key, &written).expect("a row that was written here");
    let loads = |value: &[u8]| Catalog::default().load(&key, value).is_ok();
    assert!(reborn.is_none_or(|reborn| loads(&reborn) == loads(&written)), "a new cluster takes what the old one took");
    true
}
