//! Trace of a request, derived from the request id or from the trace context of the caller.

use axum::http::{HeaderMap, HeaderName};
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use sha2::{Digest, Sha256};

use super::state;

const HEADER: HeaderName = HeaderName::from_static("traceparent");
/// Length of `00-<32 digits>-<16 digits>-<2 digits>`. Future versions may append more.
const BYTES: usize = 55;
/// Version number that is invalid.
const VERSION_FORBIDDEN: u8 = 0xff;

/// W3C header `traceparent`: the trace and the span of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(crate) trace_id: TraceId,
    span_id: SpanId,
    /// Set if the caller records its span.
    pub(crate) is_sampled: bool,
}

impl TraceParent {
    /// Returns the parent sent by the caller, or `None` if it is malformed or sent twice.
    pub(crate) fn of(headers: &HeaderMap) -> Option<TraceParent> {
        let mut given = headers.get_all(HEADER).iter();
        match (given.next(), given.next()) {
            (Some(one), None) => TraceParent::read(one.as_bytes()),
            _ => None,
        }
    }

    fn read(text: &[u8]) -> Option<TraceParent> {
        let (known, rest) = text.split_at_checked(BYTES)?;
        let mut parts = known.split(|byte| *byte == b'-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = digits::<1>(version)?;
        let is_whole = match version {
            0 => rest.is_empty(),
            VERSION_FORBIDDEN => false,
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        let (trace_id, span_id) = (TraceId::from_bytes(digits(trace)?), SpanId::from_bytes(digits(span)?));
        let [flags] = digits::<1>(flags)?;
        let is_valid = is_whole && parts.next().is_none() && trace_id != TraceId::INVALID && span_id != SpanId::INVALID;
        is_valid.then_some(TraceParent { trace_id, span_id, is_sampled: TraceFlags::new(flags).is_sampled() })
    }

    /// Returns the context together with the `tracestate` of the same request.
    pub(super) fn context(&self, headers: &HeaderMap) -> SpanContext {
        remote(self.trace_id, self.span_id, self.is_sampled, state::of(headers))
    }
}

/// Returns the context of a span outside of this node.
pub(super) fn remote(trace_id: TraceId, span_id: SpanId, is_sampled: bool, state: TraceState) -> SpanContext {
    let flags = TraceFlags::default().with_sampled(is_sampled);
    SpanContext::new(trace_id, span_id, flags, true, state)
}

/// Returns the trace of the request with this id: 32 lower-case hex digits are used as they are, any other text as the
/// first 16 bytes of its SHA-256. Zeros denote no trace, so they are hashed as well.
pub(super) fn trace_id(request_id: &str) -> TraceId {
    match digits(request_id.as_bytes()).map(TraceId::from_bytes) {
        Some(given) if given != TraceId::INVALID => given,
        _ => {
            let hash = Sha256::digest(request_id.as_bytes());
            TraceId::from_bytes(*hash.first_chunk().expect("it has 32 bytes"))
        }
    }
}

/// Decodes exactly N bytes of lower-case hex digits.
fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let is_lower = text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut bytes = [0; N];
    (is_lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_caller_is_believed_that_says_it_as_the_standard_has_it() {
        let whole = |version: &str, flags: &str, rest: &str| format!("{version}-{TRACE}-{SPAN}-{flags}{rest}");
        for (text, is_sampled) in [
            (whole("00", "01", ""), true),
            (whole("00", "00", ""), false),
            (whole("00", "03", ""), true),
            (whole("00", "fe", ""), false),
            (whole("01", "01", ""), true),
            (whole("cc", "01", "-what-the-future-will-be-like"), true),
        ] {
            let read = TraceParent::read(text.as_bytes()).unwrap_or_else(|| panic!("{text} is right"));
            let context = read.context(&HeaderMap::new());
            assert_eq!((context.trace_id().to_string(), context.span_id().to_string()), (TRACE.into(), SPAN.into()));
            assert_eq!((context.is_sampled(), context.is_remote()), (is_sampled, true), "{text}");
        }
    }

    #[test]
    fn anything_else_is_as_if_it_were_not_there() {
        let (zeroes, upper) = ("0".repeat(32), TRACE.to_uppercase());
        for text in [
            String::new(),
            "00".to_owned(),
            "-".repeat(55),
            "0".repeat(55),
            format!("00-{TRACE}-{SPAN}-0"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-0g"),
            format!("00-{TRACE}-{SPAN}-0A"),
            format!("00-{upper}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
            format!("00-{zeroes}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00_{TRACE}_{SPAN}_01"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("cc-{TRACE}-{SPAN}-01.more"),
            format!("0x-{TRACE}-{SPAN}-01"),
            format!("00-{SPAN}-{TRACE}-01"),
            format!("00-{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{TRACE}-{SPAN}-{TRACE}"),
            format!("00--{TRACE}{SPAN}-01"),
            format!("00-{}-{SPAN}-01", "ä".repeat(16)),
            "0-".repeat(5000),
        ] {
            assert_eq!(TraceParent::read(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(TraceParent::read(&[0xff; 55]), None);
        assert_eq!(TraceParent::read(&[0; 60]), None);
    }

    #[test]
    fn who_says_it_twice_has_not_said_it() {
        let mut headers = HeaderMap::new();
        assert_eq!(TraceParent::of(&headers), None);
        let text = HeaderValue::from_str(&format!("00-{TRACE}-{SPAN}-01")).expect("a value");
        headers.append(HEADER, text.clone());
        assert!(TraceParent::of(&headers).is_some_and(|parent| parent.is_sampled));
        headers.append(HEADER, text);
        assert_eq!(TraceParent::of(&headers), None);
    }

    #[test]
    fn the_id_of_a_request_names_its_trace() {
        let hash = |text: &str| hex::encode(&Sha256::digest(text.as_bytes())[..16]);
        assert_eq!(trace_id(TRACE).to_string(), TRACE);
        assert_eq!(trace_id("0000000000000000000000000000000f").to_string(), "0000000000000000000000000000000f");
        let long = "x".repeat(128);
        for other in
            ["", "order-17", &TRACE[1..], &TRACE.to_uppercase(), &"0".repeat(32), &format!("{TRACE}0"), "\u{7f}", &long]
        {
            assert_eq!(trace_id(other).to_string(), hash(other), "{other:?}");
        }
        // Computed independently: printf order-17 | sha256sum | cut -c1-32
        assert_eq!(trace_id("order-17").to_string(), "72a90ea3da8b5dd01bde2f27314e02e2");
    }
}
