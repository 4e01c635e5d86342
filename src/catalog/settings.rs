//! Replicated settings: one row, and what their change changes.

use std::borrow::Cow;

use super::Catalog;
use super::change::{Journal, Outcome};
use super::row::{Row, Table};
use crate::model::code::Code;
use crate::model::settings::{Settings, SettingsChange};

impl Row for Settings {
    const TABLE: Table = Table::Settings;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        vec![]
    }
}

impl Catalog {
    /// What follows from other settings follows later: releases that are too many now go with the next
    /// change of what they belong to, or when the leader comes by.
    pub(super) fn change_settings(&mut self, change: &SettingsChange, journal: &mut Journal) -> Outcome {
        let mut settings = self.settings.clone();
        change.lay_over(&mut settings);
        if settings == self.settings {
            return Code::NoNeedUpdate.into();
        }
        journal.put(&settings);
        self.settings = settings;
        Outcome::default()
    }
}
