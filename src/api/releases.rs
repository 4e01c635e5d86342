//! Common parts of the releases of rules ([`super::rules`]) and of config files ([`super::config`]): their history, the
//! two sides of a diff, and the clients that have one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::http::{ApiResult, App, Query, envelope};
use super::view::EventView;
use crate::catalog::Catalog;
use crate::catalog::history::{Numbered, Thing};
use crate::catalog::page::{After, Listed, Page};
use crate::controllers::subscribers::{ClusterSubscribers, gather};
use crate::format::types::NodeId;
use crate::model::code::{Code, Refusal};
use crate::model::diff::Changed;
use crate::model::limits;
use crate::model::mesh::carried::misread;
use crate::model::time::Timestamp;
use crate::openapi::Param;
use crate::subscribers::{Applied, Subscription};

/// A page of what became of the releases of one thing, with the highest version that retention has removed.
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
/// Word for the draft: what is edited, and released as it stands then.
pub(crate) const DRAFT: &str = "draft";
/// The normal release in force.
pub(crate) const ACTIVE: &str = "active";

/// One of the two that are compared.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DiffSide {
    /// Empty for the draft, and where nothing is in force.
    pub(crate) release_name: String,
    /// 0 for those.
    pub(crate) version: u64,
}

/// Differences between the two sides.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Diff")]
pub(crate) struct Difference {
    pub(crate) from: DiffSide,
    pub(crate) to: DiffSide,
    /// Of rules by field, of properties by key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changes: Option<Vec<Changed>>,
    /// Of any other text: the lines of a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lines: Option<Vec<String>>,
}

impl DiffSide {
    /// Words of a query for the two sides.
    pub(crate) fn named(query: &Query) -> (String, String) {
        (query.text("from").unwrap_or_else(|| ACTIVE.into()), query.text("to").unwrap_or_else(|| DRAFT.into()))
    }

    /// The draft, or nothing that is in force.
    pub(crate) fn unreleased() -> Self {
        DiffSide { release_name: String::new(), version: 0 }
    }
}

pub(crate) fn no_release(name: &str) -> Refusal {
    Refusal::new(Code::NotFoundResource, format!("no release is called {name:?}"))
}

/// A client with what it has.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Subscriber")]
struct SubscriberView {
    /// As gray releases see it: what the client says of itself, else where it comes from.
    address: String,
    labels: Vec<LabelView>,
    /// Its user agent.
    agent: String,
    /// The release that it was given last; empty and 0 for nothing.
    release_name: String,
    version: u64,
    /// `YYYY-MM-DD HH:MM:SS`, UTC: when it was first given that.
    since: String,
    /// The node that serves it.
    node: NodeId,
    /// It has what it should have by now.
    current: bool,
    /// `xds`, `discover` or `apollo`.
    protocol: &'static str,
    /// Identity that a client of xDS gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    /// The client's own word: `yes` or `refused`; absent while it has said nothing of what it was given last.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<&'static str>,
    /// Its reason for a refusal, at most 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Time of that word, UTC; of clients of xDS that of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_at: Option<String>,
    /// Parts of the rule that the library of a gRPC client, known by its user agent, does not carry out as they read:
    /// `W27: …`; absent where it carries out all of it.
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

/// Clients that have a release of something.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Subscribers")]
pub(crate) struct Subscribers {
    code: u32,
    info: &'static str,
    /// All clients.
    amount: u64,
    /// Those of this page.
    size: usize,
    /// Those of all that have what they should have by now.
    current: u64,
    /// Those of all that said that they have applied what they have.
    applied: u64,
    /// Those of all that said that they could not.
    refused: u64,
    /// Members that could not be asked: their clients are missing.
    silent_nodes: Vec<NodeId>,
    /// On a full page by key (`order=key`): what the next one is asked for with.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    /// Notes on what clients get: another file that they find by the same lookups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    data: Vec<SubscriberView>,
}

/// A page of the clients of all nodes that have, or should have, a release of a thing, with warnings about it.
pub(crate) async fn answer_subscribers(app: &App, thing: Thing, page: Page, warnings: Vec<String>) -> ApiResult {
    let ClusterSubscribers { amount, current, applied, refused, clients, silent, .. } =
        gather(app.node().as_node(), &thing).await;
    let view = app.node().state().view();
    let listed = Listed::cut(clients.iter(), &page);
    let after = listed.after.as_ref().map(After::text);
    let mut readers = BTreeMap::new();
    let rows = listed.rows.into_iter().map(|(node, client)| {
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

/// Warnings about a library and a version of a rule, which many clients have.
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

/// The surface by which a client is given things.
fn protocol_of(thing: &Thing, client: &Subscription) -> &'static str {
    match thing {
        _ if client.is_xds => "xds",
        Thing::Rule(..) => "discover",
        Thing::File(_) => "apollo",
    }
}
