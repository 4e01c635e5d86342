//! Templates of config files, and faults in their contents.

use super::write::checked;
use super::{Caller, Items, Operations, WithWarnings};
use crate::catalog::{Command, Op};
use crate::model::code::Refusal;
use crate::model::config_file::Format;
use crate::model::config_template::ConfigTemplateDraft;
use crate::well_formed;

impl Operations {
    /// Writes templates. Returns for each the faults in its content.
    pub async fn config_templates(
        &self,
        caller: &Caller,
        op: Op,
        items: Items<ConfigTemplateDraft>,
    ) -> Result<WithWarnings, Refusal> {
        let (items, faults) = match op {
            Op::Delete => (checked(items, ConfigTemplateDraft::check_named), Vec::new()),
            Op::Create | Op::Update => self.faults_of_templates(checked(items, ConfigTemplateDraft::check)).await?,
        };
        Ok((self.write(caller, items, |items| Command::ConfigTemplates(op, items)).await?, faults))
    }

    /// Checks each item's content. An absent field keeps its present value.
    async fn faults_of_templates(
        &self,
        items: Items<ConfigTemplateDraft>,
    ) -> Result<(Items<ConfigTemplateDraft>, Vec<Vec<String>>), Refusal> {
        let there: Vec<_> = {
            let catalog = self.node.state().catalog();
            let of =
                |item: &Result<ConfigTemplateDraft, Refusal>| catalog.templates.get(&item.as_ref().ok()?.name).cloned();
            items.iter().map(of).collect()
        };
        let weight = items.iter().flatten().filter_map(|draft| draft.content.as_ref()).map(String::len);
        let weight = weight.chain(there.iter().flatten().map(|template| template.content.len())).sum();
        let judge = move || {
            let faults = items.iter().zip(&there).map(|(item, there)| {
                let draft = item.as_ref().ok()?;
                let kept = there.as_ref().map_or((Format::Text, ""), |template| (template.format, &template.content));
                let format = draft.given_format().unwrap_or(kept.0);
                let fault = well_formed::check(format, draft.content.as_deref().unwrap_or(kept.1)).err()?;
                Some(format!("{fault}; as {} no file of it could be published like this", format.word()))
            });
            let faults = faults.map(|fault| fault.into_iter().collect()).collect();
            (items, faults)
        };
        self.read_through(weight, judge).await
    }
}
