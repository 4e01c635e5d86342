//! Description of a kind of objects: its names, API paths and columns.

use serde_json::Value;
use thuban_model::rule::Family;

use super::tables::{Column, short, text};

/// Type of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    Namespace,
    Service,
    Group,
    Alias,
    File,
    Rule(Family),
    Webhook,
    Policy,
    Contract,
    Provider,
    /// Registered by themselves: listed, never applied.
    Instance,
    /// Created by sign-ins: listed and deleted, never applied.
    Identity,
}

pub(super) struct Kind {
    pub(super) nature: Nature,
    /// Name in documents, and singular.
    pub(super) one: &'static str,
    /// Plural.
    pub(super) many: &'static str,
    pub(super) short: &'static str,
    /// Paths for listing, and for creating and changing.
    pub(super) list: &'static str,
    pub(super) write: &'static str,
    /// Member of a list's answer that has the rows.
    pub(super) rows: &'static str,
    pub(super) columns: &'static [Column],
    /// Extra columns of a wide table.
    pub(super) more: &'static [Column],
}

pub(super) const NAMESPACE: Column = ("namespace", |row| text(&row["namespace"]));
pub(super) const NAME: Column = ("name", |row| text(&row["name"]));
pub(super) const MODIFIED: Column = ("modified", |row| text(&row["mtime"]));
pub(super) const REVISION: Column = ("revision", |row| text(&row["revision"]));

pub(super) fn cut(value: &Value) -> String {
    short(&text(value))
}
