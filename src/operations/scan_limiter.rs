//! Limits concurrent walks over the catalog. One caller gets at most half of the turns, so that its flood leaves turns
//! to others.
//!
//! Validation by contracts and trials of contracts have turns of their own ([`TurnsByKind`]). Both take a turn per
//! item, so a caller waits for only a few items of each other caller.
//!
//! A request begins without a caller ([`of_request`]); authentication sets it ([`are_of`]).

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task_local;

use crate::model::limits;

task_local! {
    /// Caller of the walks of a request, once authenticated.
    static CALLER: OnceLock<Arc<str>>;
}

/// Runs a request; its walks count for the caller that is authenticated within it.
pub(crate) fn of_request<F: Future>(request: F) -> impl Future<Output = F::Output> {
    CALLER.scope(OnceLock::new(), request)
}

/// Runs work for a known caller.
pub(crate) fn of_caller<F: Future>(name: &str, work: F) -> impl Future<Output = F::Output> + use<F> {
    CALLER.scope(OnceLock::from(Arc::from(name)), work)
}

/// Sets the caller of the walks of this request from here on.
pub(super) fn are_of(name: &str) {
    // Outside of a request there is no caller to set.
    let _ = CALLER.try_with(|caller| caller.set(name.into()));
}

/// Returns the number of concurrent walks. Walks need only processors, the rest of which serve quick requests. At least
/// two, or one very long walk would block all others.
pub(crate) fn at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    (processors / 2).max(limits::SCANS_AT_ONCE_MIN)
}

/// Turns by purpose; no kind waits for another.
pub(super) struct TurnsByKind {
    /// Walks over the catalog, and other long reading.
    pub(super) walks: Turns,
    /// Validation by contracts of what is saved, published or promoted.
    pub(super) judgements: Turns,
    /// Trials of contracts, and the compilation of new ones.
    pub(super) trials: Turns,
}

impl TurnsByKind {
    pub(super) fn new() -> Self {
        let turns = || Turns::new(at_once());
        TurnsByKind { walks: turns(), judgements: turns(), trials: turns() }
    }
}

pub(super) struct Turns {
    all: Arc<Semaphore>,
    each: usize,
    /// Turns of callers that walk or wait.
    callers: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>, // bound: turns
}

/// Permit for one walk; dropping it admits the next.
pub(super) struct ScanPermit {
    _of_all: OwnedSemaphorePermit,
    _of_caller: Option<OwnedSemaphorePermit>,
}

impl Turns {
    pub(super) fn new(at_once: usize) -> Self {
        Turns { all: Arc::new(Semaphore::new(at_once)), each: at_once.div_ceil(2), callers: Mutex::default() }
    }

    /// Waits for a turn: first for one of the caller's own, then for one of the total. So a caller has at most its
    /// share of places in the common queue.
    pub(super) async fn next(&self) -> ScanPermit {
        let caller = CALLER.try_with(|caller| caller.get().cloned()).ok().flatten();
        let of_caller = match caller.map(|name| self.of(name)) {
            Some(turns) => Some(turns.acquire_owned().await.expect("it is never closed")),
            None => None,
        };
        let of_all = self.all.clone().acquire_owned().await.expect("it is never closed");
        ScanPermit { _of_all: of_all, _of_caller: of_caller }
    }

    fn of(&self, name: Arc<str>) -> Arc<Semaphore> {
        let mut callers = self.callers.lock();
        if let Some(turns) = callers.get(&name).and_then(Weak::upgrade) {
            return turns;
        }
        callers.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(self.each));
        callers.insert(name, Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn turn<'a>(turns: &'a Turns, name: &'a str) -> impl Future<Output = ScanPermit> + 'a {
        of_caller(name, turns.next())
    }

    #[tokio::test]
    async fn one_caller_leaves_turns_to_others_and_is_before_them_with_its_share_alone() {
        let turns = Turns::new(4);
        let [one, _two] = [turn(&turns, "a").await, turn(&turns, "a").await];
        let mut flood: Vec<_> = (0..50).map(|_| Box::pin(turn(&turns, "a"))).collect();
        assert!(flood.iter_mut().all(|waiting| waiting.now_or_never().is_none()), "it has its share");
        let _others = [turn(&turns, "b").await, turn(&turns, "b").await];
        let mut third = Box::pin(turn(&turns, "c"));
        assert!((&mut third).now_or_never().is_none(), "there are no more turns");
        drop(one);
        assert!(flood[0].as_mut().now_or_never().is_none());
        assert!((&mut third).now_or_never().is_some(), "who waited for all is before the next of the flood");
        drop(flood);
        assert_eq!(turns.callers.lock().values().filter(|turns| turns.strong_count() > 0).count(), 2);
        let _ = turns.of("d".into());
        assert_eq!(turns.callers.lock().len(), 3, "who has nothing is forgotten");
    }

    #[tokio::test]
    async fn a_request_is_of_whom_it_was_let_in_for() {
        let turns = Turns::new(2);
        let _held = turn(&turns, "a").await;
        let asks = |name: &'static str| {
            of_request(async {
                are_of(name);
                turns.next().now_or_never().is_some()
            })
        };
        assert_eq!((asks("a").await, asks("b").await), (false, true));
        are_of("nobody's request");
        assert!(turns.next().now_or_never().is_some(), "what nobody asked for has no share");
    }
}
