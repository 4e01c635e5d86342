//! Sign-ins that have begun at a provider, in a sealed cookie of the browser. Only that browser can complete one, on
//! any node, within ten minutes.

use axum::http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use thuban_oidc::CodeVerifier;

use super::Console;
use super::session::{self, Arrival};
use crate::model::code::{Code, Refusal};
use crate::model::time::Timestamp;
use crate::operations::new_token;
use crate::operations::sso::AskedSignIn;

const COOKIE: &str = "thuban_sign_in";
const SECONDS: u64 = 600;

/// A sign-in that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingSignIn {
    /// Name and id of the provider: a provider that was created anew under the name is another one.
    pub(super) provider: String,
    pub(super) provider_id: String,
    pub(super) state: String,
    pub(super) nonce: String,
    /// Verifier of PKCE.
    pub(super) verifier: String,
    pub(super) redirect_uri: String,
    /// Page to show after the sign-in.
    pub(super) to: String,
    /// Language that was chosen on the sign-in page; empty for none.
    #[serde(default)]
    pub(super) language: String,
    pub(super) until: Timestamp,
}

impl PendingSignIn {
    /// Begins a sign-in: draws state, nonce and verifier.
    pub(super) fn begin(provider: (&str, &str), redirect_uri: String, to: String, now: Timestamp) -> PendingSignIn {
        PendingSignIn {
            provider: provider.0.to_owned(),
            provider_id: provider.1.to_owned(),
            state: new_token(),
            nonce: new_token(),
            verifier: CodeVerifier::new(&rand::random()).text().to_owned(),
            redirect_uri,
            to,
            language: String::new(),
            until: Timestamp(now.0 + SECONDS * 1000),
        }
    }

    /// Returns the values of the redirect to the provider.
    pub(super) fn asked(&self) -> AskedSignIn<'_> {
        let challenge = CodeVerifier::of_text(&self.verifier).map(|verifier| verifier.challenge());
        let PendingSignIn { redirect_uri, state, nonce, .. } = self;
        AskedSignIn { redirect_uri, state, nonce, challenge: challenge.unwrap_or_default() }
    }

    /// Sets the cookie of this sign-in. It replaces that of an earlier one at the same provider.
    pub(super) fn cookie(&self, console: &Console, arrival: Arrival<'_>) -> HeaderValue {
        let text = serde_json::to_string(self).unwrap_or_default();
        let sealed = console.settings.keys.seal(COOKIE, &text);
        session::set(arrival.is_secure(console), COOKIE, &path(&self.provider), &sealed, SECONDS)
    }

    /// Returns the sign-in at a provider that this browser began, if the answer of the provider belongs to it.
    pub(super) fn find(
        console: &Console,
        headers: &HeaderMap,
        provider: &str,
        state: &str,
        now: Timestamp,
    ) -> Result<PendingSignIn, Refusal> {
        let refuse = |why: &str| Refusal::new(Code::TokenNotExisted, why);
        let sealed = session::cookie(headers, COOKIE)
            .ok_or_else(|| refuse("this browser has begun no sign-in, or completed it before: sign in again"))?;
        let opened = console.settings.keys.open(COOKIE, sealed);
        let pending: PendingSignIn = opened
            .and_then(|text| serde_json::from_str(&text).ok())
            .ok_or_else(|| refuse("the sign-in was begun on a node with another cluster secret: sign in again"))?;
        pending.check(provider, state, now).map(|()| pending)
    }

    fn check(&self, provider: &str, state: &str, now: Timestamp) -> Result<(), Refusal> {
        let refuse = |why: &str| Err(Refusal::new(Code::TokenNotExisted, why));
        if now >= self.until {
            return refuse("the sign-in took longer than ten minutes: sign in again");
        }
        if self.provider != provider {
            return refuse("provider: the sign-in was begun at another one: sign in again");
        }
        if !bool::from(self.state.as_bytes().ct_eq(state.as_bytes())) {
            return refuse("state: the answer belongs to another sign-in: sign in again");
        }
        Ok(())
    }
}

/// Returns the header that removes the cookie: an answer completes one sign-in.
pub(super) fn forget(console: &Console, arrival: Arrival<'_>, provider: &str) -> HeaderValue {
    session::set(arrival.is_secure(console), COOKIE, &path(provider), "", 0)
}

/// Returns the path below which browsers send the cookie.
fn path(provider: &str) -> String {
    format!("/ui/sso/{provider}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(now: u64) -> PendingSignIn {
        let redirect_uri = "http://127.0.0.1:8090/ui/sso/company/callback".to_owned();
        PendingSignIn::begin(("company", "id"), redirect_uri, "/ui".to_owned(), Timestamp(now))
    }

    #[test]
    fn an_answer_belongs_to_one_sign_in_at_one_provider_within_ten_minutes() {
        let pending = begun(1000);
        let last = Timestamp(1000 + 600_000 - 1);
        assert_eq!(pending.check("company", &pending.state, Timestamp(1000)), Ok(()));
        assert_eq!(pending.check("company", &pending.state, last), Ok(()));
        let why = |refused: Result<(), Refusal>| refused.expect_err("it is refused");
        let of_others = [
            (pending.check("other", &pending.state, last), "provider: "),
            (pending.check("company", "", last), "state: "),
            (pending.check("company", &begun(1000).state, last), "state: "),
            (pending.check("company", &pending.state[1..], last), "state: "),
            (pending.check("company", &pending.state, Timestamp(last.0 + 1)), "the sign-in took longer"),
        ];
        for (refused, begins) in of_others {
            let refusal = why(refused);
            assert_eq!(refusal.code, Code::TokenNotExisted);
            assert!(refusal.detail.starts_with(begins), "{refusal:?}");
        }
    }

    #[test]
    fn everything_that_is_drawn_differs() {
        let (one, other) = (begun(0), begun(0));
        let drawn = [&one.state, &one.nonce, &one.verifier, &other.state, &other.nonce, &other.verifier];
        let different: std::collections::BTreeSet<_> = drawn.iter().collect();
        assert_eq!(different.len(), drawn.len());
        assert!(drawn.iter().all(|text| (43..=128).contains(&text.len())));
    }

    #[test]
    fn the_cookie_fits_into_a_browser() {
        let longest = PendingSignIn {
            provider: "p".repeat(32),
            to: format!("/ui/{}", "t".repeat(super::super::sign_in::PATH_BYTES_MAX)),
            redirect_uri: format!("https://{}:65535/ui/sso/{}/callback", "h".repeat(253), "p".repeat(32)),
            ..begun(u64::MAX / 2)
        };
        let text = serde_json::to_string(&longest).expect("text");
        let sealed = super::super::sealed_cookie::CookieKeys::of(&[b"secret"]).seal(COOKIE, &text);
        assert!(sealed.len() + 256 < 4096, "{}", sealed.len());
    }
}
