//! Recent states: a reconnecting client may have routes that were built from one of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ResourceCache;
use super::snapshot::{CatalogSnapshot, ChangeMask};
use super::touched::Touched;
use super::units::Stand;
use crate::model::rule::Family;
use crate::raft::at_length;
use crate::xds::client::Client;
use crate::xds::client_inputs::{ClientContext, InputRecorder};
use crate::xds::resources::{self, BuildContext, Unit, UnitKey};

/// Time for which states are retained. A client of a failed node reconnects within seconds.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Maximum number of states.
const STANDS_MAX: usize = 64;
/// Maximum number of units built per lookup.
const MADE_MAX: usize = 16;

/// Recent states, the newest last, each with the time at which it is dropped.
#[derive(Default)]
pub(super) struct Past {
    stands: VecDeque<(Instant, Stand)>, // bound: state
}

impl Past {
    /// Retains a state if the next one has different routes.
    pub(super) fn follow(&mut self, stand: &Stand, touched: &Touched, now: Instant) {
        self.forget(now);
        let of_routes = routes_facets();
        if !touched.subjects.values().any(|facets| facets.has_any(of_routes)) {
            return;
        }
        if self.stands.len() >= STANDS_MAX {
            self.stands.pop_front();
        }
        let snapshot = Arc::new(CatalogSnapshot::gone_by(&stand.snapshot));
        self.stands.push_back((now + REMEMBERED, Stand { snapshot, ..stand.clone() }));
    }

    /// Drops expired states.
    pub(super) fn forget(&mut self, now: Instant) {
        while self.stands.front().is_some_and(|(until, _)| *until <= now) {
            self.stands.pop_front();
        }
    }
}

/// Aspects of a service that its routes are built from, except for the label values of its instances.
fn routes_facets() -> ChangeMask {
    ChangeMask::rules(Family::Routing).with(ChangeMask::SERVICE)
}

impl ResourceCache {
    /// Returns the newest unit of an earlier state for which `is_it` returns true.
    pub(in crate::xds) fn unit_before(
        &self,
        client: &Client,
        key: &UnitKey,
        is_it: impl Fn(&Unit) -> bool,
    ) -> Option<Unit> {
        let mut stands: Vec<Stand> = Vec::new();
        stands.extend(self.past.lock().stands.iter().rev().map(|(_, stand)| stand.clone()));
        // States between two changes of the routes have equal routes.
        stands.dedup_by_key(|stand| stand.newest.of(&key.name, routes_facets()));
        let made = |stand: &Stand| {
            let context = ClientContext::new(stand.snapshot.clone(), client);
            let questions = InputRecorder::new(&context);
            let mut ctx =
                BuildContext::new(&stand.snapshot, &stand.newest, &stand.retired, questions, key.authority.clone());
            resources::unit(&mut ctx, key)
        };
        at_length(|| stands.iter().take(MADE_MAX).map(made).find(|unit| is_it(unit)))
    }
}
