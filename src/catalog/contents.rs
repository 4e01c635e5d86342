//! Contents of config files, each held once however many drafts and releases have it.
//!
//! From [`Level::SETTINGS`] on a content has a row of its own, and the rows of files and releases name
//! it by its digest: publishing writes a text once, and what changes about a release later is a small
//! row. Before that every row holds its content, and may go on doing so until it is written anew; in
//! memory such a text is shared all the same. The row of a content goes with the last who has it.

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::change::Journal;
use super::row::{FIRST_VERSION, Key, Row, Table};
use crate::format::level::Level;
use crate::model::content::{Content, ContentDigest};

/// The version of the rows that name their content by its digest.
const BY_DIGEST: u8 = 2;

/// The version in which a row with a content is written.
pub(super) fn row_version_at(level: Level) -> u8 {
    if level >= Level::SETTINGS { BY_DIGEST } else { FIRST_VERSION }
}

/// A content as a row of that version holds it; `None` where that is the content itself.
pub(super) fn content_in(version: u8, content: &Content) -> Option<Content> {
    (version >= BY_DIGEST).then(|| content.reference())
}

/// The row of a content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredContent {
    content: Content,
}

impl Row for StoredContent {
    const TABLE: Table = Table::Content;
    fn name(&self, key: &mut Key) {
        key.part(self.content.digest().bytes());
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Contents {
    held: OrdMap<ContentDigest, Held>,
}

#[derive(Clone, Debug, PartialEq)]
struct Held {
    content: Content,
    /// Files and releases that have it.
    users: usize,
    /// It has a row; else those of its users hold it.
    has_row: bool,
}

impl Contents {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// The bytes of all texts.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.held.values().map(|held| held.content.len()).sum()
    }

    /// Takes in a row that was stored.
    pub(super) fn load(&mut self, row: StoredContent) -> ContentDigest {
        let digest = *row.content.digest();
        let held = self.held.entry(digest).or_insert_with(|| Held { content: row.content, users: 0, has_row: true });
        held.has_row = true;
        digest
    }

    /// One more has this content, as its stored row says: the content that all share, or `None` if only
    /// the digest is known by now.
    pub(super) fn share(&mut self, content: &Content) -> Option<Content> {
        if let Some(held) = self.held.get_mut(content.digest()) {
            held.users += 1;
            return Some(held.content.clone());
        }
        if content.is_reference() {
            return None;
        }
        self.held.insert(*content.digest(), Held { content: content.clone(), users: 1, has_row: false });
        Some(content.clone())
    }

    /// One more has this content from now on; its row is written if it has none and needs one.
    pub(super) fn keep(&mut self, content: &Content, journal: &mut Journal) -> Content {
        let shared = self.share(content).unwrap_or_default();
        if journal.level() >= Level::SETTINGS
            && let Some(held) = self.held.get_mut(shared.digest())
            && !held.has_row
        {
            held.has_row = true;
            journal.put(&StoredContent { content: shared.clone() });
        }
        shared
    }

    /// One who had this content has it no more.
    pub(super) fn let_go(&mut self, content: &Content, journal: &mut Journal) {
        let Some(held) = self.held.get_mut(content.digest()) else { return };
        held.users = held.users.saturating_sub(1);
        if held.users > 0 {
            return;
        }
        if let Some(held) = self.held.remove(content.digest())
            && held.has_row
        {
            journal.delete(&StoredContent { content: held.content });
        }
    }
}
