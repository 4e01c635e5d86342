//! The configuration store: groups, files (drafts that nobody sees) and their releases.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::act_words::{SentFor, check_narrowed, check_type};
use super::audience::{Audience, ClientLabel, ClientPercent};
use super::code::{Code, Refusal};
pub use super::config_format::{Format, Judged};
pub use super::config_group::{ConfigGroup, ConfigGroupDraft};
pub use super::config_name::{PROPERTIES_SUFFIX, canonical_file, file_of_namespace, toggle_suffix};
use super::content::Content;
use super::draft::{lay_over, replace, sparse};
use super::release::{GivenTime, Pin, Plan, ReleaseOp, ReleaseState, ReleaseType};
use super::rollout::{RolloutAction, RolloutPlan, StagedRollout};
use super::sealing::{self, Sealing};
use super::time::Timestamp;
use super::wire::{of_no_caller, optional_number};
use super::{limits, name};

/// The file that a release belongs to. Its text form is that of a release key without the version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConfigKey {
    pub namespace: String,
    pub group: String,
    pub file: String,
}

impl ConfigKey {
    pub fn new(namespace: impl Into<String>, group: impl Into<String>, file: impl Into<String>) -> Self {
        ConfigKey { namespace: namespace.into(), group: group.into(), file: file.into() }
    }

    pub fn check(&self) -> Result<(), Refusal> {
        name::check_namespace(&self.namespace)?;
        name::check_config_group(&self.group)?;
        name::check_config_file(&self.file)
    }

    /// The name under which the lookups of config clients find this file: they try it with and
    /// without `.properties` and without regard to case.
    pub fn canonical(&self) -> ConfigKey {
        ConfigKey::new(self.namespace.as_str(), self.group.as_str(), canonical_file(&self.file))
    }
}

impl fmt::Display for ConfigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.namespace, self.group, self.file)
    }
}

/// Time and author of an action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub time: Timestamp,
    pub by: String,
}

/// A tag of a config file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tag {
    pub key: String,
    pub value: String,
}

/// A config file as it is edited; clients see releases only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigFile {
    pub id: u64,
    pub key: ConfigKey,
    pub content: Content,
    pub format: Format,
    pub comment: String,
    pub tags: Vec<Tag>,
    pub created: Stamp,
    pub modified: Stamp,
    /// The last publish of this file, if any.
    pub released: Option<Stamp>,
    /// As that of a group; publishing is no change.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// The content is sealed, see [`super::sealing`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
}

/// An immutable copy of a file as it stood when it was published; only `active`, `version` and
/// `modified` change after that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigRelease {
    pub id: u64,
    pub name: String,
    pub key: ConfigKey,
    pub content: Content,
    /// Of the content as it is kept: of a sealed one it tells nothing to who has no key.
    pub md5: String,
    /// As that of the file was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    pub format: Format,
    pub comment: String,
    pub tags: Vec<Tag>,
    pub description: String,
    pub release_type: ReleaseType,
    /// Of a gray release: whom it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<ClientLabel>,
    /// The share of them that a gray release is for; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_percent: Option<ClientPercent>,
    /// Plan of a release that is not published yet, or could not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Course of its rollout, of a gray release that was published with a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Box<StagedRollout>>,
    /// Counts all releases of this file, also over its deletion; moved forward by a rollback.
    pub version: u64,
    pub active: bool,
    pub created: Stamp,
    pub modified: Stamp,
}

impl ConfigRelease {
    pub fn state(&self) -> ReleaseState {
        ReleaseState::of(self.release_type, self.active, self.plan.as_ref())
    }

    pub fn audience(&self) -> Audience<'_> {
        Audience { labels: &self.labels, percent: self.client_percent.as_ref() }
    }
}

sparse! {
    /// Request for a file.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct ConfigFileDraft {
        /// Letters, digits and `- . / : _`, at most 64 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub namespace: String,
        /// Letters, digits and `- . / : _`, at most 128 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub group: String,
        /// 1 to 128 printable characters; slashes are allowed, `.` and `..` segments are not.
        #[serde(alias = "file_name", alias = "fileName")]
        pub name: String,
        /// At most 1048576 characters, unless the operator set another limit.
        pub content: Option<String>,
        /// Encryption of the content from here on; releases from before stay as they are.
        pub encrypted: Option<bool>,
        /// `XChaCha20-Poly1305`, also where absent or empty; there is no other.
        #[serde(rename = "encryptAlgo", alias = "encrypt_algo")]
        pub encrypt_algo: Option<String>,
        /// Of a create: the name of the template that gives content and format where they are absent.
        pub template: Option<String>,
        /// `text`, `yaml`, `xml`, `json`, `html`, `properties` or `toml`; else what the suffix of the name says.
        pub format: Option<String>,
        /// At most 1024 characters.
        pub comment: Option<String>,
        /// At most 64; keys of at most 128, values of at most 4096 characters.
        pub tags: Option<Vec<Tag>>,
        /// An update or delete is refused with 409000 if this is not the current one.
        pub revision: Option<String>,
        ..approval_options,
        /// Treatment of the content by the node that took the request. Never a caller's.
        #[serde(deserialize_with = "of_no_caller")]
        #[schemars(skip)]
        pub sealing: Option<Sealing>,
    }
}

impl ConfigFileDraft {
    pub fn key(&self) -> ConfigKey {
        ConfigKey::new(self.namespace.as_str(), self.group.as_str(), self.name.as_str())
    }

    /// `content_chars_max` is the operator's limit; it is judged here, by the node that takes the
    /// request, and never in apply, where nodes with other settings would come to other answers.
    pub fn check(&self, content_chars_max: usize) -> Result<(), Refusal> {
        self.key().check()?;
        let content = self.content.as_deref().unwrap_or("");
        if content.len() > content_chars_max && content.chars().count() > content_chars_max {
            let why = format!("more than {content_chars_max} characters");
            return Err(Refusal::new(Code::InvalidConfigFileContentLength, why));
        }
        let comment = self.comment.as_deref().unwrap_or("");
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        sealing::check_algorithm(self.encrypt_algo.as_deref())?;
        self.approval_options().check()?;
        self.format.as_deref().filter(|word| !word.is_empty()).map_or(Ok(Format::Text), Format::of_word)?;
        check_tags(self.tags.as_deref().unwrap_or_default())
    }

    /// For the deletion of a file.
    pub fn check_deletion(&self) -> Result<(), Refusal> {
        self.key().check().and_then(|()| self.approval_options().check()).and_then(|()| SentFor::Deletion.check(self))
    }

    /// The format that the caller named.
    pub fn given_format(&self) -> Option<Format> {
        self.format.as_deref().and_then(|word| Format::of_word(word).ok())
    }

    pub fn lay_over(&self, file: &mut ConfigFile) {
        if let Some(content) = &self.content
            && **content != *file.content
        {
            file.content = content.as_str().into();
        }
        replace(&mut file.format, &self.given_format());
        lay_over!(self => file: encrypted, comment, tags);
    }
}

fn check_tags(tags: &[Tag]) -> Result<(), Refusal> {
    if tags.len() > limits::METADATA_ENTRIES_MAX {
        let why = format!("more than {} tags", limits::METADATA_ENTRIES_MAX);
        return Err(Refusal::new(Code::InvalidConfigFileTags, why));
    }
    for tag in tags {
        if tag.key.trim().is_empty() || tag.value.trim().is_empty() {
            return Err(Code::InvalidConfigFileTags.into());
        }
        let code = Code::InvalidConfigFileTags;
        name::check_length("the key of a tag", &tag.key, limits::METADATA_KEY_CHARS_MAX, code)?;
        name::check_length("the value of a tag", &tag.value, limits::METADATA_VALUE_CHARS_MAX, code)?;
    }
    Ok(())
}

sparse! {
    /// Names a release, or asks for one to be made.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct ConfigReleaseDraft {
        /// Names the release where `name` does not.
        #[serde(deserialize_with = "optional_number")]
        pub id: Option<u64>,
        /// The release's name; generated on publish where absent.
        #[serde(alias = "release_name", alias = "releaseName")]
        pub name: Option<String>,
        /// Letters, digits and `- . / : _`, at most 64 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub namespace: String,
        /// Letters, digits and `- . / : _`, at most 128 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub group: String,
        /// 1 to 128 printable characters; slashes are allowed, `.` and `..` segments are not.
        #[serde(alias = "fileName")]
        pub file_name: String,
        /// At most 1024 characters.
        #[serde(alias = "releaseDescription")]
        pub release_description: Option<String>,
        /// `normal`, also where absent, or `gray`.
        #[serde(alias = "releaseType")]
        pub release_type: Option<String>,
        /// All of them have to match; a gray release needs at least one, or `client_percent`.
        #[serde(rename = "betaLabels", alias = "beta_labels", alias = "client_labels")]
        pub beta_labels: Option<Vec<ClientLabel>>,
        /// The share of the clients that a gray release is for, beside or instead of labels.
        #[serde(alias = "clientPercent")]
        pub client_percent: Option<ClientPercent>,
        /// Publishes what stands now at that time: RFC 3339, or `YYYY-MM-DD HH:MM:SS` in UTC. What has passed is now.
        #[serde(alias = "publishAt")]
        pub publish_at: Option<GivenTime>,
        /// On promote: the name of the normal release; generated where absent.
        #[serde(alias = "newReleaseName")]
        pub new_release_name: Option<String>,
        /// On withdraw: the normal release before takes its place; without it clients see none.
        #[serde(alias = "toPrevious")]
        pub to_previous: Option<bool>,
        /// Of the content that is published now; with another the item is refused with 409000. For a publish alone.
        pub md5: Option<String>,
        ..approval_options,
        /// On a gray publish: the steps by which its share grows, in place of `client_percent`.
        pub plan: Option<RolloutPlan>,
        /// On rollout: what it does.
        pub action: Option<RolloutAction>,
        /// On signal: `false` stops the rollout.
        pub ok: Option<bool>,
        /// On signal: at most 1024 characters.
        pub reason: Option<String>,
        /// On rollout: at most 1024 characters.
        pub comment: Option<String>,
        /// Content that the node that took the request found well-formed; only that is published. Never a caller's.
        #[serde(deserialize_with = "of_no_caller")]
        #[schemars(skip)]
        pub judged: Option<Judged>,
        /// State by which contracts were judged. Never a caller's.
        #[serde(deserialize_with = "of_no_caller")]
        #[schemars(skip)]
        pub pin: Option<Pin>,
    }
}

impl ConfigReleaseDraft {
    pub fn key(&self) -> ConfigKey {
        ConfigKey::new(self.namespace.as_str(), self.group.as_str(), self.file_name.as_str())
    }

    pub fn given_name(&self) -> Option<&str> {
        self.name.as_deref().filter(|name| !name.is_empty())
    }

    pub fn given_md5(&self) -> Option<&str> {
        self.md5.as_deref().filter(|md5| !md5.is_empty())
    }

    /// For publish.
    pub fn check(&self) -> Result<(), Refusal> {
        self.check_values()?;
        SentFor::Publication.check(self)?;
        let release_type = ReleaseType::read(self.release_type.as_deref())?;
        check_narrowed(release_type, self)?;
        self.steering().check_publish(release_type, self.client_percent.as_ref())?;
        self.audience().check()
    }

    fn check_values(&self) -> Result<(), Refusal> {
        self.key().check()?;
        self.approval_options().check()?;
        self.given_name().map_or(Ok(()), |release| name::check_title("release name", release))?;
        let description = self.release_description.as_deref().unwrap_or("");
        let code = Code::InvalidParameter;
        name::check_length("release description", description, limits::COMMENT_CHARS_MAX, code)?;
        let new_name = self.new_release_name.as_deref().filter(|name| !name.is_empty());
        new_name.map_or(Ok(()), |name| name::check_title("new_release_name", name))
    }

    /// An unknown word was refused before.
    pub fn release_type(&self) -> ReleaseType {
        ReleaseType::read(self.release_type.as_deref()).unwrap_or_default()
    }

    pub fn labels(&self) -> &[ClientLabel] {
        self.beta_labels.as_deref().unwrap_or_default()
    }

    pub fn audience(&self) -> Audience<'_> {
        Audience { labels: self.labels(), percent: self.client_percent.as_ref() }
    }

    pub fn publish_at(&self) -> Option<Timestamp> {
        self.publish_at.map(|given| given.0)
    }

    /// For everything but publish, which needs to be told which release.
    pub fn check_named(&self, op: ReleaseOp) -> Result<(), Refusal> {
        self.check_values()?;
        SentFor::Change(op).check(self)?;
        check_type(op, self.release_type.as_deref())?;
        self.steering().check(op)?;
        if self.given_name().is_none() && self.id.is_none() {
            return Err(Refusal::new(Code::InvalidParameter, "release name or id is required"));
        }
        Ok(())
    }
}

/// `createandpub`: the file is written and published in one step; with `md5` (not empty) only if
/// that is what the published content has now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigPublish {
    pub file: ConfigFileDraft,
    pub release: ConfigReleaseDraft,
    pub md5: Option<String>,
}
