//! Replicated settings: a single row, and its changes. A new setting needs a row in [`Settings::TABLE`] only.

use super::change::{Entity, Outcome};
use super::ctx::Apply;
use super::row::{Row, RowKey, Table};
use crate::model::code::Code;
use crate::model::is_stale;
use crate::model::settings::{Settings, SettingsChange};

impl Row for Settings {
    const TABLE: Table = Table::Settings;
    fn name(&self, _: &mut RowKey) {}
}

impl Apply<'_> {
    /// Changes the settings. Their effects come later: surplus releases are removed with the next change of their
    /// thing, or by the leader.
    pub(super) fn change_settings(&mut self, change: &SettingsChange) -> Outcome {
        if is_stale(&change.revision, &self.catalog.settings.revision) {
            return Outcome::stale(Entity::None);
        }
        let mut settings = self.catalog.settings.clone();
        change.lay_over(&mut settings);
        if settings == self.catalog.settings {
            return Code::NoNeedUpdate.into();
        }
        settings.revision = self.ctx.draw_id();
        self.changes.put(&settings);
        self.catalog.settings = settings;
        Outcome::default()
    }
}
