//! Namespaces: the outermost part of every name in the registry.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::draft::{lay_over, sparse};
use super::time::Timestamp;
use super::{limits, name};

/// A namespace; its id is its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    pub name: String,
    pub comment: String,
    pub owners: String,
    pub metadata: BTreeMap<String, String>,
    pub service_export_to: Vec<String>,
    pub ctime: Timestamp,
    pub mtime: Timestamp,
    pub revision: String,
}

sparse! {
    /// Request for a namespace; an absent field is not changed.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct NamespaceDraft {
        /// Letters, digits and `- . / : _`, at most 64 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub name: String,
        /// Text of at most 1024 characters.
        pub comment: Option<String>,
        /// Text of at most 1024 characters.
        pub owners: Option<String>,
        /// Map of at most 64 entries; keys of at most 128, values of at most 4096 characters.
        pub metadata: Option<BTreeMap<String, String>>,
        /// Namespaces for which its services are intended, or `*`; at most 64. For information only: access is decided
        /// by grants alone.
        #[serde(alias = "serviceExportTo")]
        pub service_export_to: Option<Vec<String>>,
        /// Expected revision; an update or delete with any other than the current one is refused with 409000.
        pub revision: Option<String>,
    }
}

impl NamespaceDraft {
    /// Checks everything that does not depend on the stored state.
    pub fn check(&self) -> Result<(), Refusal> {
        name::check_namespace(&self.name)?;
        let invalid = Code::InvalidParameter;
        name::check_length("comment", self.comment.as_deref().unwrap_or(""), limits::COMMENT_CHARS_MAX, invalid)?;
        name::check_length("owners", self.owners.as_deref().unwrap_or(""), limits::SERVICE_TEXT_CHARS_MAX, invalid)?;
        self.metadata.as_ref().map_or(Ok(()), name::check_metadata)?;
        check_export(self.service_export_to.as_deref())
    }

    /// Overwrites `namespace` with the given fields; absent ones are not changed.
    pub fn lay_over(&self, namespace: &mut Namespace) {
        lay_over!(self => namespace: comment, owners, metadata, service_export_to);
    }
}

/// Checks the namespaces to which an object is exported: names, or `*` for all.
pub(super) fn check_export(export_to: Option<&[String]>) -> Result<(), Refusal> {
    let export_to = export_to.unwrap_or_default();
    if export_to.len() > limits::METADATA_ENTRIES_MAX {
        let why = format!("more than {} namespaces to export to", limits::METADATA_ENTRIES_MAX);
        return Err(Refusal::new(Code::InvalidParameter, why));
    }
    export_to.iter().filter(|namespace| *namespace != "*").try_for_each(|namespace| name::check_namespace(namespace))
}
