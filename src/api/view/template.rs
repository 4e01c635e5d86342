//! Templates of config files as the management surface shows them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::config_file::Format;
use crate::model::config_template::ConfigTemplate;

/// Template of a new config file.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConfigFileTemplate")]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigTemplateView<'a> {
    id: u64,
    name: &'a str,
    content: &'a str,
    format: Format,
    comment: &'a str,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    create_time: String,
    create_by: &'a str,
    modify_time: String,
    modify_by: &'a str,
    /// Revision, new after every change.
    revision: &'a str,
}

impl<'a> ConfigTemplateView<'a> {
    pub(crate) fn new(template: &'a ConfigTemplate) -> Self {
        ConfigTemplateView {
            id: template.id,
            name: &template.name,
            content: &template.content,
            format: template.format,
            comment: &template.comment,
            create_time: template.created.time.text(),
            create_by: &template.created.by,
            modify_time: template.modified.time.text(),
            modify_by: &template.modified.by,
            revision: &template.revision,
        }
    }
}
