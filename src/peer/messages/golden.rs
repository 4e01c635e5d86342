//! Golden bytes of one message of each kind.

use std::fmt::Debug;

use openraft::EntryPayload;
use openraft::raft::{
    AppendEntriesResponse, SnapshotResponse, StreamAppendError, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use serde::de::DeserializeOwned;

use super::*;
use crate::catalog::history::Thing;
use crate::format::types::{CommittedLeaderId, Proposal};
use crate::model::config_file::ConfigKey;
use crate::model::heartbeat::BeatsAnswer;
use crate::model::rule::Family;
use crate::model::time::Timestamp;
use crate::subscribers::client_list::ClientSearch;
use crate::subscribers::fleet::{ClientQuery, ClientQueryResult, FleetResource};
use crate::subscribers::lists::Without;
use crate::subscribers::{Applied, ClientMark, HoldState, Subscribed, Subscription};

fn log_id(index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(3), index)
}

fn entry(index: u64, payload: &'static [u8]) -> Entry {
    Entry { log_id: log_id(index), payload: EntryPayload::Normal(Proposal(Bytes::from_static(payload))) }
}

fn append(entries: Vec<Entry>) -> AppendEntriesRequest<TypeConfig> {
    AppendEntriesRequest {
        vote: Vote::new_committed(3, 1),
        prev_log_id: Some(log_id(7)),
        entries,
        leader_commit: Some(log_id(6)),
    }
}

fn frames_of(request: &AppendEntriesRequest<TypeConfig>) -> Vec<(Bytes, Option<LogId>)> {
    let mut parts = AppendParts::new(request);
    let mut frames = Vec::new();
    while let Some((write, last)) = parts.next() {
        let mut frame = BytesMut::new();
        write(&mut frame);
        frames.push((frame.freeze(), last));
    }
    frames
}

/// Checks that a message is encoded as by the first release, and that those bytes are decoded.
fn pinned<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: T, golden: &str) {
    assert_eq!(hex::encode(codec::to_bytes(&message)), golden, "{message:?}");
    let read: T = codec::from_bytes(&hex::decode(golden).expect("hex")).expect("readable");
    assert_eq!(read, message);
}

#[test]
fn the_bytes_of_an_append() {
    let request = append(vec![entry(8, b"abc"), entry(9, b"")]);
    let [(frame, last)] = frames_of(&request).try_into().expect("one frame");
    assert_eq!(
        hex::encode(&frame),
        "0000006e83a4766f746582a96c65616465725f696482a47465726d03a9766f7465645f666f7201a9636f6d6d6974746564c3ab7072657\
         65f6c6f675f696482a96c65616465725f696403a5696e64657807ad6c65616465725f636f6d6d697482a96c65616465725f696403a569\
         6e646578060000001501010000000000000003000000000000000861626300000012010100000000000000030000000000000009"
    );
    assert_eq!(last, Some(log_id(9)));
    assert_eq!(read_append(frame).expect("readable").to_string(), request.to_string());
}

#[test]
fn the_bytes_of_calls() {
    let mut out = BytesMut::new();
    put_call(&mut out, Kind::Forward as u8, 258, b"command");
    assert_eq!(hex::encode(&out), "060000000000000102636f6d6d616e64");
    let numbers: Vec<u8> = Kind::ALL.iter().map(|kind| *kind as u8).filter(|kind| *kind < 255).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
}

#[test]
fn the_bytes_of_questions_and_answers_of_raft() {
    pinned(
        VoteRequest::<TypeConfig>::new(Vote::new(3, 1), Some(log_id(7))),
        "83a4766f746582a96c65616465725f696482a47465726d03a9766f7465645f666f7201a9636f6d6d6974746564c2ab6c6173745f6c6f6\
         75f696482a96c65616465725f696403a5696e64657807b36c6561646572736869705f7472616e73666572c2",
    );
    pinned(
        VoteResponse::<TypeConfig>::new(Vote::new(3, 1), None, true),
        "83a4766f746582a96c65616465725f696482a47465726d03a9766f7465645f666f7201a9636f6d6d6974746564c2ac766f74655f67726\
         16e746564c3ab6c6173745f6c6f675f6964c0",
    );
    let transfer = TransferLeaderRequest::<TypeConfig>::new(Vote::new_committed(3, 1), 2, Some(log_id(7)));
    pinned(
        transfer,
        "83ab66726f6d5f6c656164657282a96c65616465725f696482a47465726d03a9766f7465645f666f7201a9636f6d6d6974746564c3aa7\
         46f5f6e6f64655f696402ab6c6173745f6c6f675f696482a96c65616465725f696403a5696e64657807",
    );
    pinned::<TransferLeaderResponse<TypeConfig>>(Ok(()), "81a24f6bc0");
    pinned(AppendEntriesResponse::<TypeConfig>::Success, "a753756363657373");
    pinned(
        AppendEntriesResponse::<TypeConfig>::HigherVote(Vote::new(4, 2)),
        "81aa486967686572566f746582a96c65616465725f696482a47465726d04a9766f7465645f666f7202a9636f6d6d6974746564c2",
    );
    pinned::<StreamAppendResult<TypeConfig>>(Ok(Some(log_id(9))), "81a24f6b82a96c65616465725f696403a5696e64657809");
    pinned::<StreamAppendResult<TypeConfig>>(
        Err(StreamAppendError::Conflict(log_id(9))),
        "81a345727281a8436f6e666c69637482a96c65616465725f696403a5696e64657809",
    );
    pinned(
        SnapshotResponse::<TypeConfig>::new(Vote::new_committed(3, 1)),
        "81a4766f746582a96c65616465725f696482a47465726d03a9766f7465645f666f7201a9636f6d6d6974746564c3",
    );
}

#[test]
fn the_bytes_of_answers_of_the_node() {
    pinned(ForwardAnswer::Done { log_index: 9 }, "81a4646f6e6581a96c6f675f696e64657809");
    pinned(ForwardAnswer::NotLeader { leader: Some(2) }, "81aa6e6f745f6c656164657281a66c656164657202");
    pinned(ForwardAnswer::Unknown { text: "t".into() }, "81a7756e6b6e6f776e81a474657874a174");
    pinned(ForwardAnswer::Refused { text: "t".into(), code: None }, "81a77265667573656481a474657874a174");
    pinned(ForwardAnswer::Overloaded, "aa6f7665726c6f61646564");
    let progress = PeerProgress {
        asker_problem: None,
        last_log: 9,
        applied: 8,
        time_ms: None,
        time_shift_ms: None,
        wall_ms: None,
        disk: None,
        memory: None,
        checkpoints: vec![],
        is_acknowledged: None,
        committed: None,
        fresh_ms: None,
        alarms: Vec::new(),
    };
    pinned(progress.clone(), "82a86c6173745f6c6f6709a76170706c69656408");
    let timed = PeerProgress { time_ms: Some(7), wall_ms: Some(6), ..progress.clone() };
    pinned(timed, "84a86c6173745f6c6f6709a76170706c69656408a774696d655f6d7307a777616c6c5f6d7306");
    let leader = PeerProgress { committed: Some(8), ..progress.clone() };
    pinned(leader, "83a86c6173745f6c6f6709a76170706c69656408a9636f6d6d697474656408");
    let fresh = PeerProgress { fresh_ms: Some(5), ..progress.clone() };
    pinned(fresh, "83a86c6173745f6c6f6709a76170706c69656408a866726573685f6d7305");
    let disk = DiskRoom { free_bytes: 7, reserve_bytes: 6, shortage: Shortage::Short };
    pinned(
        PeerProgress { disk: Some(disk), ..progress.clone() },
        "83a86c6173745f6c6f6709a76170706c69656408a46469736b83aa667265655f627974657307ad726573657276655f627974657306a87\
         3686f7274616765a573686f7274",
    );
    let memory = MemoryRoom { used_bytes: 7, limit_bytes: 6, is_short: true };
    pinned(
        PeerProgress { memory: Some(memory), ..progress.clone() },
        "83a86c6173745f6c6f6709a76170706c69656408a66d656d6f727983aa757365645f627974657307ab6c696d69745f627974657306a86\
         9735f73686f7274c3",
    );
    let checkpoints = vec![Checkpoint { index: 1, hash: [7; 32] }];
    let checkpointed = format!(
        "83a86c6173745f6c6f6709a76170706c69656408ab636865636b706f696e74739182a5696e64657801a468617368c420{}",
        "07".repeat(32)
    );
    pinned(PeerProgress { checkpoints, ..progress.clone() }, &checkpointed);
    pinned(
        PeerProgress { is_acknowledged: Some(false), ..progress },
        "83a86c6173745f6c6f6709a76170706c69656408af69735f61636b6e6f776c6564676564c2",
    );
    pinned(ReadIndexAnswer::Ready { log_index: 9 }, "81a5726561647981a96c6f675f696e64657809");
    pinned(ReadIndexAnswer::NotLeader { leader: None }, "81aa6e6f745f6c656164657281a66c6561646572c0");
    pinned(ReadIndexAnswer::Unconfirmed { text: "t".into() }, "81ab756e636f6e6669726d656481a474657874a174");
    pinned(ReadIndexAnswer::Overloaded, "aa6f7665726c6f61646564");
    pinned(vec!["i1".to_owned(), "i2".to_owned()], "92a26931a26932");
    let client = Subscription {
        address: "a".into(),
        agent: "g".into(),
        labels: vec![("k".into(), "v".into())],
        version: 3,
        since: Timestamp(7),
        confirmed_ms_ago: 5,
        is_current: true,
        is_xds: false,
        is_polaris: false,
        node_id: String::new(),
        applied: None,
        message: String::new(),
        applied_at: None,
        is_reported: false,
        is_assumed: false,
        connection: String::new(),
    };
    let refused = Subscription {
        is_xds: true,
        is_polaris: false,
        node_id: "i".into(),
        applied: Some(Applied::Refused),
        message: "m".into(),
        ..client.clone()
    };
    pinned(
        Subscribed { amount: 2, current: 1, clients: vec![client], ..Subscribed::default() },
        "83a6616d6f756e7402a763757272656e7401a7636c69656e74739187a761646472657373a161a56167656e74a167a66c6162656c73919\
         2a16ba176a776657273696f6e03a573696e636507ac68656172645f6d735f61676f05aa69735f63757272656e74c3",
    );
    pinned(
        Subscribed { amount: 1, current: 1, clients: vec![refused.clone()], ..Subscribed::default() },
        "83a6616d6f756e7401a763757272656e7401a7636c69656e7473918ba761646472657373a161a56167656e74a167a66c6162656c73919\
         2a16ba176a776657273696f6e03a573696e636507ac68656172645f6d735f61676f05aa69735f63757272656e74c3a669735f786473c3\
         a76e6f64655f6964a169a76170706c696564a772656675736564a76d657373616765a16d",
    );
    pinned(
        Subscribed { amount: 1, marks: vec![ClientMark(u64::MAX, 300, false)], ..Subscribed::default() },
        "84a6616d6f756e7401a763757272656e7400a7636c69656e747390a56d61726b739193cfffffffffffffffffcd012cc2",
    );
    pinned(
        Subscribed {
            amount: 1,
            current: 1,
            clients: vec![Subscription { applied_at: Some(Timestamp(9)), ..refused }],
            marks: vec![ClientMark(1, 300, false), ClientMark(2, 300, false)],
            words: vec![Some(Applied::Yes), None],
        },
        "85a6616d6f756e7401a763757272656e7401a7636c69656e7473918ca761646472657373a161a56167656e74a167a66c6162\
         656c739192a16ba176a776657273696f6e03a573696e636507ac68656172645f6d735f61676f05aa69735f63757272656e74c3a66973\
         5f786473c3a76e6f64655f6964a169a76170706c696564a772656675736564a76d657373616765a16daa6170706c6965645f617409a5\
         6d61726b73929301cd012cc29302cd012cc2a5776f72647392a3796573c0",
    );
    pinned(
        Thing::File(ConfigKey::new("n", "g", "f")),
        "81a446696c6583a96e616d657370616365a16ea567726f7570a167a466696c65a166",
    );
    pinned(Thing::Rule(Family::Routing, "i".into()), "81a452756c6592a7526f7574696e67a169");
    pinned(ClientQuery::Clients, "a7636c69656e7473");
    pinned(
        ClientQuery::Resources { node_id: "n".into(), after: Some(("cds".into(), "x".into())) },
        "81a97265736f757263657382a76e6f64655f6964a16ea5616674657292a3636473a178",
    );
    let without = Some(Without { host: "h".into(), port: 80, since: 7 });
    pinned(
        ClientQuery::Lists { namespace: "n".into(), service: "s".into(), without },
        "81a56c6973747383a96e616d657370616365a16ea773657276696365a173a7776974686f757483a4686f7374a168a4706f72\
         7450a573696e636507",
    );
    pinned(
        ClientQueryResult { lists: Some(Subscribed::default()), ..ClientQueryResult::default() },
        "83a6616d6f756e7400a86c6566745f6f757400a56c6973747383a6616d6f756e7400a763757272656e7400a7636c69656e74\
         7390",
    );
    let search = ClientSearch { text: "x".into(), state: Some(HoldState::Behind), ..ClientSearch::default() };
    pinned(
        ClientQuery::Present { search },
        "81a770726573656e7481a673656172636882a474657874a178a57374617465a6626568696e64",
    );
    let resource = FleetResource {
        kind: "cds".into(),
        name: "x".into(),
        version: "1".into(),
        has_version: None,
        applied: Some(Applied::Yes),
        message: String::new(),
        releases: Vec::new(),
        bytes: vec![7, 200],
    };
    pinned(
        ClientQueryResult {
            amount: 1,
            clients: Vec::new(),
            resources: vec![resource],
            left_out: 2,
            lists: None,
            callers: Vec::new(),
            present: None,
            holders: None,
        },
        "83a6616d6f756e7401a97265736f75726365739186a46b696e64a3636473a46e616d65a178a776657273696f6ea131a76170706c696564\
         a3796573a872656c656173657390a56279746573c40207c8a86c6566745f6f757402",
    );
    pinned(BeatsAnswer::Taken, "a574616b656e");
    pinned(BeatsAnswer::NotLeader, "aa6e6f745f6c6561646572");
    pinned(BeatsAnswer::Overloaded, "aa6f7665726c6f61646564");
}

/// Two entries of three quarters of a frame do not fit into one; the second part follows as a separate request.
#[test]
fn a_large_append_is_cut() {
    let payload: &'static [u8] = vec![0; APPEND_FRAME_BYTES_TARGET / 4 * 3].leak();
    let request = append(vec![entry(8, payload), entry(9, payload), entry(10, b"small")]);
    let frames = frames_of(&request);
    let parts: Vec<_> = frames.into_iter().map(|(frame, last)| (read_append(frame).expect("readable"), last)).collect();
    let shape: Vec<_> = parts.iter().map(|(part, last)| (part.prev_log_id, part.entries.len(), *last)).collect();
    assert_eq!(shape, [(Some(log_id(7)), 1, Some(log_id(8))), (Some(log_id(8)), 2, Some(log_id(10)))]);
}

#[test]
fn an_append_without_entries_is_one_frame() {
    let [(frame, last)] = frames_of(&append(vec![])).try_into().expect("one frame");
    assert_eq!(last, Some(log_id(7)));
    assert!(read_append(frame).expect("readable").entries.is_empty());
}

#[test]
fn damaged_frames_are_errors() {
    let [(frame, _)] = frames_of(&append(vec![entry(8, b"abc")])).try_into().expect("one frame");
    for end in 0..frame.len() {
        // A cut between two parts gives a valid, shorter append.
        let cut = read_append(frame.slice(..end));
        assert!(cut.is_err() || cut.is_ok_and(|request| request.entries.is_empty()), "cut at {end}");
    }
    assert!(read_call(Bytes::from_static(b"\x01short")).is_err());
}
