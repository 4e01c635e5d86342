//! Builders of resources from a catalog snapshot. They return the messages, their dependencies, and the client inputs
//! that they read.
//!
//! A *unit* consists of the resources of one kind that belong to one service. It is built as a whole, and rebuilt when
//! one of its dependencies changes.

mod cluster;
mod context;
mod endpoints;
mod inbound;
mod listener;
mod localities;
mod matchers;
mod outlier;
mod parameters;
mod planned;
mod policies;
mod probes;
mod routes;
mod subsets;

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use sha2::{Digest, Sha256};

use super::keys::{UnitKey, UnitKind};
use crate::model::mesh::resource::{Resource, ResourceType, Version};
use crate::model::number_of;
use crate::model::rule::release::RuleRelease;

pub(crate) use context::{BuildContext, Dependencies};
pub(crate) use endpoints::locality_of_client;
pub(crate) use listener::{inbound_listener, outbound_listener, server_listener};
pub(crate) use localities::Localities;
pub(crate) use routes::{Host, outbound};
pub(crate) use subsets::subsets_of;

/// Number of the field with the name of a resource.
const NAME: u32 = 1;

/// Content of one unit.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    pub(crate) resources: Vec<Arc<Resource>>,
    pub(crate) host: Option<Host>,
    pub(crate) localities: Option<Localities>,
}

/// Bytes of a unit, and of a resource, in addition to messages and names.
const UNIT_BYTES: usize = 256;
const RESOURCE_BYTES: usize = 256;

impl Unit {
    /// Creates a unit that consists of resources only.
    pub(crate) fn of(resources: Vec<Arc<Resource>>) -> Unit {
        Unit { resources, ..Unit::default() }
    }

    /// Returns the approximate bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let of_resources = self.resources.iter().map(|one| RESOURCE_BYTES + 2 * one.name.len() + one.size());
        let of_host = self.host.as_ref().map_or(0, Host::bytes);
        UNIT_BYTES + of_resources.sum::<usize>() + of_host + self.localities.as_ref().map_or(0, Localities::bytes)
    }

    /// Reports whether a part of the unit is in use elsewhere.
    pub(crate) fn is_held(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || self.resources.iter().any(|resource| Arc::strong_count(resource) > 1)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|resource| &*resource.name == name)
    }
}

/// Builds a unit. The result is empty if its service does not exist or is not visible.
pub(crate) fn unit(ctx: &mut BuildContext<'_>, key: &UnitKey) -> Unit {
    let made = match &key.kind {
        UnitKind::Host => return Unit { host: routes::host(ctx, &key.name), ..Unit::default() },
        UnitKind::Localities => return Unit { localities: Localities::of(ctx, &key.name), ..Unit::default() },
        UnitKind::Listener => listener::of_service(ctx, key),
        UnitKind::Routes => routes::of_service(ctx, key),
        UnitKind::Clusters => cluster::of_service(ctx, key),
        UnitKind::Endpoints(locality) => endpoints::of_service(ctx, key, locality.as_ref()),
        // Built by the cache from other units.
        UnitKind::OwnEndpoints => Vec::new(),
        UnitKind::Inbound => routes::inbound(ctx, key),
        UnitKind::InboundCluster(port) => cluster::inbound(ctx, key, *port),
    };
    let index = ctx.index();
    Unit::of(made.into_iter().map(|draft| Arc::new(draft.finish(index))).collect())
}

/// A resource without its version.
pub(crate) struct Draft {
    pub(crate) kind: ResourceType,
    pub(crate) name: Arc<str>,
    pub(crate) bytes: Bytes,
    pub(crate) releases: Vec<Arc<RuleRelease>>,
    pub(crate) clusters: Vec<Arc<str>>,
}

impl Draft {
    pub(crate) fn of(kind: ResourceType, name: &str, message: &impl Message) -> Draft {
        let bytes = message.encode_to_vec().into();
        Draft { kind, name: name.into(), bytes, releases: Vec::new(), clusters: Vec::new() }
    }

    pub(crate) fn finish(self, index: u64) -> Resource {
        let Draft { kind, name, bytes, releases, clusters } = self;
        let version = Version { index, hash: hash_of(&bytes) };
        Resource { kind, name, version, head: Bytes::new(), body: bytes, releases, clusters }
    }
}

/// Returns the resource under another name. The name is the first field of all types, so the rest of the bytes is
/// shared.
pub(crate) fn renamed(resource: &Resource, name: &str) -> Resource {
    let mut head = Vec::with_capacity(name.len() + 8);
    push_field(&mut head, NAME, name.as_bytes());
    let mut own = Vec::new();
    if resource.head.is_empty() {
        push_field(&mut own, NAME, resource.name.as_bytes());
    }
    let body = if resource.body.starts_with(&own) { resource.body.slice(own.len()..) } else { resource.body.clone() };
    let hash = hash_of(&[&resource.version.hash.to_be_bytes(), name.as_bytes()].concat());
    let version = Version { hash, ..resource.version };
    Resource { name: name.into(), version, head: head.into(), body, ..resource.clone() }
}

/// Writes a length-delimited field.
fn push_field(to: &mut Vec<u8>, number: u32, value: &[u8]) {
    encode_key(number, WireType::LengthDelimited, to);
    encode_varint(value.len() as u64, to);
    to.extend_from_slice(value);
}

/// Returns the first 64 bits of the SHA-256.
fn hash_of(bytes: &[u8]) -> u64 {
    number_of(&Sha256::digest(bytes))
}
