//! The list that a cluster is formed from, and the nodes that were started with another one.
//!
//! Every node of a new cluster writes the first entry itself, from its own list, and Raft treats two entries of the
//! same term and index as one. Two nodes with different lists would form two clusters that share nodes without knowing
//! of each other. So a node without a cluster sends its list with each handshake, and no cluster is formed while a node
//! has another list ([`super::formation`]).
//!
//! Lists are compared by digest; the text is for messages.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::format::types::NodeId;
use crate::peer::ListDigest;

/// Maximum bytes of the text, so that it fits a frame of a handshake. The digest always covers the whole list.
const TEXT_BYTES_MAX: usize = 4096;
/// Minimum time between two log lines about an unchanged difference.
const LINE_PAUSE: Duration = Duration::from_secs(60);

/// The list of this node, and the differing lists of other nodes.
pub(super) struct Lists {
    node_id: NodeId,
    /// Absent on a node that was started without a list.
    own: Option<ListDigest>,
    differing: Mutex<BTreeMap<NodeId, Differing>>,
}

/// A list of another node that differs from the list of this node.
struct Differing {
    list: ListDigest,
    /// Time of the last log line about it, if any.
    logged: Option<Instant>,
}

impl Lists {
    pub(super) fn new(node_id: NodeId, initial_cluster: &BTreeMap<NodeId, String>) -> Self {
        let own = (!initial_cluster.is_empty()).then(|| said(initial_cluster));
        Lists { node_id, own, differing: Mutex::default() }
    }

    /// Returns the list of this node.
    pub(super) fn own(&self) -> Option<&ListDigest> {
        self.own.as_ref()
    }

    /// Reports whether the list of `peer` is the same as this node's. A node that sends no list agrees. A difference is
    /// recorded until `peer` sends another list, or none.
    pub(super) fn agrees(&self, peer: NodeId, theirs: Option<&ListDigest>) -> bool {
        let mut differing = self.differing.lock();
        let (Some(own), Some(theirs)) = (&self.own, theirs) else {
            differing.remove(&peer);
            return true;
        };
        if own.digest == theirs.digest {
            differing.remove(&peer);
            return true;
        }
        let known = differing.entry(peer).or_insert_with(|| Differing { list: theirs.clone(), logged: None });
        let has_changed = known.list.digest != theirs.digest;
        known.list = theirs.clone();
        let is_due = has_changed || known.logged.is_none_or(|logged| logged.elapsed() >= LINE_PAUSE);
        if is_due {
            known.logged = Some(Instant::now());
            tracing::error!("{}", line(peer, &known.list, self.node_id, own));
        }
        false
    }

    /// Returns the peers that were started with another list.
    pub(super) fn differing(&self) -> BTreeSet<NodeId> {
        self.differing.lock().keys().copied().collect()
    }

    /// Returns a line for each of them with its id, its list and the list of this node.
    pub(super) fn lines(&self) -> Vec<String> {
        let Some(own) = &self.own else { return Vec::new() };
        self.differing.lock().iter().map(|(peer, known)| line(*peer, &known.list, self.node_id, own)).collect()
    }
}

fn line(peer: NodeId, theirs: &ListDigest, own_id: NodeId, own: &ListDigest) -> String {
    format!("node {peer} was started with another initial cluster; node {peer}: {theirs}; node {own_id}: {own}")
}

/// Digests a list, as `id=host:port,…` in the order of ids.
fn said(initial_cluster: &BTreeMap<NodeId, String>) -> ListDigest {
    let mut text = initial_cluster.iter().map(|(id, peer)| format!("{id}={peer}")).collect::<Vec<_>>().join(",");
    let digest = hex::encode(&Sha256::digest(&text)[..16]);
    if text.len() > TEXT_BYTES_MAX {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        text.truncate(text[..end].rfind(',').unwrap_or(end));
        text.push_str(",…");
    }
    ListDigest { digest, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::codec;
    use crate::format::level::LevelRange;
    use crate::peer::{Build, HANDSHAKE_FRAME_BYTES_MAX, Hello, Refusal, Welcome};

    fn lists(node_id: NodeId, members: &[(NodeId, &str)]) -> Lists {
        Lists::new(node_id, &members.iter().map(|(id, peer)| (*id, (*peer).to_owned())).collect())
    }

    /// Exchanges the lists of two nodes.
    fn meet(one: &Lists, other: &Lists) -> (bool, bool) {
        (one.agrees(other.node_id, other.own()), other.agrees(one.node_id, one.own()))
    }

    const THREE: &[(NodeId, &str)] = &[(1, "a:1"), (2, "b:1"), (3, "c:1")];

    #[test]
    fn lists_are_compared_by_ids_and_addresses() {
        type Row<'a> = (&'a str, &'a [(NodeId, &'a str)], bool);
        let rows: [Row<'_>; 6] = [
            ("the same", THREE, true),
            ("the same in another order", &[(3, "c:1"), (1, "a:1"), (2, "b:1")], true),
            ("one more", &[(1, "a:1"), (2, "b:1"), (3, "c:1"), (4, "d:1")], false),
            ("another address", &[(1, "a:1"), (2, "b:1"), (3, "c:2")], false),
            ("another id", &[(1, "a:1"), (2, "b:1"), (4, "c:1")], false),
            ("none at all: a node that waits to be added", &[], true),
        ];
        for (what, theirs, agrees) in rows {
            let (one, other) = (lists(1, THREE), lists(2, theirs));
            assert_eq!(meet(&one, &other), (agrees, agrees), "{what}");
            assert_eq!((one.differing().is_empty(), other.differing().is_empty()), (agrees, agrees), "{what}");
        }
    }

    #[test]
    fn each_of_the_two_says_both_lists() {
        let (one, four) = (lists(1, THREE), lists(4, &[(1, "a:1"), (4, "d:1"), (2, "b:1")]));
        meet(&four, &one);
        let (three, other) = ("1=a:1,2=b:1,3=c:1", "1=a:1,2=b:1,4=d:1");
        let line = |id, theirs, own_id, own| {
            format!("node {id} was started with another initial cluster; node {id}: {theirs}; node {own_id}: {own}")
        };
        assert_eq!(one.lines(), [line(4, other, 1, three)]);
        assert_eq!(four.lines(), [line(1, three, 4, other)]);
    }

    #[test]
    fn a_difference_is_over_when_the_same_list_is_heard() {
        let (one, wrong, right) = (lists(1, THREE), lists(2, &[(1, "a:1"), (2, "b:1")]), lists(2, THREE));
        assert_eq!(meet(&one, &wrong), (false, false));
        assert_eq!(meet(&one, &right), (true, true));
        assert!(one.differing().is_empty() && one.lines().is_empty());
    }

    /// The frame also has the proof of 32 bytes, the random value of 32, and at most two bytes more.
    #[test]
    fn an_introduction_with_the_longest_list_fits_a_frame() {
        let address = |id: NodeId| format!("{}.{id}:8190", "host-".repeat(40));
        let list = Some(said(&(1..=50).map(|id| (id, address(id))).collect()));
        assert!(list.as_ref().is_some_and(|list| list.text.ends_with('…')), "{list:?}");
        let levels = LevelRange::OWN;
        let build =
            Build { version: "100.100.100-alpha.100".into(), levels, level: levels.max, format: "f".repeat(16) };
        let (node_id, target, instance) = (NodeId::MAX, NodeId::MAX, "i".repeat(32));
        let (cluster_id, list_again, build_again) = (None, list.clone(), build.clone());
        let hello = Hello { cluster_id, node_id, target, instance: instance.clone(), build, list };
        let (cluster_id, build, list) = (None, build_again, list_again);
        let welcome = Welcome { cluster_id, node_id, instance, initialized: true, knows_you: true, build, list };
        let lengths = [codec::to_bytes(&hello).len(), codec::to_bytes(&Ok::<_, Refusal>(welcome)).len()];
        assert!(lengths.iter().all(|length| length + 2 * 32 + 2 <= HANDSHAKE_FRAME_BYTES_MAX), "{lengths:?}");
    }

    #[test]
    fn a_list_that_fits_no_frame_is_cut_and_still_compared_whole() {
        let address = |id: NodeId, port| format!("{}.{id}:{port}", "host-".repeat(40));
        let of = |port| (1..=50).map(|id| (id, address(id, if id == 50 { port } else { 1 }))).collect();
        let (one, other) = (said(&of(1)), said(&of(2)));
        assert_eq!(one.text, other.text);
        assert!(one.text.len() <= TEXT_BYTES_MAX + 5 && one.text.ends_with(":1,…"), "{}", one.text);
        assert_ne!(one.digest, other.digest);
    }
}
