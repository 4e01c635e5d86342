//! Publications of config files, which may write the file first.

use super::{Caller, Operations};
use crate::catalog::Catalog;
use crate::keyring::Keyring;
use crate::model::code::Refusal;
use crate::model::config_file::{ConfigFile, ConfigFileDraft, ConfigKey, ConfigPublish, ConfigReleaseDraft};
use crate::model::content::Content;
use crate::model::grant::ReadScope;

/// A publication of a file, with the draft to write first, if any.
pub trait Publication: Clone + Send + 'static {
    fn key(&self) -> ConfigKey;
    fn file(&self) -> Option<&ConfigFileDraft>;
    fn release(&mut self) -> &mut ConfigReleaseDraft;
    fn is_judged(&self) -> bool;

    /// Returns the publication with its content sealed, if it writes an encrypted file. `_there` is the stored file.
    fn sealed(self, _keyring: &Keyring, _there: Option<&ConfigFile>, _may_see: bool) -> Result<Self, Refusal> {
        Ok(self)
    }
}

impl Publication for ConfigReleaseDraft {
    fn key(&self) -> ConfigKey {
        self.key()
    }

    fn file(&self) -> Option<&ConfigFileDraft> {
        None
    }

    fn release(&mut self) -> &mut ConfigReleaseDraft {
        self
    }

    fn is_judged(&self) -> bool {
        self.judged.is_some() || self.pin.is_some()
    }
}

impl Publication for ConfigPublish {
    fn key(&self) -> ConfigKey {
        self.file.key()
    }

    fn file(&self) -> Option<&ConfigFileDraft> {
        Some(&self.file)
    }

    fn release(&mut self) -> &mut ConfigReleaseDraft {
        &mut self.release
    }

    fn is_judged(&self) -> bool {
        self.release.is_judged()
    }

    /// Seals the file. A validated content is identified by the digest of its stored form, so the condition is changed
    /// to the sealed content.
    fn sealed(self, keyring: &Keyring, there: Option<&ConfigFile>, may_see: bool) -> Result<Self, Refusal> {
        let ConfigPublish { file, mut release, md5 } = self;
        let file = keyring.seal_file(file, there, may_see)?;
        if let (Some(sealing), Some(judged), Some(content)) = (&file.sealing, &mut release.judged, &file.content)
            && sealing.made_of.as_ref().is_none_or(|made_of| *made_of == judged.content)
        {
            judged.content = Content::from(content.as_str()).reference();
        }
        Ok(ConfigPublish { file, release, md5 })
    }
}

impl Operations {
    /// Warns of another file in the group that clients find by the same lookups.
    pub fn twins(&self, caller: &Caller, key: &ConfigKey) -> Vec<String> {
        twins_of(&self.node.state().catalog(), key, &caller.read_scope())
    }
}

/// Warns of another file in the group that clients find by the same lookups; a published file comes first.
pub(super) fn twins_of(catalog: &Catalog, key: &ConfigKey, read_scope: &ReadScope) -> Vec<String> {
    if !read_scope.sees(&key.namespace, &key.group) {
        return Vec::new();
    }
    let file = &key.file;
    let gets = |twin: &str| {
        format!("clients of Apollo that ask for {file:?} get this file, and those that ask for {twin:?} get that one")
    };
    let published = catalog.configs.twins(key).next();
    let published = published.map(|twin| format!("{twin:?} is published in this group as well: {}", gets(twin)));
    let drafted = || {
        let twin = catalog.configs.twin_of_draft(key)?;
        Some(format!("{twin:?} is in this group as well; once both are published, {}", gets(&twin)))
    };
    published.or_else(drafted).into_iter().collect()
}
