//! The content of a config file: one text, shared by the draft, the releases and the form that
//! clients read, and known by its digest.
//!
//! Written out whole it is a string; where the text is kept elsewhere it is written as its digest
//! ([`Content::reference`]), and read back as one that has no text yet.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

const DIGEST_BYTES: usize = 32;

/// SHA-256 of a content, which names it.
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

/// A text that is cheap to clone, and to compare with another.
#[derive(Clone)]
pub struct Content {
    digest: ContentDigest,
    /// Absent in a row alone; what the catalog holds has it.
    text: Option<Arc<str>>,
}

impl Content {
    pub fn digest(&self) -> &ContentDigest {
        &self.digest
    }

    /// The text, shared.
    pub fn text(&self) -> Arc<str> {
        self.text.clone().unwrap_or_default()
    }

    /// This content without its text.
    pub fn reference(&self) -> Content {
        Content { digest: self.digest, text: None }
    }

    pub fn is_reference(&self) -> bool {
        self.text.is_none()
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Content { digest: ContentDigest::of(text), text: Some(text.into()) }
    }
}

impl Default for Content {
    fn default() -> Self {
        Content::from("")
    }
}

impl Deref for Content {
    type Target = str;

    fn deref(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }
}

/// Equal digests are equal texts.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Content {}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => text.fmt(f),
            None => self.digest.fmt(f),
        }
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.text {
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
}
