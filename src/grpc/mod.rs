//! gRPC services on the addresses of `--grpc-addr`. This module translates to and from [`crate::xds`] and makes no
//! decisions.
//!
//! | service | for |
//! |---|---|
//! | `envoy.service.discovery.v3.AggregatedDiscoveryService` | Envoy and gRPC clients: both variants of xDS |
//! | `v1.PolarisGRPC`, `v1.PolarisConfigGRPC`, `v1.PolarisServiceContractGRPC` | SDKs of Polaris |
//! | `envoy.service.status.v3.ClientStatusDiscoveryService` | operators: resources of each client |
//! | `grpc.health.v1.Health` | load balancers: the readiness of this node |
//! | `grpc.reflection.v1`, `v1alpha` | tools that list the services |
//!
//! Other paths get UNIMPLEMENTED from tonic. [`admission`] admits a request before a service sees it; [`requests`] and
//! [`request_body`] limit and count what is received.

mod admission;
mod ads;
mod answer_body;
mod csds;
mod frames;
mod health;
mod measure;
mod paths;
mod polaris;
mod request_body;
mod requests;
mod stream_body;
mod stream_place;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use ipnet::IpNet;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::brief_places::CheckPlaces;
use crate::budget::Budget;
use crate::model::limits;
use crate::operations::Operations;
use crate::origin::OriginQuota;
use crate::proto::DESCRIPTORS;
use crate::reads::{ConfigReads, LocalView};
use crate::xds::{Session, Source};
use admission::Admission;
use ads::{Ads, Vouching};
use csds::Csds;
use polaris::PolarisDoor;

pub use admission::{HEALTH_CHECK, Visitor};
pub use health::{Health, NodeHealth};

/// Settings of the gRPC port.
pub struct GrpcSettings {
    /// Set if clients without a token or certificate are refused.
    pub is_auth_required: bool,
    /// Proxies trusted to report the address of a client.
    pub trusted_proxies: Vec<IpNet>,
    /// Maximum number of streams per address.
    pub streams_per_address: usize,
    pub budget: Budget,
    /// Memory budget for the state of open streams.
    pub kept: Budget,
    /// Cancelled when the node stops; ends all streams.
    pub ending: CancellationToken,
}

/// The gRPC services of one node.
pub struct Grpc<S> {
    pub operations: Arc<Operations>,
    pub session: Arc<Session<S>>,
    /// Reads of config files.
    pub reads: ConfigReads<LocalView>,
    pub health: Health,
    pub settings: GrpcSettings,
}

impl<S: Source> Grpc<S> {
    /// Returns the router of all services, with admission in front.
    pub fn router(self) -> anyhow::Result<Router> {
        let Grpc { operations, session, reads, health, settings } = self;
        let member = operations.node().member().clone();
        let csds = Csds { operations: operations.clone(), member: member.clone() }.service();
        let (budget, kept) = (settings.budget.clone(), settings.kept.clone());
        let vouching = Vouching { operations: operations.clone(), member };
        let ads = Ads { session, vouching, health: health.seen(), budget, kept };
        let routes = Routes::new(csds).add_service(health.service());
        let routes = PolarisDoor::new(operations.clone(), reads, health.seen()).add_to(routes);
        let routes = routes.add_service(descriptors().build_v1()?).add_service(descriptors().build_v1alpha()?);
        let admission = Admission {
            operations,
            places: Arc::new(OriginQuota::new(limits::GRPC_STREAMS_MAX, settings.streams_per_address)),
            checks: CheckPlaces::default(),
            settings,
        };
        let routes = routes.into_axum_router().merge(ads.routes());
        Ok(routes.layer(from_fn_with_state(Arc::new(admission), admission::admit)))
    }
}

/// Describes all services. Not inlined: rustc up to 1.96 takes the empty builders of two calls in one function for one
/// value, although the first call changes it (rust-lang/rust#155241), and the program then reads beyond it.
#[inline(never)]
fn descriptors() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Receiver for changes of the node's readiness.
pub type HealthWatch = watch::Receiver<NodeHealth>;
