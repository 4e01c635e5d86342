//! `/admin/v1/xds`: the clients of xDS that are connected, and every resource of one of them.

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
use crate::controllers::fleet::{self, Fleet, FleetMember, MemberResource};
use crate::format::types::NodeId;
use crate::model::code::{Code, Refusal};
use crate::model::mesh::resource::ResourceType;
use crate::model::time::Timestamp;
use crate::openapi::Param;
use crate::raft::node::Node;
use crate::subscribers::Applied;
use crate::subscribers::fleet::{FleetRelease, FleetResource, FleetType};
use crate::xds::json::MessageReader;

const DOC: Doc = Doc::new("xDS");

/// A page of rows that all members were asked for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "XdsPage")]
struct PageBody<D> {
    code: u32,
    info: &'static str,
    /// All rows.
    amount: u64,
    total: u64,
    /// Those of this page.
    size: usize,
    /// Members that could not be asked: their clients are missing.
    silent_nodes: Vec<NodeId>,
    /// Of a dump, resources that do not fit into its 16 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
    /// On a full page by key (`order=key`): what the next one is asked for with.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    data: D,
}

/// A stream of a client of xDS.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "XdsClient")]
struct ClientView<'a> {
    /// The node of the cluster that it is connected to.
    node: NodeId,
    /// Identity that the client gives itself.
    node_id: &'a str,
    /// Its user agent with the version.
    agent: &'a str,
    address: &'a str,
    /// `envoy` or `grpc`.
    client: &'a str,
    /// `delta` or `sotw`.
    variant: &'static str,
    labels: Vec<LabelView>,
    /// `YYYY-MM-DD HH:MM:SS`, UTC: the begin of the stream.
    since: String,
    /// The types that it subscribes to.
    subscriptions: Vec<&'a str>,
    /// State of each of them.
    has: Vec<TypeView<'a>>,
    /// `yes` if it acknowledged all that it was sent, `refused` if it lacks something that it refused; else absent.
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
    /// Resources that it was sent.
    sent: u64,
    /// Those of them that it has as they were sent last.
    acknowledged: u64,
    /// The first names of them, at most ten.
    names: &'a [String],
    /// The first names of what it refused and lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a [String]>,
    /// Its reason, at most 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused_at: Option<String>,
    /// Milliseconds for which a response is unanswered. A proxy that waits for endpoints takes up to 15 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    under_way_ms: Option<u64>,
}

/// A resource that a client was sent.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "XdsResource")]
struct ResourceView<'a> {
    /// The node of the cluster that sent it.
    node: NodeId,
    /// `cds`, `eds`, `lds` or `rds`.
    #[serde(rename = "type")]
    kind: &'a str,
    name: &'a str,
    /// `INDEX-HASH`: the log index of the newest change that it was made from, and a hash of its bytes.
    version: &'a str,
    /// The client's own word: `yes` or `refused`; absent while it has said nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    /// The version that the client has instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_version: Option<&'a str>,
    /// The releases of rules that it was made from.
    releases: Vec<ReleaseView<'a>>,
    /// The message, with Envoy's names of the fields.
    resource: Value,
}

/// A release of a rule.
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
    let Fleet { amount, clients, silent, .. } = fleet::clients(app.node().as_node()).await;
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
    dump_of(app.node().as_node(), query.required("node_id")?, &query.page()?).await
}

/// A page of the resources of a client.
pub(crate) async fn dump_of(node: &Node, node_id: &str, page: &Page) -> ApiResult {
    let found = fleet::resources(node, node_id).await;
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

/// The message, or why it cannot be shown: a node of another version may send fields that this one does not know.
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
