use openraft::errors::{ClientWriteError, ForwardToLeader, RaftError};

use super::*;
use crate::catalog::Command;
use crate::catalog::nodes::NodeRecord;
use crate::controllers::testing::TestNode;
use crate::model::code::Code;
use crate::raft::status::ChangeError;

/// Address at which no process listens.
const NOWHERE: &str = "127.0.0.1:1";

#[test]
fn a_majority_of_those_that_would_vote_has_to_answer() {
    let set = |ids: &[NodeId]| ids.iter().copied().collect::<BTreeSet<_>>();
    // Voters, those that answer, and the silent ones that the error names if too few answer.
    type Row<'a> = (&'a [NodeId], &'a [NodeId], Option<&'a str>);
    let rows: &[Row<'_>] = &[
        (&[1], &[1], None),
        (&[1, 2], &[1, 2], None),
        (&[1, 2], &[1], Some("2")),
        (&[1, 2, 3], &[1, 3], None),
        (&[1, 2, 3], &[1, 9], Some("2, 3")),
        (&[1, 2, 3, 4], &[1, 2], Some("3, 4")),
        (&[1, 2, 3, 4], &[1, 2, 4], None),
        (&[1, 2, 3, 4, 5], &[1, 2, 3], None),
    ];
    for (voters, answering, silent) in rows {
        let judged = keeps_majority(&set(voters), &set(answering));
        match silent {
            None => assert_eq!(judged, Ok(()), "{voters:?} {answering:?}"),
            Some(silent) => {
                let why = judged.expect_err("too few");
                assert!(why.ends_with(&format!("without an answer: {silent}")), "{why}");
            }
        }
    }
}

#[test]
fn only_what_takes_one_step_is_certainly_not_done_where_the_lead_is_lost() {
    let lost = || RaftError::APIError(ClientWriteError::ForwardToLeader(ForwardToLeader::empty()));
    assert!(matches!(unwritten(lost(), false), ProposeOutcome::NotLeader));
    assert!(matches!(unwritten(lost(), true), ProposeOutcome::Unknown(_)));
}

/// Returns the text of a refusal.
fn refusal(result: Result<(), ChangeError>) -> String {
    match result {
        Err(ChangeError::Refused(refusal)) if refusal.code == Code::BadRequest => refusal.detail,
        other => panic!("not refused: {other:?}"),
    }
}

/// The other half of a two-node cluster would be a node that does not exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_learner_that_is_not_there_gets_no_vote_and_its_address_can_be_changed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let alone = TestNode::founded(dir.path()).await;
    let node = &alone.node;
    let add = |peer: &str| MembershipChange::Add { node_id: 2, peer: peer.to_owned() };
    node.change_membership(add(NOWHERE)).await.expect("a learner costs nobody the majority");
    let why = refusal(node.change_membership(MembershipChange::Promote { node_id: 2 }).await);
    assert!(why.contains("node 2 has not acknowledged anything"), "{why}");
    node.propose("test", Command::Forget { node_id: 77 }).await.expect("the cluster goes on");

    let before = node.state().applied().index;
    node.change_membership(add(NOWHERE)).await.expect("the same once more is done already");
    assert_eq!(node.state().applied().index, before, "nothing was written for it");
    node.change_membership(add("127.0.0.1:2")).await.expect("a wrong address can be changed");
    assert_eq!(Present::of(node).addresses[&2], "127.0.0.1:2");
    let why = refusal(node.change_membership(MembershipChange::Add { node_id: 3, peer: "127.0.0.1:2".into() }).await);
    assert!(why.contains("address of node 2"), "{why}");
    alone.stop().await;
}

/// The leader removed the node, and its answer or the caller was lost before the id was marked as removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_of_unknown_outcome_is_completed_by_the_next() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let alone = TestNode::founded(dir.path()).await;
    let node = &alone.node;
    let remove = |node_id| MembershipChange::Remove { node_id };
    let record = NodeRecord::new(9, "its directory".into(), "n9:8090".into(), "n9:8890".into());
    node.propose("test", Command::Announce(record)).await.expect("the cluster works");
    assert!(!node.state().catalog().nodes.get(9).expect("announced").removed);

    node.change_membership(remove(9)).await.expect("what is out already is done");
    assert!(node.state().catalog().nodes.get(9).expect("known").removed, "the id is spent");
    let before = node.state().applied().index;
    node.change_membership(remove(9)).await.expect("twice is done too");
    assert_eq!(node.state().applied().index, before, "nothing was written for it");
    let why = refusal(node.change_membership(MembershipChange::Add { node_id: 9, peer: NOWHERE.into() }).await);
    assert!(why.contains("spent"), "{why}");
    let why = refusal(node.change_membership(remove(77)).await);
    assert!(why.contains("never heard of"), "{why}");
    alone.stop().await;
}
