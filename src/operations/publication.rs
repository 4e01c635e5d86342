//! Publications of files, with what they write first.

use super::{Caller, Operations};
use crate::catalog::Catalog;
use crate::keyring::Keyring;
use crate::model::code::Refusal;
use crate::model::config_file::{ConfigFile, ConfigFileDraft, ConfigKey, ConfigPublish, ConfigReleaseDraft};
use crate::model::content::Content;
use crate::model::grant::ReadScope;

/// Something that publishes a file, which it may write first.
pub trait Publication: Clone + Send + 'static {
    fn key(&self) -> ConfigKey;
    fn file(&self) -> Option<&ConfigFileDraft>;
    fn release(&mut self) -> &mut ConfigReleaseDraft;
    fn is_judged(&self) -> bool;

    /// As it is proposed for the file as it stands, if it writes one.
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

    /// Seals the file. What was judged is known by what is kept of it, so the judgement then refers to the sealed
    /// content.
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
    /// Returns the warning of another file in the group that clients find by the same lookups.
    pub fn twins(&self, caller: &Caller, key: &ConfigKey) -> Vec<String> {
        twins_of(&self.node.state().catalog(), key, &caller.read_scope())
    }
}

/// Returns the warning of another file in the group that clients find by the same lookups, a published one first.
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
