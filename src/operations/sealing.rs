//! Encrypted config files: sealed before they are proposed, opened for a single read by a caller that may edit the
//! file. Lists, searches and answers to writes never contain their content.

use std::sync::Arc;

use super::write::{Items, made};
use super::{Caller, Operations};
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigFileDraft, ConfigKey};
use crate::model::content::Content;

impl Operations {
    /// Seals drafts before they are proposed. Whether a file is encrypted is known from a linearizable read, so that an
    /// outdated node never puts a content into the log in clear.
    pub async fn seal_files(
        &self,
        caller: &Caller,
        items: Items<ConfigFileDraft>,
    ) -> Result<Items<ConfigFileDraft>, Refusal> {
        let mut drafts = items.iter().flatten();
        if drafts.any(|draft| draft.content.is_some() || draft.encrypted.is_some()) {
            self.node.await_linearizable().await?;
        }
        let node = self.node.clone();
        let caller = caller.clone();
        let weight = items.iter().flatten().filter_map(|draft| draft.content.as_ref()).map(String::len).sum();
        self.read_through(weight, move || {
            let seal = |draft: ConfigFileDraft| {
                let key = draft.key();
                let there = node.state().catalog().configs.file(&key).cloned();
                node.keyring().seal_file(draft, there.as_deref(), caller.edits(&key.namespace, &key.group))
            };
            made(items, seal)
        })
        .await
    }

    /// Fills in content and format from the template, where a draft of a new file names one and gives none.
    pub(super) async fn fill_files(&self, items: Items<ConfigFileDraft>) -> Result<Items<ConfigFileDraft>, Refusal> {
        let named = |draft: &ConfigFileDraft| draft.template.as_deref().is_some_and(|name| !name.is_empty());
        if !items.iter().flatten().any(named) {
            return Ok(items);
        }
        self.node.await_linearizable().await?;
        let catalog = self.node.state().catalog();
        let fill = |mut draft: ConfigFileDraft| {
            let Some(name) = draft.template.take().filter(|name| !name.is_empty()) else { return Ok(draft) };
            let none = || Refusal::new(Code::NotFoundResource, format!("no template is called {name:?}"));
            let template = catalog.templates.get(&name).ok_or_else(none)?;
            draft.content.get_or_insert_with(|| template.content.clone());
            if draft.given_format().is_none() {
                draft.format = Some(template.format.word().to_owned());
            }
            Ok(draft)
        };
        Ok(made(items, fill))
    }

    /// Returns a content with its text. Blocks if the text has to be read from disk.
    pub fn whole(&self, content: &Content) -> Result<Content, Refusal> {
        let read = self.node.member().whole(content).map_err(|error| {
            tracing::error!(%error, "a content cannot be read");
            Refusal::from(Code::ExecuteException)
        })?;
        read.ok_or_else(|| Refusal::new(Code::NotFoundResource, "the release was deleted meanwhile"))
    }

    /// Returns a content in clear, or `None` if it is encrypted and the caller may not read it. Blocks if the text has
    /// to be read from disk.
    pub fn shown_content(
        &self,
        caller: &Caller,
        key: &ConfigKey,
        encrypted: bool,
        content: &Content,
    ) -> Result<Option<Arc<str>>, Refusal> {
        if encrypted && !caller.edits(&key.namespace, &key.group) {
            return Ok(None);
        }
        let content = self.whole(content)?;
        if encrypted {
            return self.node.keyring().open_content(key, &content).map(Some);
        }
        Ok(content.text().cloned())
    }

    /// Returns a content in clear like [`Self::shown_content`], but refuses a caller that may not read it.
    pub fn needed_content(
        &self,
        caller: &Caller,
        key: &ConfigKey,
        encrypted: bool,
        content: &Content,
    ) -> Result<Arc<str>, Refusal> {
        self.shown_content(caller, key, encrypted, content)?.ok_or_else(withheld)
    }
}

pub(crate) fn withheld() -> Refusal {
    Refusal::new(Code::NotAllowedAccess, "the file is encrypted: reading its content needs edit")
}

/// Refuses a template, which only the creation of a file can name.
pub(super) fn refuse_template(draft: &ConfigFileDraft) -> Result<(), Refusal> {
    match &draft.template {
        Some(name) if !name.is_empty() => {
            Err(Refusal::new(Code::InvalidParameter, "template: a file is made of one when it is created"))
        }
        _ => Ok(()),
    }
}
