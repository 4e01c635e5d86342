//! Contents that requests for approval keep, beside files and releases.

use super::Configs;
use crate::catalog::change::ChangeSet;
use crate::model::content::Content;

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
}
