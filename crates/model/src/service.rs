//! Services, as in the table "Service" of the specification.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::draft::{lay_over, sparse};
use super::instance::RemovedAfter;
use super::time::Timestamp;
use super::{limits, name, namespace};

/// A service. Its instance counts are derived and not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    pub id: String,
    pub name: String,
    pub namespace: String,
    pub metadata: BTreeMap<String, String>,
    pub ports: String,
    pub business: String,
    pub department: String,
    pub cmdb_mod1: String,
    pub cmdb_mod2: String,
    pub cmdb_mod3: String,
    pub comment: String,
    pub owners: String,
    pub token: String,
    pub export_to: Vec<String>,
    pub ctime: Timestamp,
    pub mtime: Timestamp,
    pub revision: String,
    /// Removal delay for instances that give none.
    #[serde(default, skip_serializing_if = "RemovedAfter::is_unsaid")]
    pub dead_instances_removed_after_s: RemovedAfter,
}

sparse! {
    /// Request for a service; an absent field is not changed. It names the service by namespace and name, or by id
    /// alone.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct ServiceDraft {
        /// Printable ASCII of at most 128 characters; generated if absent.
        pub id: Option<String>,
        /// Letters, digits and `- . / : _`, at most 128 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub name: Option<String>,
        /// Letters, digits and `- . / : _`, at most 64 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub namespace: Option<String>,
        /// Map of at most 64 entries; keys of at most 128, values of at most 4096 characters.
        pub metadata: Option<BTreeMap<String, String>>,
        /// Text of at most 8192 characters.
        pub ports: Option<String>,
        /// Text of at most 128 characters.
        pub business: Option<String>,
        /// Text of at most 1024 characters.
        pub department: Option<String>,
        /// Text of at most 1024 characters.
        #[serde(alias = "cmdbMod1")]
        pub cmdb_mod1: Option<String>,
        /// Text of at most 1024 characters.
        #[serde(alias = "cmdbMod2")]
        pub cmdb_mod2: Option<String>,
        /// Text of at most 1024 characters.
        #[serde(alias = "cmdbMod3")]
        pub cmdb_mod3: Option<String>,
        /// Text of at most 1024 characters.
        pub comment: Option<String>,
        /// Text of at most 1024 characters.
        pub owners: Option<String>,
        /// Text of at most 2048 characters; generated if absent. Stored for other systems; nothing here checks it.
        pub token: Option<String>,
        /// Namespaces for which it is intended, or `*`; at most 64. For information only: access is decided by grants
        /// alone.
        #[serde(alias = "exportTo")]
        pub export_to: Option<Vec<String>>,
        /// Seconds without heartbeats after which an instance is removed, unless it gives a value itself: 0 for never,
        /// -1 for the setting of this name, which is the default.
        #[serde(alias = "deadInstancesRemovedAfterS")]
        pub dead_instances_removed_after_s: Option<RemovedAfter>,
        /// Expected revision; an update or delete with any other than the current one is refused with 409000.
        pub revision: Option<String>,
    }
}

impl ServiceDraft {
    /// Checks everything that does not depend on the stored state, for create and update.
    pub fn check(&self) -> Result<(), Refusal> {
        self.check_name()?;
        let limits = [
            ("ports", &self.ports, limits::PORTS_CHARS_MAX, Code::InvalidServicePorts),
            ("business", &self.business, limits::BUSINESS_CHARS_MAX, Code::InvalidServiceBusiness),
            ("department", &self.department, limits::SERVICE_TEXT_CHARS_MAX, Code::InvalidServiceDepartment),
            ("cmdb_mod1", &self.cmdb_mod1, limits::SERVICE_TEXT_CHARS_MAX, Code::InvalidServiceCmdb),
            ("cmdb_mod2", &self.cmdb_mod2, limits::SERVICE_TEXT_CHARS_MAX, Code::InvalidServiceCmdb),
            ("cmdb_mod3", &self.cmdb_mod3, limits::SERVICE_TEXT_CHARS_MAX, Code::InvalidServiceCmdb),
            ("comment", &self.comment, limits::COMMENT_CHARS_MAX, Code::InvalidServiceComment),
            ("owners", &self.owners, limits::SERVICE_TEXT_CHARS_MAX, Code::InvalidServiceOwners),
            ("token", &self.token, limits::SERVICE_TOKEN_CHARS_MAX, Code::InvalidServiceToken),
        ];
        for (field, value, chars_max, code) in limits {
            name::check_length(field, value.as_deref().unwrap_or(""), chars_max, code)?;
        }
        self.metadata.as_ref().map_or(Ok(()), name::check_metadata)?;
        RemovedAfter::check("dead_instances_removed_after_s", self.dead_instances_removed_after_s)?;
        namespace::check_export(self.export_to.as_deref())
    }

    /// Checks the name. Create needs namespace and name; for update and delete an id suffices.
    pub fn check_name(&self) -> Result<(), Refusal> {
        if let Some(id) = self.given_id() {
            name::check_id(id)?;
            if self.name.is_none() && self.namespace.is_none() {
                return Ok(());
            }
        }
        name::check_namespace(self.namespace.as_deref().unwrap_or(""))?;
        name::check_service(self.name.as_deref().unwrap_or(""))
    }

    /// Checks a new service, which an id alone does not name.
    pub fn check_new(&self) -> Result<(), Refusal> {
        name::check_namespace(self.namespace.as_deref().unwrap_or(""))?;
        name::check_service(self.name.as_deref().unwrap_or(""))?;
        self.check()
    }

    /// Returns the id if the caller gave one; an empty one counts as absent.
    pub fn given_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    /// Overwrites `service` with the given fields; absent ones are not changed, nor are name, namespace and id.
    pub fn lay_over(&self, service: &mut Service) {
        lay_over!(self => service:
            metadata, ports, business, department, cmdb_mod1, cmdb_mod2, cmdb_mod3, comment, owners, token,
            export_to, dead_instances_removed_after_s
        );
    }
}
