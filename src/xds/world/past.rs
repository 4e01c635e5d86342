//! Stands that have gone by: a client that comes back may have routes that were made of one of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::World;
use super::cells::Stand;
use super::scene::{Facets, Scene};
use super::touched::Touched;
use crate::model::rule::Family;
use crate::raft::at_length;
use crate::xds::build::{self, Site, Unit, UnitKey};
use crate::xds::client::Client;
use crate::xds::questions::{Questions, Witness};

/// Time for which they are remembered: a client comes back from a node that died within seconds.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Stands that are remembered at most.
const STANDS_MAX: usize = 64;
/// Units that are made of them for one question.
const MADE_MAX: usize = 16;

/// Stands that have gone by, the newest at the end, each with the time at which it is forgotten.
#[derive(Default)]
pub(super) struct Past {
    stands: VecDeque<(Instant, Stand)>, // bound: state
}

impl Past {
    /// Remembers a stand, if other routes follow it.
    pub(super) fn follow(&mut self, stand: &Stand, touched: &Touched, now: Instant) {
        self.forget(now);
        let of_routes = routes_facets();
        if !touched.subjects.values().any(|facets| facets.has_any(of_routes)) {
            return;
        }
        if self.stands.len() >= STANDS_MAX {
            self.stands.pop_front();
        }
        let scene = Arc::new(Scene::gone_by(&stand.scene));
        self.stands.push_back((now + REMEMBERED, Stand { scene, ..stand.clone() }));
    }

    /// Forgets what is too old.
    pub(super) fn forget(&mut self, now: Instant) {
        while self.stands.front().is_some_and(|(until, _)| *until <= now) {
            self.stands.pop_front();
        }
    }
}

/// Aspects of a service that its routes are made from, but for values of labels of its instances.
fn routes_facets() -> Facets {
    Facets::rules(Family::Routing).with(Facets::SERVICE)
}

impl World {
    /// The newest unit of a stand that has gone by for which this is true.
    pub(in crate::xds) fn unit_before(
        &self,
        client: &Client,
        key: &UnitKey,
        is_it: impl Fn(&Unit) -> bool,
    ) -> Option<Unit> {
        let mut stands: Vec<Stand> = Vec::new();
        stands.extend(self.past.lock().stands.iter().rev().map(|(_, stand)| stand.clone()));
        // Those between two changes of the routes are alike.
        stands.dedup_by_key(|stand| stand.newest.of(&key.name, routes_facets()));
        let made = |stand: &Stand| {
            let witness = Witness::new(stand.scene.clone(), client);
            let questions = Questions::new(&witness);
            let mut site = Site::new(&stand.scene, &stand.newest, &stand.lingering, questions, key.authority.clone());
            build::unit(&mut site, key)
        };
        at_length(|| stands.iter().take(MADE_MAX).map(made).find(|unit| is_it(unit)))
    }
}
