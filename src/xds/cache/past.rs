//! Recent states: a reconnecting client may have routes that were built from one of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ResourceCache;
use super::generation::Generation;
use super::snapshot::{CatalogSnapshot, ChangeMask};
use super::touched::Touched;
use crate::model::rule::Family;
use crate::tasks::in_place;
use crate::xds::client::Client;
use crate::xds::client_inputs::{ClientContext, InputRecorder};
use crate::xds::keys::UnitKey;
use crate::xds::resources::{self, BuildContext, Unit};

/// Time for which states are retained. A client of a failed node reconnects within seconds.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Maximum number of states.
const GENERATIONS_MAX: usize = 64;
/// Maximum number of units built per lookup.
const MADE_MAX: usize = 16;

/// Recent states, the newest last, each with the time at which it is dropped.
#[derive(Default)]
pub(super) struct Past {
    generations: VecDeque<(Instant, Generation)>, // bound: state
}

impl Past {
    /// Retains a state if the next one has different routes.
    pub(super) fn follow(&mut self, generation: &Generation, touched: &Touched, now: Instant) {
        self.forget(now);
        let of_routes = routes_mask();
        if !touched.subjects.values().any(|mask| mask.has_any(of_routes)) {
            return;
        }
        if self.generations.len() >= GENERATIONS_MAX {
            self.generations.pop_front();
        }
        let snapshot = Arc::new(CatalogSnapshot::gone_by(&generation.snapshot));
        self.generations.push_back((now + REMEMBERED, Generation { snapshot, ..generation.clone() }));
    }

    /// Drops expired states.
    pub(super) fn forget(&mut self, now: Instant) {
        while self.generations.front().is_some_and(|(until, _)| *until <= now) {
            self.generations.pop_front();
        }
    }
}

/// Aspects of a service that its routes are built from, except for the label values of its instances.
fn routes_mask() -> ChangeMask {
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
        let mut generations: Vec<Generation> = Vec::new();
        generations.extend(self.past.lock().generations.iter().rev().map(|(_, generation)| generation.clone()));
        // States between two changes of the routes have equal routes.
        generations.dedup_by_key(|generation| generation.last_modified.of(&key.name, routes_mask()));
        let made = |generation: &Generation| {
            let context = ClientContext::new(generation.snapshot.clone(), client);
            let inputs = InputRecorder::new(&context);
            let mut ctx = BuildContext::new(
                &generation.snapshot,
                &generation.last_modified,
                &generation.retired,
                inputs,
                key.authority.clone(),
            );
            resources::unit(&mut ctx, key)
        };
        in_place(|| generations.iter().take(MADE_MAX).map(made).find(|unit| is_it(unit)))
    }
}
