//! Groups of the configuration store, and requests for them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::draft::{lay_over, sparse};
use super::stamp::Stamp;
use super::{limits, name};

/// A group of config files: the app id of a config client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigGroup {
    pub id: u64,
    pub namespace: String,
    pub name: String,
    pub comment: String,
    pub owner: String,
    pub business: String,
    pub department: String,
    pub metadata: BTreeMap<String, String>,
    pub created: Stamp,
    pub modified: Stamp,
    /// Identifier that every change replaces.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
}

sparse! {
    /// Request for a group.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct ConfigGroupDraft {
        /// Letters, digits and `- . / : _`, at most 64 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub namespace: String,
        /// Letters, digits and `- . / : _`, at most 128 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        #[serde(alias = "group")]
        pub name: String,
        /// Text of at most 1024 characters.
        pub comment: Option<String>,
        /// Text of at most 1024 characters.
        #[serde(alias = "owners")]
        pub owner: Option<String>,
        /// Text of at most 128 characters.
        pub business: Option<String>,
        /// Text of at most 1024 characters.
        pub department: Option<String>,
        /// Map of at most 64 entries; keys of at most 128, values of at most 4096 characters.
        pub metadata: Option<BTreeMap<String, String>>,
        /// Expected revision; an update or delete with any other than the current one is refused with 409000.
        pub revision: Option<String>,
    }
}

impl ConfigGroupDraft {
    pub fn check(&self) -> Result<(), Refusal> {
        name::check_namespace(&self.namespace)?;
        name::check_config_group(&self.name)?;
        let limits = [
            ("comment", &self.comment, limits::COMMENT_CHARS_MAX),
            ("owner", &self.owner, limits::SERVICE_TEXT_CHARS_MAX),
            ("business", &self.business, limits::BUSINESS_CHARS_MAX),
            ("department", &self.department, limits::SERVICE_TEXT_CHARS_MAX),
        ];
        for (field, value, chars_max) in limits {
            name::check_length(field, value.as_deref().unwrap_or(""), chars_max, Code::InvalidParameter)?;
        }
        self.metadata.as_ref().map_or(Ok(()), name::check_metadata)
    }

    pub fn lay_over(&self, group: &mut ConfigGroup) {
        lay_over!(self => group: comment, owner, business, department, metadata);
    }
}
