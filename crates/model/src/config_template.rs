//! Templates of config files: initial contents of new files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::config_file::Format;
use super::draft::{lay_over, replace, sparse};
use super::stamp::Stamp;
use super::{limits, name};

/// A template. Its identity is its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigTemplate {
    pub id: u64,
    pub name: String,
    pub content: String,
    pub format: Format,
    pub comment: String,
    pub created: Stamp,
    pub modified: Stamp,
    pub revision: String,
}

sparse! {
    /// Request for a template; an absent field is not changed.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[schemars(rename = "ConfigFileTemplateDraft")]
    #[serde(default)]
    pub struct ConfigTemplateDraft {
        /// Letters, digits and `- . / : _`, at most 128 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub name: String,
        /// Text of at most 65536 characters.
        pub content: Option<String>,
        /// `text`, `yaml`, `xml`, `json`, `html`, `properties` or `toml`; `text` if absent in a create request.
        pub format: Option<String>,
        /// Text of at most 1024 characters.
        pub comment: Option<String>,
        /// Expected revision; an update or delete with any other than the current one is refused with 409000.
        pub revision: Option<String>,
    }
}

impl ConfigTemplateDraft {
    pub fn check_named(&self) -> Result<(), Refusal> {
        name::check_identifier("name", &self.name, limits::NAME_CHARS_MAX, Code::InvalidConfigFileTemplateName)
    }

    pub fn check(&self) -> Result<(), Refusal> {
        self.check_named()?;
        let content = self.content.as_deref().unwrap_or("");
        let chars_max = limits::CONFIG_TEMPLATE_CHARS_MAX;
        name::check_length("content", content, chars_max, Code::InvalidConfigFileContentLength)?;
        let comment = self.comment.as_deref().unwrap_or("");
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        self.format.as_deref().filter(|word| !word.is_empty()).map_or(Ok(()), |word| Format::of_word(word).map(drop))
    }

    /// Returns the format that the caller named.
    pub fn given_format(&self) -> Option<Format> {
        self.format.as_deref().and_then(|word| Format::of_word(word).ok())
    }

    /// Overwrites `template` with the given fields; absent ones are not changed.
    pub fn lay_over(&self, template: &mut ConfigTemplate) {
        lay_over!(self => template: content, comment);
        replace(&mut template.format, &self.given_format());
    }
}
