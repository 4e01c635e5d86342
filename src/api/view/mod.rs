//! JSON views of objects in the management API, with all response-only fields.

mod access_key;
mod account;
mod approval;
mod config;
mod contract;
mod history;
mod instance;
mod provider;
mod rollout;
mod rule;
mod template;
mod webhook;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use thuban_documents::RuleView;

use crate::catalog::instances::InstanceCounts;
use crate::catalog::{Catalog, Entity};
use crate::model::alias::{AliasType, ServiceAlias};
use crate::model::approval::RequestStanding;
use crate::model::namespace::Namespace;
use crate::model::service::Service;

pub(crate) use access_key::AccessKeyView;
pub(crate) use account::{ServiceTokenView, UserView};
pub(crate) use approval::{PolicyView, RequestView};
pub(crate) use config::{ConfigFileView, ConfigGroupView, ConfigReleaseView, FileStatus};
pub(crate) use contract::ContractView;
pub(crate) use history::EventView;
pub(crate) use instance::InstanceView;
pub(crate) use provider::{FreedIdentityView, IdentityView, ProviderView};
pub(crate) use rule::RuleReleaseView;
pub(crate) use template::ConfigTemplateView;
pub(crate) use webhook::WebhookView;

/// Values that the view of an object has in addition to the object itself.
pub(crate) struct Derived {
    /// Number of services of a namespace, files of a group, or pending events of a webhook.
    members: usize,
    status: FileStatus,
    /// Instances of a service, or of all services of a namespace.
    instances: InstanceCounts,
    /// True if the service exists, and with it its token.
    has_token: bool,
    /// Situation of a request for approval.
    standing: Option<RequestStanding>,
}

impl Derived {
    pub(crate) fn of(entity: &Entity, catalog: &Catalog) -> Self {
        let (mut members, mut status, mut instances) = (0, FileStatus::ToBeReleased, InstanceCounts::default());
        let (mut has_token, mut standing) = (false, None);
        match entity {
            Entity::Namespace(namespace) => {
                members = catalog.services.count_in(&namespace.name);
                instances = catalog.instances.of_namespace(&namespace.name);
            }
            Entity::Service(service) => {
                instances = catalog.instances.of_service(&service.namespace, &service.name);
                has_token = catalog.services.get(&service.namespace, &service.name).is_some();
            }
            Entity::ConfigGroup(group) => members = catalog.configs.file_count_in(group),
            Entity::ConfigFile(file) => status = FileStatus::of(file, catalog),
            Entity::Webhook(hook) => members = catalog.webhooks.pending(&hook.name),
            Entity::Request(request) => standing = Some(catalog.standing(catalog.clock(), request)),
            Entity::None
            | Entity::Alias(_)
            | Entity::ConfigRelease(_)
            | Entity::ConfigTemplate(_)
            | Entity::Rule(_)
            | Entity::RuleRelease(_)
            | Entity::User(_)
            | Entity::ServiceToken(_)
            | Entity::AccessKey(_)
            | Entity::Policy(_)
            | Entity::Contract(_)
            | Entity::Provider(_)
            | Entity::Identity(_)
            | Entity::PolicyBlock(_)
            | Entity::Broken(_)
            | Entity::Instance(_) => {}
        }
        Derived { members, status, instances, has_token, standing }
    }
}

/// An object in the answer of a write.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum View<'a> {
    Namespace(NamespaceView<'a>),
    Service(ServiceView<'a>),
    Alias(AliasView<'a>),
    Rule(Box<RuleView<'a>>),
    RuleRelease(Box<RuleReleaseView<'a>>),
    ConfigGroup(ConfigGroupView<'a>),
    ConfigFile(ConfigFileView<'a>),
    ConfigRelease(ConfigReleaseView<'a>),
    ConfigTemplate(ConfigTemplateView<'a>),
    Instance(InstanceView<'a>),
    User(UserView<'a>),
    ServiceToken(ServiceTokenView<'a>),
    AccessKey(AccessKeyView<'a>),
    Webhook(Box<WebhookView<'a>>),
    Policy(Box<PolicyView<'a>>),
    Contract(Box<ContractView<'a>>),
    Provider(Box<ProviderView<'a>>),
    Identity(FreedIdentityView<'a>),
    Request(Box<RequestView<'a>>),
}

impl<'a> View<'a> {
    pub(crate) fn of(
        entity: &'a Entity,
        derived: &Derived,
        with_secrets: bool,
        secret: Option<&'a str>,
    ) -> Option<Self> {
        Some(match entity {
            Entity::None | Entity::PolicyBlock(_) | Entity::Broken(_) => return None,
            Entity::Policy(policy) => View::Policy(Box::new(PolicyView::new(policy))),
            Entity::Contract(contract) => View::Contract(Box::new(ContractView::new(contract))),
            Entity::Provider(provider) => View::Provider(Box::new(ProviderView::new(provider))),
            Entity::Identity(freed) => View::Identity(FreedIdentityView::new(freed)),
            Entity::Request(request) => View::Request(Box::new(RequestView::new(request, derived.standing.as_ref()))),
            Entity::Namespace(namespace) => {
                View::Namespace(NamespaceView::new(namespace, derived.members, derived.instances))
            }
            Entity::Service(service) => {
                let token = (with_secrets && derived.has_token).then_some(service.token.as_str());
                View::Service(ServiceView { token, ..ServiceView::new(service, derived.instances) })
            }
            Entity::Alias(alias) => {
                let token = with_secrets.then_some(alias.service_token.as_str());
                View::Alias(AliasView { service_token: token, ..AliasView::new(alias) })
            }
            Entity::Rule(rule) => View::Rule(Box::new(RuleView::new(rule, true))),
            Entity::RuleRelease(release) => View::RuleRelease(Box::new(RuleReleaseView::new(release, false))),
            Entity::ConfigGroup(group) => View::ConfigGroup(ConfigGroupView::new(group, derived.members)),
            Entity::ConfigFile(file) => View::ConfigFile(ConfigFileView::new(file, derived.status)),
            Entity::ConfigRelease(release) => View::ConfigRelease(ConfigReleaseView::new(release)),
            Entity::ConfigTemplate(template) => View::ConfigTemplate(ConfigTemplateView::new(template)),
            Entity::Instance(instance) => View::Instance(InstanceView::new(instance)),
            Entity::User(user) => View::User(UserView::new(user)),
            Entity::ServiceToken(token) => View::ServiceToken(ServiceTokenView::new(token, secret)),
            Entity::AccessKey(key) => View::AccessKey(AccessKeyView::new(key, secret)),
            Entity::Webhook(hook) => View::Webhook(Box::new(WebhookView::new(hook, derived.members, secret))),
        })
    }

    /// Returns the name of its element.
    pub(crate) fn element(&self) -> &'static str {
        match self {
            View::Namespace(_) => "namespace",
            View::Service(_) => "service",
            View::Alias(_) => "serviceAlias",
            View::Rule(rule) => rule.element,
            View::RuleRelease(_) => "ruleRelease",
            View::ConfigGroup(_) => "configFileGroup",
            View::ConfigFile(_) => "configFile",
            View::ConfigRelease(_) => "configFileRelease",
            View::ConfigTemplate(_) => "configFileTemplate",
            View::Instance(_) => "instance",
            View::User(_) => "user",
            View::ServiceToken(_) => "token",
            View::AccessKey(_) => "accessKey",
            View::Webhook(_) => "webhook",
            View::Policy(_) => "policy",
            View::Contract(_) => "contract",
            View::Provider(_) => "provider",
            View::Identity(_) => "identity",
            View::Request(_) => "request",
        }
    }
}

/// A namespace.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Namespace")]
pub(crate) struct NamespaceView<'a> {
    id: &'a str,
    name: &'a str,
    comment: &'a str,
    owners: &'a str,
    metadata: &'a BTreeMap<String, String>, // bound: request
    service_export_to: &'a [String],
    total_service_count: usize,
    total_health_instance_count: usize,
    total_instance_count: usize,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    mtime: String,
    /// Revision, new after every change.
    revision: &'a str,
    editable: bool,
    deleteable: bool,
}

impl<'a> NamespaceView<'a> {
    pub(crate) fn new(namespace: &'a Namespace, total_service_count: usize, instances: InstanceCounts) -> Self {
        NamespaceView {
            id: &namespace.name,
            name: &namespace.name,
            comment: &namespace.comment,
            owners: &namespace.owners,
            metadata: &namespace.metadata,
            service_export_to: &namespace.service_export_to,
            total_service_count,
            total_health_instance_count: instances.healthy,
            total_instance_count: instances.total,
            ctime: namespace.ctime.text(),
            mtime: namespace.mtime.text(),
            revision: &namespace.revision,
            editable: true,
            deleteable: true,
        }
    }
}

/// A service.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Service")]
pub(crate) struct ServiceView<'a> {
    id: &'a str,
    name: &'a str,
    namespace: &'a str,
    metadata: &'a BTreeMap<String, String>, // bound: request
    ports: &'a str,
    business: &'a str,
    department: &'a str,
    cmdb_mod1: &'a str,
    cmdb_mod2: &'a str,
    cmdb_mod3: &'a str,
    comment: &'a str,
    owners: &'a str,
    /// Token, returned by a create and an update only.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    export_to: &'a [String],
    /// Seconds after which dead instances are removed; 0 for never. Absent if the settings determine it.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_instances_removed_after_s: Option<u64>,
    total_instance_count: usize,
    healthy_instance_count: usize,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    mtime: String,
    /// Revision, new after every change.
    revision: &'a str,
    editable: bool,
    deleteable: bool,
}

impl<'a> ServiceView<'a> {
    /// Creates the view without the token, which lists never show.
    pub(crate) fn new(service: &'a Service, instances: InstanceCounts) -> Self {
        ServiceView {
            id: &service.id,
            name: &service.name,
            namespace: &service.namespace,
            metadata: &service.metadata,
            ports: &service.ports,
            business: &service.business,
            department: &service.department,
            cmdb_mod1: &service.cmdb_mod1,
            cmdb_mod2: &service.cmdb_mod2,
            cmdb_mod3: &service.cmdb_mod3,
            comment: &service.comment,
            owners: &service.owners,
            token: None,
            export_to: &service.export_to,
            dead_instances_removed_after_s: service.dead_instances_removed_after_s.said(),
            total_instance_count: instances.total,
            healthy_instance_count: instances.healthy,
            ctime: service.ctime.text(),
            mtime: service.mtime.text(),
            revision: &service.revision,
            editable: true,
            deleteable: true,
        }
    }
}

/// Additional name of a service.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ServiceAlias")]
pub(crate) struct AliasView<'a> {
    id: &'a str,
    alias: &'a str,
    alias_namespace: &'a str,
    service: &'a str,
    namespace: &'a str,
    r#type: AliasType,
    owners: &'a str,
    comment: &'a str,
    /// Token of the service, returned by writes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    service_token: Option<&'a str>,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    mtime: String,
    /// Revision, new after every change; empty until the first change in a cluster of level 4.
    revision: &'a str,
    editable: bool,
    deleteable: bool,
}

impl<'a> AliasView<'a> {
    /// Creates the view without the token, which lists never show.
    pub(crate) fn new(alias: &'a ServiceAlias) -> Self {
        AliasView {
            id: &alias.id,
            alias: &alias.alias,
            alias_namespace: &alias.alias_namespace,
            service: &alias.service,
            namespace: &alias.namespace,
            r#type: alias.kind,
            owners: &alias.owners,
            comment: &alias.comment,
            service_token: None,
            ctime: alias.ctime.text(),
            mtime: alias.mtime.text(),
            revision: &alias.revision,
            editable: true,
            deleteable: true,
        }
    }
}
