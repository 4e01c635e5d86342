//! Encoding of a span id in the id of a draft, to connect the leader's span with its parent.
//!
//! Every draft has an id of 16 bytes, chosen randomly by the node that receives the request; the catalog only compares
//! it with those of other drafts. For a recorded request the id has this form:
//!
//! ```text
//! span:8 chance:4 seal:4      span    the id of the span that proposes it, itself random
//!                             seal    the first bytes of the SHA-256 of the name of this form and the bytes before
//! ```
//!
//! The seal is not a protection. It distinguishes these ids from the entirely random ones of requests that are not
//! recorded, also on nodes without traces and of other versions. One in four billion of those is mistaken for the id of
//! a span, which then does not exist.

use opentelemetry::trace::{SpanId, TraceContextExt};
use sha2::{Digest, Sha256};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

const FORM: &[u8] = b"thuban draft of a span";
const SPAN_BYTES: usize = 8;
/// Offset of the seal.
const SEALED_BYTES: usize = 12;

/// Returns an id for a draft that `span` proposes.
pub(crate) fn draft_id(span: &Span) -> u128 {
    let mut id: [u8; 16] = rand::random();
    if let Some(span) = recorded(span) {
        id[..SPAN_BYTES].copy_from_slice(&span.to_bytes());
        let seal = seal(&id);
        id[SEALED_BYTES..].copy_from_slice(&seal);
    }
    u128::from_be_bytes(id)
}

/// Returns the span that proposed the draft with this id, if it is recorded.
pub(super) fn span_of(draft_id: u128) -> Option<SpanId> {
    let id = draft_id.to_be_bytes();
    let span = SpanId::from_bytes(*id.first_chunk().expect("it has 16 bytes"));
    (id[SEALED_BYTES..] == seal(&id) && span != SpanId::INVALID).then_some(span)
}

fn seal(id: &[u8; 16]) -> [u8; 4] {
    let hash = Sha256::new().chain_update(FORM).chain_update(&id[..SEALED_BYTES]).finalize();
    *hash.first_chunk().expect("it has 32 bytes")
}

fn recorded(span: &Span) -> Option<SpanId> {
    if span.is_disabled() {
        return None;
    }
    let context = span.context();
    let context = context.span().span_context().clone();
    (context.is_valid() && context.is_sampled()).then(|| context.span_id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_chance_alone_names_no_span() {
        for _ in 0..1000 {
            assert_eq!(span_of(draft_id(&Span::none())), None);
        }
        for id in [0, 1, u128::MAX, 1 << 64] {
            assert_eq!(span_of(id), None, "{id:x}");
        }
    }

    #[test]
    fn a_span_comes_out_of_the_id_that_it_went_into() {
        let mut id = [7; 16];
        let seal = seal(&id);
        id[SEALED_BYTES..].copy_from_slice(&seal);
        let id = u128::from_be_bytes(id);
        assert_eq!(span_of(id), Some(SpanId::from_bytes([7; 8])));
        for bit in 0..128 {
            assert_eq!(span_of(id ^ (1 << bit)), None, "bit {bit} is another");
        }
    }
}
