//! Subscribers: the clients of all nodes that have, or should have, a release of a rule or of a config file.

use axum::extract::{Extension, State};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

use super::App;
use super::auth::Caller;
use super::config_releases;
use super::doc::{Doc, PAGING};
use super::envelope::Shape;
use super::envelope::{self};
use super::error::ApiError;
use super::query::{Fresh, Query};
use super::rules::OneRule;
use crate::catalog::Catalog;
use crate::catalog::history::Thing;
use crate::catalog::page::{After, Listed, Page};
use crate::controllers::subscribers::{ClusterSubscribers, gather};
use crate::format::types::NodeId;
use crate::model::code::Code;
use crate::model::rule::Family;
use crate::subscribers::Subscription;

/// A client with what it has.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Subscriber")]
struct SubscriberView {
    /// As gray releases see it: what the client says of itself, else where it comes from.
    address: String,
    labels: Vec<LabelView>,
    /// Its user agent.
    agent: String,
    /// What it was given last; empty and 0 for nothing.
    release_name: String,
    version: u64,
    /// `YYYY-MM-DD HH:MM:SS`, UTC: when it was first given that.
    since: String,
    /// The node that serves it.
    node: NodeId,
    /// It has what it should have by now.
    current: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SubscriberLabel")]
struct LabelView {
    key: String,
    value: String,
}

/// Who has a release of something.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Subscribers")]
pub(super) struct Subscribers {
    code: u32,
    info: &'static str,
    /// All clients.
    amount: u64,
    /// Those of this page.
    size: usize,
    /// Those of all that have what they should have by now.
    current: u64,
    /// Members that could not be asked: their clients are missing.
    silent_nodes: Vec<NodeId>,
    /// On a full page by key (`order=key`): what the next one is asked for with.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    data: Vec<SubscriberView>,
}

pub(super) const OF_FILE: Doc = Doc::new("Config releases")
    .says("Who has what: the clients of all nodes that pulled a file and poll for it, with the release that each has.")
    .query(&[config_releases::KEY, PAGING])
    .gives(Shape::whole::<Subscribers>())
    .codes(&[&[Code::InvalidConfigFileName, Code::NotFoundResource]]);

pub(super) async fn of_file(
    State(app): State<App>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> Result<Response, ApiError> {
    let (key, page) = (config_releases::key(&query)?, query.page()?);
    let is_seen = caller.read_scope().sees(&key.namespace, &key.group);
    let is_there = app.node.state().catalog().configs.file(&key).is_some();
    if !(is_seen && is_there) {
        return Err(Code::NotFoundResource.into());
    }
    answer(&app, Thing::File(key), page).await
}

pub(super) async fn of_rule(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> Result<Response, ApiError> {
    let (wanted, page) = (OneRule::of(&query)?, query.page()?);
    let rule = wanted.find(&app.node.state().catalog(), family, &caller.read_scope())?;
    answer(&app, Thing::Rule(family, rule.id.clone()), page).await
}

async fn answer(app: &App, thing: Thing, page: Page) -> Result<Response, ApiError> {
    let ClusterSubscribers { amount, current, clients, silent } = gather(&app.node, &thing).await;
    let view = app.node.state().view();
    let listed = Listed::cut(clients.iter(), &page);
    let after = listed.after.as_ref().map(After::text);
    let rows = listed.rows.into_iter();
    let data: Vec<_> = rows.map(|(node, client)| view_of(&view, &thing, node, client)).collect();
    let (code, size) = (Code::ExecuteSuccess, data.len());
    let (number, info) = (code.number(), code.info());
    let body = Subscribers { code: number, info, amount, size, current, silent_nodes: silent, after, data };
    Ok(envelope::answer(code, &body))
}

fn view_of(catalog: &Catalog, thing: &Thing, node: NodeId, client: Subscription) -> SubscriberView {
    let Subscription { address, agent, labels, version, since, is_current, .. } = client;
    SubscriberView {
        address,
        labels: labels.into_iter().map(|(key, value)| LabelView { key, value }).collect(),
        agent,
        release_name: catalog.release_named_by_version(thing, version).unwrap_or_default(),
        version,
        since: since.text(),
        node,
        current: is_current,
    }
}
