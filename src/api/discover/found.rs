//! Responses to clients.

use std::borrow::Cow;
use std::sync::Arc;

use axum::response::Response;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::request::{Identity, Question, Wanted};
use crate::api::http::ApiError;
use crate::api::http::bounded::{self, Measure, Rows};
use crate::api::view::{InstanceView, NamespaceView, RuleView, ServiceView};
use crate::catalog::Catalog;
use crate::catalog::instances::InstanceCounts;
use crate::catalog::set_digest::SetDigest;
use crate::model::code::Code;
use crate::model::grant::ReadScope;
use crate::model::instance::Instance;
use crate::model::namespace::Namespace;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::routing::{RoutePolicy, Routing};
use crate::model::rule::{Body, Family, Rule};
use crate::model::service::Service;

/// The state of what was asked for, at one moment.
pub(super) struct Found {
    pub(super) revision: String,
    /// The service that was meant.
    pub(super) service: Identity,
    applied_index: u64,
    content: Content,
    /// The releases that make up the revision, where rules are asked for.
    pub(super) releases: Vec<Arc<RuleRelease>>,
}

enum Content {
    /// The client has it.
    Unchanged,
    Services(Vec<(InstanceCounts, Arc<Service>)>),
    Namespaces(Vec<(usize, InstanceCounts, Arc<Namespace>)>),
    Instances(Vec<Arc<Instance>>),
    Rules(Vec<Arc<RuleRelease>>),
}

impl Found {
    pub(super) fn read(catalog: &Catalog, question: &Question, applied_index: u64) -> Result<Found, ApiError> {
        let service = question.resolve(catalog);
        let mut given = Vec::new();
        let (revision, content) = match question.wanted {
            Wanted::Services => {
                let fold = catalog.services.fold_of(question.namespace_if_any());
                unless_known(question, fold.text(), || services(catalog, question))
            }
            Wanted::Instances => {
                let fold = fold_of_instances(catalog, question, &service)?;
                unless_known(question, fold.text(), || instances(catalog, question, &service))
            }
            Wanted::Namespaces => {
                unless_known(question, catalog.namespaces.fold().text(), || namespaces(catalog, &question.read_scope))
            }
            Wanted::Rules(family, policy) => {
                let label = |key: &str| question.label(key);
                let mut releases = match question.read_scope.sees(&service.0, &service.1) {
                    true => catalog.rules.of(family).active().of_service(&service.0, &service.1, label),
                    false => Vec::new(),
                };
                releases.retain(|release| release.rule.enable && has_policy(&release.rule, policy));
                given.clone_from(&releases);
                unless_known(question, revision_of(&releases), || Content::Rules(releases))
            }
        };
        Ok(Found { revision, service, applied_index, content, releases: given })
    }

    /// Number of things that [`Found::read`] walks at most; 0 for a client that knows the revision.
    pub(super) fn reach(catalog: &Catalog, question: &Question) -> usize {
        let unless_known = |fold: SetDigest, reach: usize| if fold.text() == question.revision { 0 } else { reach };
        let service = question.resolve(catalog);
        match question.wanted {
            Wanted::Services => {
                let namespace = question.namespace_if_any();
                let count = namespace.map_or(catalog.services.len(), |one| catalog.services.count_in(one));
                unless_known(catalog.services.fold_of(namespace), count)
            }
            Wanted::Instances => match fold_of_instances(catalog, question, &service) {
                Ok(fold) => unless_known(fold, catalog.instances.of_service(&service.0, &service.1).total),
                Err(_) => 0,
            },
            Wanted::Namespaces => unless_known(catalog.namespaces.fold(), catalog.namespaces.len()),
            Wanted::Rules(family, _) => catalog.rules.of(family).active().reach(&service.0, &service.1),
        }
    }

    /// Makes the answer where the client does not have this revision, and lets go of what it took: so
    /// much may be as slow to let go of as to gather.
    pub(super) fn answered(mut self, question: &Question) -> (Found, Option<Response>) {
        let answer = (self.revision != question.revision).then(|| self.answer(question));
        self.content = Content::Unchanged;
        (self, answer)
    }

    pub(super) fn answer(&self, question: &Question) -> Response {
        let code = match self.content {
            Content::Unchanged => Code::DataNoChange,
            _ => Code::ExecuteSuccess,
        };
        let measure = Measure::of_answer();
        bounded::answer(code, &measure, &Answer { code, found: self, question, measure: &measure })
    }
}

/// A client that has this revision needs no content, so none is made.
fn unless_known(question: &Question, revision: String, content: impl FnOnce() -> Content) -> (String, Content) {
    let content = if revision == question.revision { Content::Unchanged } else { content() };
    (revision, content)
}

fn services(catalog: &Catalog, question: &Question) -> Content {
    let wanted = |service: &&Arc<Service>| {
        question.read_scope.sees(&service.namespace, &service.name)
            && question.metadata.iter().all(|(key, value)| service.metadata.get(key) == Some(value))
    };
    let counted =
        |service: &Arc<Service>| (catalog.instances.of_service(&service.namespace, &service.name), service.clone());
    Content::Services(catalog.services.all_in(question.namespace_if_any()).filter(wanted).map(counted).collect())
}

/// Of the service and of all its instances.
fn fold_of_instances(
    catalog: &Catalog,
    question: &Question,
    (namespace, name): &Identity,
) -> Result<SetDigest, ApiError> {
    let service = catalog.services.get(namespace, name).filter(|_| question.read_scope.sees(namespace, name));
    let service = service.ok_or(Code::NotFoundResource)?;
    let folds = [SetDigest::of(&service.id, &service.revision), catalog.instances.fold(namespace, name)];
    Ok(folds.into_iter().sum())
}

fn instances(catalog: &Catalog, question: &Question, (namespace, name): &Identity) -> Content {
    let wanted = |instance: &&Arc<Instance>| !question.only_healthy || (instance.healthy && !instance.isolate);
    Content::Instances(catalog.instances.all_of(namespace, name).filter(wanted).cloned().collect())
}

fn namespaces(catalog: &Catalog, read_scope: &ReadScope) -> Content {
    let counted = |namespace: &Arc<Namespace>| {
        let (services, instances) = catalog.counts_in(&namespace.name, read_scope);
        (services, instances, namespace.clone())
    };
    let seen = catalog.namespaces.all().filter(|namespace| read_scope.sees_namespace(&namespace.name));
    Content::Namespaces(seen.map(counted).collect())
}

fn has_policy(rule: &Rule, wanted: Option<RoutePolicy>) -> bool {
    match (wanted, &rule.body) {
        (Some(wanted), Body::Routing(Routing { route_policy, .. })) => *route_policy == wanted,
        _ => true,
    }
}

/// Changes with every activation: release ids name one snapshot, versions are never used twice.
fn revision_of(releases: &[Arc<RuleRelease>]) -> String {
    let mut hash = Sha256::new();
    for release in releases {
        hash.update(&release.id);
        hash.update([0]);
        hash.update(release.version.to_be_bytes());
    }
    hex::encode(&hash.finalize()[..16])
}

/// The answer to a discovering client: of the elements after `aliasFor` the one that was asked for,
/// or none where the client has it already.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DiscoverAnswer")]
#[expect(dead_code, reason = "which element is there depends on the question: Answer writes it")]
pub(in crate::api) struct Described {
    code: u32,
    info: String,
    /// What was asked for, in words.
    r#type: String,
    service: ServiceEcho<'static>,
    /// What the node had applied: in the next question it keeps the client from stepping back.
    #[serde(rename = "applied_index")]
    applied_index: u64,
    /// The service that was meant, if an alias was asked for.
    alias_for: Option<Target<'static>>,
    services: Option<Vec<ServiceView<'static>>>,
    namespaces: Option<Vec<NamespaceView<'static>>>,
    instances: Option<Vec<InstanceView<'static>>>,
    custom_route_rules: Option<Vec<RuleView<'static>>>,
    nearby_route_rules: Option<Vec<RuleView<'static>>>,
    #[serde(flatten)]
    of_families: RuleSets,
}

/// An element for each family of rules, under the name that the table of families gives it.
struct RuleSets;

impl JsonSchema for RuleSets {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RuleSets".into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        let elements = Family::ALL.iter().map(|family| family.discovery().2.to_owned());
        let properties: Map<String, Value> =
            elements.map(|element| (element, schemas.subschema_for::<Option<RuleSet<'_>>>().into())).collect();
        json_schema!({ "type": "object", "properties": properties })
    }
}

struct Answer<'a> {
    code: Code,
    found: &'a Found,
    question: &'a Question,
    measure: &'a Measure,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DiscoveredService")]
struct ServiceEcho<'a> {
    namespace: &'a str,
    name: &'a str,
    revision: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AliasTarget")]
struct Target<'a> {
    namespace: &'a str,
    name: &'a str,
}

/// Rules as the Polaris family wraps them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RuleSet")]
struct RuleSet<'a, R = Vec<RuleView<'a>>> {
    rules: R,
    revision: &'a str,
}

/// A rule as clients see it, which may be another one than is kept.
struct Seen<'a>(Cow<'a, Rule>);

impl Serialize for Seen<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RuleView::new(&self.0, true).serialize(serializer)
    }
}

impl Serialize for Answer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Answer { code, found, question, measure } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", code)?;
        map.serialize_entry("info", code.info())?;
        map.serialize_entry("type", question.type_word)?;
        let (namespace, name, revision) = (&question.namespace, &question.name, &found.revision);
        map.serialize_entry("service", &ServiceEcho { namespace, name, revision })?;
        map.serialize_entry("applied_index", &found.applied_index)?;
        let is_other = found.service.1 != *name || found.service.0 != *namespace;
        if is_other && question.read_scope.sees(&found.service.0, &found.service.1) {
            map.serialize_entry("aliasFor", &Target { namespace: &found.service.0, name: &found.service.1 })?;
        }
        match &found.content {
            Content::Unchanged => {}
            Content::Services(services) => {
                let rows = Rows::of(services, measure, |(counts, service)| ServiceView::new(service, *counts));
                map.serialize_entry(question.element, &rows)?;
            }
            Content::Namespaces(namespaces) => {
                let rows = Rows::of(namespaces, measure, |(services, counts, namespace)| {
                    NamespaceView::new(namespace, *services, *counts)
                });
                map.serialize_entry(question.element, &rows)?;
            }
            Content::Instances(instances) => {
                let rows = Rows::of(instances, measure, |instance| InstanceView::new(instance));
                map.serialize_entry(question.element, &rows)?;
            }
            Content::Rules(releases) => {
                let rules = Rows::of(releases, measure, |release| Seen(release.rule.as_clients_see()));
                match question.wanted {
                    Wanted::Rules(_, Some(_)) => map.serialize_entry(question.element, &rules)?,
                    _ => map.serialize_entry(question.element, &RuleSet { rules, revision })?,
                }
            }
        }
        map.end()
    }
}
