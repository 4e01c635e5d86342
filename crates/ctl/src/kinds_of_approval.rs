//! Kinds of the objects that govern many others: policies and contracts.

use super::freezes::frozen;
use super::kind::{Kind, MODIFIED, NAME, NAMESPACE, Nature, REVISION, cut};
use super::tables::{text, words};

pub(super) const POLICY: Kind = Kind {
    nature: Nature::Policy,
    one: "policy",
    many: "policies",
    short: "po",
    list: "/admin/v1/policies",
    write: "/admin/v1/policies",
    rows: "data",
    columns: &[
        NAME,
        NAMESPACE,
        ("names", |row| words(&row["names"])),
        ("kinds", |row| words(&row["kinds"])),
        ("approvals", |row| text(&row["approvals"])),
        ("gates", |row| words(&row["gates"])),
    ],
    more: &[("frozen (UTC)", frozen), ("comment", |row| cut(&row["comment"])), MODIFIED, REVISION],
};

pub(super) const CONTRACT: Kind = Kind {
    nature: Nature::Contract,
    one: "contract",
    many: "contracts",
    short: "co",
    list: "/admin/v1/contracts",
    write: "/admin/v1/contracts",
    rows: "data",
    columns: &[
        NAME,
        NAMESPACE,
        ("names", |row| words(&row["names"])),
        ("kinds", |row| words(&row["kinds"])),
        ("mode", |row| text(&row["mode"])),
    ],
    more: &[
        ("schema", |row| cut(&row["schema"])),
        ("rules", |row| cut(&row["rules"])),
        ("comment", |row| cut(&row["comment"])),
        MODIFIED,
        REVISION,
    ],
};

impl Kind {
    /// Returns the word for the API of an object's kind in any form that [`Kind::of_word`] takes, or of another kind
    /// that the audit trail knows. An unknown word stays as it is, and the node refuses it.
    pub(super) fn api_word(word: &str) -> String {
        const OTHERS: [&str; 6] = ["user", "token", "accesskey", "session", "request", "configtemplate"];
        if let Ok(kind) = Kind::of_word(word) {
            return kind.one.to_owned();
        }
        let lower = word.to_ascii_lowercase();
        let one = lower.strip_suffix('s').filter(|one| OTHERS.contains(one));
        one.unwrap_or(word).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::kinds::KINDS;
    use super::*;

    #[test]
    fn the_api_gets_the_word_of_one_object() {
        for kind in KINDS.iter() {
            for word in [kind.one, kind.many, kind.short] {
                assert_eq!(Kind::api_word(word), kind.one);
            }
        }
        for (word, one) in [("users", "user"), ("Tokens", "token"), ("user", "user"), ("pods", "pods")] {
            assert_eq!(Kind::api_word(word), one);
        }
    }
}
