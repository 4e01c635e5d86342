//! Queries for the clients of a rule's release among the streams of xDS. A client has applied a release once it has
//! acknowledged every resource that was sent to it and that the release went into.

mod present;
mod shares;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::kept::kept;
use super::streams::{AckState, Delivered, ResourceRefusal, StreamClient, StreamEntry, Streams};
use super::{Applied, Subscription};
use crate::catalog::rules::Active;
use crate::model::config_lookup::CLIENT_ADDRESS_LABEL;
use crate::model::limits;
use crate::model::mesh::resource::{ResourceType, Resources, Version};
use crate::model::text::first_bytes;
use crate::model::time::Timestamp;

pub(super) use present::present;
pub(super) use shares::add as add_shares;

/// Label that gray releases match against the identity of a client.
const NODE_ID_LABEL: &str = "NODE_ID";
/// Number of resource maps whose rule parts are cached during a query. Most streams share a few maps.
const REMEMBERED_MAX: usize = 32;

/// Returns the clients of xDS that have, or were sent, a resource made with a release of the rule; one row per client.
pub(super) fn of_rule(streams: &Streams, active: &Active, rule_id: &str) -> Vec<Subscription> {
    let mut parts = RuleParts { rule_id, of_map: PerMap(VecDeque::new()) };
    let mut rows: BTreeMap<[String; 3], Subscription> = BTreeMap::new();
    for entry in streams.all() {
        let label = |key: &str| entry.client.labels.get(key).map(String::as_str);
        let due =
            active.release_for(rule_id, label).filter(|release| release.rule.enable).map(|release| release.version);
        let Some(found) = judge(&entry, due, &mut parts) else { continue };
        let row = to_subscription(&entry.client, found);
        let who = [row.address.clone(), row.agent.clone(), row.node_id.clone()];
        // A gRPC client opens one stream per target. It has applied what all of its streams have, so the worst row
        // remains.
        let is_worse = rows.get(&who).is_none_or(|known| rank(&row) < rank(known));
        if is_worse {
            rows.insert(who, row);
        }
    }
    rows.into_values().collect()
}

pub(super) fn rank(row: &Subscription) -> (u8, bool) {
    let applied = match row.applied {
        Some(Applied::Refused) => 0,
        None => 1,
        Some(Applied::Yes) => 2,
    };
    (applied, row.is_current)
}

/// State of one client with respect to one rule or one list of instances.
#[derive(Debug, PartialEq)]
pub(super) struct ReleaseStanding {
    pub(super) version: u64,
    pub(super) since: Timestamp,
    pub(super) applied: Option<Applied>,
    pub(super) message: String,
    pub(super) refused_at: Option<Timestamp>,
    pub(super) is_current: bool,
}

/// A resource made with a release of the rule.
#[derive(Clone)]
struct RulePart {
    name: Arc<str>,
    resource: Version,
    /// Version of the release, and the time it came into force.
    release: (u64, Timestamp),
}

/// Cache of the parts of one rule per resource map.
struct RuleParts<'a> {
    rule_id: &'a str,
    of_map: PerMap<[RulePart]>,
}

/// Cache of values that are derived from resource maps. Most streams share a few maps.
struct PerMap<T: ?Sized>(VecDeque<(Resources, Rc<T>)>); // bound: request

impl<T: ?Sized> PerMap<T> {
    /// Returns the value of a map, which is derived once. Beyond [`REMEMBERED_MAX`] the oldest value is dropped.
    fn of(&mut self, resources: &Resources, derive: impl FnOnce() -> Rc<T>) -> Rc<T> {
        if let Some((_, known)) = self.0.iter().find(|(known, _)| known.ptr_eq(resources)) {
            return known.clone();
        }
        let derived = derive();
        if self.0.len() >= REMEMBERED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((resources.clone(), derived.clone()));
        derived
    }
}

impl RuleParts<'_> {
    fn of(&mut self, resources: &Resources) -> Rc<[RulePart]> {
        if resources.is_empty() {
            return Rc::new([]);
        }
        let rule_id = self.rule_id;
        self.of_map.of(resources, || {
            let parts = resources.iter().filter_map(|(name, resource)| {
                let release = resource.releases.iter().find(|release| release.rule.id == rule_id)?;
                let release = (release.version, release.modified.time);
                Some(RulePart { name: name.clone(), resource: resource.version, release })
            });
            parts.collect()
        })
    }
}

/// State of the parts of one rule in a stream, summed over all types.
#[derive(Default)]
struct Sum {
    /// Releases in the resources that were sent last.
    given: Vec<(u64, Timestamp)>,
    /// Releases in resources that the client still has although they were removed or replaced since.
    left_over: Vec<(u64, Timestamp)>,
    is_waited_for: bool,
    refusal: Option<Arc<ResourceRefusal>>,
}

fn judge(entry: &StreamEntry, due: Option<u64>, parts: &mut RuleParts<'_>) -> Option<ReleaseStanding> {
    let mut sum = Sum::default();
    for kind in ResourceType::ALL {
        sum.add(&entry.delivered(kind), parts);
    }
    let of_due = |all: &[(u64, Timestamp)]| all.iter().copied().find(|(version, _)| Some(*version) == due);
    let newest = |all: &[(u64, Timestamp)]| all.iter().copied().max();
    let (version, since) = of_due(&sum.given).or_else(|| newest(&sum.given)).or_else(|| newest(&sum.left_over))?;
    let is_one = sum.left_over.is_empty() && sum.given.iter().all(|(given, _)| *given == version);
    let applied = match &sum.refusal {
        Some(_) => Some(Applied::Refused),
        None => (is_one && !sum.is_waited_for).then_some(Applied::Yes),
    };
    Some(ReleaseStanding {
        version,
        since: since.max(entry.client.since),
        applied,
        refused_at: sum.refusal.as_ref().map(|refusal| refusal.at),
        message: sum.refusal.map(|refusal| refusal.message.clone()).unwrap_or_default(),
        is_current: applied == Some(Applied::Yes) && due == Some(version),
    })
}

impl Sum {
    fn add(&mut self, delivered: &Delivered, parts: &mut RuleParts<'_>) {
        let Delivered { sent, acked, .. } = delivered;
        for part in &*parts.of(sent) {
            self.given.push(part.release);
            self.see(delivered.ack_state(&part.name, part.resource));
        }
        if acked.ptr_eq(sent) {
            return;
        }
        for part in &*parts.of(acked) {
            let replaced = sent.get(&part.name);
            let is_made = replaced.is_some_and(|sent| sent.releases.iter().any(|one| one.rule.id == parts.rule_id));
            if !is_made {
                self.left_over.push(part.release);
                let standing = replaced.map(|sent| delivered.ack_state(&part.name, sent.version));
                self.see(standing.unwrap_or(AckState::InFlight));
            }
        }
    }

    fn see(&mut self, standing: AckState) {
        match standing {
            AckState::Acknowledged => {}
            AckState::InFlight => self.is_waited_for = true,
            AckState::Refused(refusal) => {
                if self.refusal.as_ref().is_none_or(|known| known.at < refusal.at) {
                    self.refusal = Some(refusal);
                }
            }
        }
    }
}

/// Address, agent, identity and labels of a client, truncated for answers.
pub(super) struct Who {
    pub(super) address: String,
    pub(super) agent: String,
    pub(super) node_id: String,
    pub(super) labels: Vec<(String, String)>,
}

impl Who {
    pub(super) fn of(client: &StreamClient) -> Who {
        let address = match client.address {
            Some(address) => address.to_string(),
            None => client.labels.get(CLIENT_ADDRESS_LABEL).cloned().unwrap_or_default(),
        };
        let is_own = |key: &String| key != CLIENT_ADDRESS_LABEL && key != NODE_ID_LABEL;
        Who {
            address,
            agent: first_bytes(&client.agent, limits::AGENT_BYTES_MAX).to_owned(),
            node_id: first_bytes(&client.node_id, limits::XDS_NODE_ID_BYTES_TOLD).to_owned(),
            labels: kept(client.labels.iter().filter(|(key, _)| is_own(key))).into_vec(),
        }
    }
}

pub(super) fn to_subscription(client: &StreamClient, found: ReleaseStanding) -> Subscription {
    let Who { address, agent, node_id, labels } = Who::of(client);
    Subscription {
        address,
        agent,
        labels,
        version: found.version,
        since: found.since,
        confirmed_ms_ago: 0,
        is_current: found.is_current,
        is_xds: true,
        is_polaris: false,
        node_id,
        applied: found.applied,
        message: found.message,
        applied_at: found.refused_at,
        is_reported: false,
        is_assumed: false,
        connection: String::new(),
    }
}

#[cfg(test)]
mod tests;
