//! Kinds of the objects that govern many others: policies and contracts.

use super::kinds::{Kind, MODIFIED, NAME, NAMESPACE, Nature, REVISION, cut};
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
    more: &[("freezes", |row| cut(&row["freezes"])), ("comment", |row| cut(&row["comment"])), MODIFIED, REVISION],
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
