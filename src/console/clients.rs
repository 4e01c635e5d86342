//! Present clients of all protocols, each with the releases that it has.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::frame::{Frame, Section, page};
use super::home::thing_of;
use super::listing::{Chip, chips, cut};
use super::pager::Pager;
use super::pictures::holders::{class, word};
use super::session::SessionUser;
use super::texts::Texts;
use crate::catalog::Catalog;
use crate::catalog::page::Listed;
use crate::format::types::NodeId;
use crate::model::grant::ReadScope;
use crate::subscribers::HoldState;
use crate::subscribers::client_list::{ClientSearch, HeldRelease, PresentClient, Protocol};

const PATH: &str = "/ui/clients";
/// Maximum number of releases that a row shows at once; the others can be opened.
const RELEASES_SHOWN: usize = 3;

#[derive(Template)]
#[template(path = "clients.html")]
struct ClientsPage {
    frame: Frame,
    query: Fields,
    chips: Vec<Chip>,
    rows: Vec<ClientRow>,
    /// True if the members returned only some of the clients.
    is_cut: bool,
    silent: Vec<NodeId>,
    pager: Pager,
}

struct ClientRow {
    /// Identity that it claims, or its address.
    name: String,
    /// Its address, if it has an identity too.
    address: String,
    agent: String,
    labels: Vec<String>,
    protocols: Vec<&'static str>,
    state: HoldState,
    /// Reason of a refusal that concerns no release.
    message: String,
    shown: Vec<ReleaseLink>,
    others: Vec<ReleaseLink>,
    lists: u64,
}

/// A release that a client has, with the page of its rule or file.
struct ReleaseLink {
    name: String,
    link: String,
    version: u64,
    state: HoldState,
    message: String,
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let frame = visitor.frame(Section::Clients);
    let state = HoldState::ALL.into_iter().find(|state| key(*state) == query.get("state"));
    let t = frame.t;
    let states = HoldState::ALL.map(|state| (key(state), word(t, &state)));
    let states: Vec<_> = [("", t.all)].into_iter().chain(states).collect();
    let search = ClientSearch {
        text: query.get("q").to_owned(),
        protocol: Protocol::ALL.into_iter().find(|protocol| protocol.word() == query.get("protocol")),
        state,
        namespace: query.given("namespace"),
    };
    let (present, silent) = console.node().member().present_clients(&search).await;
    let (told, read_scope) = (present.clients.len(), visitor.caller.read_scope());
    let view = console.node().state().view();
    let of_page = Pager::page_of(&query);
    let rows = |clients: &[PresentClient]| -> Vec<_> {
        clients.iter().filter_map(|client| row(&view, frame.t, client, &read_scope)).collect()
    };
    let listed = if read_scope.is_whole() {
        // Every client is seen, so those of other pages need no rows.
        let from = of_page.offset.min(told);
        let rows = rows(&present.clients[from..(from + of_page.limit).min(told)]);
        Listed { rows, ..Listed::amount(present.amount as usize) }
    } else {
        cut(rows(&present.clients), &of_page)
    };
    page(&ClientsPage {
        chips: chips(PATH, &query, &states),
        is_cut: (told as u64) < present.amount,
        pager: Pager::new(PATH, &query, &listed),
        rows: listed.rows,
        silent,
        query,
        frame,
    })
}

/// Returns the word for a state in addresses.
fn key(state: HoldState) -> &'static str {
    match state {
        HoldState::Refused => "refused",
        HoldState::Behind => "behind",
        HoldState::Held => "held",
        HoldState::Applied => "applied",
    }
}

/// Returns the row of a client; `None` if the visitor sees none of its releases and not everything either.
fn row(view: &Catalog, t: &'static Texts, client: &PresentClient, read_scope: &ReadScope) -> Option<ClientRow> {
    let link = |held: &HeldRelease| {
        let named = thing_of(view, t, &held.thing, read_scope)?;
        let message = held.message.clone();
        Some(ReleaseLink { name: named.name, link: named.link, version: held.version, state: held.state, message })
    };
    let mut releases: Vec<_> = client.releases.iter().filter_map(link).collect();
    if releases.is_empty() && !read_scope.is_whole() {
        return None;
    }
    releases.sort_by(|one, other| (one.state, &one.name).cmp(&(other.state, &other.name)));
    let others = releases.split_off(releases.len().min(RELEASES_SHOWN));
    let is_named = !client.node_id.is_empty();
    let state = match read_scope.is_whole() {
        true => client.state(),
        false => releases.iter().map(|release| release.state).min().unwrap_or(HoldState::Held),
    };
    let is_told = releases.iter().any(|release| release.message == client.message);
    Some(ClientRow {
        name: if is_named { client.node_id.clone() } else { client.address.clone() },
        address: if is_named { client.address.clone() } else { String::new() },
        agent: client.agent.clone(),
        labels: client.labels.iter().map(|(key, value)| format!("{key}={value}")).collect(),
        protocols: client.protocols.iter().map(|protocol| called(*protocol)).collect(),
        state,
        message: if is_told || !read_scope.is_whole() { String::new() } else { client.message.clone() },
        shown: releases,
        others,
        lists: client.lists,
    })
}

fn called(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Apollo => "Apollo",
        Protocol::Discover => "Discover",
        Protocol::Xds => "xDS",
        Protocol::Polaris => "Polaris",
    }
}
