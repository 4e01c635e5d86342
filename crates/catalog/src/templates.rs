//! Templates of config files: changes and queries. Templates belong to the cluster as a whole.

use std::sync::Arc;

use imbl::OrdMap;

use super::Catalog;
use super::change::{Entity, Outcome, admits_one_more};
use super::command::Op;
use super::page::{ListKey, Listed, Page, Placed, cut_sorted, place_of};
use super::resource::{StoredResource, newest_first, resource};
use super::row::{Row, RowKey, Table};
use crate::catalog::ctx::Apply;
use crate::model::config_file::Format;
use crate::model::config_template::{ConfigTemplate, ConfigTemplateDraft};
use crate::model::limits;
use crate::model::text::NameFilter;

impl Row for ConfigTemplate {
    const TABLE: Table = Table::ConfigTemplate;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.name);
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Templates {
    by_name: OrdMap<Arc<str>, Arc<ConfigTemplate>>,
}

impl Placed for ConfigTemplate {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.name])
    }
}

impl Templates {
    pub fn get(&self, name: &str) -> Option<&Arc<ConfigTemplate>> {
        self.by_name.get(name)
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Lists templates, newest change first, then by name.
    pub fn list(&self, name: &Option<NameFilter>, page: &Page) -> Listed<Arc<ConfigTemplate>> {
        let wanted = |template: &&Arc<ConfigTemplate>| NameFilter::passes(name, &template.name);
        cut_sorted(self.by_name.values().filter(wanted).collect(), newest_first, page)
    }

    pub(super) fn load(&mut self, template: ConfigTemplate) -> Arc<ConfigTemplate> {
        let template = Arc::new(template);
        self.by_name.insert(template.name.as_str().into(), template.clone());
        template
    }
}

impl StoredResource for ConfigTemplate {
    resource!(ConfigTemplateDraft => Entity::ConfigTemplate, modified);

    fn find(catalog: &Catalog, _: Op, draft: &ConfigTemplateDraft) -> Option<Arc<ConfigTemplate>> {
        catalog.templates.get(&draft.name).cloned()
    }

    fn create(apply: &mut Apply<'_>, draft: &ConfigTemplateDraft) -> Result<ConfigTemplate, Outcome> {
        admits_one_more("templates", apply.catalog.templates.len(), limits::CONFIG_TEMPLATES_MAX)?;
        let mut template = ConfigTemplate {
            id: apply.ctx.draw_number(),
            name: draft.name.clone(),
            format: Format::Text,
            created: apply.ctx.stamp(),
            ..ConfigTemplate::default()
        };
        template.stamp(apply.ctx);
        draft.lay_over(&mut template);
        Ok(template)
    }

    fn put(apply: &mut Apply<'_>, template: ConfigTemplate) -> Arc<ConfigTemplate> {
        apply.changes.put(&template);
        apply.catalog.templates.load(template)
    }

    fn delete(apply: &mut Apply<'_>, old: &Arc<ConfigTemplate>) -> Result<(), Outcome> {
        apply.changes.delete(&**old);
        apply.catalog.templates.by_name.remove(old.name.as_str());
        Ok(())
    }
}
