//! Trials: validation of files and rules that are not stored. Nothing is written.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::CompiledContracts;
use crate::catalog::Catalog;
use crate::contracts::{ContractDocument, ValidationSubject};
use crate::keyring::Keyring;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigKey, Format};
use crate::model::contract::{Contract, Violation};
use crate::model::policy::{Place, PolicyKind};
use crate::operations::{Caller, Items, Operations};

/// A file or a rule to be validated.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrialDraft {
    /// `configfile` if absent.
    pub kind: PolicyKind,
    pub namespace: String,
    /// The rule's name; for a config file `group/file`, or the file where `group` is given.
    pub name: String,
    /// Group of a config file; if absent, the part of `name` before its first slash.
    pub group: String,
    /// Content of a config file.
    pub content: String,
    /// Format of a config file: `text`, `yaml`, `xml`, `json`, `html`, `properties` or `toml`; if absent, by the
    /// suffix.
    pub format: String,
    /// Fields of a rule.
    pub body: Map<String, Value>,
}

impl Default for TrialDraft {
    fn default() -> Self {
        let text = String::new;
        let (namespace, name, group, content, format) = (text(), text(), text(), text(), text());
        TrialDraft { kind: PolicyKind::ConfigFile, namespace, name, group, content, format, body: Map::new() }
    }
}

impl TrialDraft {
    fn check(&self) -> Result<(), Refusal> {
        let refuse = |why: &str| Err(Refusal::new(Code::InvalidParameter, why));
        if self.namespace.is_empty() || self.name.is_empty() {
            return refuse("namespace and name are required");
        }
        match self.kind {
            PolicyKind::ConfigFile if self.group.is_empty() && !self.name.contains('/') => {
                refuse("name: group/file of a config file")
            }
            PolicyKind::ConfigFile if !self.format.is_empty() && Format::of_word(&self.format).is_err() => {
                Err(Code::InvalidConfigFileFormat.into())
            }
            _ => Ok(()),
        }
    }

    fn key(&self) -> ConfigKey {
        let (group, file) = match self.group.as_str() {
            "" => self.name.split_once('/').unwrap_or(("", &self.name)),
            group => (group, self.name.as_str()),
        };
        ConfigKey::new(&self.namespace, group, file)
    }

    fn place(&self) -> Place {
        match self.kind {
            PolicyKind::ConfigFile => Place::File(self.key()),
            PolicyKind::Rule(_) => Place::Rule { namespace: self.namespace.clone(), name: self.name.clone() },
        }
    }

    fn subject(&self, catalog: &Catalog, keyring: &Keyring, caller: &Caller) -> ValidationSubject {
        let place = self.place();
        let (namespace, scope_name) = place.scope();
        let may_see = caller.edits(namespace, scope_name);
        let (new, old) = match self.kind {
            PolicyKind::ConfigFile => {
                let key = self.key();
                let given = Format::of_word(&self.format);
                let format = given.unwrap_or_else(|_| Format::of_new(&key.file));
                let format = Format::read_as(&key.file, format);
                let in_force = catalog.configs.active_release(&key);
                // Callers without the right to edit must not learn an encrypted content by comparison.
                let in_force = in_force.filter(|release| may_see || !release.encrypted);
                let old = in_force.and_then(|release| super::files::document(keyring, release).ok());
                (ContractDocument::File { format, text: self.content.clone(), is_sealed: false }, old)
            }
            PolicyKind::Rule(family) => {
                let there = catalog.rules.of(family).named(&self.namespace, &self.name);
                let in_force = there.and_then(|rule| catalog.rule_in_force_of(rule));
                let old = in_force.map(|rule| ContractDocument::Rule(super::rules::body(&rule)));
                (ContractDocument::Rule(Value::Object(self.body.clone())), old)
            }
        };
        ValidationSubject {
            kind: self.kind,
            namespace: self.namespace.clone(),
            name: place.name(),
            user: caller.name.clone(),
            new,
            old,
            may_see,
        }
    }
}

/// A file or rule with the contracts that bind it.
struct Trial {
    subject: ValidationSubject,
    contracts: Vec<Arc<Contract>>,
}

impl Trial {
    fn broken(&self, engines: &CompiledContracts) -> Vec<Violation> {
        engines.judge(&self.contracts, &self.subject)
    }
}

impl Operations {
    /// Validates files and rules without storing them, and returns the violations of each. Requires read on each.
    pub async fn try_contracts(
        &self,
        caller: &Caller,
        items: Items<TrialDraft>,
    ) -> Result<Vec<Result<Vec<Violation>, Refusal>>, Refusal> {
        let read_scope = caller.read_scope();
        let trials: Vec<Result<Trial, Refusal>> = {
            let catalog = self.node().state().catalog();
            let trial = |draft: TrialDraft| {
                draft.check()?;
                let place = draft.place();
                let (namespace, scope_name) = place.scope();
                if !read_scope.sees(namespace, scope_name) {
                    return Err(Refusal::new(Code::NotAllowedAccess, "this needs read"));
                }
                let contracts = catalog.contracts.applicable(draft.kind, &[place]);
                Ok(Trial { subject: draft.subject(&catalog, self.node().keyring(), caller), contracts })
            };
            items.into_iter().map(|item| item.and_then(trial)).collect()
        };
        let engines = self.engines.clone();
        let broken = move |trial: Result<Trial, Refusal>| trial.map(|trial| trial.broken(&engines));
        self.in_pieces(&self.turns.trials, trials, broken).await
    }
}
