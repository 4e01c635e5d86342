//! Long walks over the catalog, away from the threads that serve requests.
//!
//! What looks up a few things reads the catalog where it stands. A walk over thousands would keep apply
//! waiting for the catalog, and other requests for the thread: it is made on a blocking thread, over a
//! view of the catalog that nobody waits for, and so is its answer. Only so many walks go on at a time;
//! further ones wait for their turn as long as a request may take.

use std::num::NonZero;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Operations;
use crate::catalog::Catalog;
use crate::model::code::{Code, Refusal};
use crate::model::limits;

/// The reach of a walk that is long whatever it meets.
pub const FAR: usize = usize::MAX;

/// How many walks go on at a time: they need nothing but processors, and the rest is for who is quick.
/// Never one alone, or a very long one would hold up all others.
pub(crate) fn at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    (processors / 2).max(limits::SCANS_AT_ONCE_MIN)
}

impl Operations {
    /// Finds something that lies within `reach` things of the catalog, and makes an answer of it.
    pub async fn scan<T, A: Send + 'static>(
        &self,
        reach: usize,
        find: impl FnOnce(&Catalog) -> T + Send + 'static,
        answer: impl FnOnce(T) -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        let state = self.node.state();
        if reach <= limits::SCAN_INLINE_MAX {
            let found = find(&state.catalog());
            return Ok(answer(found));
        }
        let state = state.clone();
        self.on_scan_turn(move || {
            let view = state.view();
            answer(find(&view))
        })
        .await
    }

    /// Does long work on a blocking thread, when it is its turn.
    pub async fn on_scan_turn<A: Send + 'static>(
        &self,
        work: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        let patience = Duration::from_secs(limits::REQUEST_TIMEOUT_SECONDS);
        let turn = timeout(patience, self.scans.clone().acquire_owned()).await.map_err(|_| Code::TooManyWaiters)?;
        let walk = spawn_blocking(move || {
            // Until the end of the walk, also where its client has gone.
            let _turn = turn;
            work()
        });
        walk.await.map_err(|failed| match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Code::ExecuteException.into(),
        })
    }
}
