//! A catalog in memory in the place of a node, for tests and fuzzing. A command is applied at once, after a round trip
//! through the bytes of the log.

use std::sync::Arc;
use std::time::Duration;

use argon2::{Algorithm, Argon2, Params, Version};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;

use super::member::LocalMember;
use super::replica::Replica;
use super::{Bounds, Operations};
use crate::catalog::testing::Bench;
use crate::catalog::{AuthorizedCommand, Command, Outcome, RequestId};
use crate::controllers::Controllers;
use crate::keyring::Keyring;
use crate::metrics::Metrics;
use crate::model::time::Timestamp;
use crate::raft::node::NodeError;
use crate::raft::proposal::{Draft, open, stamp};
use crate::raft::state::State;
use crate::watch::Hub;

pub(crate) struct InMemory {
    bench: Mutex<Bench>,
    state: Arc<State>,
    metrics: Arc<Metrics>,
    keyring: Keyring,
    elsewhere: Mutex<Elsewhere>,
}

/// Commands of other nodes that this node has not applied yet.
#[derive(Default)]
struct Elsewhere {
    /// Commands applied by the next linearizable read.
    acknowledged: Vec<Command>,
    /// Commands applied right before the next one of this node.
    overtaking: Vec<Command>,
}

impl InMemory {
    pub(crate) fn new(bench: Bench, keyring: Keyring) -> Self {
        let state = Arc::new(State::new(bench.catalog.view(), bench.index, Hub::new(10)));
        let metrics = Arc::new(Metrics::new().expect("a consistent table"));
        InMemory { bench: Mutex::new(bench), state, metrics, keyring, elsewhere: Mutex::default() }
    }

    fn take_in(&self, commands: Vec<Command>) {
        let mut bench = self.bench.lock();
        for command in commands {
            let done = bench.apply(command).outcomes;
            assert!(done.iter().all(|outcome| outcome.code.is_success()), "{done:?}");
        }
        self.state.replace(bench.catalog.view());
    }

    /// Adds a command that another node acknowledges, and that this one has not applied yet.
    #[cfg(test)]
    pub(crate) fn acknowledged_elsewhere(&self, command: Command) {
        self.elsewhere.lock().acknowledged.push(command);
    }

    /// Adds a command of another node, applied right before the next one of this node.
    #[cfg(test)]
    pub(crate) fn overtaken_by(&self, command: Command) {
        self.elsewhere.lock().overtaking.push(command);
    }

    /// Returns the catalog with its rows.
    pub(crate) fn bench(&self) -> Bench {
        self.bench.lock().clone()
    }

    pub(crate) fn restore(&self, bench: Bench) {
        self.state.replace(bench.catalog.view());
        *self.bench.lock() = bench;
    }
}

impl Operations {
    /// Builds operations over a catalog in memory, with a minimal cost of password hashes.
    pub(crate) fn in_memory(memory: Arc<InMemory>, bounds: Bounds) -> Arc<Operations> {
        let cheap = Params::new(Params::MIN_M_COST, 1, 1, None).expect("the least of each");
        Operations::over(memory, bounds, Argon2::new(Algorithm::Argon2id, Version::V0x13, cheap))
    }
}

impl Replica for InMemory {
    fn state(&self) -> &Arc<State> {
        &self.state
    }

    fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Returns the time of the newest command.
    fn now(&self) -> Timestamp {
        self.bench.lock().catalog.clock()
    }

    fn sure_now(&self) -> Timestamp {
        self.now()
    }

    fn ask<'a>(&'a self, by: &'a str, asked: AuthorizedCommand) -> BoxFuture<'a, Result<Vec<Outcome>, NodeError>> {
        let command = Command::Authorized(Box::new(asked));
        let draft = Draft::new(RequestId(7), by, &command);
        assert_eq!(Draft::read(draft.bytes.clone()).as_ref(), Ok(&draft), "the leader reads what a member forwards");
        let (_, logged) = open(1, &stamp(Timestamp(1), 0, [0; 16], &draft)).expect("a proposal that was made here");
        assert_eq!(logged, command, "what is logged is what was accepted");
        let overtaking = std::mem::take(&mut self.elsewhere.lock().overtaking);
        self.take_in(overtaking);
        let mut bench = self.bench.lock();
        let outcomes = bench.apply(logged).outcomes;
        self.state.replace(bench.catalog.view());
        ready(Ok(outcomes)).boxed()
    }

    fn await_linearizable(&self) -> BoxFuture<'_, Result<(), NodeError>> {
        let acknowledged = std::mem::take(&mut self.elsewhere.lock().acknowledged);
        self.take_in(acknowledged);
        ready(Ok(())).boxed()
    }

    fn trusts_tokens(&self, _: Duration) -> bool {
        true
    }

    fn member(&self) -> &LocalMember {
        unreachable!("a catalog in memory is no member of a cluster")
    }

    fn controllers(&self) -> &Arc<Controllers> {
        unreachable!("a catalog in memory does nothing unasked")
    }
}
