//! Format of the content of a config file: the one that its suffix decides, and the one that it was given.

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
    /// Once every member runs a version that knows it.
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

    /// The format of a word, `yml` and `txt` included.
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

    /// Format that the suffix of a file name decides, whatever else is said of the file; `None` if it decides none.
    pub fn of_suffix(file: &str) -> Option<Format> {
        let (_, suffix) = file.rsplit_once('.')?;
        // Files of that suffix were properties to their clients before there was the format.
        let says_nothing = ["text", Format::Toml.word()].iter().any(|word| suffix.eq_ignore_ascii_case(word));
        Format::of_word(&suffix.to_ascii_lowercase()).ok().filter(|_| !says_nothing)
    }

    /// Format of a file for its readers: its suffix counts before the format it was given.
    pub fn read_as(file: &str, format: Format) -> Format {
        Format::of_suffix(file).unwrap_or(format)
    }

    /// The format of a new file that is given none. To config clients, which leave the suffix out, a name without
    /// one is a properties file.
    pub fn of_new(file: &str) -> Format {
        let is_toml = file.rsplit_once('.').is_some_and(|(_, suffix)| suffix.eq_ignore_ascii_case("toml"));
        match Format::of_suffix(file) {
            Some(format) => format,
            None if is_toml => Format::Toml,
            None => Format::Properties,
        }
    }
}

/// A content that was judged before a publish was proposed, and what it was judged as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// Without its text.
    pub content: Content,
    pub format: Format,
    /// If it is about another content by now, it is judged and proposed again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub comes_again: bool,
}

impl Judged {
    /// Of a content that a file of this name is to have.
    pub fn new(content: &Content, format: Format) -> Self {
        Judged { content: content.reference(), format, comes_again: false }
    }

    /// True if it is about the file as it stands.
    pub fn is_of(&self, file: &ConfigFile) -> bool {
        self.content == file.content && self.format == Format::read_as(&file.key.file, file.format)
    }
}
