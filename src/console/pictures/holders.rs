//! Clients of a release: a square for each, shares of a bar if there are very many, and a table.

use super::percent;
use crate::catalog::history::Thing;
use crate::console::Console;
use crate::console::client_labels::ClientLabels;
use crate::console::texts::Texts;
use crate::controllers::subscribers::{ClusterSubscribers, MemberClient};
use crate::model::limits;
use crate::model::time::Timestamp;
use crate::subscribers::{Applied, HoldState, Subscription};

/// Maximum number of clients drawn as squares.
const SQUARES_MAX: usize = 500;

/// Clients with their releases, as many as fit on a page, and the number with the right release.
#[derive(Default)]
pub(in crate::console) struct Holders {
    pub(in crate::console) rows: Vec<HolderRow>,
    pub(in crate::console) amount: u64,
    pub(in crate::console) current: u64,
    /// Number of clients that reported to have applied the release, and of those that refused it.
    pub(in crate::console) applied: u64,
    pub(in crate::console) refused: u64,
    /// Labels of the clients.
    pub(in crate::console) labels: ClientLabels,
    squares: Vec<Square>,
    tally: [u64; HoldState::ALL.len()],
}

pub(in crate::console) struct HolderRow {
    pub(in crate::console) address: String,
    pub(in crate::console) agent: String,
    pub(in crate::console) labels: String,
    pub(in crate::console) version: u64,
    pub(in crate::console) since: Timestamp,
    pub(in crate::console) node: u64,
    pub(in crate::console) is_current: bool,
    /// Identity that the client reports; empty for none.
    pub(in crate::console) node_id: String,
    pub(in crate::console) applied: Option<Applied>,
    /// Reason of its refusal.
    pub(in crate::console) message: String,
}

impl HolderRow {
    pub(in crate::console) fn is_applied(&self) -> bool {
        self.applied == Some(Applied::Yes)
    }

    pub(in crate::console) fn is_refused(&self) -> bool {
        self.applied == Some(Applied::Refused)
    }
}

/// One client in the picture.
pub(in crate::console) struct Square {
    pub(in crate::console) state: HoldState,
    /// Name of the client.
    pub(in crate::console) title: String,
}

/// Part of the bar, in percents of its width.
#[derive(Debug, PartialEq)]
pub(in crate::console) struct Part {
    pub(in crate::console) state: HoldState,
    pub(in crate::console) from: String,
    pub(in crate::console) width: String,
}

impl Holders {
    /// Collects the clients from every member.
    pub(in crate::console) async fn of(console: &Console, thing: &Thing) -> Holders {
        Holders::drawn(console.node().member().clients_with(thing).await)
    }

    fn drawn(all: ClusterSubscribers) -> Holders {
        let ClusterSubscribers { amount, current, applied, refused, tally, mut clients, .. } = all;
        // Refusals are sorted first, because a page is limited.
        clients.sort_by_key(|MemberClient(_, client)| client.hold_state());
        let labels = ClientLabels::of(clients.iter().map(|MemberClient(_, client)| client.labels.as_slice()));
        let is_drawn_each = clients.len() <= SQUARES_MAX && clients.len() as u64 == amount;
        let square = |client: &Subscription| Square {
            state: client.hold_state(),
            title: format!("{} {}", client.node_id, client.address).trim_start().to_owned(),
        };
        let drawn = clients.iter().filter(|_| is_drawn_each).map(|MemberClient(_, client)| square(client));
        let squares = drawn.collect();
        let rows = clients.into_iter().take(limits::PAGE_ROWS_MAX).map(|MemberClient(node, client)| HolderRow {
            address: client.address,
            agent: client.agent,
            labels: client.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", "),
            version: client.version,
            since: client.since,
            node,
            is_current: client.is_current,
            node_id: client.node_id,
            applied: client.applied,
            message: client.message,
        });
        Holders { rows: rows.collect(), amount, current, applied, refused, labels, squares, tally }
    }

    /// Returns a square for each client; none if there are too many.
    pub(in crate::console) fn squares(&self) -> &[Square] {
        &self.squares
    }

    /// Returns the states that occur, each with its number.
    pub(in crate::console) fn legend(&self) -> Vec<(HoldState, u64)> {
        HoldState::ALL.into_iter().zip(self.tally).filter(|(_, number)| *number > 0).collect()
    }

    /// Returns the parts of the bar, from left to right.
    pub(in crate::console) fn parts(&self) -> Vec<Part> {
        let whole = self.tally.iter().sum::<u64>().max(1) as f64;
        let place = |(before, (state, number)): (u64, (HoldState, u64))| Part {
            state,
            from: percent(before as f64 * 100.0 / whole),
            width: percent(number as f64 * 100.0 / whole),
        };
        let legend = self.legend();
        let before = legend.iter().scan(0, |sum, (_, number)| Some(std::mem::replace(sum, *sum + number)));
        before.zip(legend.iter().copied()).map(place).collect()
    }

    /// Describes the picture in words.
    pub(in crate::console) fn caption(&self, t: &Texts) -> String {
        let told: Vec<_> =
            self.legend().into_iter().map(|(state, number)| format!("{number} {}", word(t, &state))).collect();
        told.join(", ")
    }
}

/// Returns the text for a state.
pub(in crate::console) fn word(t: &Texts, state: &HoldState) -> &'static str {
    match state {
        HoldState::Refused => t.refused,
        HoldState::Behind => t.is_behind,
        HoldState::Held => t.is_held,
        HoldState::Applied => t.have_applied,
    }
}

/// Returns the CSS class and the shape of a state.
pub(in crate::console) fn class(state: &HoldState) -> &'static str {
    match state {
        HoldState::Refused => "fault",
        HoldState::Behind => "warn",
        HoldState::Held => "held",
        HoldState::Applied => "good",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_clients_are_shares_that_fill_the_bar() {
        let tally = [2, 3, 0, 5];
        let holders = Holders { tally, amount: 10, ..Holders::default() };
        let parts = holders.parts();
        let rows: Vec<_> =
            parts.iter().map(|part| (class(&part.state), part.from.as_str(), part.width.as_str())).collect();
        assert_eq!(rows, [("fault", "0.00%", "20.00%"), ("warn", "20.00%", "30.00%"), ("good", "50.00%", "50.00%")]);
        let t = crate::console::texts::Language::English.texts();
        assert_eq!(holders.caption(t), "2 refused, 3 behind, 5 applied");
        assert_eq!(Holders::default().parts(), []);
    }
}
