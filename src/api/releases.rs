//! Common parts of the releases of rules ([`super::rules`]) and of config files ([`super::config`]): history, diffs,
//! and the clients that have a release.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::http::{ApiResult, App, Query, envelope};
use super::view::EventView;
use crate::catalog::Catalog;
use crate::catalog::history::{Numbered, Thing};
use crate::catalog::page::{After, Listed, Page};
use crate::controllers::subscribers::{ClusterSubscribers, MemberClient};
use crate::format::types::NodeId;
use crate::model::code::{Code, Refusal};
use crate::model::diff::Changed;
use crate::model::limits;
use crate::model::mesh::carried::misread;
use crate::model::time::Timestamp;
use crate::openapi::Param;
use crate::subscribers::{Applied, Subscription};

/// Answers with a page of the release history of an object, with the highest version that retention has removed.
pub(crate) async fn answer_history(
    app: &App,
    find: impl FnOnce(&Catalog) -> Result<(Listed<Numbered>, Option<u64>), Refusal> + Send + 'static,
) -> ApiResult {
    app.scan(limits::HISTORY_EVENTS_MAX, find, |found| {
        let (listed, removed_through) = found?;
        Ok(envelope::list_releases("data", &listed, removed_through, |row| EventView::new(&row.event)))
    })
    .await?
}

/// Query keys of the two sides that are compared.
pub(crate) const SIDES: &[Param] = &[
    Param::text("from", "`draft`, `active` or the name of a release; `active` where absent."),
    Param::text("to", "The same; `draft` where absent."),
];
/// Side of a diff: the editable copy.
pub(crate) const DRAFT: &str = "draft";
/// Side of a diff: the active normal release.
pub(crate) const ACTIVE: &str = "active";

/// One side of a diff.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DiffSide {
    /// Empty for the draft, and without an active release.
    pub(crate) release_name: String,
    /// 0 if `release_name` is empty.
    pub(crate) version: u64,
}

/// Differences between two sides.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Diff")]
pub(crate) struct Difference {
    pub(crate) from: DiffSide,
    pub(crate) to: DiffSide,
    /// Differences of rules by field, of properties by key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changes: Option<Vec<Changed>>,
    /// Differences of any other text, as the lines of a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lines: Option<Vec<String>>,
}

impl DiffSide {
    /// Returns the two sides that the query names.
    pub(crate) fn named(query: &Query) -> (String, String) {
        (query.text("from").unwrap_or_else(|| ACTIVE.into()), query.text("to").unwrap_or_else(|| DRAFT.into()))
    }

    /// Returns the side for the draft, or for a missing active release.
    pub(crate) fn unreleased() -> Self {
        DiffSide { release_name: String::new(), version: 0 }
    }
}

/// Returns the refusal of a release that an object does not have.
pub(crate) fn no_release(name: &str, of: &str) -> Refusal {
    Refusal::missing(&format!("release {name} of {of}"))
}

/// A client with its release.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Subscriber")]
struct SubscriberView {
    /// Address as gray releases see it: the one that the client reports, else that of its connection.
    address: String,
    labels: Vec<LabelView>,
    /// User agent of the client.
    agent: String,
    /// Name of the release that the client got last; empty and version 0 for none.
    release_name: String,
    version: u64,
    /// Time at which the client first got this release, `YYYY-MM-DD HH:MM:SS`, UTC.
    since: String,
    /// Node that serves the client.
    node: NodeId,
    /// True if the client has the release that it should have now.
    current: bool,
    /// `xds`, `polaris`, `discover` or `apollo`.
    protocol: &'static str,
    /// Identity that an xDS client reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    /// The client's report: `yes` or `refused`; absent until it reports on its last release.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<&'static str>,
    /// Its reason for a refusal, at most 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Time of that report, UTC; for xDS clients the time of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_at: Option<String>,
    /// Parts of the rule that the client's gRPC library, known by its user agent, implements differently: `W27: …`;
    /// absent if it implements the whole rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    misread: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SubscriberLabel")]
pub(crate) struct LabelView {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl LabelView {
    pub(crate) fn all(labels: Vec<(String, String)>) -> Vec<LabelView> {
        labels.into_iter().map(|(key, value)| LabelView { key, value }).collect()
    }
}

/// Clients that have a release of an object.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Subscribers")]
pub(crate) struct Subscribers {
    code: u32,
    info: &'static str,
    /// Number of all clients.
    amount: u64,
    /// Number of clients on this page.
    size: usize,
    /// Number of clients that have the release that they should have now.
    current: u64,
    /// Number of clients that reported to have applied their release.
    applied: u64,
    /// Number of clients that reported to have refused it.
    refused: u64,
    /// Members that did not answer; their clients are missing.
    silent_nodes: Vec<NodeId>,
    /// Value of `after` for the next page, on a full page by key (`order=key`).
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    /// Warnings about lookups by which clients get another file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    data: Vec<SubscriberView>,
}

/// Answers with a page of the clients of all nodes that have, or should have, a release of the object, with warnings.
pub(crate) async fn answer_subscribers(app: &App, thing: Thing, page: Page, warnings: Vec<String>) -> ApiResult {
    let ClusterSubscribers { amount, current, applied, refused, clients, silent, .. } =
        app.node().member().clients_with(&thing).await;
    let view = app.node().state().view();
    let listed = Listed::cut(clients.iter(), &page);
    let after = listed.after.as_ref().map(After::text);
    let mut readers = BTreeMap::new();
    let rows = listed.rows.into_iter().map(|MemberClient(node, client)| {
        let misread = if client.is_xds { misread_by(&view, &thing, &client, &mut readers) } else { Vec::new() };
        SubscriberView { misread, ..view_of(&view, &thing, node, client) }
    });
    let data: Vec<_> = rows.collect();
    let (code, size) = (Code::ExecuteSuccess, data.len());
    let (number, info) = (code.number(), code.info());
    let body = Subscribers {
        code: number,
        info,
        amount,
        size,
        current,
        applied,
        refused,
        silent_nodes: silent,
        after,
        warnings,
        data,
    };
    Ok(envelope::answer(code, &body))
}

fn view_of(catalog: &Catalog, thing: &Thing, node: NodeId, client: Subscription) -> SubscriberView {
    let protocol = protocol_of(thing, &client);
    let Subscription { address, agent, labels, version, since, is_current, node_id, .. } = client;
    SubscriberView {
        address,
        labels: LabelView::all(labels),
        agent,
        release_name: catalog.release_named_by_version(thing, version).unwrap_or_default(),
        version,
        since: since.text(),
        node,
        current: is_current,
        protocol,
        node_id: given(node_id),
        applied: client.applied.map(Applied::word),
        message: given(client.message),
        applied_at: client.applied_at.map(Timestamp::text),
        misread: Vec::new(),
    }
}

/// Cached warnings, by version of the rule and user agent, which many clients share.
type Readers = BTreeMap<(u64, String), Vec<String>>; // bound: request

fn misread_by(catalog: &Catalog, thing: &Thing, client: &Subscription, readers: &mut Readers) -> Vec<String> {
    let Thing::Rule(family, id) = thing else { return Vec::new() };
    let read = || {
        let mut releases = catalog.rules.of(*family).releases_of(id);
        let release = releases.find(|release| release.version == client.version);
        release.map(|release| misread(&release.rule, &client.agent)).unwrap_or_default()
    };
    readers.entry((client.version, client.agent.clone())).or_insert_with(read).clone()
}

pub(crate) fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Returns the protocol of a client.
fn protocol_of(thing: &Thing, client: &Subscription) -> &'static str {
    match thing {
        _ if client.is_xds => "xds",
        _ if client.is_polaris => "polaris",
        Thing::Rule(..) => "discover",
        Thing::File(_) => "apollo",
    }
}
