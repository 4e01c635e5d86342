//! The first page: what waits for the visitor, what is under way, what needs attention, and the newest changes.

mod work;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::frame::{Frame, Section, page};
use super::requests::RequestRow;
use super::session::SessionUser;
use crate::catalog::Catalog;
use crate::catalog::history::Thing;
use crate::format::types::NodeId;
use crate::operations::FAR;
use crate::subscribers::HoldState;
use crate::subscribers::client_list::{ClientSearch, PresentClient, PresentClients};
use work::{Shown, UnderWay, Unhealthy, UnreleasedDraft, Work, Worked};

pub(super) use work::thing_of;

/// Maximum number of rollouts whose clients are counted for the page.
const COUNTED_MAX: usize = 6;
/// Maximum number of clients shown that refused something.
const REFUSALS_SHOWN: usize = 5;
/// Characters shown of the reason of a refusal.
const MESSAGE_CHARS_SHOWN: usize = 160;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    frame: Frame,
    waiting: Shown<RequestRow>,
    own: Shown<RequestRow>,
    under_way: Shown<UnderWay>,
    drafts: Shown<UnreleasedDraft>,
    unhealthy: Shown<Unhealthy>,
    newest: Vec<Worked>,
    /// Alarms and silent members, for operators.
    alarms: Vec<String>,
    refusals: Vec<RefusedClient>,
    /// Numbers of clients that refused something, and of those without the release that they should have.
    refused: u64,
    behind: u64,
    silent: Vec<NodeId>,
}

/// A client that refused a release.
struct RefusedClient {
    client: String,
    thing: String,
    link: String,
    message: String,
}

impl HomePage {
    fn needs_attention(&self) -> bool {
        !self.alarms.is_empty()
            || self.refused + self.behind > 0
            || self.unhealthy.amount + self.drafts.amount > 0
            || !self.silent.is_empty()
    }

    fn is_quiet(&self) -> bool {
        self.waiting.amount + self.own.amount + self.under_way.amount == 0 && !self.needs_attention()
    }
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let frame = visitor.frame(Section::Home).at(console.node().now());
    let namespace = query.given("namespace");
    let (caller, texts, within) = (visitor.caller.clone(), frame.t, namespace.clone());
    let find = move |catalog: &Catalog| Work::of(catalog, texts, &caller, within.as_deref());
    let found = console.operations.scan(FAR, find, |found| found);
    let search = ClientSearch { namespace, ..ClientSearch::default() };
    let member = console.node().member();
    let survey = async {
        match frame.operates {
            true => Some(member.cluster_survey().await),
            false => None,
        }
    };
    let (found, (present, silent), survey) = tokio::join!(found, member.present_clients(&search), survey);
    let Work { waiting, own, mut under_way, drafts, unhealthy, newest } = match found {
        Ok(work) => work,
        Err(refusal) => return visitor.failed(&refusal),
    };
    let counted = under_way.rows.iter().take(COUNTED_MAX).map(|one| member.clients_with(&one.thing));
    let counted = futures_util::future::join_all(counted).await;
    for (one, clients) in under_way.rows.iter_mut().zip(counted) {
        one.clients = Some(clients.into());
    }
    let mut alarms = Vec::new();
    if let Some(status) = survey {
        alarms.extend(status.alarms.iter().map(|alarm| alarm.text.clone()));
        let away = status.members.iter().filter(|member| !member.reachable);
        alarms.extend(away.map(|member| format!("{} {}", texts.home.member_away, member.id)));
    }
    let (refused, behind, refusals) = troubled(&console, &visitor, present);
    page(&HomePage {
        frame,
        waiting,
        own,
        under_way,
        drafts,
        unhealthy,
        newest,
        alarms,
        refusals,
        refused,
        behind,
        silent,
    })
}

/// Returns the numbers of clients that refused something or lag behind, as far as the visitor sees their releases, and
/// some of the refusals.
fn troubled(console: &Console, visitor: &SessionUser, present: PresentClients) -> (u64, u64, Vec<RefusedClient>) {
    let read_scope = visitor.caller.read_scope();
    let view = console.node().state().view();
    let mut states = [present.tally[HoldState::Refused as usize], present.tally[HoldState::Behind as usize]];
    if !read_scope.is_whole() {
        let sees = |thing: &Thing| thing_of(&view, visitor.texts, thing, &read_scope).is_some();
        let state = |client: &PresentClient| {
            client.releases.iter().filter(|held| sees(&held.thing)).map(|held| held.state).min()
        };
        states = [HoldState::Refused, HoldState::Behind]
            .map(|wanted| present.clients.iter().filter(|client| state(client) == Some(wanted)).count() as u64);
    }
    let refusal = |client: &PresentClient| {
        let held = client.releases.iter().filter(|held| held.state == HoldState::Refused);
        let seen = held
            .filter_map(|held| Some((thing_of(&view, visitor.texts, &held.thing, &read_scope)?, held.message.clone())));
        let name = if client.node_id.is_empty() { &client.address } else { &client.node_id };
        seen.map(|(thing, message)| RefusedClient {
            client: name.clone(),
            thing: thing.name,
            link: thing.link,
            message: crate::sentences::cut(&message, MESSAGE_CHARS_SHOWN),
        })
        .collect::<Vec<_>>()
    };
    let refusals = present.clients.iter().flat_map(refusal).take(REFUSALS_SHOWN).collect();
    (states[0], states[1], refusals)
}
