//! Contracts of config files.

use std::sync::Arc;

use super::{CompiledContracts, ContractVerdict};
use crate::catalog::{Catalog, Command, Outcome};
use crate::contracts::{ContractDocument, ValidationSubject};
use crate::keyring::Keyring;
use crate::model::code::Refusal;
use crate::model::config_file::{ConfigKey, ConfigRelease, ConfigReleaseDraft, Format};
use crate::model::content::Content;
use crate::model::contract::{Contract, Violation};
use crate::model::grant::Verb;
use crate::model::policy::{Place, PolicyKind};
use crate::model::release::{Pin, ReleaseOp};
use crate::model::rollout::gives_to_all;
use crate::operations::{Caller, Items, Operations};

/// A file with its contracts, and the release that they compare it with.
#[derive(Clone)]
pub(in crate::operations) struct JudgedFile {
    key: ConfigKey,
    contracts: Vec<Arc<Contract>>,
    in_force: Option<Arc<ConfigRelease>>,
    caller: Caller,
}

/// Format, clear text, and encryption of a content to be validated.
pub(in crate::operations) type JudgedText<'a> = (Format, &'a str, bool);

impl JudgedFile {
    /// Returns `None` for a file that no contract binds.
    pub(in crate::operations) fn of(catalog: &Catalog, key: &ConfigKey, caller: &Caller) -> Option<JudgedFile> {
        if catalog.contracts.is_empty() {
            return None;
        }
        let contracts = catalog.contracts.applicable(PolicyKind::ConfigFile, &[Place::File(key.clone())]);
        let in_force = catalog.configs.active_release(key).cloned();
        (!contracts.is_empty()).then(|| JudgedFile { key: key.clone(), contracts, in_force, caller: caller.clone() })
    }

    /// Returns the version of the release in force, 0 for none, if a contract compares with it.
    pub(in crate::operations) fn compared_with(&self) -> Option<u64> {
        let compares = self.contracts.iter().any(|contract| !contract.rules.is_empty());
        compares.then(|| self.in_force.as_ref().map_or(0, |release| release.version))
    }

    /// Validates a clear content and returns the violations. Those of an encrypted file reveal nothing of its content
    /// to a caller that may not edit the file. Fails if this node cannot open the release in force.
    pub(in crate::operations) fn broken(
        &self,
        engines: &CompiledContracts,
        keyring: &Keyring,
        (format, text, is_sealed): JudgedText<'_>,
    ) -> Result<Vec<Violation>, Refusal> {
        let ConfigKey { namespace, group, file } = &self.key;
        let may_see = self.caller.edits(namespace, group);
        let in_force = self.in_force.as_ref().filter(|_| self.compared_with().is_some());
        let old = in_force.map(|release| document(keyring, release)).transpose()?;
        let subject = ValidationSubject {
            kind: PolicyKind::ConfigFile,
            namespace: namespace.clone(),
            name: format!("{group}/{file}"),
            user: self.caller.name.clone(),
            new: ContractDocument::File { format, text: text.to_owned(), is_sealed },
            old,
            may_see,
        };
        Ok(engines.judge(&self.contracts, &subject))
    }

    /// Validates a release that all clients would get. Fails if this node cannot open it.
    pub(super) fn broken_by(
        &self,
        engines: &CompiledContracts,
        keyring: &Keyring,
        release: &ConfigRelease,
    ) -> Result<Vec<Violation>, Refusal> {
        let (format, is_sealed) = (Format::read_as(&release.key.file, release.format), release.encrypted);
        let text = clear(keyring, &release.key, &release.content, is_sealed)?;
        self.broken(engines, keyring, (format, &text, is_sealed))
    }

    /// Reports whether the caller may publish the file. Apply refuses the others, who learn nothing here.
    pub(in crate::operations) fn is_released_by_caller(&self, writes: bool) -> bool {
        let ConfigKey { namespace, group, .. } = &self.key;
        let grants = &self.caller.grants;
        grants.may(Verb::Release, namespace, group) && (!writes || grants.may(Verb::Edit, namespace, group))
    }
}

/// Returns the content of a release in clear.
pub(super) fn document(keyring: &Keyring, release: &ConfigRelease) -> Result<ContractDocument, Refusal> {
    let text = clear(keyring, &release.key, &release.content, release.encrypted)?;
    let format = Format::read_as(&release.key.file, release.format);
    Ok(ContractDocument::File { format, text: text.to_string(), is_sealed: release.encrypted })
}

fn clear(keyring: &Keyring, key: &ConfigKey, content: &Content, is_sealed: bool) -> Result<Arc<str>, Refusal> {
    if is_sealed { keyring.open_content(key, content) } else { Ok(Arc::from(&**content)) }
}

impl Operations {
    /// Promotes gray releases, unless a contract refuses what all clients would get. If the release, or the one in
    /// force, is another by the time of apply, it is validated again.
    pub(in crate::operations) async fn promote_kept_files(
        &self,
        caller: &Caller,
        op: ReleaseOp,
        items: Items<ConfigReleaseDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let find = |catalog: &Catalog, draft: &ConfigReleaseDraft, by: &Caller| {
            let release = catalog.named_release(draft)?;
            if !gives_to_all(op, draft.action, release.rollout.as_deref()) {
                return None;
            }
            let file = JudgedFile::of(catalog, &draft.key(), by).filter(|file| file.is_released_by_caller(false))?;
            let pin = Pin { version: Some(release.version), in_force: file.compared_with(), ..Pin::default() };
            Some((Some((file, release)), pin))
        };
        let (node, engines) = (self.node.clone(), self.engines.clone());
        let verdict = move |(file, release): (JudgedFile, Arc<ConfigRelease>)| {
            ContractVerdict::of_judgement(file.broken_by(&engines, node.keyring(), &release))
        };
        let pin = |draft: &mut ConfigReleaseDraft, pin| draft.pin = pin;
        self.publish_rounds(caller, items, find, pin, verdict, |items| Command::ConfigReleases(op, items)).await
    }
}
