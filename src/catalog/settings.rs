//! Replicated settings: one row, and what their change changes.

use super::Catalog;
use super::change::{ChangeSet, Entity, Outcome};
use super::ctx::Ctx;
use super::row::{FIRST_VERSION, Key, Row, Table};
use crate::format::level::Level;
use crate::format::pack;
use crate::model::code::Code;
use crate::model::is_stale;
use crate::model::settings::{Settings, SettingsChange};

/// From [`Level::TRUST`] on it holds what is kept of the audit trail.
const WITH_AUDIT: u8 = 2;
/// From [`Level::RIGHTS`] on it holds where rules are judged.
const WITH_SCOPE: u8 = 3;

impl Row for Settings {
    const TABLE: Table = Table::Settings;
    fn name(&self, _: &mut Key) {}

    fn version_at(level: Level) -> u8 {
        match level {
            level if level >= Level::RIGHTS => WITH_SCOPE,
            level if level >= Level::TRUST => WITH_AUDIT,
            _ => FIRST_VERSION,
        }
    }

    fn put_body(&self, version: u8, out: &mut Vec<u8>) {
        match version {
            WITH_SCOPE.. => pack::put(self, out),
            WITH_AUDIT => pack::put(&self.of_level(Level::TRUST), out),
            _ => pack::put(&self.of_level(Level::SETTINGS), out),
        }
    }
}

impl Catalog {
    /// Changes the settings. The consequences follow later: releases that are too many now go with the next change of
    /// what they belong to, or when the leader comes by.
    pub(super) fn change_settings(&mut self, ctx: &Ctx, change: &SettingsChange, changes: &mut ChangeSet) -> Outcome {
        if is_stale(&change.revision, &self.settings.revision) {
            return Outcome::stale(Entity::None);
        }
        let mut settings = self.settings.clone();
        change.lay_over(&mut settings);
        if settings == self.settings {
            return Code::NoNeedUpdate.into();
        }
        settings.revision = ctx.draw_revision_since(Level::RIGHTS, changes.level());
        changes.put(&settings);
        self.settings = settings;
        Outcome::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::settings::Settings;

    /// The bytes in which the second level wrote them, and that they are read at the third.
    #[test]
    fn below_trust_the_row_is_what_it_was() {
        let settings = Settings { releases_kept: 7, ..Settings::default() };
        let written = settings.value(Level::SETTINGS);
        let golden =
            "0182ad72656c65617365735f6b65707407be646561645f696e7374616e6365735f72656d6f7665645f61667465725f7300";
        assert_eq!(hex::encode(&written), golden);
        assert_eq!(Settings::read(&written).expect("readable"), settings);
        let trusting = Settings { audit_kept_days: 1, ..settings };
        let written = trusting.value(Level::TRUST);
        assert_eq!(Settings::read(&written).expect("readable"), trusting);
        assert!(!String::from_utf8_lossy(&written).contains("rule_scope"));
        let scoped = Settings { rule_scope: 1, ..trusting };
        assert_eq!(Settings::read(&scoped.value(Level::RIGHTS)).expect("readable"), scoped);
    }
}
