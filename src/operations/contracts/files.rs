//! Contracts of config files.

use std::sync::Arc;

use super::{ContractVerdict, Engines, Sifted};
use crate::catalog::{Catalog, Outcome};
use crate::contracts::{JudgedThing, Material};
use crate::keyring::Keyring;
use crate::model::code::Refusal;
use crate::model::config_file::{ConfigKey, ConfigRelease, ConfigReleaseDraft, Format};
use crate::model::content::Content;
use crate::model::contract::{Broken, Contract};
use crate::model::grant::Verb;
use crate::model::policy::PolicyKind;
use crate::model::release::ReleaseOp;
use crate::model::rollout::gives_to_all;
use crate::operations::{Caller, Items, Operations};

/// A file with its contracts, and what they compare it with.
#[derive(Clone)]
pub(in crate::operations) struct JudgedFile {
    key: ConfigKey,
    contracts: Vec<Arc<Contract>>,
    in_force: Option<Arc<ConfigRelease>>,
    caller: Caller,
}

impl JudgedFile {
    /// `None` for a file that no contract binds.
    pub(in crate::operations) fn of(catalog: &Catalog, key: &ConfigKey, caller: &Caller) -> Option<JudgedFile> {
        if catalog.contracts.is_empty() {
            return None;
        }
        let name = format!("{}/{}", key.group, key.file);
        let contracts = catalog.contracts.binding(PolicyKind::ConfigFile, &key.namespace, &name);
        let in_force = catalog.configs.active_release(key).cloned();
        (!contracts.is_empty()).then(|| JudgedFile { key: key.clone(), contracts, in_force, caller: caller.clone() })
    }

    /// Places at which a content breaks its contracts. It is clear; who may not edit the file learns nothing of one
    /// that is kept encrypted.
    pub(in crate::operations) fn broken(
        &self,
        engines: &Engines,
        keyring: &Keyring,
        (format, text, is_sealed): (Format, &str, bool),
    ) -> Vec<Broken> {
        let ConfigKey { namespace, group, file } = &self.key;
        let may_see = self.caller.edits(namespace, group);
        let subject = JudgedThing {
            kind: PolicyKind::ConfigFile,
            namespace: namespace.clone(),
            name: format!("{group}/{file}"),
            user: self.caller.name.clone(),
            new: Material::File { format, text: text.to_owned(), is_sealed },
            old: self.in_force.as_ref().and_then(|release| material(keyring, release).ok()),
            may_see,
        };
        engines.judge(&self.contracts, &subject)
    }

    /// True if the caller may publish it: who may not is refused where it is applied, and learns nothing here.
    pub(in crate::operations) fn is_released_by_caller(&self, writes: bool) -> bool {
        let ConfigKey { namespace, group, .. } = &self.key;
        let grants = &self.caller.grants;
        grants.may(Verb::Release, namespace, group) && (!writes || grants.may(Verb::Edit, namespace, group))
    }
}

/// Clear content of a release.
pub(super) fn material(keyring: &Keyring, release: &ConfigRelease) -> Result<Material, Refusal> {
    let text = clear(keyring, &release.key, &release.content, release.encrypted)?;
    let format = Format::read_as(&release.key.file, release.format);
    Ok(Material::File { format, text: text.to_string(), is_sealed: release.encrypted })
}

fn clear(keyring: &Keyring, key: &ConfigKey, content: &Content, is_sealed: bool) -> Result<Arc<str>, Refusal> {
    if is_sealed { keyring.open_content(key, content) } else { Ok(Arc::from(&**content)) }
}

impl Operations {
    /// Promotions without those that contracts refuse, and the outcomes of these.
    pub(in crate::operations) async fn sift_promotions(
        &self,
        caller: &Caller,
        op: ReleaseOp,
        items: Items<ConfigReleaseDraft>,
    ) -> Result<(Items<ConfigReleaseDraft>, Vec<Option<Outcome>>), Refusal> {
        if self.node().state().catalog().contracts.is_empty() {
            return Ok((items, Vec::new()));
        }
        self.node().await_linearizable().await?;
        let caller = caller.again(self)?;
        let judged: Vec<Option<(JudgedFile, Arc<ConfigRelease>)>> = {
            let catalog = self.node().state().catalog();
            let of = |draft: &ConfigReleaseDraft| {
                let key = draft.key();
                let release = catalog.named_release(draft)?;
                if !gives_to_all(op, draft.action, release.rollout.as_deref()) {
                    return None;
                }
                let file = JudgedFile::of(&catalog, &key, &caller).filter(|file| file.is_released_by_caller(false))?;
                Some((file, release))
            };
            items.iter().map(|item| item.as_ref().ok().and_then(of)).collect()
        };
        if judged.iter().all(Option::is_none) {
            return Ok((items, Vec::new()));
        }
        let (node, engines) = (self.node().clone(), self.engines.clone());
        let verdict = move |judged: &Option<(JudgedFile, Arc<ConfigRelease>)>| {
            let Some((file, release)) = judged else { return ContractVerdict::default() };
            let Ok(Material::File { format, text, is_sealed }) = material(node.keyring(), release) else {
                return ContractVerdict::default();
            };
            ContractVerdict::of(file.broken(&engines, node.keyring(), (format, &text, is_sealed)))
        };
        let verdicts = self.on_scan_turn(move || judged.iter().map(verdict).collect()).await?;
        let Sifted { items, refused } = Sifted::new(items, verdicts);
        Ok((items, refused))
    }
}
