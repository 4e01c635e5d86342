//! Answers of a client to responses: ACK and NACK.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{InFlightResponse, NamedResource, TypeState};
use crate::model::limits;
use crate::model::mesh::resource::Version;
use crate::model::text::first_bytes;
use crate::model::time::Timestamp;
use crate::subscribers::streams::{REFUSALS_KEPT, RefusedResponse, ResourceRefusal};

impl TypeState {
    /// Processes the ACK of the response in flight.
    pub(in crate::xds) fn acknowledge(&mut self) {
        let Some(response) = self.in_flight.take() else { return };
        self.has_update = true;
        (self.delivered.in_flight, self.delivered.refused) = (None, None);
        self.forget_unsubscribed(&response);
        if response.is_whole {
            self.nacked.clear();
        }
        for named in &response.changed {
            self.nacked.remove(&named.name);
        }
        if self.nacked.is_empty() {
            self.delivered.acked = self.sent.clone();
        } else {
            self.take_over(response.changed, &response.removed);
        }
    }

    /// Processes the NACK of the response in flight. The resources named in the message count as refused, or all if it
    /// names none; the client has the others.
    pub(in crate::xds) fn refuse(&mut self, message: &str, at: Timestamp) {
        let Some(response) = self.in_flight.take() else { return };
        self.has_update = true;
        self.delivered.in_flight = None;
        self.forget_unsubscribed(&response);
        let mut refused = self.refused_by_name(message, &response);
        if refused.is_empty() {
            refused = response.changed.iter().map(|named| (named.name.clone(), named.resource.version)).collect();
            self.nacked.extend(refused.iter().map(|(name, _)| name.clone()));
            self.take_over(Vec::new(), &response.removed);
        } else {
            self.take_all_but(&refused, response);
        }
        let message = first_bytes(message, limits::XDS_REFUSAL_BYTES_MAX).to_owned();
        self.keep_refusal(&message, at, &refused);
        self.delivered.refused = Some(RefusedResponse { message, at, resources: refused });
    }

    pub(in crate::xds) fn last_refusal(&self) -> Option<&ResourceRefusal> {
        self.delivered.refusals.last().map(|refusal| &**refusal)
    }

    fn keep_refusal(&mut self, message: &str, at: Timestamp, refused: &[(Arc<str>, Version)]) {
        let refusals = &mut self.delivered.refusals;
        if refusals.len() >= REFUSALS_KEPT {
            refusals.remove(0);
        }
        let sent = refused.iter().filter_map(|(name, _)| self.sent.get_key_value(name));
        let resources = sent.map(|(name, resource)| (name.clone(), resource.clone())).collect();
        refusals.push(Arc::new(ResourceRefusal { message: message.to_owned(), at, resources }));
    }

    /// Drops resources of a response whose names were unsubscribed in between. Those that are subscribed again are
    /// scheduled to be sent.
    fn forget_unsubscribed(&mut self, response: &InFlightResponse) {
        if !response.may_be_ignored {
            return;
        }
        for named in &response.changed {
            self.forget(&named.name);
            if self.sent.contains_key(&named.name) {
                self.forced.insert(named.name.clone());
            }
        }
    }

    fn refused_by_name(&self, message: &str, response: &InFlightResponse) -> Vec<(Arc<str>, Version)> {
        let changed: BTreeMap<&str, &NamedResource> =
            response.changed.iter().map(|named| (&*named.name, named)).collect();
        let mut found: BTreeMap<Arc<str>, Version> = BTreeMap::new();
        for word in named_in(message) {
            if let Some(named) = changed.get(word) {
                found.insert(named.name.clone(), named.resource.version);
            } else if response.is_whole
                && let Some((name, resource)) = self.sent.get_key_value(word)
            {
                found.insert(name.clone(), resource.version);
            }
        }
        found.into_iter().collect()
    }

    fn take_all_but(&mut self, refused: &[(Arc<str>, Version)], response: InFlightResponse) {
        let refused: BTreeSet<&Arc<str>> = refused.iter().map(|(name, _)| name).collect();
        if response.is_whole {
            let before = std::mem::replace(&mut self.delivered.acked, self.sent.clone());
            for name in &refused {
                match before.get(*name) {
                    Some(resource) => drop(self.delivered.acked.insert((*name).clone(), resource.clone())),
                    None => drop(self.delivered.acked.remove(*name)),
                }
            }
            self.nacked.clear();
        } else {
            let taken: Vec<_> = response.changed.into_iter().filter(|named| !refused.contains(&named.name)).collect();
            for named in &taken {
                self.nacked.remove(&named.name);
            }
            self.take_over(taken, &response.removed);
        }
        self.nacked.extend(refused.into_iter().cloned());
    }

    fn take_over(&mut self, changed: Vec<NamedResource>, removed: &[Arc<str>]) {
        for name in removed {
            self.delivered.acked.remove(name);
        }
        for NamedResource { name, resource } in changed {
            // A resource without a subscription is dropped.
            if self.sent.contains_key(&name) {
                self.delivered.acked.insert(name, resource);
            }
        }
    }
}

/// Returns words of a refusal that may be names. gRPC writes `resource index N: NAME: WHY`, Envoy `cluster(s) NAME:
/// WHY, NAME: WHY`.
fn named_in(message: &str) -> impl Iterator<Item = &str> {
    let message = first_bytes(message, limits::XDS_REFUSAL_BYTES_READ);
    message.match_indices(": ").filter_map(|(end, _)| message[..end].rsplit(char::is_whitespace).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_the_texts_of_refusals() {
        let rows = [
            (
                "xDS response validation errors: [resource index 0: shop/pay: INVALID_ARGUMENT: errors validating \
                 Cluster resource: [field:lb_policy error:not supported]; resource index 3: shop/cart: no]",
                vec!["shop/pay", "shop/cart"],
            ),
            (
                "Error adding/updating cluster(s) shop/a: no type, shop/a|0123456789ab: bad",
                vec!["shop/a", "shop/a|0123456789ab"],
            ),
            ("Error adding/updating listener(s) outbound: bad address\ninbound: bad port", vec!["outbound", "inbound"]),
            ("Only unique values for domains are permitted. Duplicate entry of domain a:80", vec![]),
            ("", vec![]),
        ];
        let known = ["shop/pay", "shop/cart", "shop/a", "shop/a|0123456789ab", "outbound", "inbound", "a"];
        for (message, names) in rows {
            let found: Vec<_> = named_in(message).filter(|word| known.contains(word)).collect();
            assert_eq!(found, names, "{message}");
        }
    }
}
