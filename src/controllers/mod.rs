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

use futures_util::future::BoxFuture;
use futures_util::future::join_all;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::time::Time;
use crate::catalog::RequestId;
use crate::catalog::history::Thing;
use crate::format::types::NodeId;
use crate::peer::BeatsAnswer;
use crate::raft::node::Node;
use crate::raft::start::Extension;
use crate::raft::{CommandReply, Lead, run_task};
use crate::subscribers::Subscribed;
use audit_buffer::AuditBuffer;
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
}

impl Controllers {
    pub fn new(founding: FoundingSettings) -> Arc<Self> {
        Arc::new(Controllers { founding, ..Controllers::default() })
    }
}

impl Extension for Controllers {
    fn applied(&self, replies: &[(RequestId, CommandReply)]) {
        self.heartbeats.see_written(replies);
    }

    fn heartbeats(&self, node: &Node, ids: &[String]) -> BeatsAnswer {
        self.heartbeats.take(node, ids)
    }

    fn subscribers<'a>(&self, node: &'a Node, thing: Thing) -> BoxFuture<'a, Subscribed> {
        Box::pin(subscribers::own(node, thing))
    }

    fn start(self: Arc<Self>, node: &Node, tasks: &TaskTracker, shutdown: &CancellationToken) {
        let heartbeats = HeartbeatController::new(self.heartbeats.clone());
        run_task("heartbeats", run(node.clone(), heartbeats), tasks, shutdown);
        run_task("levels", run(node.clone(), Levels), tasks, shutdown);
        #[cfg(feature = "next-level")]
        run_task("next-level", run(node.clone(), next_level::NextLevels::default()), tasks, shutdown);
        run_task("retention", run(node.clone(), Retention), tasks, shutdown);
        run_task("time", run(node.clone(), Time::default()), tasks, shutdown);
        run_task("schedule", run(node.clone(), Schedule::default()), tasks, shutdown);
        run_task("password-reset", password_reset::carry_out(node.clone()), tasks, shutdown);
        run_task("client-refusals", client_refusals::tell(node.clone()), tasks, shutdown);
        run_task("xds-marks", xds_marks::mark(node.clone()), tasks, shutdown);
        run_task("recent", recent::sample(node.clone(), self.clone()), tasks, shutdown);
        run_task("founding", founding::keep(node.clone(), self.clone()), tasks, shutdown);
        run_task("audit", audit_buffer::write_down(node.clone(), self), tasks, shutdown);
    }
}
