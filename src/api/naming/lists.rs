//! `GET /naming/v1/instances/subscribers`: the clients of all nodes that have the list of instances of a service.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::instances;
use crate::api::http::{ApiResult, App, Caller, Doc, Fresh, PAGING, Query, Shape, envelope};
use crate::api::releases::{LabelView, given};
use crate::catalog::page::{After, Listed};
use crate::controllers::subscribers::gather_lists;
use crate::format::types::NodeId;
use crate::model::code::Code;
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

/// A client with a list of instances.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListHolder")]
struct ListHolder {
    /// Address that the client gives itself, else the one that it comes from.
    address: String,
    labels: Vec<LabelView>,
    /// Its user agent.
    agent: String,
    /// `YYYY-MM-DD HH:MM:SS`, UTC: when it was first given this list; of clients of xDS since when they are connected.
    since: String,
    /// The node that serves it.
    node: NodeId,
    /// The list is as it is now.
    current: bool,
    /// `xds` or `discover`.
    protocol: &'static str,
    /// Identity that a client of xDS gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    /// Of xDS: `yes` or `refused`; absent while it has not said anything of what it was given last.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<&'static str>,
    /// Its reason for a refusal, at most 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Time of a refusal, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_at: Option<String>,
}

/// Clients that have a list of instances.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListHolders")]
struct ListHolders {
    code: u32,
    info: &'static str,
    /// All clients.
    amount: u64,
    /// Those of this page.
    size: usize,
    /// Those of all whose list is as it is now.
    current: u64,
    /// Those of all, clients of xDS, that acknowledged what they were given.
    applied: u64,
    /// Those of all, clients of xDS, that refused it.
    refused: u64,
    /// Members that could not be asked: their clients are missing.
    silent_nodes: Vec<NodeId>,
    /// On a full page by key (`order=key`): what the next one is asked for with.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    data: Vec<ListHolder>,
}

pub(crate) async fn subscribers(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let (namespace, service) = (query.required("namespace")?, query.required("service")?);
    let page = query.page()?;
    let is_seen = caller.read_scope().sees(namespace, service);
    if !(is_seen && app.node().state().catalog().services.get(namespace, service).is_some()) {
        return Err(Code::NotFoundResource.into());
    }
    let all = gather_lists(app.node().as_node(), namespace, service, None).await;
    let listed = Listed::cut(all.clients.iter(), &page);
    let after = listed.after.as_ref().map(After::text);
    let data: Vec<_> = listed.rows.into_iter().map(|(node, client)| view_of(node, client)).collect();
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
    ListHolder {
        address: client.address,
        labels: LabelView::all(client.labels),
        agent: client.agent,
        since: client.since.text(),
        node,
        current: client.is_current,
        protocol: if client.is_xds { "xds" } else { "discover" },
        node_id: given(client.node_id),
        applied: client.applied.map(Applied::word),
        message: given(client.message),
        applied_at: client.applied_at.map(Timestamp::text),
    }
}
