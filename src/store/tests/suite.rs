//! openraft's own conformance suite for log and state machine, on this log and any state machine.

use openraft::StorageError;
use openraft::storage::RaftStateMachine;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

use crate::format::types::TypeConfig;
use crate::store::testing::{RowMachine, fresh};
use crate::store::{LogStore, Store};

/// Builder of a state machine on a store.
struct Builder<F>(F);

impl<F, M> StoreBuilder<TypeConfig, LogStore, M, TempDir> for Builder<F>
where
    F: Fn(&Store) -> M + Send + Sync,
    M: RaftStateMachine<TypeConfig>,
{
    async fn build(&self) -> Result<(TempDir, LogStore, M), StorageError<TypeConfig>> {
        let (dir, store) = fresh();
        Ok((dir, store.log(), (self.0)(&store)))
    }
}

/// Runs the suite with the state machine that `machine` returns.
pub(crate) async fn conforms<M: RaftStateMachine<TypeConfig>>(machine: impl Fn(&Store) -> M + Send + Sync) {
    Suite::test_all(Builder(machine)).await.expect("the storage contract of openraft is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_keeps_the_contract_of_openraft() {
    conforms(RowMachine::new).await;
}
