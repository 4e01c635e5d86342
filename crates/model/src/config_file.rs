//! The configuration store: groups, files (drafts that clients do not see) and their releases.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::act_words::{
    SaysOfActs, SentFor, check_narrowed, check_type, given_fields, is_list, is_text, said_of_releases,
};
use super::audience::{Audience, ClientLabel, ClientPercent};
use super::code::{Code, Refusal, placed};
pub use super::config_format::{Format, Judged};
pub use super::config_group::{ConfigGroup, ConfigGroupDraft};
pub use super::config_name::{PROPERTIES_SUFFIX, canonical_file, file_of_namespace, toggle_suffix};
use super::content::Content;
use super::draft::{lay_over, replace, sparse};
use super::release::{GivenTime, Pin, Plan, ReleaseOp, ReleaseState, ReleaseType};
use super::rollout::{RolloutAction, RolloutPlan, StagedRollout, rollout_control_fields};
use super::sealing::{self, Sealing};
use super::stamp::Stamp;
use super::time::Timestamp;
use super::wire::{of_no_caller, optional_number};
use super::{limits, name};

/// Identity of a config file. Its text form is a release key without the version.
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

    /// Returns the name in texts: `configfile/group/file in namespace`.
    pub fn placed(&self) -> String {
        placed("configfile", &self.namespace, &format!("{}/{}", self.group, self.file))
    }

    /// Returns the key under which lookups of config clients find the file: they try the name with and without
    /// `.properties` and ignore case.
    pub fn canonical(&self) -> ConfigKey {
        ConfigKey::new(self.namespace.as_str(), self.group.as_str(), canonical_file(&self.file))
    }
}

impl fmt::Display for ConfigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.namespace, self.group, self.file)
    }
}

/// A tag of a config file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tag {
    pub key: String,
    pub value: String,
}

/// The editable draft of a config file; clients see only its releases.
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
    /// Last publication of the file, if any.
    pub released: Option<Stamp>,
    /// Identifier that every effective change replaces; publishing does not change it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// True if the content is sealed, see [`super::sealing`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
}

/// An immutable copy of a published file. Only `active`, `version`, `modified` and the progress of a rollout change
/// later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigRelease {
    pub id: u64,
    pub name: String,
    pub key: ConfigKey,
    pub content: Content,
    /// MD5 of the stored content. That of a sealed content reveals nothing without the key.
    pub md5: String,
    /// True if the content is sealed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    pub format: Format,
    pub comment: String,
    pub tags: Vec<Tag>,
    pub description: String,
    pub release_type: ReleaseType,
    /// Labels of the clients of a gray release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<ClientLabel>,
    /// Share of the clients of a gray release; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_percent: Option<ClientPercent>,
    /// Schedule of a release that is not published yet, or whose publication failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Progress of a gray release that was published with a rollout plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Box<StagedRollout>>,
    /// Number of the release in one count per file, which continues after a deletion; a rollback assigns a new one.
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
        /// Text of at most 1048576 characters, unless the operator configured another limit.
        pub content: Option<String>,
        /// True to encrypt the content from now on; existing releases are not changed.
        pub encrypted: Option<bool>,
        /// `XChaCha20-Poly1305`, the only algorithm, also if absent or empty.
        #[serde(rename = "encryptAlgo", alias = "encrypt_algo")]
        pub encrypt_algo: Option<String>,
        /// Name of the template that gives content and format if they are absent; only in a create request.
        pub template: Option<String>,
        /// `text`, `yaml`, `xml`, `json`, `html`, `properties` or `toml`; derived from the suffix of the name if
        /// absent.
        pub format: Option<String>,
        /// Text of at most 1024 characters.
        pub comment: Option<String>,
        /// List of at most 64 tags; keys of at most 128, values of at most 4096 characters.
        pub tags: Option<Vec<Tag>>,
        /// Expected revision; an update or delete with any other than the current one is refused with 409000.
        pub revision: Option<String>,
        ..approval_options,
        /// Sealing of the content by the node that received the request; ignored in requests of callers.
        #[serde(deserialize_with = "of_no_caller")]
        #[schemars(skip)]
        pub sealing: Option<Sealing>,
    }
}

impl ConfigFileDraft {
    pub fn key(&self) -> ConfigKey {
        ConfigKey::new(self.namespace.as_str(), self.group.as_str(), self.name.as_str())
    }

    /// Checks a draft. `content_chars_max` is a setting of the node that receives the request, so this is never checked
    /// during apply, where nodes with other settings would decide differently.
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

    /// Checks a request to delete a file.
    pub fn check_deletion(&self) -> Result<(), Refusal> {
        self.key().check().and_then(|()| self.approval_options().check()).and_then(|()| SentFor::Deletion.check(self))
    }

    /// Returns the format that the caller named.
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
    /// Request for a new release, or for an operation on an existing one.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct ConfigReleaseDraft {
        /// Id of the release, if `name` is absent.
        #[serde(deserialize_with = "optional_number")]
        pub id: Option<u64>,
        /// Name of the release; generated on publish if absent.
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
        /// Text of at most 1024 characters.
        #[serde(alias = "releaseDescription")]
        pub release_description: Option<String>,
        /// `normal`, also if absent, or `gray`.
        #[serde(alias = "releaseType")]
        pub release_type: Option<String>,
        /// Conditions on client labels, all of which must match; a gray release needs at least one, or
        /// `client_percent`.
        #[serde(rename = "betaLabels", alias = "beta_labels", alias = "client_labels")]
        pub beta_labels: Option<Vec<ClientLabel>>,
        /// Share of the clients of a gray release, in addition to labels or instead of them.
        #[serde(alias = "clientPercent")]
        pub client_percent: Option<ClientPercent>,
        /// Time at which the current draft is published: RFC 3339, or `YYYY-MM-DD HH:MM:SS` in UTC. A time in the past
        /// means now.
        #[serde(alias = "publishAt")]
        pub publish_at: Option<GivenTime>,
        /// Name of the normal release, for promote; generated if absent.
        #[serde(alias = "newReleaseName")]
        pub new_release_name: Option<String>,
        /// True if withdraw puts the previous normal release into force again; otherwise clients see none.
        #[serde(alias = "toPrevious")]
        pub to_previous: Option<bool>,
        /// Expected MD5 of the published content, for publish; any other is refused with 409000.
        pub md5: Option<String>,
        ..approval_options,
        /// Plan by which the share of a gray release grows, for publish instead of `client_percent`.
        pub plan: Option<RolloutPlan>,
        /// Action of a rollout operation.
        pub action: Option<RolloutAction>,
        /// Value of a signal; `false` stops the rollout.
        pub ok: Option<bool>,
        /// Reason of a signal, at most 1024 characters.
        pub reason: Option<String>,
        /// Comment on a rollout operation, at most 1024 characters.
        pub comment: Option<String>,
        /// Content that the receiving node found well-formed; no other content is published. Ignored in requests of
        /// callers.
        #[serde(deserialize_with = "of_no_caller")]
        #[schemars(skip)]
        pub judged: Option<Judged>,
        /// State for which contracts were checked. Ignored in requests of callers.
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

    /// Checks a publication.
    pub fn check(&self) -> Result<(), Refusal> {
        self.check_values()?;
        SentFor::Publication.check(self)?;
        let release_type = ReleaseType::read(self.release_type.as_deref())?;
        check_narrowed(release_type, self)?;
        self.rollout_control().check_publish(release_type, self.client_percent.as_ref())?;
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

    /// Returns the type; `check` has refused unknown ones.
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

    /// Checks an operation other than publish, which must name the release.
    pub fn check_named(&self, op: ReleaseOp) -> Result<(), Refusal> {
        self.check_values()?;
        SentFor::Change(op).check(self)?;
        check_type(op, self.release_type.as_deref())?;
        self.rollout_control().check(op)?;
        if self.given_name().is_none() && self.id.is_none() {
            return Err(Refusal::new(Code::InvalidParameter, "release name or id is required"));
        }
        Ok(())
    }
}

/// Request of `createandpub`: writes and publishes a file in one step; with `md5` (not empty) only if the published
/// content has that MD5.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigPublish {
    pub file: ConfigFileDraft,
    pub release: ConfigReleaseDraft,
    pub md5: Option<String>,
}

impl SaysOfActs for ConfigFileDraft {
    fn said(&self) -> Vec<&'static str> {
        given_fields([
            ("content", is_text(&self.content)),
            ("encrypted", self.encrypted.is_some()),
            ("encryptAlgo", is_text(&self.encrypt_algo)),
            ("template", is_text(&self.template)),
            ("format", is_text(&self.format)),
            ("comment", is_text(&self.comment)),
            ("tags", is_list(&self.tags)),
            ("revision", is_text(&self.revision)),
            ("request", is_text(&self.request)),
            ("request_set", is_text(&self.request_set)),
            ("hold", self.hold.is_some()),
            ("emergency", is_text(&self.emergency)),
        ])
    }
}

impl SaysOfActs for ConfigReleaseDraft {
    fn said(&self) -> Vec<&'static str> {
        said_of_releases!(self, "betaLabels": beta_labels, "release_description": release_description,
            ("md5", is_text(&self.md5)),
            ("id", self.id.is_some_and(|id| id > 0)))
    }
}

rollout_control_fields!(ConfigReleaseDraft: release_description);
