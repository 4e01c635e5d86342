//! Requests of discovering clients.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use crate::api::http::ApiError;
use crate::model::code::Code;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::rule::Family;
use crate::model::rule::routing::RoutePolicy;
use crate::model::wire::{Uint32, Uint64};
use crate::reads::{DiscoveryKind, Question};

/// The body of the request.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(in crate::api) struct DiscoverRequest {
    #[schemars(transform = describe_kinds)]
    r#type: Option<TypeName>,
    service: DiscoverService,
    #[serde(alias = "Filter")]
    filter: DiscoverFilter,
    /// Milliseconds to wait for a revision that differs from the client's; 0 answers at once.
    #[serde(alias = "timeoutMs")]
    timeout_ms: Uint32,
    /// Index from an earlier answer: this node answers with no older state.
    #[serde(alias = "appliedIndex")]
    applied_index: Uint64,
}

/// The requested service, and the revision that the client has.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DiscoverService {
    namespace: String,
    #[serde(alias = "service")]
    name: String,
    revision: String,
    /// Metadata for `SERVICES`: all pairs have to match.
    metadata: BTreeMap<String, String>, // bound: request
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DiscoverFilter {
    caller: DiscoverCaller,
    /// True to leave out unhealthy and isolated instances, for `INSTANCE`.
    #[serde(alias = "OnlyHealthyInstance", alias = "onlyHealthyInstance")]
    only_healthy_instance: bool,
}

/// Client: the labels that select gray releases. `CLIENT_IP` defaults to the address of the client.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct DiscoverCaller {
    pub(super) labels: BTreeMap<String, String>, // bound: request
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum TypeName {
    Number(u64),
    Word(String),
}

/// Name and number of a kind, and the element of the answer that has the result.
#[derive(Clone, Copy)]
pub(super) struct KindRow {
    pub(super) word: &'static str,
    number: u64,
    pub(super) element: &'static str,
    kind: DiscoveryKind,
}

/// Returns one row per type, including those of the families of rules.
fn kinds() -> impl Iterator<Item = KindRow> {
    let row = |(word, number, element), kind| KindRow { word, number, element, kind };
    let of_policy = |policy| DiscoveryKind::Rules(Family::Routing, Some(policy));
    let fixed = [
        row(("INSTANCE", 1, "instances"), DiscoveryKind::Instances),
        row(("SERVICES", 6, "services"), DiscoveryKind::Services),
        row(("NAMESPACES", 12, "namespaces"), DiscoveryKind::Namespaces),
        row(("CUSTOM_ROUTE_RULE", 101, "customRouteRules"), of_policy(RoutePolicy::Rule)),
        row(("NEARBY_ROUTE_RULE", 102, "nearbyRouteRules"), of_policy(RoutePolicy::Nearby)),
    ];
    let of_family = move |family: &Family| row(family.discovery(), DiscoveryKind::Rules(*family, None));
    fixed.into_iter().chain(Family::ALL.iter().map(of_family))
}

impl TypeName {
    fn row(named: Option<&TypeName>) -> Result<KindRow, ApiError> {
        let unknown = || ApiError::new(Code::InvalidDiscoverResource, "type names nothing that can be discovered");
        let is_meant = |row: &KindRow| match named {
            Some(TypeName::Word(asked)) => asked == row.word || asked.parse() == Ok(row.number),
            Some(TypeName::Number(asked)) => *asked == row.number,
            None => false,
        };
        kinds().find(is_meant).ok_or_else(unknown)
    }

    /// Returns the family of the named rules.
    pub(super) fn family(named: Option<&TypeName>) -> Result<Family, ApiError> {
        match TypeName::row(named)?.kind {
            DiscoveryKind::Rules(family, _) => Ok(family),
            _ => Err(ApiError::new(Code::InvalidDiscoverResource, "type names no rules")),
        }
    }
}

/// Describes `type` by the rows of the table.
fn describe_kinds(schema: &mut Schema) {
    let words: Vec<_> = kinds().map(|KindRow { word, number, .. }| format!("`{word}` ({number})")).collect();
    let text = format!("What is wanted, by word or by its number in the Polaris family: {}.", words.join(", "));
    schema.insert("description".to_owned(), text.into());
}

impl DiscoverRequest {
    pub(super) fn applied_index(&self) -> u64 {
        self.applied_index.0
    }

    /// Converts the request to a question, held at most as long as a config client's poll.
    pub(super) fn question(
        self,
        agent: String,
        address: Option<IpAddr>,
        read_scope: ReadScope,
    ) -> Result<(KindRow, Question), ApiError> {
        let row = TypeName::row(self.r#type.as_ref())?;
        let DiscoverService { namespace, name, revision, metadata } = self.service;
        let question = Question {
            kind: row.kind,
            namespace,
            name,
            revision,
            metadata,
            only_healthy: self.filter.only_healthy_instance,
            read_scope,
            labels: self.filter.caller.labels,
            agent,
            address,
            is_polaris: false,
            hold: Duration::from_millis(u64::from(self.timeout_ms.0).min(limits::DISCOVER_HOLD_MS_MAX)),
        };
        Ok((row, question.checked()?))
    }
}
