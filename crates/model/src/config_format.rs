//! Format of the content of a config file: derived from its suffix, or given.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::config_file::ConfigFile;
use super::content::Content;
use super::is_false;

/// Format of the content of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Text,
    Yaml,
    Xml,
    Json,
    Html,
    Properties,
    /// Accepted once every member runs a version that supports it.
    Toml,
}

impl Format {
    pub const ALL: [Format; 7] =
        [Format::Text, Format::Yaml, Format::Xml, Format::Json, Format::Html, Format::Properties, Format::Toml];

    pub fn word(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Yaml => "yaml",
            Format::Xml => "xml",
            Format::Json => "json",
            Format::Html => "html",
            Format::Properties => "properties",
            Format::Toml => "toml",
        }
    }

    /// Returns the format of a name, including `yml` and `txt`.
    pub fn of_word(word: &str) -> Result<Format, Refusal> {
        match word {
            "yml" => Ok(Format::Yaml),
            "txt" => Ok(Format::Text),
            _ => Format::ALL
                .into_iter()
                .find(|format| format.word() == word)
                .ok_or_else(|| Code::InvalidConfigFileFormat.into()),
        }
    }

    /// Returns the format that the suffix of a file determines, whatever its format field is; `None` if it determines
    /// none.
    pub fn of_suffix(file: &str) -> Option<Format> {
        let (_, suffix) = file.rsplit_once('.')?;
        // Before these formats existed, clients read files with these suffixes as properties.
        let says_nothing = ["text", Format::Toml.word()].iter().any(|word| suffix.eq_ignore_ascii_case(word));
        Format::of_word(&suffix.to_ascii_lowercase()).ok().filter(|_| !says_nothing)
    }

    /// Returns the format of a file for its readers: the suffix takes precedence over the given format.
    pub fn read_as(file: &str, format: Format) -> Format {
        Format::of_suffix(file).unwrap_or(format)
    }

    /// Returns the format of a new file without a given one. A name without a suffix is a properties file, because
    /// config clients omit that suffix.
    pub fn of_new(file: &str) -> Format {
        let is_toml = file.rsplit_once('.').is_some_and(|(_, suffix)| suffix.eq_ignore_ascii_case("toml"));
        match Format::of_suffix(file) {
            Some(format) => format,
            None if is_toml => Format::Toml,
            None => Format::Properties,
        }
    }
}

/// A content that was checked before its publication was proposed, and the format that it was checked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// Reference to the content, without its text.
    pub content: Content,
    pub format: Format,
    /// True if the node checks and proposes again in case the content has changed meanwhile.
    #[serde(default, skip_serializing_if = "is_false")]
    pub comes_again: bool,
}

impl Judged {
    /// Creates the record of a content and the format of its file.
    pub fn new(content: &Content, format: Format) -> Self {
        Judged { content: content.reference(), format, comes_again: false }
    }

    /// Reports whether it matches the current draft of the file.
    pub fn is_of(&self, file: &ConfigFile) -> bool {
        self.content == file.content && self.format == Format::read_as(&file.key.file, file.format)
    }
}
