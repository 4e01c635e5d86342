//! Re-sealing after a change of the data key. What is sealed under an earlier key is sealed again by ordinary updates,
//! which are authorized and audited. One call does a part of the work and reports what is left.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Caller, FAR, Operations};
use crate::catalog::configs::FileFilter;
use crate::catalog::page::Page;
use crate::catalog::{Catalog, Command, Op, Outcome};
use crate::keyring::Keyring;
use crate::model::access_key::AccessKeyDraft;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigFile, ConfigFileDraft};
use crate::model::limits;
use crate::model::sso::ProviderDraft;
use crate::model::webhook::WebhookDraft;

/// Limit for the characters of sealed contents that one call proposes; a single file may exceed it.
const CONTENT_CHARS_MAX: usize = 1024 * 1024;

/// Result of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Resealing {
    /// Number of secrets and contents that this call sealed under the first data key.
    pub done: Sealed,
    /// Number of those still sealed under another key.
    pub left: Sealed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sealed {
    pub access_keys: usize,
    pub webhooks: usize,
    /// Client secrets of identity providers.
    pub providers: usize,
    /// Drafts of config files.
    pub config_files: usize,
    /// Releases of config files. They never change: they are deleted with their files, by request, or by the limit on
    /// inactive releases.
    pub config_releases: usize,
}

/// The next updates to propose.
#[derive(Default)]
struct Updates {
    keys: Vec<AccessKeyDraft>,
    hooks: Vec<WebhookDraft>,
    providers: Vec<ProviderDraft>,
    files: Vec<ConfigFileDraft>,
}

impl Operations {
    pub async fn reseal(&self, caller: &Caller) -> Result<Resealing, Refusal> {
        if !self.node.keyring().has_key() {
            return Err(Code::NoDataKey.into());
        }
        self.node.await_linearizable().await?;
        let node = self.node.clone();
        let Updates { keys, hooks, providers, files } =
            self.scan(FAR, move |catalog| Updates::of(node.keyring(), catalog), |part| part).await?;
        let done = Sealed {
            access_keys: self.seal_anew(caller, keys, |items| Command::AccessKeys(Op::Update, items)).await?,
            webhooks: self.seal_anew(caller, hooks, |items| Command::Webhooks(Op::Update, items)).await?,
            providers: self.seal_anew(caller, providers, |items| Command::Providers(Op::Update, items)).await?,
            config_files: self.seal_anew(caller, files, |items| Command::ConfigFiles(Op::Update, items)).await?,
            config_releases: 0,
        };
        let node = self.node.clone();
        let left = self.scan(FAR, move |catalog| Sealed::earlier(node.keyring(), catalog), |left| left).await?;
        Ok(Resealing { done, left })
    }

    /// Proposes the updates, and returns the number of those that succeeded.
    async fn seal_anew<T>(
        &self,
        caller: &Caller,
        drafts: Vec<T>,
        command: impl FnOnce(Vec<T>) -> Command,
    ) -> Result<usize, Refusal> {
        let outcomes = self.write(caller, drafts.into_iter().map(Ok).collect(), command).await?;
        Ok(outcomes.iter().filter(|Outcome { code, .. }| code.is_success()).count())
    }
}

impl Updates {
    fn of(keyring: &Keyring, catalog: &Catalog) -> Updates {
        let keys = catalog.access_keys.all().filter_map(|held| keyring.resealed_key(&held.key));
        let hooks = catalog.webhooks.all().filter_map(|hook| keyring.resealed_webhook(hook));
        let providers = catalog.access.sso().providers().filter_map(|provider| keyring.resealed_provider(provider));
        let mut part = Updates {
            keys: keys.take(limits::BATCH_ITEMS_MAX).collect(),
            hooks: hooks.take(limits::BATCH_ITEMS_MAX).collect(),
            providers: providers.take(limits::BATCH_ITEMS_MAX).collect(),
            files: Vec::new(),
        };
        if keyring.earlier_files(catalog) == 0 {
            return part;
        }
        let mut chars = 0;
        for draft in files(catalog).iter().filter_map(|file| keyring.resealed_file(file)) {
            chars += draft.content.as_ref().map_or(0, String::len);
            if part.files.len() == limits::BATCH_ITEMS_MAX || (chars > CONTENT_CHARS_MAX && !part.files.is_empty()) {
                break;
            }
            part.files.push(draft);
        }
        part
    }
}

impl Sealed {
    /// Counts what is sealed, but not under the first data key.
    fn earlier(keyring: &Keyring, catalog: &Catalog) -> Sealed {
        let (access_keys, webhooks, providers) = keyring.earlier_secrets(catalog);
        let all = keyring.earlier_files(catalog);
        let drafts = if all == 0 { 0 } else { files(catalog).iter().filter(|file| keyring.is_earlier(file)).count() };
        Sealed { access_keys, webhooks, providers, config_files: drafts, config_releases: all - drafts }
    }
}

fn files(catalog: &Catalog) -> Vec<Arc<ConfigFile>> {
    catalog.configs.list_files(&FileFilter::default(), &Page::ALL).rows
}
