//! `/admin/v1/clients`: the releases that the clients at one address have.

use std::sync::Arc;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::http::{ApiResult, App, Caller, Doc, PAGING, Query, Shape, envelope};
use crate::api::releases::{LabelView, given};
use crate::catalog::Catalog;
use crate::catalog::history::Thing;
use crate::catalog::page::{After, ListKey, Listed, Placed, place_of};
use crate::format::types::NodeId;
use crate::model::code::Code;
use crate::model::grant::ReadScope;
use crate::openapi::Param;
use crate::subscribers::HoldState;
use crate::subscribers::client_list::{ClientSearch, HeldRelease, PresentClient};

/// A release that a client has or should have.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "ClientRelease")]
struct ReleaseView {
    /// `configfile`, `routing`, `ratelimit`, `faultdetector` or `circuitbreaker`.
    kind: &'static str,
    namespace: String,
    /// Group of a config file.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// Name of the config file or rule.
    name: String,
    /// Name of the release that the client has; empty and version 0 for none.
    release_name: String,
    version: u64,
    /// True if the client has the release that it should have now.
    current: bool,
    /// The client's report: `yes` or `refused`; absent until it reports on its last release.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<&'static str>,
    /// Its reason for a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    address: String,
    labels: Arc<Vec<LabelView>>,
    /// User agent of the client.
    agent: String,
    /// Identity that an xDS client reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    #[serde(skip)]
    program: String,
}

impl Placed for ReleaseView {
    fn place(&self) -> ListKey<'_> {
        place_of([self.kind, &self.namespace, &self.name, &self.program])
    }
}

/// Releases that the clients at an address have.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ClientReleases")]
struct Releases {
    code: u32,
    info: &'static str,
    /// Number of all rows.
    amount: usize,
    /// Number of rows on this page.
    size: usize,
    /// Members that did not answer; what their clients have is missing.
    silent_nodes: Vec<NodeId>,
    /// Value of `after` for the next page, on a full page by key (`order=key`).
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    data: Vec<Arc<ReleaseView>>,
}

const ADDRESS: &[Param] = &[Param::text("address", "Address of the clients, as lists of clients have it.").required()];

pub(crate) const RELEASES: Doc = Doc::new("Clients")
    .says(
        "The config files and rules that the clients at an address have or should have, on all nodes, as far as the \
         caller may see them; version 0 for one that a client does not have yet.",
    )
    .query(&[ADDRESS, PAGING])
    .gives(Shape::whole::<Releases>())
    .codes(&[&[Code::InvalidParameter]]);

pub(crate) async fn releases(State(app): State<App>, query: Query, caller: Caller) -> ApiResult {
    let (address, page, read_scope) = (query.required("address")?, query.page()?, caller.read_scope());
    let search = ClientSearch { text: address.to_owned(), ..ClientSearch::default() };
    let (present, silent_nodes) = app.node().member().present_clients(&search).await;
    let view = app.node().state().view();
    let clients = present.clients.iter().filter(|client| client.address == address);
    let mut found: Vec<_> = clients.flat_map(|client| rows(&view, client, &read_scope)).map(Arc::new).collect();
    found.sort_by(|one, other| one.place().cmp(&other.place()));
    let Listed { amount, rows: data, after } = Listed::cut(found.iter(), &page);
    let (code, size) = (Code::ExecuteSuccess, data.len());
    let (number, info, after) = (code.number(), code.info(), after.as_ref().map(After::text));
    Ok(envelope::answer(code, &Releases { code: number, info, amount, size, silent_nodes, after, data }))
}

/// Returns the releases of a client that the reader may see.
fn rows(catalog: &Catalog, client: &PresentClient, read_scope: &ReadScope) -> Vec<ReleaseView> {
    let labels: Arc<Vec<_>> = LabelView::all(client.labels.clone()).into();
    client.releases.iter().filter_map(|held| row(catalog, client, (held, &labels), read_scope)).collect()
}

fn row(
    catalog: &Catalog,
    client: &PresentClient,
    (held, labels): (&HeldRelease, &Arc<Vec<LabelView>>),
    read_scope: &ReadScope,
) -> Option<ReleaseView> {
    let (kind, namespace, group, name) = match &held.thing {
        Thing::File(key) if read_scope.sees(&key.namespace, &key.group) => {
            ("configfile", key.namespace.clone(), Some(key.group.clone()), key.file.clone())
        }
        Thing::File(_) => return None,
        Thing::Rule(family, id) => {
            let rule = catalog.rules.of(*family).get(id).filter(|rule| rule.is_seen_by(read_scope))?;
            (family.word(), rule.namespace.clone(), None, rule.name.clone())
        }
    };
    let applied = match held.state {
        HoldState::Applied => Some("yes"),
        HoldState::Refused => Some("refused"),
        _ => None,
    };
    Some(ReleaseView {
        kind,
        namespace,
        program: format!("{}\0{}\0{}", group.as_deref().unwrap_or_default(), client.agent, client.node_id),
        group,
        name,
        release_name: catalog.release_named_by_version(&held.thing, held.version).unwrap_or_default(),
        version: held.version,
        current: matches!(held.state, HoldState::Applied | HoldState::Held),
        applied,
        message: given(held.message.clone()),
        address: client.address.clone(),
        labels: labels.clone(),
        agent: client.agent.clone(),
        node_id: given(client.node_id.clone()),
    })
}
