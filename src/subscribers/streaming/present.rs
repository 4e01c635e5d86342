//! Present clients of xDS, each with the releases of rules that went into its resources.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::super::client_list::{HeldRelease, PresentClient, Protocol};
use super::super::fleet::FleetClient;
use super::super::streams::{AckState, Delivered, Streams};
use super::super::{Applied, HoldState};
use super::shares::{RuleVersion, all_versions, lacking, versions};
use super::{PerMap, Who};
use crate::catalog::Catalog;
use crate::catalog::history::Thing;
use crate::model::mesh::resource::ResourceType;

/// Calls `take` with the client of every stream. A gRPC client opens one stream per target.
pub(in crate::subscribers) fn present(streams: &Streams, catalog: &Catalog, take: &mut impl FnMut(PresentClient)) {
    let mut releases_of = PerMap(VecDeque::new());
    for entry in streams.all() {
        let label = |key: &str| entry.client.labels.get(key).map(String::as_str);
        let is_due = |(family, id, version): &RuleVersion| {
            let due = catalog.rules.of(*family).active().release_for(id, label);
            due.is_some_and(|release| release.rule.enable && release.version == *version)
        };
        let mut held: BTreeMap<Thing, HeldRelease> = BTreeMap::new();
        for delivered in ResourceType::ALL.map(|kind| entry.delivered(kind)) {
            let lacking = lacking(&delivered);
            let refused = if lacking.is_empty() { BTreeMap::new() } else { refused(&delivered) };
            let sent = releases_of.of(&delivered.sent, || Rc::new(all_versions(&delivered.sent)));
            for one in sent.iter().chain(&lacking) {
                let message = refused.get(one);
                let word = match message {
                    Some(_) => Some(Applied::Refused),
                    None => (!lacking.contains(one)).then_some(Applied::Yes),
                };
                let state = HoldState::of(word, word == Some(Applied::Yes) && is_due(one));
                let thing = Thing::Rule(one.0, one.1.clone());
                let message = message.cloned().unwrap_or_default();
                let row = HeldRelease { thing: thing.clone(), version: one.2, state, message, confirmed_ms_ago: 0 };
                if held.get(&thing).is_none_or(|known| row.state < known.state) {
                    held.insert(thing, row);
                }
            }
        }
        let Who { address, agent, node_id, labels } = Who::of(&entry.client);
        let fleet = FleetClient::of(&entry);
        let newest = fleet.types.iter().filter(|one| one.refused_at.is_some()).max_by_key(|one| one.refused_at);
        take(PresentClient {
            address,
            agent,
            node_id,
            labels,
            protocols: vec![Protocol::Xds],
            heard_ms_ago: 0,
            releases: held.into_values().collect(),
            lists: fleet
                .types
                .iter()
                .filter(|one| one.kind == ResourceType::Endpoints.label())
                .map(|one| one.sent)
                .sum(),
            unsettled: match fleet.applied() {
                Some(Applied::Yes) => None,
                Some(Applied::Refused) => Some(HoldState::Refused),
                None => Some(HoldState::Behind),
            },
            message: newest.map(|one| one.message.clone()).unwrap_or_default(),
        });
    }
}

/// Returns the releases in refused resources, each with the reason.
fn refused(delivered: &Delivered) -> BTreeMap<RuleVersion, String> {
    let mut found = BTreeMap::new();
    for (name, resource) in &delivered.sent {
        if let AckState::Refused(refusal) = delivered.ack_state(name, resource.version) {
            found.extend(versions(&resource.releases).map(|one| (one, refusal.message.clone())));
        }
    }
    found
}
