//! A node that has just started asks the others what time it is.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::sleep;

use crate::model::time::Timestamp;
use crate::raft::members::other_members;
use crate::raft::node::Node;
use crate::raft::peer::PeerProgress;

const ASK_WITHIN: Duration = Duration::from_millis(500);
const ASK_PAUSE: Duration = Duration::from_secs(1);

/// What the others said.
enum Told {
    /// One of them knows.
    Time(Timestamp),
    /// Nobody does; what their wall clocks show.
    Clocks(Vec<Timestamp>),
}

/// Asks until somebody knows, or this node has had to find out as the leader.
pub(in crate::raft) async fn keep_asking(node: Node) {
    let clock = &node.state().clock;
    while !clock.is_anchored() {
        if let Told::Time(time) = ask(&node).await {
            clock.adopt(time);
        }
        sleep(ASK_PAUSE).await;
    }
}

/// Finds out what time it is before a leader stamps for the first time.
pub(in crate::raft) async fn settle(node: &Node) {
    let _one_at_a_time = node.inner().settling.lock().await;
    let clock = &node.state().clock;
    if clock.is_anchored() {
        return;
    }
    match ask(node).await {
        Told::Time(time) => clock.adopt(time),
        Told::Clocks(mut walls) => {
            walls.push(clock.wall_time());
            tracing::info!(clocks = walls.len(), "no member knows the time of the cluster: their clocks decide");
            clock.adopt(middle(walls));
        }
    }
}

async fn ask(node: &Node) -> Told {
    let others = other_members(node).into_iter();
    let mut answers: FuturesUnordered<_> =
        others.map(|id| async move { node.inner().peers.progress(id, ASK_WITHIN).await }).collect();
    let mut walls = Vec::new();
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(PeerProgress { time_ms: Some(ms), .. }) => return Told::Time(Timestamp(ms)),
            Ok(PeerProgress { wall_ms: Some(ms), .. }) => walls.push(Timestamp(ms)),
            Ok(_) | Err(_) => {}
        }
    }
    Told::Clocks(walls)
}

/// The middle one, of two the lower: what is too low catches up, what is too high stays in the log.
fn middle(mut clocks: Vec<Timestamp>) -> Timestamp {
    clocks.sort_unstable();
    clocks[(clocks.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_clock_that_is_wrong_does_not_decide() {
        let rows = [(vec![5], 5), (vec![900, 5], 5), (vec![900, 5, 6], 6), (vec![1, 5, 6], 5), (vec![9, 1, 8, 2], 2)];
        for (clocks, expected) in rows {
            assert_eq!(middle(clocks.iter().copied().map(Timestamp).collect()), Timestamp(expected), "{clocks:?}");
        }
    }
}
