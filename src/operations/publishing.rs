//! Contents judged by the node that takes a request: told of where a draft is saved, refused where it is published.
//!
//! What is published may depend on what is there: the content of a draft, the format of a file. So the node looks
//! at it first and proposes the publish for what it saw alone. Where somebody changed it meanwhile, apply says
//! so, and the node looks again.

use super::write::Items;
use super::{Caller, Operations};
use crate::catalog::{Catalog, Command, Outcome};
use crate::format::level::Level;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigFileDraft, ConfigKey, ConfigPublish, ConfigReleaseDraft, Format, Judged};
use crate::model::content::Content;
use crate::model::grant::Sight;
use crate::model::limits;
use crate::well_formed::{self, Fault};

/// Something that publishes a file, which it may write first.
pub trait Publication: Clone + Send + 'static {
    fn key(&self) -> ConfigKey;
    fn file(&self) -> Option<&ConfigFileDraft>;
    fn release(&mut self) -> &mut ConfigReleaseDraft;
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
}

/// A file as it will be, as far as this node can see.
struct Outlook {
    /// What is there, unless another content is written.
    kept: Option<Content>,
    format: Format,
}

impl Outlook {
    /// `None` where there is nothing to judge, or nothing that the caller may see.
    fn of(key: &ConfigKey, draft: Option<&ConfigFileDraft>, catalog: &Catalog, sight: &Sight) -> Option<Outlook> {
        let there = catalog.configs.file(key).filter(|_| sight.sees(&key.namespace, &key.group));
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
        Some(Outlook { kept, format: Format::read_as(&key.file, format) })
    }

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
}

/// Whether a publication of this file is about more than it brings along.
fn depends_on_state(item: &impl Publication) -> bool {
    item.file().is_none_or(|draft| {
        let has_format = Format::of_suffix(&draft.name).is_some() || draft.given_format().is_some();
        draft.content.is_none() || !has_format
    })
}

impl Operations {
    /// Does what reads many bytes on a blocking thread.
    async fn judge<A: Send + 'static>(
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
            let (catalog, sight) = (self.node.state().catalog(), caller.sight());
            let of = |draft: &ConfigFileDraft| Outlook::of(&draft.key(), Some(draft), &catalog, &sight);
            items.iter().map(|item| item.as_ref().ok().and_then(of)).collect()
        };
        let drafts = items.iter().map(|item| item.as_ref().ok());
        let weights = outlooks.iter().zip(drafts).filter_map(|(outlook, draft)| Some(outlook.as_ref()?.weight(draft)));
        let weight = weights.sum();
        let note = move || {
            let fault = |(item, outlook): (&Result<ConfigFileDraft, Refusal>, Option<Outlook>)| {
                let (draft, outlook) = (item.as_ref().ok()?, outlook?);
                let fault = well_formed::check(outlook.format, outlook.text(Some(draft))).err()?;
                Some(format!("{fault}; as {} it cannot be published like this", outlook.format.word()))
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
            let judged = judge(self, caller, open, force).await?;
            let (mut positions, mut accepted) = (Vec::new(), Vec::new());
            for (position, item) in judged {
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
            let mut again: Vec<(usize, T)> = Vec::new();
            if round < limits::PUBLISH_ROUNDS_MAX {
                let pairs = positions.iter().copied().zip(accepted.iter_mut());
                let depending =
                    pairs.filter_map(|(position, item)| item.release().judged.is_some().then_some((position, item)));
                again.extend(depending.map(|(position, item)| (position, item.clone())));
            }
            let applied = self.ask(&caller.name, caller.asks(command(accepted))).await?;
            for (position, outcome) in positions.into_iter().zip(applied) {
                outcomes[position] = outcome;
            }
            again.retain_mut(|(position, item)| {
                outcomes[*position].code == Code::DataConflict && has_changed(self, item)
            });
            if again.is_empty() {
                break;
            }
            open = again;
        }
        self.count(&outcomes);
        Ok(outcomes)
    }
}

/// Whether the file is another one by now than the one that was judged.
fn has_changed<T: Publication>(operations: &Operations, item: &mut T) -> bool {
    let Some(judged) = item.release().judged.take() else { return false };
    let catalog = operations.node.state().catalog();
    let outlook = Outlook::of(&item.key(), item.file(), &catalog, &Sight::Everything);
    outlook.is_none_or(|outlook| {
        outlook.format != judged.format || outlook.kept.is_some_and(|content| content != judged.content)
    })
}

/// Items with what was seen of their files, where they are about that; or why one is not published.
async fn judge<T: Publication>(
    operations: &Operations,
    caller: &Caller,
    items: Vec<(usize, T)>,
    force: bool,
) -> Result<Vec<(usize, Result<T, Refusal>)>, Refusal> {
    if force {
        return Ok(items.into_iter().map(|(position, item)| (position, Ok(item))).collect());
    }
    let mut sight = caller.sight();
    if items.iter().any(|(_, item)| depends_on_state(item)) {
        operations.node.await_linearizable().await?;
        sight = caller.again(operations)?.sight();
    }
    let (outlooks, has_conditions): (Vec<_>, bool) = {
        let catalog = operations.node.state().catalog();
        let of = |(_, item): &(usize, T)| Outlook::of(&item.key(), item.file(), &catalog, &sight);
        (items.iter().map(of).collect(), catalog.level() >= Level::ROLLOUT)
    };
    let weights =
        outlooks.iter().zip(&items).filter_map(|(outlook, (_, item))| Some(outlook.as_ref()?.weight(item.file())));
    let weight = weights.sum();
    let work = move || {
        let judge_one = |((position, item), outlook): ((usize, T), Option<Outlook>)| {
            (position, judged(item, outlook, has_conditions))
        };
        items.into_iter().zip(outlooks).map(judge_one).collect()
    };
    operations.judge(weight, work).await
}

fn judged<T: Publication>(mut item: T, outlook: Option<Outlook>, has_conditions: bool) -> Result<T, Refusal> {
    let Some(outlook) = outlook else {
        // What is not there, or not seen, is refused where it is applied; what comes to be there meanwhile was judged by
        // nobody.
        item.release().judged = has_conditions.then(|| Judged::new(&Content::default(), Format::Text));
        return Ok(item);
    };
    // Apply judges properties.
    if outlook.format != Format::Properties {
        well_formed::check(outlook.format, outlook.text(item.file()))
            .map_err(|fault| refusal(outlook.format, &fault))?;
    }
    if has_conditions && depends_on_state(&item) {
        let content = outlook.kept.clone().unwrap_or_else(|| Content::from(outlook.text(item.file())));
        item.release().judged = Some(Judged::new(&content, outlook.format));
    }
    Ok(item)
}

fn refusal(format: Format, fault: &Fault) -> Refusal {
    let why = format!("{fault}; mend the {}, or publish it as it is with force=true", format.word());
    Refusal::new(Code::NotMatchContentToFormat, why)
}
