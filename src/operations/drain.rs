//! Drain of an instance: it is isolated, then the call waits until every connected client was sent a list without it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::member::LocalMember;
use super::{Caller, Items, Operations};
use crate::catalog::Op;
use crate::controllers::subscribers::{ClusterSubscribers, MemberClient};
use crate::format::types::NodeId;
use crate::model::code::{Code, Refusal, placed};
use crate::model::instance::InstanceDraft;
use crate::model::wire::Uint32;
use crate::model::{limits, name};
use crate::subscribers::Subscription;
use crate::subscribers::lists::Without;
use crate::watch::{Watch, WatchKey};

/// Shortest pause between two queries to all members; most clients are held and are answered at once.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Address of the instances of a service to be drained.
#[derive(Clone, Debug)]
pub struct DrainTarget {
    pub namespace: String,
    pub service: String,
    pub host: String,
    pub port: u16,
}

/// A drain under way. Its instances are isolated already.
pub struct Drain {
    node: LocalMember,
    target: DrainTarget,
    without: Without,
    until: Instant,
    /// Slot among the held requests.
    _place: Watch,
}

/// Result of a drain.
#[derive(Debug)]
pub struct Drained {
    /// Number of clients that were sent a list without the instance.
    pub heard: u64,
    /// Clients that were not sent one.
    pub unheard: Vec<Subscription>,
    /// Members that did not report their clients.
    pub silent: Vec<NodeId>,
}

impl Operations {
    /// Isolates the instances at an address, and returns the drain, which waits for clients for at most `wait`.
    pub async fn drain(&self, caller: &Caller, target: DrainTarget, wait: Duration) -> Result<Drain, Refusal> {
        name::check_namespace(&target.namespace)?;
        name::check_service(&target.service)?;
        if wait > limits::DRAIN_WAIT_MAX {
            let why = format!("wait_ms is at most {}", limits::DRAIN_WAIT_MAX.as_millis());
            return Err(Refusal::new(Code::InvalidParameter, why));
        }
        let until = Instant::now() + wait;
        let DrainTarget { namespace, service, host, port } = &target;
        let node = self.node.member().clone();
        let items = drafts(&node, &target);
        let mut is_there = false;
        for outcome in self.instances(caller, Op::Update, items).await? {
            match outcome.code {
                // An instance that was removed meanwhile is in no list either; one that the caller does not see counts
                // as absent.
                Code::NotFoundInstance | Code::NotFoundResource => {}
                code if code.is_success() || code == Code::NoNeedUpdate => is_there = true,
                code => return Err(Refusal::new(code, outcome.detail)),
            }
        }
        if !is_there {
            let address = format!("instance {host}:{port} of {}", placed("service", namespace, service));
            return Err(Refusal::missing(&address));
        }
        let keys = vec![WatchKey::instances(namespace, service)];
        let place = node.state().hub().watch(caller.origin(), keys, size_of::<Drain>());
        let place = place.map_err(|full| Refusal::new(Code::TooManyWaiters, full.to_string()))?;
        let without = Without { host: host.clone(), port: *port, since: node.state().applied().index };
        Ok(Drain { node, target, without, until, _place: place })
    }
}

/// Returns drafts that isolate all instances at the address, which may be in several networks. If there is none, the
/// draft names the address, so that a caller without the right is refused.
fn drafts(node: &LocalMember, target: &DrainTarget) -> Items<InstanceDraft> {
    let DrainTarget { namespace, service, host, port } = target;
    let isolated = InstanceDraft { isolate: Some(true), ..InstanceDraft::default() };
    let catalog = node.state().catalog();
    let all = catalog.instances.all_of(namespace, service);
    let found = all.filter(|one| one.host == *host && one.port == *port);
    let mut drafts: Items<InstanceDraft> =
        found.map(|one| Ok(InstanceDraft { id: Some(one.id.clone()), ..isolated.clone() })).collect();
    if drafts.is_empty() {
        let [namespace, service, host] = [namespace, service, host].map(|text| Some(text.clone()));
        drafts.push(Ok(InstanceDraft { namespace, service, host, port: Some(Uint32(u32::from(*port))), ..isolated }));
    }
    drafts
}

impl Drain {
    /// Waits until all connected clients were sent a list without the instance, or until time has run out. While a
    /// member does not answer, its clients are unknown, and the wait goes on.
    pub async fn wait(self) -> Drained {
        let mut pause = PAUSE_MIN;
        loop {
            let DrainTarget { namespace, service, .. } = &self.target;
            let all = self.node.clients_with_list(namespace, service, Some(self.without.clone())).await;
            let now = Instant::now();
            let is_all = all.current == all.amount && all.silent.is_empty();
            if is_all || now >= self.until {
                return Drained::of(all);
            }
            sleep(pause.min(self.until - now)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

impl Drained {
    fn of(all: ClusterSubscribers) -> Drained {
        let rows = all.clients.into_iter().map(|MemberClient(_, client)| client);
        Drained { heard: all.current, unheard: rows.filter(|client| !client.is_current).collect(), silent: all.silent }
    }
}
