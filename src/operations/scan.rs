//! Long walks over the catalog, away from the threads that serve requests.
//!
//! What looks up a few things reads the catalog where it stands. A walk over thousands would keep apply
//! waiting for the catalog, and other requests for the thread: it is made on a blocking thread, over a
//! view of the catalog that nobody waits for, and so is its answer. Only so many walks go on at a time, of one caller
//! and of all ([`super::scan_limiter`]); further ones wait for their turn as long as a request may take. One whose
//! client has gone stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use super::Operations;
use super::scan_limiter::Turns;
use crate::catalog::{Catalog, abandoned};
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::tasks;

/// The reach of a walk that is long whatever it meets.
pub const FAR: usize = usize::MAX;

/// Says when it is dropped that nobody waits any more.
struct Waits(Arc<AtomicBool>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
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
        self.on_turn(&self.turns.walks, work).await
    }

    /// Does work for each item, one after the other, each when it is its turn again: whoever else waits for one of
    /// these turns comes in between.
    pub(super) async fn in_pieces<T: Send + 'static, A: Send + 'static>(
        &self,
        turns: &Turns,
        items: Vec<T>,
        work: impl Fn(T) -> A + Clone + Send + 'static,
    ) -> Result<Vec<A>, Refusal> {
        let mut made = Vec::with_capacity(items.len());
        for item in items {
            let work = work.clone();
            made.push(self.on_turn(turns, move || work(item)).await?);
        }
        Ok(made)
    }

    /// Does long work on a blocking thread, when it is its turn among those of its kind.
    pub(super) async fn on_turn<A: Send + 'static>(
        &self,
        turns: &Turns,
        work: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        let patience = Duration::from_secs(limits::REQUEST_TIMEOUT_SECONDS);
        let turn = timeout(patience, turns.next()).await.map_err(|_| Code::TooManyWaiters)?;
        let waits = Waits(Arc::default());
        let is_abandoned = waits.0.clone();
        let walk = tasks::blocking(move || {
            // Until the end of the walk, also where its client has gone.
            let _turn = turn;
            abandoned::walk(is_abandoned, work)
        });
        Ok(walk.await)
    }
}
