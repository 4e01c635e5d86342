//! Contents judged by the node that takes a request: told of where a draft is saved, refused where it is published.
//!
//! What is published may depend on what is there: the content of a draft, the format of a file. So the node looks
//! at it first and proposes the publish for what it saw alone. Where somebody changed it meanwhile, apply says
//! so, and the node looks again.
//!
//! A content that is kept encrypted is judged like any other, and sealed afterwards. What is wrong with one that the
//! caller may not have is not told, only where.

use super::write::Items;
use super::{Caller, Operations};
use crate::catalog::{Catalog, Command, Outcome};
use crate::format::level::Level;
use crate::keyring::Keyring;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{
    ConfigFile, ConfigFileDraft, ConfigKey, ConfigPublish, ConfigReleaseDraft, Format, Judged,
};
use crate::model::content::Content;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::well_formed::{self, Fault};

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
        self.judged.is_some()
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
        self.release.judged.is_some()
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

/// A file as it will be, as far as this node can see.
struct PublishPreview {
    /// Content that is there, unless another content is written.
    kept: Option<Content>,
    format: Format,
    key: ConfigKey,
    /// True if `kept` is sealed.
    is_sealed: bool,
    /// The file is kept encrypted from then on.
    encrypted: bool,
}

impl PublishPreview {
    /// `None` where there is nothing to judge, or nothing that the caller may see.
    fn of(
        key: &ConfigKey,
        draft: Option<&ConfigFileDraft>,
        catalog: &Catalog,
        read_scope: &ReadScope,
    ) -> Option<PublishPreview> {
        let there = catalog.configs.file(key).filter(|_| read_scope.sees(&key.namespace, &key.group));
        let given = draft.and_then(ConfigFileDraft::given_format);
        let format = match (given, there) {
            (Some(given), _) => given,
            (None, Some(file)) => file.format,
            (None, None) => Format::of_new(&key.file, catalog.level()),
        };
        let kept = match (draft.map(|draft| &draft.content), there) {
            (Some(Some(_)), _) => None,
            (_, Some(file)) => Some(file.content.clone()),
            (Some(None), None) => Some(Content::default()),
            (None, None) => return None,
        };
        let is_encrypted = there.is_some_and(|file| file.encrypted);
        Some(PublishPreview {
            is_sealed: is_encrypted && kept.is_some(),
            encrypted: draft.and_then(|draft| draft.encrypted).unwrap_or(is_encrypted),
            kept,
            format: Format::read_as(&key.file, format),
            key: key.clone(),
        })
    }

    /// As it is kept.
    fn text<'a>(&'a self, draft: Option<&'a ConfigFileDraft>) -> &'a str {
        match &self.kept {
            Some(content) => content,
            None => draft.and_then(|draft| draft.content.as_deref()).unwrap_or_default(),
        }
    }

    /// Bytes that a judgement reads.
    fn weight(&self, draft: Option<&ConfigFileDraft>) -> usize {
        if well_formed::has_rules(self.format) { self.text(draft).len() } else { 0 }
    }

    /// Judges what it says; a sealed content is opened for that.
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
    /// This node cannot say what it says.
    Unreadable(Refusal),
}

/// True if a publication of this file depends on more than it brings along.
fn depends_on_state(item: &impl Publication) -> bool {
    item.file().is_none_or(|draft| {
        let has_format = Format::of_suffix(&draft.name).is_some() || draft.given_format().is_some();
        draft.content.is_none() || !has_format
    })
}

impl Operations {
    /// Does what reads many bytes on a blocking thread.
    pub(crate) async fn judge<A: Send + 'static>(
        &self,
        weight: usize,
        work: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        if weight <= limits::JUDGED_INLINE_BYTES_MAX { Ok(work()) } else { self.on_scan_turn(work).await }
    }
}

impl Operations {
    /// The drafts, and beside each what keeps it from being published as it is.
    pub async fn faults(
        &self,
        caller: &Caller,
        items: Items<ConfigFileDraft>,
    ) -> Result<(Items<ConfigFileDraft>, Vec<Vec<String>>), Refusal> {
        let outlooks: Vec<_> = {
            let (catalog, read_scope) = (self.node.state().catalog(), caller.read_scope());
            let of = |draft: &ConfigFileDraft| PublishPreview::of(&draft.key(), Some(draft), &catalog, &read_scope);
            items.iter().map(|item| item.as_ref().ok().and_then(of)).collect()
        };
        let drafts = items.iter().map(|item| item.as_ref().ok());
        let weights = outlooks.iter().zip(drafts).filter_map(|(outlook, draft)| Some(outlook.as_ref()?.weight(draft)));
        let weight = weights.sum();
        let (node, caller) = (self.node.clone(), caller.clone());
        let note = move || {
            let fault = |(item, outlook): (&Result<ConfigFileDraft, Refusal>, Option<PublishPreview>)| {
                let (draft, outlook) = (item.as_ref().ok()?, outlook?);
                let may_see = caller.edits(&draft.namespace, &draft.group);
                // What is sealed and kept is judged for who may have it: others are refused where it is applied.
                if outlook.is_sealed && !may_see {
                    return None;
                }
                match outlook.check(Some(draft), node.keyring(), may_see) {
                    Err(Unfit::Faulty(fault)) => {
                        Some(format!("{fault}; as {} it cannot be published like this", outlook.format.word()))
                    }
                    Err(Unfit::Unreadable(_)) | Ok(()) => None,
                }
            };
            let faults = items.iter().zip(outlooks).map(|pair| fault(pair).into_iter().collect()).collect();
            (items, faults)
        };
        self.judge(weight, note).await
    }

    /// Publishes what is well-formed, by `force` also what is not.
    pub async fn publish<T: Publication>(
        &self,
        caller: &Caller,
        items: Items<T>,
        force: bool,
        command: impl Fn(Vec<T>) -> Command,
    ) -> Result<Vec<Outcome>, Refusal> {
        let mut outcomes = vec![Outcome::default(); items.len()];
        let mut open = Vec::with_capacity(items.len());
        for (position, item) in items.into_iter().enumerate() {
            match item {
                Ok(item) => open.push((position, item)),
                Err(refusal) => outcomes[position] = refusal.into(),
            }
        }
        for round in 1..=limits::PUBLISH_ROUNDS_MAX {
            let is_last = round == limits::PUBLISH_ROUNDS_MAX;
            let judged = judge(self, caller, open, (force, is_last)).await?;
            let mut again: Vec<(usize, T)> = Vec::new();
            if !is_last {
                let of_judged = |(position, item): &(usize, Result<T, Refusal>)| {
                    let item = item.as_ref().ok().filter(|item| item.is_judged())?;
                    Some((*position, item.clone()))
                };
                again.extend(judged.iter().filter_map(of_judged));
            }
            let (mut positions, mut accepted) = (Vec::new(), Vec::new());
            for (position, item) in seal(self, caller, judged).await? {
                match item {
                    Ok(item) => {
                        positions.push(position);
                        accepted.push(item);
                    }
                    Err(refusal) => outcomes[position] = refusal.into(),
                }
            }
            if accepted.is_empty() {
                break;
            }
            let applied = self.ask(&caller.name, caller.asks(command(accepted))).await?;
            for (position, outcome) in positions.into_iter().zip(applied) {
                outcomes[position] = outcome;
            }
            again.retain(|(position, _)| outcomes[*position].overtaken);
            if again.is_empty() {
                break;
            }
            open = again;
        }
        self.count(&outcomes);
        Ok(outcomes)
    }
}

/// Items as they are proposed, with what they write of encrypted files sealed.
async fn seal<T: Publication>(
    operations: &Operations,
    caller: &Caller,
    items: Vec<(usize, Result<T, Refusal>)>,
) -> Result<Vec<(usize, Result<T, Refusal>)>, Refusal> {
    let files = items.iter().filter_map(|(_, item)| item.as_ref().ok()?.file());
    let weight = files.filter_map(|file| file.content.as_ref()).map(String::len).sum();
    let (node, caller) = (operations.node.clone(), caller.clone());
    let seal_one = move |(position, item): (usize, Result<T, Refusal>)| {
        let sealed = item.and_then(|item| {
            let key = item.key();
            let there = node.state().catalog().configs.file(&key).cloned();
            item.sealed(node.keyring(), there.as_deref(), caller.edits(&key.namespace, &key.group))
        });
        (position, sealed)
    };
    operations.judge(weight, move || items.into_iter().map(seal_one).collect()).await
}

/// Items with what was seen of their files, where they are about that; or why one is not published.
async fn judge<T: Publication>(
    operations: &Operations,
    caller: &Caller,
    items: Vec<(usize, T)>,
    (force, is_last): (bool, bool),
) -> Result<Vec<(usize, Result<T, Refusal>)>, Refusal> {
    let mut read_scope = caller.read_scope();
    // Whether a file is encrypted is for who writes it to know, see `sealed`.
    if items.iter().any(|(_, item)| item.file().is_some() || !force) {
        operations.node.await_linearizable().await?;
        read_scope = caller.again(operations)?.read_scope();
    }
    let (outlooks, level): (Vec<_>, Level) = {
        let catalog = operations.node.state().catalog();
        let of = |(_, item): &(usize, T)| PublishPreview::of(&item.key(), item.file(), &catalog, &read_scope);
        (items.iter().map(of).collect(), catalog.level())
    };
    let weights =
        outlooks.iter().zip(&items).filter_map(|(outlook, (_, item))| Some(outlook.as_ref()?.weight(item.file())));
    let weight = weights.sum();
    let (node, caller) = (operations.node.clone(), caller.clone());
    let work = move || {
        let judge_one = |((position, item), outlook): ((usize, T), Option<PublishPreview>)| {
            let key = item.key();
            let judgement = Validation {
                keyring: node.keyring(),
                may_see: caller.edits(&key.namespace, &key.group),
                force,
                has_conditions: level >= Level::ROLLOUT,
                comes_again: !is_last && level >= Level::CUSTODY,
            };
            (position, judgement.of(item, outlook))
        };
        items.into_iter().zip(outlooks).map(judge_one).collect()
    };
    operations.judge(weight, work).await
}

/// Settings by which a publication is judged.
struct Validation<'a> {
    keyring: &'a Keyring,
    /// The caller may have the content in clear.
    may_see: bool,
    force: bool,
    /// Apply knows of conditions.
    has_conditions: bool,
    /// True if a publication is tried once more where somebody changed the file meanwhile.
    comes_again: bool,
}

impl Validation<'_> {
    fn of<T: Publication>(&self, mut item: T, outlook: Option<PublishPreview>) -> Result<T, Refusal> {
        item.release().judged = None;
        let mut item = self.judged(item, outlook)?;
        if let Some(judged) = &mut item.release().judged {
            judged.comes_again = self.comes_again;
        }
        Ok(item)
    }

    fn judged<T: Publication>(&self, mut item: T, outlook: Option<PublishPreview>) -> Result<T, Refusal> {
        let Some(outlook) = outlook else {
            // What is not there, or not seen, is refused where it is applied; what comes to be there meanwhile was judged
            // by nobody.
            let has_conditions = self.has_conditions && !self.force;
            item.release().judged = has_conditions.then(|| Judged::new(&Content::default(), Format::Text));
            return Ok(item);
        };
        // Apply judges properties, unless they are sealed by then.
        let is_hidden = outlook.format == Format::Properties && outlook.encrypted;
        let is_judged = is_hidden || (outlook.format != Format::Properties && !self.force);
        if is_judged {
            outlook.check(item.file(), self.keyring, self.may_see).map_err(|unfit| match unfit {
                Unfit::Faulty(fault) if is_hidden => Refusal::new(Code::NotMatchContentToFormat, fault.to_string()),
                Unfit::Faulty(fault) => refusal(outlook.format, &fault),
                Unfit::Unreadable(refusal) => refusal,
            })?;
        }
        let is_conditional = is_hidden || (depends_on_state(&item) && !self.force);
        if self.has_conditions && is_conditional {
            let content = outlook.kept.clone().unwrap_or_else(|| Content::from(outlook.text(item.file())));
            item.release().judged = Some(Judged::new(&content, outlook.format));
        }
        Ok(item)
    }
}

fn refusal(format: Format, fault: &Fault) -> Refusal {
    let why = format!("{fault}; mend the {}, or publish it as it is with force=true", format.word());
    Refusal::new(Code::NotMatchContentToFormat, why)
}
