//! `GET /naming/v1/instances/subscribers`: the clients of all nodes that have the instance list of a service.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::instances;
use crate::api::http::{ApiResult, App, Caller, Doc, Fresh, PAGING, Query, Shape, envelope};
use crate::api::releases::{LabelView, given};
use crate::catalog::page::{After, Listed};
use crate::controllers::subscribers::MemberClient;
use crate::format::types::NodeId;
use crate::model::code::{Code, Refusal, placed};
use crate::model::time::Timestamp;
use crate::openapi::Param;
use crate::subscribers::{Applied, Subscription};

pub(crate) const SUBSCRIBERS: Doc = instances::DOC
    .says("The clients of all nodes that discovered the instances of a service, or have its endpoints over xDS.")
    .query(&[
        &[
            Param::text("namespace", "Namespace of the service.").required(),
            Param::text("service", "Name of the service.").required(),
        ],
        PAGING,
    ])
    .gives(Shape::whole::<ListHolders>())
    .codes(&[&[Code::NotFoundResource]]);

/// A client with an instance list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListHolder")]
struct ListHolder {
    /// Address that the client reports, else that of its connection.
    address: String,
    labels: Vec<LabelView>,
    /// User agent of the client.
    agent: String,
    /// Time at which the client first got this list, `YYYY-MM-DD HH:MM:SS`, UTC; for xDS clients the time of the
    /// connection.
    since: String,
    /// Node that serves the client.
    node: NodeId,
    /// True if the list is the current one.
    current: bool,
    /// `xds`, `polaris` or `discover`.
    protocol: &'static str,
    /// Identity that an xDS client reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    /// Report of an xDS client: `yes` or `refused`; absent until it reports on its last list.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<&'static str>,
    /// Its reason for a refusal, at most 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Time of a refusal, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_at: Option<String>,
}

/// Clients that have an instance list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListHolders")]
struct ListHolders {
    code: u32,
    info: &'static str,
    /// Number of all clients.
    amount: u64,
    /// Number of clients on this page.
    size: usize,
    /// Number of clients with the current list.
    current: u64,
    /// Number of xDS clients that acknowledged their list.
    applied: u64,
    /// Number of xDS clients that refused it.
    refused: u64,
    /// Members that did not answer; their clients are missing.
    silent_nodes: Vec<NodeId>,
    /// Value of `after` for the next page, on a full page by key (`order=key`).
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    data: Vec<ListHolder>,
}

pub(crate) async fn subscribers(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let (namespace, service) = (query.required("namespace")?, query.required("service")?);
    let page = query.page()?;
    let is_seen = caller.read_scope().sees(namespace, service);
    if !(is_seen && app.node().state().catalog().services.get(namespace, service).is_some()) {
        return Err(Refusal::missing(&placed("service", namespace, service)).into());
    }
    let all = app.node().member().clients_with_list(namespace, service, None).await;
    let listed = Listed::cut(all.clients.iter(), &page);
    let after = listed.after.as_ref().map(After::text);
    let data: Vec<_> = listed.rows.into_iter().map(|MemberClient(node, client)| view_of(node, client)).collect();
    let code = Code::ExecuteSuccess;
    let body = ListHolders {
        code: code.number(),
        info: code.info(),
        amount: all.amount,
        size: data.len(),
        current: all.current,
        applied: all.applied,
        refused: all.refused,
        silent_nodes: all.silent,
        after,
        data,
    };
    Ok(envelope::answer(code, &body))
}

fn view_of(node: NodeId, client: Subscription) -> ListHolder {
    let protocol = match (client.is_xds, client.is_polaris) {
        (true, _) => "xds",
        (false, true) => "polaris",
        (false, false) => "discover",
    };
    ListHolder {
        address: client.address,
        labels: LabelView::all(client.labels),
        agent: client.agent,
        since: client.since.text(),
        node,
        current: client.is_current,
        protocol,
        node_id: given(client.node_id),
        applied: client.applied.map(Applied::word),
        message: given(client.message),
        applied_at: client.applied_at.map(Timestamp::text),
    }
}
