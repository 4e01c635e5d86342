//! Validation of config contents on the node that receives the request. A fault is a warning when a draft is saved, and
//! a refusal when it is published.
//!
//! A publication may depend on the state: on the content of a draft, or the format of a file. So a batch goes through
//! [`Rounds`], each of which prepares and proposes the [`Slot`]s that are not done.
//!
//! A content to be encrypted is validated in clear and sealed afterwards. A caller that may not read the content learns
//! only the place of a fault, not its text.

use std::sync::Arc;

use super::contracts::{CompiledContracts, ContractVerdict, JudgedFile};
use super::publication::{Publication, twins_of};
use super::rounds::{Rounds, Slot};
use super::write::{Items, WithWarnings};
use super::{Caller, Operations};
use crate::catalog::{Catalog, Command};
use crate::keyring::Keyring;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigFileDraft, ConfigKey, Format, Judged};
use crate::model::content::Content;
use crate::model::contract::Violation;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::release::Pin;
use crate::well_formed::{self, Fault};

/// A file as it will be after the write, as far as this node can see.
struct ExpectedFile {
    key: ConfigKey,
    format: Format,
    /// The stored content, unless the write replaces it.
    kept: Option<Content>,
    /// True if `kept` is sealed.
    is_sealed: bool,
    /// True if the file is encrypted after the write.
    encrypted: bool,
}

impl ExpectedFile {
    /// Returns `None` if there is nothing to validate, or nothing that the caller may see.
    fn of(
        key: &ConfigKey,
        draft: Option<&ConfigFileDraft>,
        catalog: &Catalog,
        read_scope: &ReadScope,
    ) -> Option<ExpectedFile> {
        let there = catalog.configs.file(key).filter(|_| read_scope.sees(&key.namespace, &key.group));
        let given = draft.and_then(ConfigFileDraft::given_format);
        let format = match (given, there) {
            (Some(given), _) => given,
            (None, Some(file)) => file.format,
            (None, None) => Format::of_new(&key.file),
        };
        let kept = match (draft.map(|draft| &draft.content), there) {
            (Some(Some(_)), _) => None,
            (_, Some(file)) => Some(file.content.clone()),
            (Some(None), None) => Some(Content::default()),
            (None, None) => return None,
        };
        let is_encrypted = there.is_some_and(|file| file.encrypted);
        Some(ExpectedFile {
            key: key.clone(),
            format: Format::read_as(&key.file, format),
            is_sealed: is_encrypted && kept.is_some(),
            kept,
            encrypted: draft.and_then(|draft| draft.encrypted).unwrap_or(is_encrypted),
        })
    }

    /// Returns the content in its stored form.
    fn text<'a>(&'a self, draft: Option<&'a ConfigFileDraft>) -> &'a str {
        match &self.kept {
            Some(content) => content,
            None => draft.and_then(|draft| draft.content.as_deref()).unwrap_or_default(),
        }
    }

    /// Returns the content in clear.
    fn clear(&self, draft: Option<&ConfigFileDraft>, keyring: &Keyring) -> Result<Arc<str>, Refusal> {
        match self.kept.as_ref().filter(|_| self.is_sealed) {
            Some(sealed) => keyring.open_content(&self.key, sealed),
            None => Ok(Arc::from(self.text(draft))),
        }
    }

    /// Returns the number of bytes that a check reads.
    fn weight(&self, draft: Option<&ConfigFileDraft>) -> usize {
        if well_formed::has_rules(self.format) { self.text(draft).len() } else { 0 }
    }

    /// Checks the content against the format. A sealed content is opened first.
    fn check(&self, draft: Option<&ConfigFileDraft>, keyring: &Keyring, may_see: bool) -> Result<(), Unfit> {
        let Some(sealed) = self.kept.as_ref().filter(|_| self.is_sealed && well_formed::has_rules(self.format)) else {
            return well_formed::check(self.format, self.text(draft)).map_err(Unfit::Faulty);
        };
        let clear = keyring.open_content(&self.key, sealed).map_err(Unfit::Unreadable)?;
        well_formed::check(self.format, &clear).map_err(|fault| {
            let why = if may_see { fault.why } else { "the error is shown only to editors".to_owned() };
            Unfit::Faulty(Fault { why, ..fault })
        })
    }
}

/// Reason why a content is not published.
enum Unfit {
    Faulty(Fault),
    /// The content is sealed, and this node cannot open it.
    Unreadable(Refusal),
}

/// Reports whether a publication depends on the stored file.
fn depends_on_state(item: &impl Publication) -> bool {
    item.file().is_none_or(|draft| {
        let has_format = Format::of_suffix(&draft.name).is_some() || draft.given_format().is_some();
        draft.content.is_none() || !has_format
    })
}

impl<T: Publication> Slot<T> {
    fn file(&self) -> Option<&ConfigFileDraft> {
        self.item.as_ref()?.file()
    }

    /// Validates the expected file against its contracts, and adds their warnings or their refusal.
    fn keep(&mut self, contracts: &JudgedFile, file: &ExpectedFile, engines: &CompiledContracts, keyring: &Keyring) {
        let Some(item) = self.item.as_ref().filter(|item| contracts.is_released_by_caller(item.file().is_some()))
        else {
            return;
        };
        match file.clear(item.file(), keyring) {
            Ok(text) => {
                let broken = contracts.broken(engines, keyring, (file.format, &text, file.encrypted));
                self.judge(ContractVerdict::of_judgement(broken));
            }
            Err(refusal) => self.step(|_| Err(refusal)),
        }
    }

    fn twins(&self, catalog: &Catalog, read_scope: &ReadScope) -> Vec<String> {
        self.item.as_ref().map(|item| twins_of(catalog, &item.key(), read_scope)).unwrap_or_default()
    }

    fn expected(&self, catalog: &Catalog, read_scope: &ReadScope) -> Option<ExpectedFile> {
        let item = self.item.as_ref()?;
        ExpectedFile::of(&item.key(), item.file(), catalog, read_scope)
    }
}

impl Operations {
    /// Runs `work`, which reads that many bytes; on a blocking thread if they are many.
    pub(super) async fn read_through<A: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        if bytes <= limits::JUDGED_INLINE_BYTES_MAX { Ok(work()) } else { self.on_scan_turn(work).await }
    }

    /// Returns the drafts, and for each the faults that would prevent its publication.
    pub async fn faults(
        &self,
        caller: &Caller,
        items: Items<ConfigFileDraft>,
    ) -> Result<(Items<ConfigFileDraft>, Vec<Vec<String>>), Refusal> {
        let read_scope = caller.read_scope();
        let twins: Vec<Vec<String>>;
        let files: Vec<(Option<ExpectedFile>, Option<JudgedFile>)> = {
            let catalog = self.node.state().catalog();
            let twins_of = |draft: &ConfigFileDraft| twins_of(&catalog, &draft.key(), &read_scope);
            twins = items.iter().map(|item| item.as_ref().map(twins_of).unwrap_or_default()).collect();
            let of = |draft: &ConfigFileDraft| {
                let key = draft.key();
                // A caller that may not save the file learns nothing of the release in force.
                let edits = caller.edits(&key.namespace, &key.group);
                let contracts = edits.then(|| JudgedFile::of(&catalog, &key, caller)).flatten();
                (ExpectedFile::of(&key, Some(draft), &catalog, &read_scope), contracts)
            };
            items.iter().map(|item| item.as_ref().map_or((None, None), of)).collect()
        };
        let drafts = items.iter().map(|item| item.as_ref().ok());
        let weights = files.iter().zip(drafts).filter_map(|((file, _), draft)| Some(file.as_ref()?.weight(draft)));
        let bytes = weights.sum();
        let (engines, node, by) = (self.engines.clone(), self.node.clone(), caller.clone());
        let (mut items, mut faults, files) = self
            .read_through(bytes, move || {
                let of = |(item, (file, _)): (&Result<ConfigFileDraft, Refusal>, &(Option<ExpectedFile>, _))| {
                    fault_of(item.as_ref().ok()?, file.as_ref()?, &by, node.keyring())
                };
                let faults: Vec<Vec<String>> =
                    items.iter().zip(&files).map(|row| of(row).into_iter().collect()).collect();
                (items, faults, files)
            })
            .await?;
        for (at, (file, contracts)) in files.into_iter().enumerate() {
            let (Some(file), Some(contracts)) = (file, contracts) else { continue };
            if items[at].is_err() || !faults[at].is_empty() {
                continue;
            }
            let item = std::mem::replace(&mut items[at], Err(Code::ExecuteException.into()));
            let (engines, node) = (engines.clone(), self.node.clone());
            let told = move || {
                let broken = item.as_ref().map_err(Clone::clone).and_then(|draft| {
                    let text = file.clear(Some(draft), node.keyring())?;
                    contracts.broken(&engines, node.keyring(), (file.format, &text, file.encrypted))
                });
                let told = broken.map(|broken| broken.iter().map(Violation::text).collect()).unwrap_or_default();
                (item, told)
            };
            (items[at], faults[at]) = self.on_turn(&self.turns.judgements, told).await?;
        }
        faults.iter_mut().zip(twins).for_each(|(faults, twins)| faults.extend(twins));
        Ok((items, faults))
    }

    /// Publishes what is well-formed; with `force`, also what is not.
    pub async fn publish<T: Publication>(
        &self,
        caller: &Caller,
        items: Items<T>,
        force: bool,
        command: impl Fn(Vec<T>) -> Command,
    ) -> Result<WithWarnings, Refusal> {
        let mut rounds = Rounds::new(items);
        while let Some(asking) = rounds.next(self, caller).await? {
            let (slots, round) = (std::mem::take(&mut rounds.slots), Round { force, is_last: rounds.is_last() });
            rounds.slots = self.prepare((caller, asking), slots, round).await?;
            rounds.propose(self, caller, &command).await?;
        }
        Ok(rounds.finish(self))
    }

    /// Prepares publications for the proposal: validates them against the stored files, records in each the state that
    /// it is conditional on, and seals the contents of encrypted files.
    async fn prepare<T: Publication>(
        &self,
        (caller, asking): (&Caller, Caller),
        mut slots: Vec<Slot<T>>,
        round: Round,
    ) -> Result<Vec<Slot<T>>, Refusal> {
        let read_scope = asking.read_scope();
        let mut contracts: Vec<Option<JudgedFile>> = Vec::new();
        let files: Vec<Option<ExpectedFile>> = {
            let catalog = self.node.state().catalog();
            contracts.extend(slots.iter().map(|slot| JudgedFile::of(&catalog, &slot.item.as_ref()?.key(), &asking)));
            for slot in slots.iter_mut().filter(|slot| slot.item.is_some()) {
                slot.warnings = slot.twins(&catalog, &read_scope);
            }
            slots.iter().map(|slot| slot.expected(&catalog, &read_scope)).collect()
        };
        let weights = files.iter().zip(&slots).filter_map(|(file, slot)| Some(file.as_ref()?.weight(slot.file())));
        let written = slots.iter().filter_map(|slot| slot.file()?.content.as_ref()).map(String::len);
        let bytes = weights.sum::<usize>().max(written.sum());
        let (node, engines) = (self.node.clone(), self.engines.clone());
        let by = caller.clone();
        let rows: Vec<_> = self
            .read_through(bytes, move || {
                let validation = Validation { caller: &by, keyring: node.keyring(), round };
                let looked_at = slots.into_iter().zip(files).zip(contracts).map(|((mut slot, file), contracts)| {
                    slot.step(|item| validation.validated(item, file.as_ref(), contracts.as_ref()));
                    (slot, file, contracts)
                });
                looked_at.collect()
            })
            .await?;
        let mut slots = Vec::with_capacity(rows.len());
        for (mut slot, file, contracts) in rows {
            slots.push(match (file, contracts) {
                (Some(file), Some(contracts)) if slot.item.is_some() => {
                    let (node, engines) = (self.node.clone(), engines.clone());
                    let keep = move || {
                        slot.keep(&contracts, &file, &engines, node.keyring());
                        slot
                    };
                    self.on_turn(&self.turns.judgements, keep).await?
                }
                _ => slot,
            });
        }
        let (node, caller) = (self.node.clone(), caller.clone());
        self.read_through(bytes, move || {
            for slot in &mut slots {
                slot.again = slot.item.as_ref().filter(|item| !round.is_last && item.is_judged()).cloned();
                slot.step(|item| {
                    let key = item.key();
                    let there = node.state().catalog().configs.file(&key).cloned();
                    item.sealed(node.keyring(), there.as_deref(), caller.edits(&key.namespace, &key.group))
                });
            }
            slots
        })
        .await
    }
}

/// Returns the reason why a saved draft could not be published, for its author. A stored sealed content is checked only
/// for callers that may read it; apply refuses the others.
fn fault_of(draft: &ConfigFileDraft, file: &ExpectedFile, caller: &Caller, keyring: &Keyring) -> Option<String> {
    let may_see = caller.edits(&draft.namespace, &draft.group);
    if file.is_sealed && !may_see {
        return None;
    }
    match file.check(Some(draft), keyring, may_see) {
        Err(Unfit::Faulty(fault)) => {
            Some(format!("{fault}; as {} it cannot be published like this", file.format.word()))
        }
        Err(Unfit::Unreadable(_)) | Ok(()) => None,
    }
}

/// One round of a batch.
#[derive(Clone, Copy)]
struct Round {
    /// True to publish also what is not well-formed.
    force: bool,
    is_last: bool,
}

/// Settings by which publications are validated.
struct Validation<'a> {
    caller: &'a Caller,
    keyring: &'a Keyring,
    round: Round,
}

impl Validation<'_> {
    fn validated<T: Publication>(
        &self,
        mut item: T,
        file: Option<&ExpectedFile>,
        contracts: Option<&JudgedFile>,
    ) -> Result<T, Refusal> {
        let mut judged = self.condition(&item, file, contracts.is_some())?;
        if let Some(judged) = &mut judged {
            judged.comes_again = !self.round.is_last;
        }
        let comes_again = !self.round.is_last;
        let in_force = contracts.and_then(JudgedFile::compared_with);
        item.release().pin = in_force.map(|version| Pin { in_force: Some(version), comes_again, ..Pin::default() });
        item.release().judged = judged;
        Ok(item)
    }

    /// Returns the content and format that the publication is conditional on, if any; or the reason of the refusal.
    fn condition<T: Publication>(
        &self,
        item: &T,
        file: Option<&ExpectedFile>,
        has_contracts: bool,
    ) -> Result<Option<Judged>, Refusal> {
        let Some(file) = file else {
            // Apply refuses a file that does not exist or is not seen. One that is created meanwhile has not been
            // validated.
            let is_conditional = !self.round.force || has_contracts;
            return Ok(is_conditional.then(|| Judged::new(&Content::default(), Format::Text)));
        };
        // Apply checks properties, unless they are sealed.
        let is_hidden = file.format == Format::Properties && file.encrypted;
        if is_hidden || (file.format != Format::Properties && !self.round.force) {
            let may_see = self.caller.edits(&file.key.namespace, &file.key.group);
            file.check(item.file(), self.keyring, may_see).map_err(|unfit| match unfit {
                Unfit::Faulty(fault) if is_hidden => Refusal::new(Code::NotMatchContentToFormat, fault.to_string()),
                Unfit::Faulty(fault) => refusal(file.format, &fault),
                Unfit::Unreadable(refusal) => refusal,
            })?;
        }
        let is_conditional = is_hidden || (depends_on_state(item) && (!self.round.force || has_contracts));
        if !is_conditional {
            return Ok(None);
        }
        let content = file.kept.clone().unwrap_or_else(|| Content::from(file.text(item.file())));
        Ok(Some(Judged::new(&content, file.format)))
    }
}

fn refusal(format: Format, fault: &Fault) -> Refusal {
    let why = format!("{fault}; mend the {}, or publish it as it is with force=true", format.word());
    Refusal::new(Code::NotMatchContentToFormat, why)
}
