//! Templates of config files: changes and queries. Templates belong to the cluster as a whole.

use std::cmp::Ordering;
use std::sync::Arc;

use imbl::OrdMap;

use super::Catalog;
use super::change::{ChangeSet, Entity, Outcome, too_many};
use super::command::Op;
use super::ctx::Ctx;
use super::page::{ListKey, Listed, Page, Placed, cut_sorted, place_of};
use super::row::{Row, RowKey, Table};
use crate::model::code::Code;
use crate::model::config_file::Format;
use crate::model::config_template::{ConfigTemplate, ConfigTemplateDraft};
use crate::model::text::NameFilter;
use crate::model::{is_stale, limits};

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

    fn insert(&mut self, template: ConfigTemplate, changes: &mut ChangeSet) -> Arc<ConfigTemplate> {
        changes.put(&template);
        self.load(template)
    }

    pub(super) fn load(&mut self, template: ConfigTemplate) -> Arc<ConfigTemplate> {
        let template = Arc::new(template);
        self.by_name.insert(template.name.as_str().into(), template.clone());
        template
    }

    fn remove(&mut self, template: &ConfigTemplate, changes: &mut ChangeSet) {
        changes.delete(template);
        self.by_name.remove(template.name.as_str());
    }
}

/// Compares templates in the order of a list.
fn newest_first(one: &Arc<ConfigTemplate>, other: &Arc<ConfigTemplate>) -> Ordering {
    other.modified.time.cmp(&one.modified.time).then_with(|| one.name.cmp(&other.name))
}

impl Catalog {
    pub(super) fn write_config_template(
        &mut self,
        ctx: &Ctx,
        op: Op,
        draft: &ConfigTemplateDraft,
        changes: &mut ChangeSet,
    ) -> Outcome {
        match (op, self.templates.get(&draft.name).cloned()) {
            (Op::Create, Some(old)) => Outcome { entity: Entity::ConfigTemplate(old), ..Code::ExistedResource.into() },
            (Op::Create, None) => self.create_config_template(ctx, draft, changes),
            (Op::Update, None) => Code::NotFoundResource.into(),
            (Op::Update, Some(old)) => self.update_config_template(ctx, &old, draft, changes),
            (Op::Delete, None) => Outcome::default(),
            (Op::Delete, Some(old)) if is_stale(&draft.revision, &old.revision) => {
                Outcome::stale(Entity::ConfigTemplate(old))
            }
            (Op::Delete, Some(old)) => {
                self.templates.remove(&old, changes);
                Outcome::done(Entity::ConfigTemplate(old))
            }
        }
    }

    fn create_config_template(&mut self, ctx: &Ctx, draft: &ConfigTemplateDraft, changes: &mut ChangeSet) -> Outcome {
        if self.templates.len() >= limits::CONFIG_TEMPLATES_MAX {
            return too_many("templates", limits::CONFIG_TEMPLATES_MAX).into();
        }
        let mut template = ConfigTemplate {
            id: ctx.draw_number(),
            name: draft.name.clone(),
            format: Format::Text,
            created: ctx.stamp(),
            modified: ctx.stamp(),
            revision: ctx.draw_id(),
            ..ConfigTemplate::default()
        };
        draft.lay_over(&mut template);
        Outcome::done(Entity::ConfigTemplate(self.templates.insert(template, changes)))
    }

    fn update_config_template(
        &mut self,
        ctx: &Ctx,
        old: &Arc<ConfigTemplate>,
        draft: &ConfigTemplateDraft,
        changes: &mut ChangeSet,
    ) -> Outcome {
        if is_stale(&draft.revision, &old.revision) {
            return Outcome::stale(Entity::ConfigTemplate(old.clone()));
        }
        let mut template = ConfigTemplate::clone(old);
        draft.lay_over(&mut template);
        if template == **old {
            return Outcome::unchanged(Entity::ConfigTemplate(old.clone()));
        }
        template.modified = ctx.stamp();
        template.revision = ctx.draw_id();
        Outcome::done(Entity::ConfigTemplate(self.templates.insert(template, changes)))
    }
}
