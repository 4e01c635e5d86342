//! Content of a config file: one text, identified by its digest and shared by the draft, the releases and the form that
//! clients read.
//!
//! The text is in memory while it is needed all the time, and otherwise only on disk: such a content is a *reference*.
//! Making it [awaited](Content::awaited) reserves room for the text, and all clones have it once it was read and
//! [given](Content::give) to one of them.
//!
//! A content with its text is serialized as a string, a reference as its digest.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

const DIGEST_BYTES: usize = 32;

/// SHA-256 of a content, which identifies it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentDigest([u8; DIGEST_BYTES]);

impl ContentDigest {
    pub fn of(text: &str) -> Self {
        ContentDigest(Sha256::digest(text).into())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// A text that is cheap to clone and to compare.
#[derive(Clone)]
pub struct Content {
    digest: ContentDigest,
    /// `None` in a reference; not set until the text was read.
    text: Option<Arc<OnceLock<Arc<str>>>>,
}

impl Content {
    pub fn digest(&self) -> &ContentDigest {
        &self.digest
    }

    /// Returns the shared text, if it is in memory.
    pub fn text(&self) -> Option<&Arc<str>> {
        self.text.as_ref()?.get()
    }

    /// Returns this content without its text.
    pub fn reference(&self) -> Content {
        Content { digest: self.digest, text: None }
    }

    /// Returns this content with room for its text, which is to be read.
    pub fn awaited(&self) -> Content {
        Content { digest: self.digest, text: Some(Arc::default()) }
    }

    /// Sets the text for all clones that wait for it. A reference ignores it.
    pub fn give(&self, text: Arc<str>) {
        if let Some(room) = &self.text {
            room.get_or_init(|| text);
        }
    }

    /// Reports whether the content has no room for its text.
    pub fn is_reference(&self) -> bool {
        self.text.is_none()
    }

    /// Returns a copy of this content with the text, for a single use.
    pub fn with_text(&self, text: Arc<str>) -> Content {
        let content = self.awaited();
        content.give(text);
        content
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Content { digest: ContentDigest::of(text), text: Some(Arc::new(OnceLock::from(Arc::from(text)))) }
    }
}

impl Default for Content {
    fn default() -> Self {
        Content::from("")
    }
}

/// Dereferences to the text, or to an empty one if it is not in memory. That of a draft always is.
impl Deref for Content {
    type Target = str;

    fn deref(&self) -> &str {
        self.text().map_or("", |text| text)
    }
}

/// Compares digests.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Content {}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => text.fmt(f),
            None => self.digest.fmt(f),
        }
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.text() {
            Some(text) => serializer.serialize_str(text),
            None => serializer.serialize_bytes(self.digest.bytes()),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrDigest)
    }
}

struct TextOrDigest;

impl Visitor<'_> for TextOrDigest {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text, or a digest of {DIGEST_BYTES} bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
        Ok(Content::from(text))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Content, E> {
        let digest = bytes.try_into().map_err(|_| E::invalid_length(bytes.len(), &self))?;
        Ok(Content { digest: ContentDigest(digest), text: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::pack;

    #[test]
    fn a_content_is_written_as_its_text_or_as_its_digest() {
        let whole = Content::from("k=v");
        assert_eq!(hex::encode(pack::to_bytes(&whole)), "a36b3d76", "as any string");
        let read: Content = pack::from_bytes(&pack::to_bytes(&whole)).expect("a text");
        assert_eq!((&*read, read.is_reference()), ("k=v", false));
        let written = pack::to_bytes(&whole.reference());
        assert_eq!(written[..2], [0xc4, 32], "binary, and as long as a digest");
        let read: Content = pack::from_bytes(&written).expect("a digest");
        assert!(read.is_reference() && read == whole, "it names the same text");
        assert!(pack::from_bytes::<Content>(&[0xc4, 2, 1, 2]).is_err(), "no digest");
    }

    #[test]
    fn a_text_that_was_read_is_had_by_all_who_share_it() {
        let reference = Content::from("k=v").reference();
        reference.give("k=v".into());
        assert_eq!(reference.text(), None, "it keeps none");
        let awaited = reference.awaited();
        let shared = awaited.clone();
        assert!(awaited == reference && awaited.text().is_none() && !awaited.is_reference());
        assert_eq!(pack::to_bytes(&awaited), pack::to_bytes(&reference), "what is not there yet is not written");
        awaited.give("k=v".into());
        let (one, other) = (awaited.text().expect("given"), shared.text().expect("given"));
        assert!(Arc::ptr_eq(one, other) && &*shared == "k=v");
        assert_eq!(&*reference.with_text("k=v".into()), "k=v");
    }
}
