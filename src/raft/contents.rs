//! Texts of contents that are on disk only, read from their rows: for releases that come into force again, for answers
//! of writes, and for callers that request one.

mod on_node;

use std::io;
use std::sync::Arc;

use crate::catalog::configs::contents::{row_key, text_of_row};
use crate::catalog::{Edit, Entity, Outcome};
use crate::model::config_file::ConfigRelease;
use crate::model::content::Content;
use crate::store::Store;

/// Sources of texts: first the rows that are about to be written, then the store.
pub(super) struct ContentTexts<'a> {
    pub(super) edits: &'a [Edit],
    pub(super) store: &'a Store,
}

impl ContentTexts<'_> {
    /// Returns the text, or `None` if no row has it. Blocks.
    fn of(&self, content: &Content) -> io::Result<Option<Arc<str>>> {
        let key = row_key(content.digest());
        let is_of_key = |edit: &&Edit| edit.key == key && edit.value.is_some();
        let coming = self.edits.iter().rfind(is_of_key).and_then(|edit| edit.value.clone());
        let row = match coming {
            Some(row) => Some(row),
            None => self.store.get_constant_row(&key)?,
        };
        row.map(|row| text_of_row(&row).map_err(io::Error::other)).transpose()
    }

    /// Loads the texts of contents that are needed in memory from now on. Blocks.
    pub(super) fn give(&self, contents: &[Content]) -> io::Result<()> {
        for content in contents {
            let missing =
                || io::Error::other(format!("the content {:?} of a config file is missing", content.digest()));
            content.give(self.of(content)?.ok_or_else(missing)?);
        }
        Ok(())
    }

    /// Adds the contents to the releases in an answer that lack them. Blocks.
    pub(super) fn complete(&self, outcomes: &mut [Outcome]) -> io::Result<()> {
        for outcome in outcomes {
            if let Entity::ConfigRelease(release) = &mut outcome.entity
                && lacks_text(release)
                && let Some(text) = self.of(&release.content)?
            {
                *release = Arc::new(ConfigRelease { content: release.content.with_text(text), ..(**release).clone() });
            }
        }
        Ok(())
    }
}

/// Reports whether an answer would contain more of the release than is in memory. Sealed content is not returned.
pub(super) fn lacks_text(release: &ConfigRelease) -> bool {
    !release.encrypted && release.content.text().is_none()
}

/// Reports whether [`lacks_text`] holds for a release among the outcomes.
pub(super) fn any_lacks_text(outcomes: &[Outcome]) -> bool {
    outcomes.iter().any(|outcome| matches!(&outcome.entity, Entity::ConfigRelease(release) if lacks_text(release)))
}
