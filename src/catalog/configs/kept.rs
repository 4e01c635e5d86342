//! Contents that requests for approval keep, and releases of which something is to come.

use std::sync::Arc;

use super::Configs;
use crate::catalog::change::ChangeSet;
use crate::model::config_file::{ConfigKey, ConfigRelease};
use crate::model::content::Content;
use crate::model::time::Timestamp;

impl Configs {
    /// One more thing than files and releases has a content, without looking at its text.
    pub(in crate::catalog) fn keep_content(&mut self, content: &Content, changes: &mut ChangeSet) -> Content {
        self.contents.keep(false, content, changes)
    }

    pub(in crate::catalog) fn let_content_go(&mut self, content: &Content, changes: &mut ChangeSet) {
        self.contents.let_go(content, changes);
    }

    /// The same of a stored row; contents come before. `None` if there is none of this digest.
    pub(in crate::catalog) fn load_kept_content(&mut self, content: &Content) -> Option<Content> {
        let shared = self.contents.share(false, content);
        self.contents.forget_text(content.digest());
        shared
    }

    /// Releases to be published by `now`: time, file and release name of each.
    pub(in crate::catalog) fn due(
        &self,
        now: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, &Arc<ConfigKey>, &Arc<str>)> {
        self.releases.due(now)
    }

    /// Releases that are rolled out by steps.
    pub(in crate::catalog) fn rolling(&self) -> impl Iterator<Item = &Arc<ConfigRelease>> {
        self.releases.rolling()
    }
}
