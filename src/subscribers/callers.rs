//! Clients that hold a list of instances, for all services together, as far as this node served them.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::Subscribers;
use super::entry::Topic;
use super::lists::service_of;
use crate::catalog::calls::ListHolder;
use crate::model::limits;
use crate::model::mesh::resource::ResourceType;

impl Subscribers {
    /// Returns each client once per service, at most [`limits::LIST_HOLDERS_TOLD_MAX`] rows.
    pub(super) fn list_holders(&self) -> Vec<ListHolder> {
        let mut found = BTreeSet::new();
        let now = Instant::now();
        let mut take = |namespace: &str, service: &str, address: &str| {
            let holder = ListHolder {
                namespace: namespace.to_owned(),
                service: service.to_owned(),
                address: address.to_owned(),
            };
            if found.len() < limits::LIST_HOLDERS_TOLD_MAX {
                found.insert(holder);
            }
        };
        for shard in &self.shards {
            for entry in shard.lock().topics.values().flat_map(|clients| clients.values()) {
                if let Topic::Instances { namespace, service } = &entry.wants
                    && entry.is_there(now)
                {
                    take(namespace, service, &entry.address);
                }
            }
        }
        for entry in self.streams.all() {
            let Some(address) = entry.client.address.map(|address| address.to_string()) else { continue };
            for resource in entry.delivered(ResourceType::Endpoints).sent.values() {
                if let Some((namespace, service)) = service_of(&resource.name) {
                    take(&namespace, &service, &address);
                }
            }
        }
        found.into_iter().collect()
    }
}
