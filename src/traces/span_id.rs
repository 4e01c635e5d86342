//! Span id codec: the id of a draft carries the span that it was proposed in.
//!
//! Every draft has an id of 16 bytes, drawn by chance on the node that takes the request; to the catalog it says only
//! whether two drafts are the same one. That of a request that is recorded is drawn like this:
//!
//! ```text
//! span:8 chance:4 seal:4      span    the id of the span that proposes it, itself drawn by chance
//!                             seal    the first bytes of the SHA-256 of the name of this form and what stands before
//! ```
//!
//! The seal is no protection. It tells such an id from one that is chance alone, as nodes draw it that trace nothing,
//! this request or at all, nodes of other versions among them: one in four thousand million of those is taken for the
//! id of a span that there is not.

use opentelemetry::trace::{SpanId, TraceContextExt};
use sha2::{Digest, Sha256};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

const FORM: &[u8] = b"thuban draft of a span";
const SPAN_BYTES: usize = 8;
/// Position at which the seal begins.
const SEALED_BYTES: usize = 12;

/// The id for a draft that `span` proposes.
pub(crate) fn draft_id(span: &Span) -> u128 {
    let mut id: [u8; 16] = rand::random();
    if let Some(span) = recorded(span) {
        id[..SPAN_BYTES].copy_from_slice(&span.to_bytes());
        let seal = seal(&id);
        id[SEALED_BYTES..].copy_from_slice(&seal);
    }
    u128::from_be_bytes(id)
}

/// The span that proposes the draft with this id, if that is recorded.
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
