//! Long walks over the catalog, on other threads than those that serve requests.
//!
//! A look-up of a few things reads the catalog under its lock. A walk over thousands would block apply and the thread's
//! other requests, so it runs on a blocking thread over a view of the catalog, and its answer is made there. The number
//! of concurrent walks is limited, per caller and in total ([`super::scan_limiter`]); further walks wait for their turn
//! for as long as a request may take. A walk stops when its client disconnects.

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

/// The `reach` of a walk that is always long.
pub const FAR: usize = usize::MAX;

/// Guard that reports by its drop that no client waits any more.
struct Waits(Arc<AtomicBool>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Operations {
    /// Finds something within `reach` things of the catalog, and makes an answer of it.
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

    /// Runs long work on a blocking thread when its turn comes.
    pub async fn on_scan_turn<A: Send + 'static>(
        &self,
        work: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        self.on_turn(&self.turns.walks, work).await
    }

    /// Runs `work` for each item in sequence. Every item waits for its own turn, so that other callers come in between.
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

    /// Runs long work on a blocking thread when its turn among those of its kind comes.
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
            // Held until the end of the walk, even if the client has disconnected.
            let _turn = turn;
            abandoned::walk(is_abandoned, work)
        });
        Ok(walk.await)
    }
}
