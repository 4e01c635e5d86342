//! Controllers: background work of a node that proposes commands.
//!
//! | part | modules |
//! |---|---|
//! | on the leader | [`heartbeats`], [`levels`], [`retention`], [`schedule`], [`mod@time`], [`rollouts`] |
//! | on every node | [`founding`], [`password_reset`], [`audit_buffer`], [`client_refusals`], [`xds_marks`] |
//! | reports | [`subscribers`], [`fleet`], [`gauges`], [`recent`], [`audit_reader`] |
//!
//! To add one for the leader, write a file with a [`Controller`] and a line in the start of [`Controllers`].

pub mod audit_buffer;
pub mod audit_reader;
mod client_refusals;
pub mod credential_watch;
pub mod fleet;
mod founding;
pub mod gauges;
pub mod heartbeats;
mod levels;
#[cfg(feature = "next-level")]
mod next_level;
pub mod password_reset;
pub mod recent;
mod retention;
pub mod rollouts;
mod schedule;
pub mod subscribers;
#[cfg(test)]
pub(crate) mod testing;
mod time;
mod xds_marks;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::future::join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::time::Time;
use crate::catalog::RequestId;
use crate::data_key::DataKey;
use crate::format::codec;
use crate::format::types::NodeId;
use crate::keyring::Keyring;
use crate::model::limits;
use crate::raft::alarms::{Alarm, AlarmKind};
use crate::raft::extension::{ApplyListener, Extension, ExtensionCall};
use crate::raft::node::Node;
use crate::raft::state::State;
use crate::raft::{CommandReply, Lead, run_task};
use crate::subscribers::Subscribers;
use crate::subscribers::fleet::{ClientQuery, ClientQueryResult};
use crate::tasks;
use audit_buffer::AuditBuffer;
use credential_watch::CredentialWatcher;
use heartbeats::{HeartbeatController, HeartbeatMonitor};
use levels::Levels;
use recent::Recent;
use retention::Retention;
use schedule::Schedule;

pub use audit_buffer::RateClass;
pub use founding::FoundingSettings;

/// Interval between two checks whether this node leads.
const LOOK: Duration = Duration::from_millis(200);
/// Time limit for another node's answer. A node that does not answer in time is named in the result.
const ASK_WITHIN: Duration = Duration::from_secs(3);

/// Asks all members in parallel; returns their answers, `None` for a member that did not answer.
async fn of_members<T, A: Future<Output = Option<T>>>(
    node: &Node,
    ask: impl Fn(NodeId) -> A,
) -> Vec<(NodeId, Option<T>)> {
    let asked = node.member_ids().into_iter().map(|id| {
        let answer = ask(id);
        async move { (id, answer.await) }
    });
    join_all(asked).await
}

/// Controller that runs on the leader.
pub trait Controller: Send + 'static {
    /// Proposes what is due, and returns the time until the next call.
    fn act(&mut self, lead: &Lead) -> impl Future<Output = Duration> + Send;

    /// Waits until there may be something to do before that time.
    fn woken(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Discards the state of a leader, because this node does not lead.
    fn stand_down(&mut self) {}
}

/// Runs a controller while this node leads. Does not end by itself.
pub async fn run(node: Node, mut controller: impl Controller) {
    loop {
        let pause = match node.lead() {
            // A node that has not applied its own log may not know what is done already. One whose lease has expired
            // does and discards nothing: either another node leads soon, or this one continues.
            _ if !node.has_caught_up() || node.leads_unsurely() => LOOK,
            Some(lead) => controller.act(&lead).await,
            None => {
                controller.stand_down();
                LOOK
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = controller.woken() => {}
        }
    }
}

/// The parts of a node's controllers that others use.
#[derive(Default)]
pub struct Controllers {
    founding: FoundingSettings,
    pub heartbeats: Arc<HeartbeatMonitor>,
    pub audit_buffer: AuditBuffer,
    pub recent: Recent,
    /// Data keys that read and seal secrets on this node.
    pub keyring: Arc<Keyring>,
    /// Clients and the releases that they have, as far as this node has served them.
    pub subscribers: Arc<Subscribers>,
    /// Credentials of the requests that this node holds.
    pub credentials: Arc<CredentialWatcher>,
}

impl Controllers {
    pub fn new(founding: FoundingSettings, data_keys: impl IntoIterator<Item = DataKey>) -> Arc<Self> {
        let keyring = Arc::new(Keyring::new(data_keys));
        Arc::new(Controllers { founding, keyring, ..Controllers::default() })
    }

    async fn answer(&self, node: &Node, call: ExtensionCall, body: Bytes) -> Result<Bytes, String> {
        match call {
            ExtensionCall::Beats => Ok(packed(&self.heartbeats.take(node, &beats_of(&body)?))),
            ExtensionCall::Subscribers => Ok(packed(&subscribers::own(node, &self.subscribers, read(&body)?).await)),
            ExtensionCall::Fleet => Ok(packed(&own_clients(node, &self.subscribers, read(&body)?).await)),
        }
    }
}

fn packed(answer: &impl Serialize) -> Bytes {
    codec::to_bytes(answer).into()
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    codec::from_bytes(body).map_err(|error| format!("the call cannot be read: {error}"))
}

/// Reads the instances that a peer reports as alive.
fn beats_of(body: &[u8]) -> Result<Vec<String>, String> {
    let ids: Vec<String> = read(body)?;
    match ids.len() > limits::BEATS_PER_CALL_MAX {
        true => Err("too many heartbeats in one call".to_owned()),
        false => Ok(ids),
    }
}

/// Answers a query about the clients of this node.
async fn own_clients(node: &Node, subscribers: &Arc<Subscribers>, query: ClientQuery) -> ClientQueryResult {
    let (state, subscribers) = (node.state().clone(), subscribers.clone());
    let answer = move || {
        // Read before the catalog, which is at least as new.
        let applied = state.applied().index;
        subscribers.tell(&state.view(), applied, &query)
    };
    tasks::blocking(answer).await
}

/// Asks another member about its clients; `None` if it did not answer.
async fn ask_clients(node: &Node, id: NodeId, query: &ClientQuery, within: Duration) -> Option<ClientQueryResult> {
    node.ask_extension(id, ExtensionCall::Fleet, query, within).await
}

/// Returns alarms about secrets that the data keys of this node do not open.
fn key_alarms(node_id: NodeId, state: &State, keyring: &Keyring) -> Vec<Alarm> {
    let view = state.view();
    let of =
        |kind, text: Option<String>| text.map(|text| Alarm::of_node(kind, node_id, format!("node {node_id}: {text}")));
    let keys = of(AlarmKind::AccessKeys, keyring.alarm(&view));
    keys.into_iter().chain(of(AlarmKind::EncryptedFiles, keyring.alarm_of_files(&view))).collect()
}

impl ApplyListener for Controllers {
    fn applied(&self, replies: &[(RequestId, CommandReply)]) {
        self.heartbeats.see_written(replies);
    }
}

impl Extension for Controllers {
    fn answer<'a>(&'a self, node: &'a Node, call: ExtensionCall, body: Bytes) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(Controllers::answer(self, node, call, body))
    }

    fn start(self: Arc<Self>, node: &Node, tasks: &TaskTracker, shutdown: &CancellationToken) {
        let (id, state, keyring) = (node.id(), node.state().clone(), self.keyring.clone());
        node.add_alarms(move || key_alarms(id, &state, &keyring));
        let heartbeats = HeartbeatController::new(self.heartbeats.clone());
        run_task("heartbeats", run(node.clone(), heartbeats), tasks, shutdown);
        run_task("levels", run(node.clone(), Levels), tasks, shutdown);
        #[cfg(feature = "next-level")]
        run_task("next-level", run(node.clone(), next_level::NextLevels::default()), tasks, shutdown);
        run_task("retention", run(node.clone(), Retention), tasks, shutdown);
        run_task("time", run(node.clone(), Time::default()), tasks, shutdown);
        run_task("schedule", run(node.clone(), Schedule::default()), tasks, shutdown);
        run_task("password-reset", password_reset::carry_out(node.clone()), tasks, shutdown);
        run_task("client-refusals", client_refusals::tell(node.clone(), self.subscribers.clone()), tasks, shutdown);
        run_task("xds-marks", xds_marks::mark(node.clone(), self.subscribers.clone()), tasks, shutdown);
        run_task("recent", recent::sample(node.clone(), self.clone()), tasks, shutdown);
        run_task("founding", founding::keep(node.clone(), self.clone()), tasks, shutdown);
        run_task("audit", audit_buffer::write_down(node.clone(), self), tasks, shutdown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_has_a_limit_of_heartbeats() {
        let beats = |count| beats_of(&codec::to_bytes(&vec!["i"; count])).map(|ids| ids.len());
        assert_eq!(beats(limits::BEATS_PER_CALL_MAX), Ok(limits::BEATS_PER_CALL_MAX));
        assert_eq!(beats(limits::BEATS_PER_CALL_MAX + 1), Err("too many heartbeats in one call".to_owned()));
        assert!(beats_of(b"\xc1").is_err_and(|why| why.starts_with("the call cannot be read: ")));
    }
}
