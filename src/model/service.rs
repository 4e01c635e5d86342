//! Services, as the specification's table "Service" has them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::instance::RemovedAfter;
use super::time::Timestamp;
use super::{limits, name, namespace};

/// A service as it is kept. Instance counts are not here: they are derived.
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
    /// Of its instances that do not say it themselves.
    #[serde(default, skip_serializing_if = "RemovedAfter::is_unsaid")]
    pub dead_instances_removed_after_s: RemovedAfter,
}

/// Request for a service; an absent field stays as it is. It names the service by
/// namespace and name, or by id alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServiceDraft {
    /// Printable ASCII of at most 128 characters; drawn where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Letters, digits and `- . / : _`, at most 128 characters.
    #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Letters, digits and `- . / : _`, at most 64 characters.
    #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// At most 64 entries; keys of at most 128, values of at most 4096 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// At most 8192 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<String>,
    /// At most 128 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub business: Option<String>,
    /// At most 1024 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub department: Option<String>,
    /// At most 1024 characters.
    #[serde(alias = "cmdbMod1", skip_serializing_if = "Option::is_none")]
    pub cmdb_mod1: Option<String>,
    /// At most 1024 characters.
    #[serde(alias = "cmdbMod2", skip_serializing_if = "Option::is_none")]
    pub cmdb_mod2: Option<String>,
    /// At most 1024 characters.
    #[serde(alias = "cmdbMod3", skip_serializing_if = "Option::is_none")]
    pub cmdb_mod3: Option<String>,
    /// At most 1024 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// At most 1024 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owners: Option<String>,
    /// At most 2048 characters; drawn where absent. Kept for who asks by it elsewhere: nothing is judged by it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Namespaces that it is meant for, or `*`; at most 64. Kept and shown: who may see it, grants say alone.
    #[serde(alias = "exportTo", skip_serializing_if = "Option::is_none")]
    pub export_to: Option<Vec<String>>,
    /// Seconds after which an instance without heartbeats is removed, unless it says that itself: 0 for never, -1 for
    /// what the setting of this name says, which is how a service begins.
    #[serde(alias = "deadInstancesRemovedAfterS", skip_serializing_if = "Option::is_none")]
    pub dead_instances_removed_after_s: Option<RemovedAfter>,
    /// An update or delete is refused with 409000 if this is not the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl ServiceDraft {
    /// Checks all that can be judged without the state of the registry, on create and update.
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

    /// Create needs namespace and name; update and delete do with an id.
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

    /// [`ServiceDraft::check`] for a new service, which an id alone does not name.
    pub fn check_new(&self) -> Result<(), Refusal> {
        name::check_namespace(self.namespace.as_deref().unwrap_or(""))?;
        name::check_service(self.name.as_deref().unwrap_or(""))?;
        self.check()
    }

    /// The id, where the caller gave one; an empty one counts as none.
    pub fn given_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    /// True if laying it over `service` changes that.
    pub fn changes(&self, service: &Service) -> bool {
        super::differs(&service.metadata, &self.metadata)
            || super::differs(&service.ports, &self.ports)
            || super::differs(&service.business, &self.business)
            || super::differs(&service.department, &self.department)
            || super::differs(&service.cmdb_mod1, &self.cmdb_mod1)
            || super::differs(&service.cmdb_mod2, &self.cmdb_mod2)
            || super::differs(&service.cmdb_mod3, &self.cmdb_mod3)
            || super::differs(&service.comment, &self.comment)
            || super::differs(&service.owners, &self.owners)
            || super::differs(&service.token, &self.token)
            || super::differs(&service.export_to, &self.export_to)
            || super::differs(&service.dead_instances_removed_after_s, &self.dead_instances_removed_after_s)
    }

    /// Lays the given fields over `service`; absent ones stay. Name, namespace and id identify and
    /// are never changed.
    pub fn lay_over(&self, service: &mut Service) {
        super::replace(&mut service.metadata, &self.metadata);
        super::replace(&mut service.ports, &self.ports);
        super::replace(&mut service.business, &self.business);
        super::replace(&mut service.department, &self.department);
        super::replace(&mut service.cmdb_mod1, &self.cmdb_mod1);
        super::replace(&mut service.cmdb_mod2, &self.cmdb_mod2);
        super::replace(&mut service.cmdb_mod3, &self.cmdb_mod3);
        super::replace(&mut service.comment, &self.comment);
        super::replace(&mut service.owners, &self.owners);
        super::replace(&mut service.token, &self.token);
        super::replace(&mut service.export_to, &self.export_to);
        super::replace(&mut service.dead_instances_removed_after_s, &self.dead_instances_removed_after_s);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_draft_changes_what_it_makes_another() {
        let text = |text: &str| Some(text.to_owned());
        let every_field = ServiceDraft {
            id: None,
            name: None,
            namespace: None,
            metadata: Some([("a".to_owned(), "b".to_owned())].into()),
            ports: text("1"),
            business: text("2"),
            department: text("3"),
            cmdb_mod1: text("4"),
            cmdb_mod2: text("5"),
            cmdb_mod3: text("6"),
            comment: text("7"),
            owners: text("8"),
            token: text("9"),
            export_to: Some(vec!["*".to_owned()]),
            dead_instances_removed_after_s: Some(RemovedAfter::seconds(10)),
            revision: None,
        };
        let fields = serde_json::to_value(every_field).expect("our own types always serialize");
        for (field, value) in fields.as_object().expect("an object") {
            let draft: ServiceDraft = serde_json::from_value(json!({ field: value })).expect("one field of it");
            let (old, mut new) = (Service::default(), Service::default());
            draft.lay_over(&mut new);
            assert!(draft.changes(&old) && old != new, "{field}");
            assert!(!draft.changes(&new), "{field}");
        }
    }
}
