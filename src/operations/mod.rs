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
mod templates;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod throttle;
mod webhooks;
pub(crate) mod write;

use std::sync::Arc;
use std::time::Duration;

use argon2::Argon2;
use ipnet::IpNet;

use crate::controllers::Controllers;
use crate::raft::node::Node;
use contracts::CompiledContracts;
use member::LocalMember;
use passwords::PasswordChecks;
use replica::Replica;
use scan_limiter::TurnsByKind;

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
}

/// The operations of one node.
pub struct Operations {
    node: Arc<dyn Replica>,
    bounds: Bounds,
    passwords: PasswordChecks,
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
        Arc::new(Operations { node, bounds, passwords, turns, engines: Arc::default() })
    }

    pub(crate) fn node(&self) -> &Arc<dyn Replica> {
        &self.node
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }
}
