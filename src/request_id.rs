//! The id of a request: the caller's own, or one that is made, in the log, in the audit trail and in the answer.

use axum::extract::Request;
use axum::http::{Extensions, HeaderName, HeaderValue};

pub(crate) const HEADER: HeaderName = HeaderName::from_static("request-id");
/// A longer id of the caller is replaced by one of ours.
const BYTES_MAX: usize = 128;

/// Put on every request as it comes in.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) HeaderValue);

impl RequestId {
    /// The caller's id if it is a short text, else a new one.
    pub(crate) fn given_or_new(request: &Request) -> RequestId {
        let given = request.headers().get(HEADER);
        let usable = given.filter(|id| (1..=BYTES_MAX).contains(&id.len()) && id.to_str().is_ok());
        // A copy: what came lies in the buffer of the whole request, which a held one must not keep.
        let kept = usable.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok());
        RequestId(kept.unwrap_or_else(|| {
            let mut digits = [0; 32];
            hex::encode_to_slice(rand::random::<[u8; 16]>(), &mut digits).expect("two digits a byte");
            HeaderValue::from_bytes(&digits).expect("hex digits are a header value")
        }))
    }

    pub(crate) fn text(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

/// As text, made for who needs it: most requests do not.
pub(crate) fn of(extensions: &Extensions) -> String {
    extensions.get::<RequestId>().map(RequestId::text).unwrap_or_default().to_owned()
}
