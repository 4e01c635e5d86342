//! Reasons why members are out of touch, in words, from the one place that each peer has for its last one.
//!
//! A peer may reach this node and not be reached, or the other way round: where this node's name leads to another
//! machine, only the others know. So each says with its progress what keeps it from the one that asks.

use super::members::other_members;
use super::node::Node;
use crate::format::types::NodeId;

impl Node {
    /// Reason why this node does not reach a member; `None` where it does, and of itself.
    pub(super) fn problem_of(&self, node_id: NodeId) -> Option<String> {
        if node_id == self.id() { None } else { self.inner().peers.problem(node_id) }
    }

    /// Reason why this node and a member do not work together, by the word of either.
    pub(super) fn problem_between(&self, node_id: NodeId) -> Option<String> {
        let by_the_other = || {
            let said = self.inner().poll.said();
            let why = said.get(&node_id)?.asker_problem.as_ref()?;
            Some(format!("it does not reach this node: {why}"))
        };
        self.problem_of(node_id).or_else(by_the_other)
    }

    /// Members with a problem, each in a few words.
    pub(super) fn peer_problems(&self) -> Vec<String> {
        let tell = |id| Some(format!("node {id}: {}", self.problem_between(id)?));
        other_members(self).into_iter().filter_map(tell).collect()
    }

    /// Reason why there is no leader, as far as this node knows; `None` while there is one.
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
