//! Signature by which an Apollo client proves that it holds an access key of its app.
//!
//! A request carries `Authorization: Apollo <app id>:<signature>` and `Timestamp: <milliseconds since 1970>`. The
//! signature is the HMAC-SHA1, in base64, of the timestamp, a line feed, and the request target as received: neither
//! decoded nor reordered, with its query unless that is empty.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha1::Sha1;

use super::limits;
use super::time::Timestamp;

/// Scheme in the `Authorization` header.
pub const SCHEME: &str = "Apollo";

/// Part of a request that is signed together with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Path as received.
    pub path: &'a str,
    /// Query without the question mark; empty if there is none.
    pub query: &'a str,
}

/// Parsed headers of a signed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature<'a> {
    pub app_id: &'a str,
    /// Timestamp as sent, since its text is signed.
    timestamp: &'a str,
    time: Timestamp,
    code: Vec<u8>,
}

impl<'a> Signature<'a> {
    /// Parses the headers; `None` if no Apollo client sends them so. App ids may contain colons, base64 does not.
    pub fn read(authorization: &'a str, timestamp: &'a str) -> Option<Self> {
        let (scheme, rest) = authorization.trim().split_once(' ')?;
        let (app_id, code) = rest.trim().rsplit_once(':')?;
        let timestamp = timestamp.trim();
        let is_signature = scheme.eq_ignore_ascii_case(SCHEME) && timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let time = timestamp.parse().ok().filter(|_| is_signature)?;
        Some(Signature { app_id, timestamp, time: Timestamp(time), code: STANDARD.decode(code).ok()? })
    }

    /// Reports whether the clocks of client and cluster differ by less than a minute.
    pub fn is_of_this_time(&self, now: Timestamp) -> bool {
        self.time.0.abs_diff(now.0) < limits::ACCESS_KEY_SKEW_MS
    }
}

/// A secret ready for verification: the state of HMAC before any text. The secret cannot be recovered from it.
#[derive(Clone)]
pub struct SigningKey {
    state: Hmac<Sha1>,
    mark: KeyMark,
}

/// Identifier of a secret, for re-authorizing a request that it has signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyMark([u8; 20]);

impl SigningKey {
    pub fn new(secret: &[u8]) -> Self {
        let state: Hmac<Sha1> = Hmac::new_from_slice(secret).expect("a key of any length will do");
        let mark = KeyMark(state.clone().finalize().into_bytes().into());
        SigningKey { state, mark }
    }

    /// Verifies a signature in constant time.
    pub fn has_signed(&self, target: Target<'_>, signature: &Signature<'_>) -> bool {
        self.over(target, signature.timestamp).verify_slice(&signature.code).is_ok()
    }

    fn over(&self, target: Target<'_>, timestamp: &str) -> Hmac<Sha1> {
        let text = self.state.clone().chain_update(timestamp).chain_update("\n").chain_update(target.path);
        if target.query.is_empty() { text } else { text.chain_update("?").chain_update(target.query) }
    }

    /// Returns the value of the header, as a client of this app sends it.
    pub fn sign(&self, app_id: &str, target: Target<'_>, timestamp: &str) -> String {
        let code = self.over(target, timestamp).finalize().into_bytes();
        format!("{SCHEME} {app_id}:{}", STANDARD.encode(code))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// Active keys of an app for checking its requests.
#[derive(Clone, Debug, Default)]
pub struct AppKeys {
    /// Keys, any of which may have signed: an app has two during a rotation.
    pub keys: Vec<SigningKey>,
    /// True if at least one key is enforced.
    pub is_enforced: bool,
    /// True if this node cannot read some of the keys.
    pub has_unreadable: bool,
}

/// Reason why a request does not count as signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("the request has to be signed with an access key of its app")]
    Unsigned,
    #[error("the request is signed for another app than it asks for")]
    OtherApp,
    #[error(
        "the request is signed at {}, and it is {} in the cluster, a minute or more off: check the clock of the \
         client, and the time of the cluster (`thuban cluster time`)",
        client.rfc3339(),
        cluster.rfc3339()
    )]
    OtherTime { client: Timestamp, cluster: Timestamp },
    #[error("no access key of the app has signed this request")]
    NoSuchKey,
    #[error("this node cannot read the access keys of the app")]
    Unreadable,
}

impl AppKeys {
    /// Checks a request for `app_id`, and returns the key that has signed it.
    pub fn judge(
        &self,
        app_id: &str,
        signature: Option<&Signature<'_>>,
        target: Target<'_>,
        now: Timestamp,
    ) -> Result<KeyMark, Flaw> {
        let signature = signature.ok_or(Flaw::Unsigned)?;
        if signature.app_id != app_id {
            return Err(Flaw::OtherApp);
        }
        if !signature.is_of_this_time(now) {
            return Err(Flaw::OtherTime { client: signature.time, cluster: now });
        }
        let signed = self.keys.iter().find(|key| key.has_signed(target, signature));
        signed.map(|key| key.mark).ok_or_else(|| self.no_such_key())
    }

    /// Checks that a key that has signed is still active.
    pub fn judge_again(&self, mark: KeyMark) -> Result<(), Flaw> {
        if self.keys.iter().any(|key| key.mark == mark) { Ok(()) } else { Err(self.no_such_key()) }
    }

    pub fn no_such_key(&self) -> Flaw {
        if self.has_unreadable { Flaw::Unreadable } else { Flaw::NoSuchKey }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "df23df3f59884980844ff3dada30fa97";
    const TIME: &str = "1576478257344";
    const TARGET: Target<'_> = Target { path: "/configs/100004458/default/application", query: "ip=10.0.0.1" };
    const HEADER: &str = "Apollo 100004458:EoKyziXvKqzHgwx+ijDJwgVTDgE=";

    /// Test vector of Apollo's own client.
    #[test]
    fn apollos_own_vector() {
        let key = SigningKey::new(SECRET.as_bytes());
        assert_eq!(key.sign("100004458", TARGET, TIME), HEADER);
        let signature = Signature::read(HEADER, TIME).expect("a signature");
        assert_eq!((signature.app_id, signature.time), ("100004458", Timestamp(1_576_478_257_344)));
        assert!(key.has_signed(TARGET, &signature));
    }

    #[test]
    fn every_byte_of_what_is_signed_counts() {
        let key = SigningKey::new(SECRET.as_bytes());
        let is_signed = |key: &SigningKey, target, header: &str, time: &str| {
            key.has_signed(target, &Signature::read(header, time).expect("a signature"))
        };
        let targets = [
            Target { path: "/configs/100004458/default/application", query: "" },
            Target { path: "/configs/100004458/default/application", query: "ip=10.0.0.2" },
            Target { path: "/configs/100004458/default/application", query: "ip=10.0.0.1&" },
            Target { path: "/configs/100004458/default/%61pplication", query: "ip=10.0.0.1" },
            Target { path: "/configs/100004458/default/application/", query: "ip=10.0.0.1" },
        ];
        for target in targets {
            assert!(!is_signed(&key, target, HEADER, TIME), "{target:?}");
        }
        assert!(!is_signed(&key, TARGET, HEADER, "1576478257345"));
        assert!(!is_signed(&key, TARGET, HEADER, "01576478257344"), "the text is signed, not the number");
        assert!(!is_signed(&SigningKey::new(b"df23df3f59884980844ff3dada30fa98"), TARGET, HEADER, TIME));
        for code in ["", "EoKyziXvKqzHgwx+ijDJwgVTDg==", "AAAAAAAAAAAAAAAAAAAAAAAAAAA="] {
            assert!(!is_signed(&key, TARGET, &format!("Apollo 100004458:{code}"), TIME), "{code}");
        }
        let without = Target { query: "", ..TARGET };
        let header = key.sign("100004458", without, TIME);
        assert!(is_signed(&key, without, &header, TIME), "no question mark where there is no query");
    }

    #[test]
    fn headers_that_are_no_signature() {
        for (authorization, timestamp) in [
            ("Apollo", TIME),
            ("Apollo ", TIME),
            ("Apollo 100004458", TIME),
            ("Apollo 100004458:?", TIME),
            ("Apollo 100004458:EoKyziXvKqzHgwx+ijDJwgVTDgE", TIME),
            ("Apollo 100004458:128b2ce225ef2aacc7830c7e8a30c9c205530e01!", TIME),
            ("Bearer 100004458:EoKyziXvKqzHgwx+ijDJwgVTDgE=", TIME),
            (HEADER, ""),
            (HEADER, "-1"),
            (HEADER, "+1576478257344"),
            (HEADER, "1576478257.344"),
            (HEADER, "99999999999999999999"),
        ] {
            assert_eq!(Signature::read(authorization, timestamp), None, "{authorization:?} {timestamp:?}");
        }
        let read = |authorization| Signature::read(authorization, TIME).map(|signature| signature.app_id);
        assert_eq!(read("apollo a:b:EoKyziXvKqzHgwx+ijDJwgVTDgE="), Some("a:b"));
        assert_eq!(read(" Apollo  app: "), Some("app"), "as clients with an empty secret may write it");
    }

    #[test]
    fn any_key_of_the_app_may_have_signed_for_it_and_in_time() {
        let (one, two, none) = (SigningKey::new(b"one"), SigningKey::new(b"two"), SigningKey::new(b"three"));
        let keys = AppKeys { keys: vec![one.clone(), two.clone()], ..AppKeys::default() };
        let broken = AppKeys { has_unreadable: true, ..keys.clone() };
        let time = |off: i64| Timestamp(1_576_478_257_344_u64.saturating_add_signed(off));
        let other = |off| Flaw::OtherTime { client: time(0), cluster: time(off) };
        let rows = [
            (&keys, Some((&one, "app")), time(0), Ok(one.mark)),
            (&keys, Some((&two, "app")), time(-59_999), Ok(two.mark)),
            (&keys, None, time(0), Err(Flaw::Unsigned)),
            (&keys, Some((&none, "app")), time(0), Err(Flaw::NoSuchKey)),
            (&keys, Some((&one, "other")), time(0), Err(Flaw::OtherApp)),
            (&keys, Some((&one, "App")), time(0), Err(Flaw::OtherApp)),
            (&keys, Some((&one, "app")), time(60_000), Err(other(60_000))),
            (&keys, Some((&one, "app")), time(-60_000), Err(other(-60_000))),
            (&broken, Some((&two, "app")), time(0), Ok(two.mark)),
            (&broken, Some((&none, "app")), time(0), Err(Flaw::Unreadable)),
            (&broken, None, time(0), Err(Flaw::Unsigned)),
        ];
        for (row, (keys, signed, now, expected)) in rows.into_iter().enumerate() {
            let header = signed.map(|(key, app_id)| key.sign(app_id, TARGET, TIME));
            let signature = header.as_deref().map(|header| Signature::read(header, TIME).expect("a signature"));
            assert_eq!(keys.judge("app", signature.as_ref(), TARGET, now), expected, "row {row}");
        }
        let again = |keys: &AppKeys, key: &SigningKey| keys.judge_again(key.mark);
        assert_eq!((again(&keys, &two), again(&keys, &SigningKey::new(b"two"))), (Ok(()), Ok(())));
        assert_eq!((again(&keys, &none), again(&broken, &none)), (Err(Flaw::NoSuchKey), Err(Flaw::Unreadable)));
    }

    #[test]
    fn clocks_may_differ_by_less_than_a_minute() {
        let signature = Signature::read(HEADER, TIME).expect("a signature");
        for (off, expected) in [(0, true), (59_999, true), (60_000, false), (61_000, false), (u64::MAX / 4, false)] {
            let ahead = Timestamp(signature.time.0.saturating_add(off));
            let behind = Timestamp(signature.time.0.saturating_sub(off));
            assert_eq!(signature.is_of_this_time(ahead), expected, "{off} later");
            assert_eq!(signature.is_of_this_time(behind), expected, "{off} earlier");
        }
    }
}
