//! Operations: the layer below every API. An operation has a caller, a command and items, and returns an outcome per
//! item.
//!
//! An API (JSON over HTTP, for example) parses requests into drafts, filters and a [`Credential`], calls an operation
//! and formats the result. Operations authenticate callers ([`caller`]), check passwords ([`passwords`]), turn items
//! into a command and outcomes ([`mod@write`]), validate what is published ([`publishing`]), administer accounts
//! ([`accounts`], [`sign_in`]), and move long walks to other threads ([`scan`]). Checks that depend on the state are
//! made in apply. The node below is reached through a [`Replica`] only, so a catalog in memory can take its place.
//!
//! [`Credential`]: crate::catalog::Credential

pub mod accounts;
mod approvals;
mod audit;
mod backup;
mod bearer;
pub mod caller;
pub mod cluster_time;
mod config;
mod contracts;
pub mod drain;
mod existing;
mod explain;
pub mod member;
mod members;
mod missing;
mod mistakes;
mod naming;
pub mod oneself;
pub mod passwords;
mod providers;
pub mod publication;
pub mod publishing;
mod reach;
pub mod replica;
mod resealing;
mod rounds;
mod rules;
pub mod scan;
pub(crate) mod scan_limiter;
pub mod sealing;
mod services;
mod settings;
pub mod sign_in;
pub mod sso;
mod templates;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod throttle;
mod webhooks;
pub(crate) mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use argon2::Argon2;
use ipnet::IpNet;

use crate::controllers::Controllers;
use crate::raft::node::Node;
use crate::sso::{IdentityProviders, SsoClock};
use contracts::CompiledContracts;
use member::LocalMember;
use passwords::PasswordChecks;
use replica::Replica;
use scan_limiter::TurnsByKind;
use sso::SsoLimits;

pub use bearer::credential_here;
pub use caller::{Caller, new_token, token_hash};
pub use contracts::TrialDraft;
pub use explain::Sides;
pub use passwords::hash_password;
pub use reach::XdsWarnings;
pub use resealing::Resealing;
pub use rules::RuleAdvice;
pub use scan::FAR;
pub use write::{Items, WithSecret, WithWarnings, one, one_drawn};

/// Settings of operations.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Limit for the characters of one config file.
    pub config_content_chars_max: usize,
    /// Time for which a node without a leader still trusts tokens.
    pub token_trust: Duration,
    /// Private networks that webhooks may address.
    pub webhook_networks: Vec<IpNet>,
    /// File with the authorities of identity providers; `None` for those of the system.
    pub sso_ca_file: Option<PathBuf>,
}

/// The operations of one node.
pub struct Operations {
    node: Arc<dyn Replica>,
    bounds: Bounds,
    passwords: PasswordChecks,
    sso: Arc<IdentityProviders>,
    sso_limits: SsoLimits,
    turns: TurnsByKind,
    engines: Arc<CompiledContracts>,
}

impl Operations {
    pub fn new(node: Node, controllers: Arc<Controllers>, bounds: Bounds) -> Arc<Self> {
        Operations::over(Arc::new(LocalMember::new(node, controllers)), bounds, Argon2::default())
    }

    fn over(node: Arc<dyn Replica>, bounds: Bounds, argon2: Argon2<'static>) -> Arc<Self> {
        let passwords = PasswordChecks::new(argon2);
        let turns = TurnsByKind::new();
        let (dated, metrics) = (node.clone(), node.metrics().clone());
        let clock = SsoClock::new(move || dated.sure_now());
        let sso = Arc::new(IdentityProviders::new(clock, bounds.sso_ca_file.clone(), metrics));
        let sso_limits = SsoLimits::new();
        Arc::new(Operations { node, bounds, passwords, sso, sso_limits, turns, engines: Arc::default() })
    }

    /// Returns the identity providers as this node has seen them.
    pub fn identity_providers(&self) -> &Arc<IdentityProviders> {
        &self.sso
    }

    pub(crate) fn node(&self) -> &Arc<dyn Replica> {
        &self.node
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }
}
