//! Discovery: services and the rules in force, from this node's memory.

mod found;
mod question;

use std::sync::Arc;

use super::catch_up::{CATCH_UP_LIMIT, Reached, reach};
use super::hold::{HeldQuery, Hold, ReadResult};
use crate::catalog::Catalog;
use crate::controllers::credential_watch::Guard;
use crate::metrics::Held;
use crate::model::code::{Code, Refusal};
use crate::model::config_lookup::CLIENT_ADDRESS_LABEL;
use crate::model::rule::traffic::ServiceKey;
use crate::operations::{Caller, Operations, scan_limiter};
use crate::origin::Origin;
use crate::subscribers::Client;
use crate::watch::Watch;

pub use found::{Findings, Found};
pub use question::{DiscoveryKind, Question};

/// Function that makes an answer of the findings.
pub type Render<A> = Arc<dyn Fn(&Question, &Found) -> A + Send + Sync>;

/// A question of one client, and the function that makes its answer.
///
/// Large answers are made on another thread. Once an answer is made, the client is taken to have its revision.
pub struct Discovery<A> {
    operations: Arc<Operations>,
    asker: Discoverer,
    question: Arc<Question>,
    render: Render<A>,
    /// State of the last read.
    found: Option<Found>,
    /// Service that is watched.
    watched: ServiceKey,
    /// Guard of the caller's credential while the question is held.
    guard: Option<Guard>,
}

/// Client that asks a question.
pub enum Discoverer {
    Identified(Caller),
    /// Client without a credential, where these may read.
    Anonymous(Origin),
}

impl Discoverer {
    fn origin(&self) -> Origin {
        match self {
            Discoverer::Identified(caller) => caller.origin(),
            Discoverer::Anonymous(origin) => *origin,
        }
    }

    /// Returns the name by which limits count its walks.
    fn name(&self) -> String {
        match self {
            Discoverer::Identified(caller) => caller.name.clone(),
            Discoverer::Anonymous(origin) => origin.to_string(),
        }
    }
}

impl<A: Send + 'static> Discovery<A> {
    pub fn new(operations: Arc<Operations>, caller: Caller, question: Question, render: Render<A>) -> Self {
        Discovery::of(operations, Discoverer::Identified(caller), question, render)
    }

    /// Creates a question of a client that may be anonymous.
    pub fn of(operations: Arc<Operations>, asker: Discoverer, question: Question, render: Render<A>) -> Self {
        let (question, watched) = (Arc::new(question), ServiceKey::default());
        Discovery { operations, asker, question, render, found: None, watched, guard: None }
    }

    /// Waits for the index that the client has seen on another node. An index that no node has reached is from another
    /// cluster, and is ignored.
    pub async fn catch_up(&self, index: u64) -> Result<(), Refusal> {
        let node = self.operations.node().member();
        let is_here = || node.state().applied().index >= index;
        if is_here() {
            return Ok(());
        }
        let arrival = node.state().wait_applied(CATCH_UP_LIMIT, |applied| applied.index >= index);
        match reach(is_here, arrival, node.await_horizon(CATCH_UP_LIMIT)).await {
            Reached::Here => {}
            Reached::Elsewhere => node.metrics().foreign_ids.inc(),
            Reached::Unknown => return Err(Refusal::new(Code::NodeBehind, format!("index {index}"))),
        }
        Ok(())
    }

    /// Answers at once, with or without news.
    pub async fn answer(mut self) -> Result<A, Refusal> {
        let news = self.find().await?;
        Ok(news.unwrap_or_else(|| self.unchanged()))
    }

    /// Holds the question for as long as it requests.
    pub fn held(self) -> Result<Hold<Self>, Refusal> {
        let (metrics, hold) = (self.operations.node().metrics().clone(), self.question.hold);
        Hold::begin(self, &metrics, hold).inspect_err(|_| Held::begin(&metrics).outcome = "refused")
    }

    /// Makes the answer to a client that has the result of the last read.
    pub fn unchanged(&self) -> A {
        (self.render)(&self.question, self.found.as_ref().expect("an answer follows a read"))
    }

    /// Reads once. Returns the answer if the client does not have the result.
    async fn find(&mut self) -> Result<Option<A>, Refusal> {
        let state = self.operations.node().state();
        // Read before the catalog, so that the result is at least as new as its index.
        let applied_index = state.applied().index;
        let reach = Found::reach(&state.catalog(), &self.question);
        let (asked, answered, render) = (self.question.clone(), self.question.clone(), self.render.clone());
        let find = move |catalog: &Catalog| Found::read(catalog, &asked, applied_index);
        let answer = move |found: Result<Found, Refusal>| found.map(|found| found.answered(&answered, &*render));
        // Also outside of a request, a walk waits for the turns of its caller.
        let scan = self.operations.scan(reach, find, answer);
        let (found, answer) = scan_limiter::of_caller(&self.asker.name(), scan).await??;
        self.note(&found);
        if answer.is_some() {
            Arc::make_mut(&mut self.question).revision.clone_from(&found.revision);
        }
        self.found = Some(Found { releases: Vec::new(), ..found });
        Ok(answer)
    }

    /// Records that the client has these rules or instances: it is sent them now, or has them already.
    fn note(&self, found: &Found) {
        let Found { service: ServiceKey { namespace, service }, releases, .. } = found;
        let question = &self.question;
        if !matches!(question.kind, DiscoveryKind::Rules(_, None) | DiscoveryKind::Instances) {
            return;
        }
        // For a caller that does not see the service, it does not exist.
        if !question.read_scope.sees(namespace, service) {
            return;
        }
        let client = Client {
            address: question.label(CLIENT_ADDRESS_LABEL).unwrap_or_default(),
            agent: &question.agent,
            origin: self.asker.origin(),
            hold: question.hold,
            connection: None,
            is_named: true,
            is_polaris: question.is_polaris,
        };
        let (labels, now) = (&question.labels, || self.operations.node().now());
        let (subscribers, key) =
            (self.operations.node().member().subscribers(), (namespace.as_str(), service.as_str()));
        match question.kind {
            DiscoveryKind::Rules(family, None) => {
                subscribers.discovered(client, labels, family, key, releases, now);
            }
            DiscoveryKind::Instances => {
                subscribers.listed(client, labels, key, (&found.revision, found.applied_index), now);
            }
            _ => {}
        }
    }

    /// Refuses a caller whose token is no longer valid, and updates what the caller may see.
    fn judge_again(&mut self) -> Result<(), Refusal> {
        let Discoverer::Identified(caller) = &mut self.asker else { return Ok(()) };
        *caller = caller.again(&self.operations)?;
        let read_scope = caller.client_sight();
        if read_scope != self.question.read_scope {
            Arc::make_mut(&mut self.question).read_scope = read_scope;
        }
        Ok(())
    }
}

impl<A: Send + 'static> HeldQuery for Discovery<A> {
    type Answer = A;
    type Refusal = Refusal;

    fn watch(&mut self) -> Result<Watch, Refusal> {
        let node = self.operations.node().member();
        self.watched = self.question.resolve(&node.state().catalog());
        let mut keys = self.question.keys(&self.watched);
        if let Discoverer::Identified(caller) = &self.asker {
            keys.push(self.guard.get_or_insert_with(|| node.guard(&caller.credential)).key());
        }
        let watch = node.state().hub().watch(self.asker.origin(), keys, self.question.bytes());
        watch.map_err(|full| Refusal::new(Code::TooManyWaiters, full.to_string()))
    }

    async fn read(&mut self, watch: &mut Watch, _: bool) -> Result<ReadResult<A>, Refusal> {
        loop {
            self.judge_again()?;
            if let Some(news) = self.find().await? {
                return Ok(ReadResult::News(news));
            }
            if self.found.as_ref().is_some_and(|found| found.service == self.watched) {
                return Ok(ReadResult::Unchanged);
            }
            *watch = self.watch()?;
        }
    }
}

/// Answers a question from a catalog at once, without a node.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn answer_of<A>(
    catalog: &Catalog,
    question: &Question,
    render: &dyn Fn(&Question, &Found) -> A,
) -> Result<A, Refusal> {
    assert!(question.keys(&question.resolve(catalog)).len() <= 5, "a question waits for few things");
    let (found, answer) = Found::read(catalog, question, 1)?.answered(question, render);
    Ok(answer.unwrap_or_else(|| render(question, &found)))
}

#[cfg(test)]
mod tests;
