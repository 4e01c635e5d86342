//! Contents of config files, each stored once for all drafts and releases that have it.
//!
//! A content has its own row, and the rows of files and releases refer to it by digest: a publication writes the text
//! once, and later changes of the release write a small row. The row is deleted with the last user of the content.
//!
//! The texts of drafts and of releases in force are in memory. The text of any other release is only in its row, and
//! read on request. When such a release comes into force again, apply needs only the digest; the text is queued to be
//! [read](ChangeSet::read) after the entry is applied, and then shared by all users of the content. Apply never depends
//! on what is in memory, which may differ between a node that applied an entry and one that loaded the rows.

use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::catalog::Corrupt;
use crate::catalog::change::ChangeSet;
use crate::catalog::row::{Row, RowKey, Table};
use crate::format::sealed::key_of;
use crate::model::content::{Content, ContentDigest};

/// The row of a content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredContent {
    content: Content,
}

/// Returns the key of a content's row.
pub fn row_key(digest: &ContentDigest) -> Vec<u8> {
    [&[Table::Content as u8], digest.bytes()].concat()
}

/// Reads the text from a content's row.
pub fn text_of_row(row: &[u8]) -> Result<Arc<str>, Corrupt> {
    let StoredContent { content } = StoredContent::read(row)?;
    content.text().cloned().ok_or_else(|| Corrupt("the row of a content has no text".to_owned()))
}

impl Row for StoredContent {
    const TABLE: Table = Table::Content;
    fn name(&self, key: &mut RowKey) {
        key.part(self.content.digest().bytes());
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ConfigContents {
    all: OrdMap<ContentDigest, SharedContent>,
    bytes_in_memory: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct SharedContent {
    /// The content; a reference if no user holds the text.
    content: Content,
    /// Number of files and releases that have the content.
    users: usize,
    /// Number of users that hold the text: drafts, releases in force, and users whose own row contains it.
    holders: usize,
    /// True if the content has a row; otherwise the rows of its users contain it.
    has_row: bool,
    bytes: usize,
    /// Name of the data key that sealed it; empty if it is not sealed.
    sealed_under: Box<str>,
}

impl SharedContent {
    fn of(content: Content) -> SharedContent {
        let (bytes, sealed_under) = (content.len(), key_of(&content).into());
        SharedContent { content, users: 0, holders: 0, has_row: false, bytes, sealed_under }
    }

    fn bytes_in_memory(&self) -> usize {
        if self.holders > 0 { self.bytes } else { 0 }
    }
}

impl ConfigContents {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the bytes of the texts in memory.
    pub(super) fn bytes_in_memory(&self) -> usize {
        self.bytes_in_memory
    }

    /// Returns the name of the data key that sealed a content; empty if it is not sealed.
    pub(super) fn sealed_under(&self, content: &Content) -> &str {
        self.all.get(content.digest()).map_or("", |entry| &entry.sealed_under)
    }

    /// Loads a stored row.
    pub(super) fn load(&mut self, row: StoredContent) -> ContentDigest {
        let digest = *row.content.digest();
        self.all.entry(digest).or_insert_with(|| SharedContent::of(row.content)).has_row = true;
        digest
    }

    /// Adds a user of a content, which holds the text or only refers to it. Returns the content for that user, or
    /// `None` if only the digest is known yet.
    pub(super) fn share(&mut self, holds: bool, content: &Content) -> Option<Content> {
        let entry = match self.all.get_mut(content.digest()) {
            Some(entry) => entry,
            None if content.text().is_none() => return None,
            None => self.all.entry(*content.digest()).or_insert_with(|| SharedContent::of(content.clone())),
        };
        entry.users += 1;
        if !holds {
            return Some(content.reference());
        }
        if entry.content.is_reference() {
            entry.content = entry.content.awaited();
        }
        if let Some(text) = content.text() {
            entry.content.give(text.clone());
        }
        self.bytes_in_memory -= entry.bytes_in_memory();
        entry.holders += 1;
        self.bytes_in_memory += entry.bytes_in_memory();
        Some(entry.content.clone())
    }

    /// Adds a user of a content; with `is_reader`, one that reads its text. Writes the row if there is none, and
    /// requests the text from it if this is the first reader.
    pub(super) fn keep(&mut self, is_reader: bool, content: &Content, changes: &mut ChangeSet) -> Content {
        let shared = self.share(is_reader, content).unwrap_or_default();
        let Some(entry) = self.all.get_mut(shared.digest()) else { return shared };
        if !entry.has_row {
            entry.has_row = true;
            changes.put(&StoredContent { content: entry.content.clone() });
        }
        if entry.holders == 1 && shared.text().is_none() && !shared.is_reference() {
            changes.read(shared.clone());
        }
        self.forget_text(shared.digest());
        shared
    }

    /// Removes a user of a content.
    pub(super) fn let_go(&mut self, content: &Content, changes: &mut ChangeSet) {
        let Some(entry) = self.all.get_mut(content.digest()) else { return };
        entry.users = entry.users.saturating_sub(1);
        if !content.is_reference() {
            self.bytes_in_memory -= entry.bytes_in_memory();
            entry.holders = entry.holders.saturating_sub(1);
            self.bytes_in_memory += entry.bytes_in_memory();
        }
        if entry.users > 0 {
            return self.forget_text(content.digest());
        }
        if let Some(entry) = self.all.remove(content.digest())
            && entry.has_row
        {
            changes.delete(&StoredContent { content: entry.content });
        }
    }

    /// Drops a text from memory if no user holds it.
    pub(super) fn forget_text(&mut self, digest: &ContentDigest) {
        if let Some(entry) = self.all.get_mut(digest)
            && entry.holders == 0
            && entry.has_row
        {
            entry.content = entry.content.reference();
        }
    }
}
