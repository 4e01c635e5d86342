//! Contents of config files, each kept once however many drafts and releases have it.
//!
//! A content has a row of its own, and the rows of files and releases name it by its digest: publishing writes a text
//! once, and what changes about a release later is a small row. The row of a content goes with the last user of it.
//!
//! In memory is the text that somebody looks at all the time: that of a draft, and of a release in force. Of any other
//! release there is the row alone, which is read for who asks. Where such a release comes into force again, apply knows
//! the digest and needs no more; the text is on the list of what is to be [read](ChangeSet::read) once the entry is
//! applied, and everybody who shares the content has it then. What is in memory decides nothing, so it may differ
//! between a node that has applied an entry and one that has read the rows.

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
pub(in crate::catalog) struct StoredContent {
    content: Content,
}

/// The key of the row of a content.
pub fn row_key(digest: &ContentDigest) -> Vec<u8> {
    [&[Table::Content as u8], digest.bytes()].concat()
}

/// The content of such a row.
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
    /// A reference where nobody holds the text.
    content: Content,
    /// Files and releases that have it,
    users: usize,
    /// and those of them that hold the text: drafts, releases in force, and whoever has it in its own row.
    holders: usize,
    /// It has a row; else those of its users hold it.
    has_row: bool,
    bytes: usize,
    /// The name of the key under which it is sealed, if it is.
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

    /// The bytes of the texts that are in memory.
    pub(super) fn bytes_in_memory(&self) -> usize {
        self.bytes_in_memory
    }

    /// The name of the data key under which a content is sealed that somebody has; empty for one that is not.
    pub(super) fn sealed_under(&self, content: &Content) -> &str {
        self.all.get(content.digest()).map_or("", |entry| &entry.sealed_under)
    }

    /// Takes in a row that was stored.
    pub(super) fn load(&mut self, row: StoredContent) -> ContentDigest {
        let digest = *row.content.digest();
        self.all.entry(digest).or_insert_with(|| SharedContent::of(row.content)).has_row = true;
        digest
    }

    /// One more has this content, and holds its text or does not: the content as it has it from now on, or `None` if
    /// only the digest is known by now.
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

    /// One more has this content from now on, and looks at its text all the time or does not. Its row is written if it
    /// has none, and read if it alone has the text.
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

    /// One who had this content has it no more.
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

    /// Leaves to the row what nobody holds.
    pub(super) fn forget_text(&mut self, digest: &ContentDigest) {
        if let Some(entry) = self.all.get_mut(digest)
            && entry.holders == 0
            && entry.has_row
        {
            entry.content = entry.content.reference();
        }
    }
}
