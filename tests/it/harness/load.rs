//! A steady write load over several nodes, with a journal of what was acknowledged.
//!
//! Every attempt has a key of its own and is made once, so that an attempt refused as "nothing
//! happened" can be checked to have left nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Api, eventually};

/// Between two attempts of one worker: a load, not a flood, so that a refusing cluster is not
/// hammered and the gap around a fault is seen to a few milliseconds.
const PACE: Duration = Duration::from_millis(5);
/// Rows of one page of the list that is read at the end.
const PAGE: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acknowledged,
    /// 503001: nothing happened.
    Refused,
    /// Anything that leaves open whether it happened: 504001, or a connection that broke.
    Unknown(String),
    /// The connection could not be made.
    Unsent,
}

#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) key: String,
    pub(crate) node: u64,
    pub(crate) started: Instant,
    pub(crate) ended: Instant,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    pub(crate) attempts: Vec<Attempt>,
}

/// Running writers; they stop on request, or when this is dropped.
pub(crate) struct Load {
    stop: CancellationToken,
    workers: JoinSet<()>,
    journal: Arc<Mutex<Journal>>,
}

impl Load {
    /// Sets `workers` to create services in `namespace`, each going round the given nodes.
    pub(crate) fn start(namespace: &str, workers: usize, nodes: Vec<(u64, Api)>) -> Load {
        let mut load = Load { stop: CancellationToken::new(), workers: JoinSet::new(), journal: Arc::default() };
        let nodes = Arc::new(nodes);
        for worker in 0..workers {
            let task = work(namespace.to_owned(), worker, nodes.clone(), load.journal.clone(), load.stop.clone());
            load.workers.spawn(task);
        }
        load
    }

    /// Waits until `count` writes that were begun from now on are acknowledged; returns the end of the first one.
    pub(crate) async fn flows(&self, limit: Duration, count: usize) -> Instant {
        let since = Instant::now();
        self.flows_since(since, limit, count).await
    }

    pub(crate) async fn flows_since(&self, since: Instant, limit: Duration, count: usize) -> Instant {
        eventually(limit, "writes are acknowledged", || async {
            let journal = self.journal.lock();
            let fresh = journal.attempts.iter().filter(|attempt| attempt.started >= since);
            let acknowledged: Vec<_> = fresh.filter(|a| a.outcome == Outcome::Acknowledged).collect();
            match acknowledged.iter().map(|attempt| attempt.ended).min() {
                Some(first) if acknowledged.len() >= count => Ok(first),
                _ => Err(format!("{} acknowledged, last {:?}", acknowledged.len(), journal.attempts.last())),
            }
        })
        .await
    }

    /// Ends the load; every attempt begun is in the journal.
    pub(crate) async fn stop(mut self) -> Journal {
        self.stop.cancel();
        while let Some(worker) = self.workers.join_next().await {
            worker.expect("a worker does not panic");
        }
        std::mem::take(&mut self.journal.lock())
    }
}

impl Journal {
    pub(crate) fn acknowledged(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.outcome == Outcome::Acknowledged)
    }

    pub(crate) fn keys(&self, outcome: &Outcome) -> Vec<&str> {
        self.attempts.iter().filter(|a| a.outcome == *outcome).map(|a| a.key.as_str()).collect()
    }

    /// Fails if an acknowledged write is missing or a refused one happened, by this node's state.
    pub(crate) async fn expect_kept(&self, namespace: &str, node: &Api) {
        let present = names_of_services(namespace, node).await;
        let acknowledged = self.keys(&Outcome::Acknowledged);
        let lost: Vec<_> = acknowledged.iter().filter(|key| !present.contains(**key)).collect();
        assert!(lost.is_empty(), "{} of {} acknowledged writes lost: {lost:?}", lost.len(), acknowledged.len());
        let refused = self.keys(&Outcome::Refused);
        let undead: Vec<_> = refused.iter().filter(|key| present.contains(**key)).collect();
        assert!(undead.is_empty(), "{} of {} refused writes happened: {undead:?}", undead.len(), refused.len());
    }
}

/// Returns all services of a namespace, page by page: a long load writes more than fit into one answer.
async fn names_of_services(namespace: &str, node: &Api) -> HashSet<String> {
    let (mut names, mut after) = (HashSet::new(), String::new());
    loop {
        let path = format!("/naming/v1/services/all?namespace={namespace}&order=key&limit={PAGE}{after}");
        let page = node.get(&path).await.expect_code(200_000);
        let services = page.body["services"].as_array().expect("a list of services");
        names.extend(services.iter().map(|service| service["name"].as_str().expect("a name").to_owned()));
        match page.body["after"].as_str() {
            Some(end) => after = format!("&after={end}"),
            None => return names,
        }
    }
}

async fn work(
    namespace: String,
    worker: usize,
    nodes: Arc<Vec<(u64, Api)>>,
    journal: Arc<Mutex<Journal>>,
    stop: CancellationToken,
) {
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for number in 0.. {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = pace.tick() => {}
        }
        let (node, api) = &nodes[(worker + number) % nodes.len()];
        let key = format!("load-{worker}-{number}");
        let started = Instant::now();
        let outcome = attempt(api, &namespace, &key).await;
        journal.lock().attempts.push(Attempt { key, node: *node, started, ended: Instant::now(), outcome });
    }
}

async fn attempt(api: &Api, namespace: &str, key: &str) -> Outcome {
    let body: Value = json!([{"namespace": namespace, "name": key, "comment": key}]);
    match api.try_send(Method::POST, "/naming/v1/services", Some(&body)).await {
        Ok(answer) if answer.code() == 200_000 => Outcome::Acknowledged,
        Ok(answer) if answer.code() == 503_001 => Outcome::Refused,
        Ok(answer) => Outcome::Unknown(answer.to_string()),
        Err(error) if error.is_connect() => Outcome::Unsent,
        Err(error) => Outcome::Unknown(format!("{error:?}")),
    }
}
