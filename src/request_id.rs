//! Id of a request: from the caller, from the caller's trace, or new. It appears in the log, the audit trail and the
//! response, and is the id of the request's trace ([`crate::traces`]).

use axum::extract::Request;
use axum::http::{Extensions, HeaderName, HeaderValue};

use crate::traces::TraceParent;

pub(crate) const HEADER: HeaderName = HeaderName::from_static("request-id");
/// Maximum bytes of an id; a longer one is replaced.
const BYTES_MAX: usize = 128;

/// Id of a request, added as an extension on arrival.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) HeaderValue);

impl RequestId {
    /// Returns the caller's id if it is a short text, else the id of the caller's trace, else a new one.
    pub(crate) fn given_or_new(request: &Request) -> RequestId {
        let given = request.headers().get(HEADER);
        let usable = given.filter(|id| (1..=BYTES_MAX).contains(&id.len()) && id.to_str().is_ok());
        // The header is copied, because it is a slice of the whole request's buffer, which a held request must not
        // retain.
        let kept = usable.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok());
        RequestId(kept.unwrap_or_else(|| {
            let trace = TraceParent::of(request.headers()).map(|caller| caller.trace_id.to_bytes());
            let mut digits = [0; 32];
            hex::encode_to_slice(trace.unwrap_or_else(rand::random), &mut digits).expect("two digits a byte");
            HeaderValue::from_bytes(&digits).expect("hex digits are a header value")
        }))
    }

    pub(crate) fn text(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

/// Returns the id as text. Created on demand, because most requests need none.
pub(crate) fn of(extensions: &Extensions) -> String {
    extensions.get::<RequestId>().map(RequestId::text).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn the_callers_id_comes_first_and_then_that_of_its_trace() {
        let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-00");
        let id = |headers: &[(&str, &str)]| {
            let request =
                headers.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
            RequestId::given_or_new(&request.body(Body::empty()).expect("a request")).text().to_owned()
        };
        assert_eq!(id(&[("request-id", "order-17"), ("traceparent", &traceparent)]), "order-17");
        assert_eq!(id(&[("traceparent", &traceparent)]), TRACE);
        assert_eq!(id(&[("request-id", &"x".repeat(129)), ("traceparent", &traceparent)]), TRACE);
        for made in [id(&[]), id(&[("traceparent", &traceparent[1..])]), id(&[("request-id", "")])] {
            assert!(made.len() == 32 && made != TRACE && made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{made}");
        }
        assert_ne!(id(&[]), id(&[]));
    }
}
