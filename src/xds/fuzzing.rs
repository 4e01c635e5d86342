//! Fuzzing of what a client of xDS may send on a stream; used by [`crate::fuzzing`].

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use super::client::{Identity, Peer};
use super::delta::Delta;
use super::protocol::ProtocolVariant;
use super::sotw::Sotw;
use super::testing::FakeView;
use super::type_state::Now;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::mesh::resource::ResourceType;
use crate::model::time::Timestamp;
use crate::origin::Origin;

const NAMES: [&str; 3] = ["s/a", "s/b", "hidden/c"];
/// Maximum number of responses to a request: four served types, and the unknown ones.
const RESPONSES_MAX: usize = 4 + limits::XDS_UNKNOWN_TYPES_MAX;

/// Serves a stream. The input has a letter for the variant and length-delimited requests; a resource changes before
/// each. Returns true if all requests were decoded and served, and one was answered.
pub(crate) fn serve_stream(input: &[u8]) -> bool {
    match input.split_first() {
        Some((b's', requests)) => serve::<Sotw>(requests),
        Some((b'd', requests)) => serve::<Delta>(requests),
        _ => false,
    }
}

fn serve<M: ProtocolVariant<Request: Message + Default>>(input: &[u8]) -> bool {
    let (mut requests, mut view) = (Bytes::copy_from_slice(input), FakeView::default());
    let mut protocol: Option<M> = None;
    let (mut number, mut answers) = (0_usize, 0);
    while !requests.is_empty() {
        let Ok(request) = M::Request::decode_length_delimited(&mut requests) else { return false };
        let protocol = protocol.get_or_insert_with(|| begin(&request));
        change(&mut view, number);
        number += 1;
        let now = Now { instant: Instant::now(), time: Timestamp(1_000) };
        protocol.named_index(&request);
        if protocol.take(request, &view, now).is_err() {
            return false;
        }
        let made = std::iter::from_fn(|| protocol.next(&view, now)).take(RESPONSES_MAX + 1).count();
        assert!(made <= RESPONSES_MAX, "one of a type under way");
        answers += made;
        for type_state in protocol.state_mut().type_states_mut() {
            type_state.take_update();
        }
    }
    answers > 0
}

fn begin<M: ProtocolVariant>(first: &M::Request) -> M {
    let peer = Peer { address: None, origin: Origin::UNKNOWN, read_scope: ReadScope::Everything };
    let Identity { client, .. } = Identity::read(M::node(first), &peer);
    assert!(client.labels.len() <= limits::XDS_LABELS_MAX && client.agent.len() <= limits::AGENT_BYTES_MAX);
    let bytes: usize = client.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(bytes <= limits::XDS_LABELS_BYTES_MAX);
    M::new(client.dialect, "thuban fuzz".into())
}

/// Changes a resource, determined by the number of the request alone.
fn change(view: &mut FakeView, number: usize) {
    let (name, kind) = (NAMES[number % 3], ResourceType::ALL[number / 2 % 4]);
    match number % 7 {
        6 => view.remove(kind, name),
        _ => view.put_naming(kind, name, &number.to_string(), &NAMES[..number % 3]),
    }
}
