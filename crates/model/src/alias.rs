//! Service aliases: further names of a service, as in the table "ServiceAlias" of the specification.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::draft::{lay_over, sparse};
use super::time::Timestamp;
use super::wire::wire_enum;
use super::{limits, name};

wire_enum! {
    /// Source of the name of an alias.
    pub enum AliasType {
        /// Given by the caller.
        Default = "DEFAULT",
        /// Generated in the form of the Cl5 naming system, `<module>:<command>`.
        Cl5Sid = "CL5SID",
    }
}

/// A service alias. Its identity is alias namespace and alias.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceAlias {
    pub id: String,
    pub alias: String,
    pub alias_namespace: String,
    /// Service to which the alias refers.
    pub service: String,
    pub namespace: String,
    pub kind: AliasType,
    pub owners: String,
    pub comment: String,
    pub ctime: Timestamp,
    pub mtime: Timestamp,
    /// Token stored for other systems; nothing here checks it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service_token: String,
    /// Identifier that every change replaces.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
}

sparse! {
    /// Request for an alias; an absent field is not changed.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct AliasDraft {
        /// Printable ASCII of at most 128 characters; generated if absent.
        pub id: Option<String>,
        /// Letters, digits and `- . / : _`, at most 128 characters. May be absent for `CL5SID`, which generates it, and
        /// if it equals the name of the service in another namespace.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub alias: Option<String>,
        /// Namespace of the alias; that of the service if absent.
        #[serde(alias = "aliasNamespace")]
        pub alias_namespace: Option<String>,
        /// Service to which the alias refers; the name of the alias, in the service's namespace, if absent in a new
        /// alias.
        pub service: Option<String>,
        /// Namespace of the service.
        pub namespace: Option<String>,
        #[serde(rename = "type")]
        pub kind: Option<AliasType>,
        /// Text of at most 1024 characters.
        pub owners: Option<String>,
        /// Text of at most 1024 characters.
        pub comment: Option<String>,
        /// Text of at most 2048 characters; returned to the writer, and not shown in lists.
        #[serde(alias = "serviceToken")]
        pub service_token: Option<String>,
        /// Expected revision; an update or delete with any other than the current one is refused with 409000.
        pub revision: Option<String>,
    }
}

impl AliasDraft {
    /// Completes a new alias of which only one name is given: the other one is the same, in another namespace. An empty
    /// name is not completed, and is refused later.
    pub fn named_alike(mut self) -> Self {
        let is_absent = |name: &Option<String>| name.as_deref().is_none_or(str::is_empty);
        match self.kind.unwrap_or_default() {
            AliasType::Default if is_absent(&self.service) => self.service = self.alias.clone(),
            AliasType::Default if self.alias.is_none() && self.alias_namespace() != self.namespace() => {
                self.alias = self.service.clone();
            }
            AliasType::Default | AliasType::Cl5Sid => {}
        }
        self
    }

    /// Overwrites `alias` with the given fields; absent ones are not changed. The service is given by namespace and
    /// name.
    pub fn lay_over(&self, alias: &mut ServiceAlias) {
        if let Some(service) = &self.service {
            alias.service.clone_from(service);
            alias.namespace = self.namespace.clone().unwrap_or_default();
        }
        lay_over!(self => alias: owners, comment, service_token);
    }

    pub fn given_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    pub fn alias_namespace(&self) -> &str {
        let given = self.alias_namespace.as_deref().filter(|namespace| !namespace.is_empty());
        given.or(self.namespace.as_deref()).unwrap_or("")
    }

    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("")
    }

    fn given_alias(&self) -> &str {
        self.alias.as_deref().unwrap_or("")
    }

    /// Checks a new alias: it needs a service, and its own name unless that is generated.
    pub fn check_new(&self) -> Result<(), Refusal> {
        name::check_namespace(self.namespace.as_deref().unwrap_or(""))?;
        name::check_service_in("service", self.service.as_deref().unwrap_or(""))?;
        name::check_namespace(self.alias_namespace())?;
        match self.kind.unwrap_or_default() {
            AliasType::Default => check_alias(self.given_alias())?,
            AliasType::Cl5Sid if !self.given_alias().is_empty() => {
                return Err(Refusal::new(Code::InvalidServiceAlias, "the name of a CL5SID alias is generated"));
            }
            AliasType::Cl5Sid => {}
        }
        self.given_id().map_or(Ok(()), name::check_id)?;
        self.check_texts()
    }

    pub fn check_update(&self) -> Result<(), Refusal> {
        self.check_named()?;
        if let Some(service) = &self.service {
            name::check_service_in("service", service)?;
            name::check_namespace(self.namespace.as_deref().unwrap_or(""))?;
        }
        self.check_texts()
    }

    /// Checks that the draft names an alias, by alias and namespace or by id alone.
    pub fn check_named(&self) -> Result<(), Refusal> {
        if self.alias.is_none() && self.given_id().is_some() {
            return Ok(());
        }
        check_alias(self.given_alias())?;
        name::check_namespace(self.alias_namespace())
            .map_err(|refusal| Refusal::new(Code::InvalidNamespaceWithAlias, refusal.detail))
    }

    fn check_texts(&self) -> Result<(), Refusal> {
        let (comment, owners) = (self.comment.as_deref().unwrap_or(""), self.owners.as_deref().unwrap_or(""));
        let token = self.service_token.as_deref().unwrap_or("");
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidServiceAliasComment)?;
        name::check_length("service_token", token, limits::SERVICE_TOKEN_CHARS_MAX, Code::InvalidServiceToken)?;
        name::check_length("owners", owners, limits::SERVICE_TEXT_CHARS_MAX, Code::InvalidServiceAliasOwners)
    }
}

fn check_alias(alias: &str) -> Result<(), Refusal> {
    name::check_identifier("alias", alias, limits::NAME_CHARS_MAX, Code::InvalidServiceAlias)
}
