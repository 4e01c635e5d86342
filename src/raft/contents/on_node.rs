//! Contents as a node reads them.

use std::io;

use super::ContentTexts;
use crate::model::content::Content;
use crate::raft::node::Node;

impl Node {
    /// Returns a content with its text, reading the text from its row if it is not in memory, which blocks. `None` if
    /// no row has the content any more.
    pub fn whole(&self, content: &Content) -> io::Result<Option<Content>> {
        if content.text().is_some() {
            return Ok(Some(content.clone()));
        }
        let text = ContentTexts { edits: &[], store: self.store() }.of(content)?;
        Ok(text.map(|text| {
            content.give(text.clone());
            content.with_text(text)
        }))
    }
}
