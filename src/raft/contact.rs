//! Reasons why members are out of contact, as text.
//!
//! A peer may reach this node without being reachable, or the reverse. If this node's name resolves to another machine,
//! only the others notice. So each node reports with its progress why it does not reach the node that asks for it.

use super::members::other_members;
use super::node::Node;
use crate::format::types::NodeId;

impl Node {
    /// Returns the reason why this node does not reach a member; `None` if it does, and for itself.
    pub(super) fn problem_of(&self, node_id: NodeId) -> Option<String> {
        if node_id == self.id() { None } else { self.inner().peers.problem(node_id) }
    }

    /// Returns the reason why this node and a member are not in contact, as found by either.
    pub(super) fn problem_between(&self, node_id: NodeId) -> Option<String> {
        let by_the_other = || {
            let said = self.inner().poll.said();
            let why = said.get(&node_id)?.asker_problem.as_ref()?;
            Some(format!("it does not reach this node: {why}"))
        };
        self.problem_of(node_id).or_else(by_the_other)
    }

    /// Returns a short text for each member with a problem.
    pub(super) fn peer_problems(&self) -> Vec<String> {
        let tell = |id| Some(format!("node {id}: {}", self.problem_between(id)?));
        other_members(self).into_iter().filter_map(tell).collect()
    }

    /// Returns the reason why there is no leader, as far as this node knows; `None` while there is one.
    pub(super) fn why_no_leader(&self) -> Option<String> {
        if self.is_led() {
            return None;
        }
        let problems = self.peer_problems();
        Some(match problems.is_empty() {
            true => "no leader is in reach".to_owned(),
            false => format!("no leader is in reach: {}", problems.join("; ")),
        })
    }
}
