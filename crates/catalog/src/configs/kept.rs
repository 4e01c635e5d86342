//! Contents of requests for approval, and releases that are planned or rolled out.

use std::sync::Arc;

use super::Configs;
use crate::catalog::change::ChangeSet;
use crate::model::config_file::{ConfigKey, ConfigRelease};
use crate::model::content::Content;
use crate::model::time::Timestamp;

impl Configs {
    /// Adds a user of a content that does not read its text.
    pub(crate) fn keep_content(&mut self, content: &Content, changes: &mut ChangeSet) -> Content {
        self.contents.keep(false, content, changes)
    }

    pub(crate) fn let_content_go(&mut self, content: &Content, changes: &mut ChangeSet) {
        self.contents.let_go(content, changes);
    }

    /// Loads such a user from a stored row; contents are loaded before. `None` if there is no content of this digest.
    pub(crate) fn load_kept_content(&mut self, content: &Content) -> Option<Content> {
        let shared = self.contents.share(false, content);
        self.contents.forget_text(content.digest());
        shared
    }

    /// Returns the releases to be published by `now`: time, file and release name of each.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, &Arc<ConfigKey>, &Arc<str>)> {
        self.releases.due(now)
    }

    /// Returns the releases of staged rollouts.
    pub(crate) fn rolling(&self) -> impl Iterator<Item = &Arc<ConfigRelease>> {
        self.releases.rolling()
    }
}
