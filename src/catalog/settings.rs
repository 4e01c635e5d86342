//! Replicated settings: a single row, and its changes. A new setting needs a row in [`Settings::TABLE`] only.

use super::Catalog;
use super::change::{ChangeSet, Entity, Outcome};
use super::ctx::Ctx;
use super::row::{Row, RowKey, Table};
use crate::model::code::Code;
use crate::model::is_stale;
use crate::model::settings::{Settings, SettingsChange};

impl Row for Settings {
    const TABLE: Table = Table::Settings;
    fn name(&self, _: &mut RowKey) {}
}

impl Catalog {
    /// Changes the settings. Their effects come later: surplus releases are removed with the next change of their
    /// thing, or by the leader.
    pub(super) fn change_settings(&mut self, ctx: &Ctx, change: &SettingsChange, changes: &mut ChangeSet) -> Outcome {
        if is_stale(&change.revision, &self.settings.revision) {
            return Outcome::stale(Entity::None);
        }
        let mut settings = self.settings.clone();
        change.lay_over(&mut settings);
        if settings == self.settings {
            return Code::NoNeedUpdate.into();
        }
        settings.revision = ctx.draw_id();
        changes.put(&settings);
        self.settings = settings;
        Outcome::default()
    }
}
