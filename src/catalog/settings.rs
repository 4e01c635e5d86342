//! Replicated settings: one row, and what their change changes. The row has a version for each level that brought
//! settings, and holds those of that level alone: a new setting needs a row in [`Settings::TABLE`] and nothing here.

use std::collections::BTreeSet;

use super::Catalog;
use super::change::{ChangeSet, Entity, Outcome};
use super::ctx::Ctx;
use super::row::{FIRST_VERSION, Row, RowKey, Table};
use crate::format::level::Level;
use crate::format::pack;
use crate::model::code::Code;
use crate::model::is_stale;
use crate::model::settings::{Settings, SettingsChange};

/// The versions of the row, each with the level that brought its settings.
fn versions() -> impl Iterator<Item = (u8, Level)> {
    let levels: BTreeSet<_> = Settings::TABLE.iter().map(|setting| setting.level).collect();
    (FIRST_VERSION..).zip(levels)
}

impl Row for Settings {
    const TABLE: Table = Table::Settings;
    fn name(&self, _: &mut RowKey) {}

    fn version_at(level: Level) -> u8 {
        versions().take_while(|(_, since)| *since <= level).last().map_or(FIRST_VERSION, |(version, _)| version)
    }

    fn put_body(&self, version: u8, out: &mut Vec<u8>) {
        let level = versions().find(|(known, _)| *known == version).map_or(Level::SETTINGS, |(_, since)| since);
        pack::put(&self.of_level(level), out);
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
    use serde_json::json;

    use super::*;

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
        let scoped = Settings { rule_scope: 1, revision: "r".into(), ..trusting };
        let written = scoped.value(Level::APPROVAL);
        assert_eq!((written[0], &written[1..]), (4, &*pack::to_bytes(&scoped)), "every field, as it always was");
        assert_eq!(Settings::read(&written).expect("readable"), scoped);
        assert_eq!(scoped.value(Level::TRUST), Settings { rule_scope: 0, ..scoped }.value(Level::EDGES));
    }

    /// Whatever level a setting is from: below it, its value changes no byte of the row.
    #[test]
    fn a_setting_is_written_from_its_level_on() {
        for setting in Settings::TABLE {
            let changed: Settings = serde_json::from_value(json!({ setting.name: setting.max })).expect("settings");
            for level in (Level::FIRST.0..=Level::NEWEST.0).map(Level) {
                let is_written = changed.value(level) != Settings::default().value(level);
                assert_eq!(is_written, level.max(Level::SETTINGS) >= setting.level, "{} at {level}", setting.name);
            }
        }
    }
}
