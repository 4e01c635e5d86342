//! Operations, below every door: the caller, the purpose, the items, and the outcome of each.
//!
//! A door (JSON over HTTP, later others) reads what it is sent into drafts, filters and a [`Credential`], calls what
//! stands here and writes down the answer in its own form. Here it is decided who a caller is ([`caller`]), how
//! passwords are looked at ([`passwords`]), how items become a command and what becomes of each ([`mod@write`]), what is
//! looked at before it is published ([`publishing`]), how accounts are opened and closed ([`accounts`],
//! [`sign_in`]), and how a long walk keeps nobody waiting ([`scan`]). What depends on the state is decided in apply.
//!
//! [`Credential`]: crate::catalog::Credential

pub mod accounts;
mod audit;
mod backup;
pub mod caller;
mod config;
pub(crate) mod explain;
mod members;
mod naming;
pub mod oneself;
pub mod passwords;
pub mod publishing;
mod resealing;
mod rules;
pub mod scan;
pub mod sealing;
mod services;
mod settings;
pub mod sign_in;
mod templates;
mod throttle;
pub(crate) mod turns;
mod webhooks;
pub(crate) mod write;

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use crate::controllers::Controllers;
use crate::raft::node::Node;
use passwords::PasswordChecks;
use turns::Turns;

pub use caller::{Caller, new_token, token_hash};
pub use passwords::hash_password;
pub use resealing::Resealing;
pub use scan::FAR;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use write::SplitBatch;
pub use write::{Items, WithSecret, WithWarnings, one, one_drawn};

/// Settings of operations.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Characters of one config file.
    pub config_content_chars_max: usize,
    /// Time for which a node that hears no leader goes on believing tokens.
    pub token_trust: Duration,
    /// Private networks that webhooks may reach.
    pub webhook_networks: Vec<IpNet>,
}

/// The operations of one node; cheap to clone.
#[derive(Clone)]
pub struct Operations(Arc<Shared>);

pub struct Shared {
    pub(crate) node: Node,
    pub(crate) controllers: Arc<Controllers>,
    pub(crate) bounds: Bounds,
    passwords: PasswordChecks,
    turns: Turns,
}

impl std::ops::Deref for Operations {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Operations {
    pub fn new(node: Node, controllers: Arc<Controllers>, bounds: Bounds) -> Self {
        Operations(Arc::new(Shared {
            node,
            controllers,
            bounds,
            passwords: PasswordChecks::new(),
            turns: Turns::new(turns::at_once()),
        }))
    }
}
