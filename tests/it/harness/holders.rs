//! Clients that a rollout by steps reaches or not: the values that each has had, since when, and when the first of
//! them refused one. A fifth of them cannot apply a bad value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::Method;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Api, Cluster, eventually};

/// One client in this number cannot apply a bad value.
const REFUSING: usize = 5;

/// Reports whether a client with this label is in a share, by the documented formula.
pub(crate) fn is_in_share(percent: u64, label: &str) -> bool {
    let digest = Sha256::digest(label.as_bytes());
    let first = digest.first_chunk::<8>().expect("it is longer");
    u64::from_be_bytes(*first) % 100 < percent
}

type Had = Arc<Mutex<Vec<(String, Instant)>>>;

pub(crate) struct Holders {
    had: BTreeMap<String, Had>,
    refusing: BTreeSet<String>,
    first_refusal: Arc<Mutex<Option<Instant>>>,
    may_judge: watch::Sender<bool>,
    following: JoinSet<()>,
}

/// One of them, as its update loop sees it.
pub(crate) struct Holder {
    pub(crate) id: String,
    refuses: Option<&'static str>,
    had: Had,
    first_refusal: Arc<Mutex<Option<Instant>>>,
    may_judge: watch::Receiver<bool>,
}

impl Holder {
    /// Accepts a value; returns whether it can be applied, for a bad one once the test permits the verdict.
    pub(crate) async fn takes(&mut self, value: &str) -> bool {
        self.had.lock().push((value.to_owned(), Instant::now()));
        let is_bad = self.refuses == Some(value);
        if is_bad {
            self.may_judge.wait_for(|may| *may).await.expect("the test goes on");
            self.first_refusal.lock().get_or_insert_with(Instant::now);
        }
        !is_bad
    }
}

impl Holders {
    /// Begins what `follow` does for each of these clients, by its number.
    pub(crate) fn start<F: Future<Output = ()> + Send + 'static>(
        ids: impl Iterator<Item = String>,
        bad: &'static str,
        follow: impl Fn(usize, Holder) -> F,
    ) -> Holders {
        let (had, refusing, following) = Default::default();
        let (first_refusal, may_judge) = (Arc::default(), watch::Sender::new(false));
        let mut holders = Holders { had, refusing, first_refusal, may_judge, following };
        for (number, id) in ids.enumerate() {
            let refuses = number.is_multiple_of(REFUSING).then_some(bad);
            if refuses.is_some() {
                holders.refusing.insert(id.clone());
            }
            let (had, first_refusal) = (Had::default(), holders.first_refusal.clone());
            holders.had.insert(id.clone(), had.clone());
            let holder = Holder { id, refuses, had, first_refusal, may_judge: holders.may_judge.subscribe() };
            holders.following.spawn(follow(number, holder));
        }
        holders
    }

    /// From now on a bad value is refused.
    pub(crate) fn judge(&self) {
        self.may_judge.send_replace(true);
    }

    pub(crate) fn ids(&self) -> BTreeSet<&str> {
        self.had.keys().map(String::as_str).collect()
    }

    /// Those that would refuse a bad value.
    pub(crate) fn refusing(&self, of: &BTreeSet<&str>) -> usize {
        of.iter().filter(|id| self.refusing.contains(**id)).count()
    }

    /// Waits until exactly these have a value.
    pub(crate) async fn expect_having(&self, limit: Duration, value: &str, wanted: &BTreeSet<&str>) {
        eventually(limit, &format!("{} clients have {value}", wanted.len()), || async {
            let having = self.which(|had| had.last().is_some_and(|(now, _)| now == value));
            if having == *wanted { Ok(()) } else { Err(format!("{} have: {having:?}", having.len())) }
        })
        .await;
    }

    /// Those that had a value at any time.
    pub(crate) fn ever(&self, value: &str) -> BTreeSet<&str> {
        self.which(|had| had.iter().any(|(one, _)| one == value))
    }

    fn which(&self, is_so: impl Fn(&[(String, Instant)]) -> bool) -> BTreeSet<&str> {
        self.had.iter().filter(|(_, had)| is_so(&had.lock())).map(|(id, _)| id.as_str()).collect()
    }

    pub(crate) fn first_refusal(&self) -> Instant {
        self.first_refusal.lock().expect("somebody has refused")
    }

    /// Times from the first refusal to the newest value of each of these.
    pub(crate) fn returns(&self, of: &BTreeSet<&str>) -> Vec<Duration> {
        let first = self.first_refusal();
        let since = |id: &&str| self.had[*id].lock().last().expect("it has a value").1.duration_since(first);
        of.iter().map(since).collect()
    }
}

/// A rollout as all nodes show it.
#[derive(Clone)]
pub(crate) struct Watched {
    nodes: Vec<Api>,
    /// Path of a list of the one release, and the place of the rollout in its answer.
    path: String,
    place: &'static str,
}

impl Watched {
    pub(crate) fn of(cluster: &Cluster, path: String, place: &'static str) -> Watched {
        Watched { nodes: cluster.ids().into_iter().map(|id| cluster.api(id)).collect(), path, place }
    }

    async fn value(&self, api: &Api) -> Result<Value, String> {
        let answer = api.try_send(Method::GET, &self.path, None).await.map_err(|error| error.to_string())?;
        answer.body.pointer(self.place).cloned().ok_or_else(|| answer.to_string())
    }

    pub(crate) async fn state(&self) -> String {
        let shown = self.value(&self.nodes[0]).await.expect("it is shown");
        shown["state"].as_str().expect("a state").to_owned()
    }

    /// Returns the greatest share that any node reports until the rollout ends.
    pub(crate) async fn greatest_share(self) -> u64 {
        let (mut greatest, mut pace) = (0, tokio::time::interval(Duration::from_millis(50)));
        loop {
            pace.tick().await;
            for api in &self.nodes {
                // A node that is behind shows none yet.
                let Ok(shown) = self.value(api).await else { continue };
                greatest = greatest.max(shown["percent"].as_u64().expect("a percentage"));
                if shown["state"] != "running" {
                    return greatest;
                }
            }
        }
    }

    /// Waits until it is stopped; returns the reason.
    pub(crate) async fn stops(&self, limit: Duration) -> String {
        let reason = eventually(limit, "the guard stops it", || async {
            let shown = self.value(&self.nodes[0]).await?;
            if shown["state"] == "stopped" { Ok(shown["reason"].clone()) } else { Err(shown.to_string()) }
        })
        .await;
        reason.as_str().expect("a reason").to_owned()
    }
}
