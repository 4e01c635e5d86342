//! Answers to discovering clients.

use std::borrow::Cow;

use axum::response::Response;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use thuban_documents::RuleView;

use super::request::KindRow;
use crate::api::http::Compressing;
use crate::api::http::bounded::{self, Measure, Rows};
use crate::api::view::{InstanceView, NamespaceView, ServiceView};
use crate::model::code::Code;
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{Family, Rule};
use crate::reads::{DiscoveryKind, Findings, Found, Question};

/// Answer to a discovering client. Of the elements after `aliasFor` it has the requested one, or none if the client has
/// that revision already.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DiscoverAnswer")]
#[expect(dead_code, reason = "which element is there depends on the question: Rendered writes it")]
pub(super) struct Described {
    code: u32,
    info: String,
    /// Requested type, in words.
    r#type: String,
    service: DiscoveredService<'static>,
    /// Index that the node had applied: sent with the next request, it prevents older answers.
    #[serde(rename = "applied_index")]
    applied_index: u64,
    /// Service behind the alias, if an alias was requested.
    alias_for: Option<AliasTarget<'static>>,
    services: Option<Vec<ServiceView<'static>>>,
    namespaces: Option<Vec<NamespaceView<'static>>>,
    instances: Option<Vec<InstanceView<'static>>>,
    custom_route_rules: Option<Vec<RuleView<'static>>>,
    nearby_route_rules: Option<Vec<RuleView<'static>>>,
    #[serde(flatten)]
    of_families: RuleSets,
}

/// One element per family of rules, named by the table of families.
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

struct Rendered<'a> {
    code: Code,
    kind: KindRow,
    question: &'a Question,
    found: &'a Found,
    measure: &'a Measure,
}

/// Builds the answer for a client, with the element of the requested kind, compressed as `compressed` decides.
pub(super) fn answer(kind: KindRow, question: &Question, found: &Found, compressed: &Compressing) -> Response {
    let code = match found.findings {
        Findings::Unchanged => Code::DataNoChange,
        _ => Code::ExecuteSuccess,
    };
    let measure = Measure::of_answer();
    match bounded::write(&measure, &Rendered { code, kind, question, found, measure: &measure }) {
        Ok(bytes) => compressed.written(code, bytes),
        Err(why) => bounded::unwritten(why),
    }
}

#[derive(Serialize, JsonSchema)]
struct DiscoveredService<'a> {
    namespace: &'a str,
    name: &'a str,
    revision: &'a str,
}

#[derive(Serialize, JsonSchema)]
struct AliasTarget<'a> {
    namespace: &'a str,
    name: &'a str,
}

/// Rules in the wrapper of the Polaris family.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RuleSet")]
struct RuleSet<'a, R = Vec<RuleView<'a>>> {
    rules: R,
    revision: &'a str,
}

/// A rule as clients see it, which may differ from the stored one.
struct ClientRule<'a>(Cow<'a, Rule>);

impl Serialize for ClientRule<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RuleView::new(&self.0, true).serialize(serializer)
    }
}

impl Serialize for Rendered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Rendered { code, kind: KindRow { word, element, .. }, question, found, measure } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", code)?;
        map.serialize_entry("info", code.info())?;
        map.serialize_entry("type", word)?;
        let (namespace, name, revision) = (&question.namespace, &question.name, &found.revision);
        map.serialize_entry("service", &DiscoveredService { namespace, name, revision })?;
        map.serialize_entry("applied_index", &found.applied_index)?;
        if let Some(ServiceKey { namespace, service: name }) = found.alias_target(question) {
            map.serialize_entry("aliasFor", &AliasTarget { namespace, name })?;
        }
        match &found.findings {
            Findings::Unchanged => {}
            Findings::Services(services) => {
                let rows = Rows::of(services, measure, |(counts, service)| ServiceView::new(service, *counts));
                map.serialize_entry(element, &rows)?;
            }
            Findings::Namespaces(namespaces) => {
                let rows = Rows::of(namespaces, measure, |(services, counts, namespace)| {
                    NamespaceView::new(namespace, *services, *counts)
                });
                map.serialize_entry(element, &rows)?;
            }
            Findings::Instances(instances) => {
                let rows = Rows::of(instances, measure, |instance| InstanceView::new(instance));
                map.serialize_entry(element, &rows)?;
            }
            Findings::Rules => {
                let rules = Rows::of(&found.releases, measure, |release| ClientRule(release.rule.as_clients_see()));
                match question.kind {
                    DiscoveryKind::Rules(_, Some(_)) => map.serialize_entry(element, &rules)?,
                    _ => map.serialize_entry(element, &RuleSet { rules, revision })?,
                }
            }
        }
        map.end()
    }
}
