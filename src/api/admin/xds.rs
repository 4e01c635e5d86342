//! `/admin/v1/xds`: connected xDS clients, and the resources of one client.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::http::bounded::{self, Measure, Rows};
use crate::api::http::{ApiError, ApiResult, App, Caller, Doc, PAGING, Query, Shape};
use crate::api::releases::LabelView;
use crate::catalog::page::{After, Listed, Page};
use crate::controllers::fleet::{Fleet, FleetMember, MemberResource};
use crate::format::types::NodeId;
use crate::model::code::{Code, Refusal};
use crate::model::mesh::resource::ResourceType;
use crate::model::time::Timestamp;
use crate::openapi::Param;
use crate::operations::member::LocalMember;
use crate::subscribers::Applied;
use crate::subscribers::fleet::{FleetRelease, FleetResource, FleetType};
use crate::xds::json::MessageReader;

const DOC: Doc = Doc::new("xDS");

/// A page of rows collected from all members.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "XdsPage")]
struct PageBody<D> {
    code: u32,
    info: &'static str,
    /// Number of all rows.
    amount: u64,
    total: u64,
    /// Number of rows on this page.
    size: usize,
    /// Members that did not answer; their clients are missing.
    silent_nodes: Vec<NodeId>,
    /// Number of resources that exceed the 16 MiB of a dump.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
    /// Value of `after` for the next page, on a full page by key (`order=key`).
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    data: D,
}

/// A stream of an xDS client.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "XdsClient")]
struct ClientView<'a> {
    /// Node of the cluster that the client is connected to.
    node: NodeId,
    /// Identity that the client reports.
    node_id: &'a str,
    /// User agent with version.
    agent: &'a str,
    address: &'a str,
    /// `envoy` or `grpc`.
    client: &'a str,
    /// `delta` or `sotw`.
    variant: &'static str,
    labels: Vec<LabelView>,
    /// Start of the stream, `YYYY-MM-DD HH:MM:SS`, UTC.
    since: String,
    /// Subscribed resource types.
    subscriptions: Vec<&'a str>,
    /// State of each type.
    has: Vec<TypeView<'a>>,
    /// `yes` if the client acknowledged everything, `refused` if it refused and lacks something; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<&'static str>,
}

/// State of one resource type of a stream.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "XdsType")]
struct TypeView<'a> {
    /// `cds`, `eds`, `lds` or `rds`.
    #[serde(rename = "type")]
    kind: &'a str,
    /// Number of resources sent.
    sent: u64,
    /// Number of resources of which the client acknowledged the last version.
    acknowledged: u64,
    /// Names of the first ten resources.
    names: &'a [String],
    /// First names of the resources that the client refused and lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a [String]>,
    /// Reason of the refusal, at most 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused_at: Option<String>,
    /// Milliseconds for which a response is unacknowledged. A proxy that waits for endpoints takes up to 15 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    under_way_ms: Option<u64>,
}

/// A resource that was sent to a client.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "XdsResource")]
struct ResourceView<'a> {
    /// Node of the cluster that sent it.
    node: NodeId,
    /// `cds`, `eds`, `lds` or `rds`.
    #[serde(rename = "type")]
    kind: &'a str,
    name: &'a str,
    /// `INDEX-HASH`: log index of the newest change in it, and a hash of its bytes.
    version: &'a str,
    /// The client's report: `yes` or `refused`; absent until it reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    /// Version that the client has instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_version: Option<&'a str>,
    /// Releases of rules from which it was built.
    releases: Vec<ReleaseView<'a>>,
    /// Message in Envoy's field names.
    resource: Value,
}

/// Release of a rule.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "XdsRelease")]
struct ReleaseView<'a> {
    /// `routings`, `ratelimits`, …
    kind: &'a str,
    namespace: &'a str,
    rule_name: &'a str,
    rule_id: &'a str,
    release_name: &'a str,
    version: u64,
}

pub(crate) const CLIENTS: Doc = DOC
    .says(
        "A page of the proxies and gRPC clients that are connected to the nodes, one row a stream, by identity: what \
         each subscribes to, has, and refused.",
    )
    .query(&[PAGING])
    .gives(Shape::whole::<PageBody<Vec<ClientView<'_>>>>())
    .codes(&[&[Code::InvalidParameter]]);

pub(crate) async fn clients(State(app): State<App>, query: Query, _: Caller) -> ApiResult {
    let page = query.page()?;
    let Fleet { amount, clients, silent, .. } = app.node().member().xds_clients().await;
    let clients: Vec<_> = clients.into_iter().map(Arc::new).collect();
    Ok(answer(&Listed::cut(clients.iter(), &page), (amount, 0, silent), |one| client_view(one)))
}

const NODE_ID: &[Param] = &[Param::text("node_id", "Identity that the client gives itself.")];

pub(crate) const DUMP: Doc = DOC
    .says(
        "A page of the resources that a client was sent last, by type and name: each as JSON, with the releases that \
         it was made from and the client's word on it.",
    )
    .query(&[NODE_ID, PAGING])
    .gives(Shape::whole::<PageBody<Vec<ResourceView<'_>>>>())
    .codes(&[&[Code::InvalidParameter, Code::NotFoundResource]]);

pub(crate) async fn dump(State(app): State<App>, query: Query, _: Caller) -> ApiResult {
    dump_of(app.node().member(), query.required("node_id")?, &query.page()?).await
}

/// Answers with a page of the resources of a client.
pub(crate) async fn dump_of(member: &LocalMember, node_id: &str, page: &Page) -> ApiResult {
    let found = member.xds_resources(node_id).await;
    if found.amount == 0 {
        return Err(not_connected(node_id, &found.silent));
    }
    let Fleet { resources, left_out, silent, .. } = found;
    let amount = resources.len() as u64 + left_out;
    let resources: Vec<_> = resources.into_iter().map(Arc::new).collect();
    let reader = MessageReader::default();
    Ok(answer(&Listed::cut(resources.iter(), page), (amount, left_out, silent), |one| resource_view(&reader, one)))
}

fn client_view(FleetMember { node, client, .. }: &FleetMember) -> ClientView<'_> {
    let label = |(key, value): &(String, String)| LabelView { key: key.clone(), value: value.clone() };
    ClientView {
        node: *node,
        node_id: &client.node_id,
        agent: &client.agent,
        address: &client.address,
        client: &client.dialect,
        variant: if client.is_delta { "delta" } else { "sotw" },
        labels: client.labels.iter().map(label).collect(),
        since: client.since.text(),
        subscriptions: client.types.iter().map(|one| one.kind.as_str()).collect(),
        has: client.types.iter().map(type_view).collect(),
        applied: client.applied().map(Applied::word),
    }
}

fn type_view(one: &FleetType) -> TypeView<'_> {
    TypeView {
        kind: &one.kind,
        sent: one.sent,
        acknowledged: one.acknowledged,
        names: &one.names,
        refused: (!one.refused.is_empty()).then_some(&one.refused[..]),
        message: given(&one.message),
        refused_at: one.refused_at.map(Timestamp::text),
        under_way_ms: one.under_way_ms,
    }
}

fn resource_view<'a>(reader: &MessageReader, one: &'a MemberResource) -> ResourceView<'a> {
    let MemberResource { node, resource, .. } = one;
    let FleetResource { kind, name, version, has_version, applied, message, releases, bytes } = resource;
    let release = |of: &'a FleetRelease| ReleaseView {
        kind: &of.kind,
        namespace: &of.namespace,
        rule_name: &of.rule_name,
        rule_id: &of.rule_id,
        release_name: &of.release_name,
        version: of.version,
    };
    ResourceView {
        node: *node,
        kind,
        name,
        version,
        applied: applied.map(Applied::word),
        message: given(message),
        has_version: has_version.as_deref(),
        releases: releases.iter().map(release).collect(),
        resource: message_json(reader, kind, bytes),
    }
}

fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Returns the message as JSON, or the reason why it cannot be shown: a node of another version may send unknown
/// fields.
fn message_json(reader: &MessageReader, kind: &str, bytes: &[u8]) -> Value {
    let kind = ResourceType::ALL.into_iter().find(|one| one.label() == kind);
    let read = kind.map(|kind| reader.read(kind.type_url(), bytes));
    match read {
        Some(Ok(value)) => value,
        Some(Err(error)) => json!({ "unreadable": error.to_string() }),
        None => json!({ "unreadable": "the type is not known" }),
    }
}

fn not_connected(node_id: &str, silent: &[NodeId]) -> ApiError {
    let mut why = format!("no client of xDS is called {node_id:?}");
    if !silent.is_empty() {
        let silent: Vec<_> = silent.iter().map(NodeId::to_string).collect();
        why = format!("{why} on the nodes that answer; silent: {}", silent.join(", "));
    }
    Refusal::new(Code::NotFoundResource, why).into()
}

fn answer<'a, T, V: Serialize>(
    listed: &'a Listed<T>,
    (amount, left_out, silent_nodes): (u64, u64, Vec<NodeId>),
    view: impl Fn(&'a T) -> V,
) -> Response {
    let (code, measure) = (Code::ExecuteSuccess, Measure::of_answer());
    let data = Rows::of(&listed.rows, &measure, view);
    let body = PageBody {
        code: code.number(),
        info: code.info(),
        amount,
        total: amount,
        size: listed.rows.len(),
        silent_nodes,
        left_out: (left_out > 0).then_some(left_out),
        after: listed.after.as_ref().map(After::text),
        data,
    };
    bounded::answer(code, &measure, &body)
}
