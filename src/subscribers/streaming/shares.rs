//! Shares of current clients of xDS, by kind of rule. A client counts for a kind if it was sent a resource made with a
//! rule of that kind.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::super::Share;
use super::super::streams::{AckState, Delivered, Streams};
use super::PerMap;
use crate::catalog::Catalog;
use crate::model::mesh::resource::{ResourceType, Resources};
use crate::model::rule::Family;
use crate::model::rule::release::RuleRelease;

/// Family and id of a rule, and version of its release.
pub(super) type RuleVersion = (Family, String, u64);

/// Adds the clients of xDS to `shares`.
pub(in crate::subscribers) fn add(shares: &mut BTreeMap<&'static str, Share>, streams: &Streams, catalog: &Catalog) {
    let streams = streams.all();
    let mut releases_of = PerMap(VecDeque::new());
    // A gRPC client opens one stream per target. It is current if all of its streams are.
    let mut clients: HashMap<_, BTreeMap<&'static str, bool>> = HashMap::new();
    for entry in &streams {
        let client = &entry.client;
        let label = |key: &str| client.labels.get(key).map(String::as_str);
        for delivered in ResourceType::ALL.map(|kind| entry.delivered(kind)) {
            let lacking = lacking(&delivered);
            let given = releases_of.of(&delivered.sent, || Rc::new(all_versions(&delivered.sent)));
            let is_due = |(family, id, version): &RuleVersion| {
                let due = catalog.rules.of(*family).active().release_for(id, label);
                due.is_some_and(|release| release.rule.enable && release.version == *version)
            };
            let given = given.iter().map(|one| (one.0, is_due(one) && !lacking.contains(one)));
            let kinds: Vec<_> = given.chain(lacking.iter().map(|one| (one.0, false))).collect();
            if kinds.is_empty() {
                continue;
            }
            let of = clients.entry((client.address, &client.agent, &client.node_id)).or_default();
            for (family, is_current) in kinds {
                *of.entry(family.word()).or_insert(true) &= is_current;
            }
        }
    }
    for (kind, is_current) in clients.into_values().flatten() {
        let share = shares.entry(kind).or_default();
        share.present += 1;
        share.current += usize::from(is_current);
    }
}

/// Returns the releases with a resource that is unacknowledged, or that was removed and the client still has.
pub(super) fn lacking(delivered: &Delivered) -> BTreeSet<RuleVersion> {
    let Delivered { sent, acked, .. } = delivered;
    if acked.ptr_eq(sent) {
        return BTreeSet::new();
    }
    let is_open = |standing: AckState| !matches!(standing, AckState::Acknowledged);
    let open = sent.iter().filter(|(name, one)| is_open(delivered.ack_state(name, one.version)));
    let left_over = acked.iter().filter(|(name, _)| !sent.contains_key(*name));
    open.chain(left_over).flat_map(|(_, resource)| versions(&resource.releases)).collect()
}

pub(super) fn versions(releases: &[Arc<RuleRelease>]) -> impl Iterator<Item = RuleVersion> {
    releases.iter().map(|release| (release.rule.family(), release.rule.id.clone(), release.version))
}

/// Returns the releases in a resource map.
pub(super) fn all_versions(resources: &Resources) -> BTreeSet<RuleVersion> {
    resources.values().flat_map(|resource| versions(&resource.releases)).collect()
}
