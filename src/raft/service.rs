//! Service of a node for its peers: their calls end here.

use std::sync::Arc;

use bytes::Bytes;
use tracing::{Instrument, Span};

use super::extension::{Extension, ExtensionCall};
use super::forwarded::ForwardedRequest;
use super::leading::{ProposeOutcome, carry_out, read_index};
use super::node::Node;
use crate::format::types::NodeId;
use crate::model::code::{Code, Refusal};
use crate::peer::{ForwardAnswer, PeerProgress, PeerService, ReadIndexAnswer};
use crate::traces;

fn refusal_answer(refusal: Refusal) -> ForwardAnswer {
    ForwardAnswer::Refused { code: Some(refusal.code.number()), text: refusal.detail }
}

/// Handler of the calls that peers make to this node.
pub(super) struct NodeService {
    pub(super) node: Node,
    pub(super) extension: Arc<dyn Extension>,
}

impl PeerService for NodeService {
    async fn forward(&self, request: Bytes) -> ForwardAnswer {
        let request = match ForwardedRequest::from_bytes(request) {
            Ok(request) => request,
            Err(error) => return refusal_answer(Refusal::new(Code::BadRequest, error.to_string())),
        };
        let span = match &request {
            ForwardedRequest::Propose(draft) => traces::appending(draft.id(), || draft.asked_by()),
            ForwardedRequest::Membership(_) => Span::none(),
        };
        match carry_out(&self.node, request).instrument(span.clone()).await {
            ProposeOutcome::Done { log_index } => {
                traces::appended(&span, log_index);
                ForwardAnswer::Done { log_index }
            }
            ProposeOutcome::NotLeader => ForwardAnswer::NotLeader { leader: self.node.leader() },
            ProposeOutcome::Unknown(text) => {
                traces::failed(&span);
                ForwardAnswer::Unknown { text }
            }
            ProposeOutcome::Busy => ForwardAnswer::Overloaded,
            ProposeOutcome::Refused(refusal) => refusal_answer(refusal),
        }
    }

    async fn read_index(&self) -> ReadIndexAnswer {
        read_index(&self.node).await.map_or_else(|answer| answer, |log_index| ReadIndexAnswer::Ready { log_index })
    }

    #[cfg(feature = "next-level")]
    fn has_next_level(&self) -> bool {
        self.node.state().catalog().next_level.is_some()
    }

    fn progress(&self, asker: NodeId) -> PeerProgress {
        let last_log = self.node.raft_metrics().last_log_index.unwrap_or_default();
        let clock = &self.node.state().clock;
        let known = clock.known();
        PeerProgress {
            last_log,
            applied: self.node.state().applied().index,
            time_ms: known.map(|told| told.time.0),
            time_shift_ms: known.map(|told| told.shift_ms).filter(|ms| *ms != 0),
            wall_ms: Some(clock.wall_time().0),
            disk: self.node.inner().upkeep.capacity.own(),
            memory: self.node.inner().upkeep.capacity.own_memory(),
            checkpoints: self.node.inner().machine.checkpoints(),
            asker_problem: self.node.problem_of(asker),
            is_acknowledged: self.node.is_acknowledged_leader(),
            committed: self.node.committed_as_leader(),
            fresh_ms: self.node.age().map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            alarms: self.node.alarms_to_report(),
        }
    }

    fn hear_leader(&self) {
        self.node.inner().freshness.hear();
    }

    fn hear_bytes_of(&self, node_id: NodeId) {
        if self.node.leader() == Some(node_id) {
            self.node.inner().freshness.hear();
        }
    }

    async fn extension(&self, call: ExtensionCall, body: Bytes) -> Result<Bytes, String> {
        self.extension.answer(&self.node, call, body).await
    }
}
