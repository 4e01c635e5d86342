//! Sign-in at an identity provider: the way there, and the answer that a browser brings back to any node.

use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::HeaderValue;
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};

use super::fields::Fields;
use super::frame::{page_unproven, refusal_text};
use super::own_address::{own_origin, redirect_uri};
use super::pending::{self, PendingSignIn};
use super::session::{self, Arrival, Stranger};
use super::sign_in::{SignInPage, destination};
use super::texts::Language;
use super::{Console, ROOT, sign_out};
use crate::address::{agent, sender};
use crate::model::code::{Code, Refusal};
use crate::operations::new_token;
use crate::operations::sign_in::NotSignedIn;
use crate::operations::sso::{Proof, SsoApplicant, SsoSignedIn};

/// Maximum characters of a provider's own words on a page.
const WORDS_MAX: usize = 200;

/// Parts of a request of a browser at the sign-in page, and its query.
struct Browser {
    parts: Parts,
    stranger: Stranger,
    fields: Fields,
}

impl Browser {
    async fn of(request: Request, console: &Console) -> Browser {
        let (mut parts, _) = request.into_parts();
        let Ok(stranger) = Stranger::from_request_parts(&mut parts, console).await;
        let fields = Fields::parse(parts.uri.query().unwrap_or_default().as_bytes());
        Browser { parts, stranger, fields }
    }

    fn arrival(&self) -> Arrival<'_> {
        Arrival { headers: &self.parts.headers, extensions: &self.parts.extensions }
    }

    /// Renders the sign-in page with the reason of a refusal.
    fn refused(&self, console: &Console, to: &str, not: NotSignedIn) -> Response {
        let (refusal, wait) = not.into_parts();
        let sign_in = SignInPage::leading(console, &self.stranger, &self.fields, to, refusal_text(&refusal));
        let mut response = page_unproven(refusal.code, &sign_in);
        response.headers_mut().extend(wait.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
        response
    }
}

/// Leads the browser to the provider.
pub(super) async fn start(State(console): State<Console>, Path(name): Path<String>, request: Request) -> Response {
    let browser = Browser::of(request, &console).await;
    let to = destination(&browser.fields);
    match begun(&console, &browser, &name, &to).await {
        Ok(response) => response,
        Err(not) => browser.refused(&console, &to, not),
    }
}

async fn begun(console: &Console, browser: &Browser, name: &str, to: &str) -> Result<Response, NotSignedIn> {
    let arrival = browser.arrival();
    let provider = console.operations.sso_provider(name).await?;
    let redirect = redirect_uri(&own_origin(console, arrival)?, &provider.name);
    let sender = sender(arrival.headers, arrival.extensions, &console.settings.trusted_proxies);
    let named = (provider.name.as_str(), provider.id.as_str());
    let mut pending = PendingSignIn::begin(named, redirect, to.to_owned(), console.node().now());
    let language = Language::of_tag(browser.fields.get("language")).map_or("", Language::tag);
    language.clone_into(&mut pending.language);
    let asked = console.operations.authorization_address(&provider, sender, pending.asked()).await?;
    let mut response = Redirect::to(&asked).into_response();
    response.headers_mut().append(SET_COOKIE, pending.cookie(console, arrival));
    Ok(response)
}

/// Completes a sign-in with the answer of the provider.
pub(super) async fn callback(State(console): State<Console>, Path(name): Path<String>, request: Request) -> Response {
    let browser = Browser::of(request, &console).await;
    let (headers, state) = (&browser.parts.headers, browser.fields.get("state"));
    let pending = match PendingSignIn::find(&console, headers, &name, state, console.node().now()) {
        Ok(pending) => pending,
        Err(refusal) => return browser.refused(&console, ROOT, refusal.into()),
    };
    let mut response = match completed(&console, &browser, &pending).await {
        Ok(response) => response,
        Err(not) => browser.refused(&console, &pending.to, not),
    };
    // Each answer is used once.
    response.headers_mut().append(SET_COOKIE, pending::forget(&console, browser.arrival(), &name));
    response
}

async fn completed(console: &Console, browser: &Browser, pending: &PendingSignIn) -> Result<Response, NotSignedIn> {
    let fields = &browser.fields;
    let provider = console.operations.sso_provider(&pending.provider).await?;
    if provider.id != pending.provider_id {
        return Err(wrong("provider: it was created anew meanwhile: sign in again").into());
    }
    if fields.is_set("iss") && fields.raw("iss") != provider.issuer {
        return Err(wrong("iss: the answer is of another issuer").into());
    }
    if fields.is_set("error") {
        return Err(wrong(format!("the provider answered {}", provider_words(fields))).into());
    }
    let code = fields.given("code").ok_or_else(|| wrong("code: the provider sent none"))?;
    let arrival = browser.arrival();
    let cookie = new_token();
    let applicant = SsoApplicant {
        proof: Proof::Code {
            code,
            verifier: pending.verifier.clone(),
            redirect_uri: pending.redirect_uri.clone(),
            nonce: pending.nonce.clone(),
        },
        sender: sender(arrival.headers, arrival.extensions, &console.settings.trusted_proxies),
        agent: agent(arrival.headers),
        request: crate::request_id::of(arrival.extensions),
        token: session::token_of(&cookie),
    };
    let SsoSignedIn { id_token, .. } = console.operations.sso_sign_in(&provider, applicant).await?;
    let mut response = Redirect::to(&pending.to).into_response();
    let cookies = response.headers_mut();
    let seconds = u64::from(provider.session_s);
    cookies.append(SET_COOKIE, session::begin(console, arrival, &cookie, seconds));
    cookies.extend(sign_out::hint_of(console, arrival, &id_token, seconds).map(|hint| (SET_COOKIE, hint)));
    if let Some(language) = Language::of_tag(&pending.language) {
        cookies.append(SET_COOKIE, session::choose(console, language));
    }
    Ok(response)
}

fn wrong(why: impl Into<String>) -> Refusal {
    Refusal::new(Code::TokenNotExisted, why)
}

/// Returns the error that a provider reports, cut to a length that a page shows.
fn provider_words(fields: &Fields) -> String {
    let words = [fields.get("error"), fields.get("error_description")];
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(": ").chars().filter(|letter| !letter.is_control()).take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_provider_are_cut() {
        let of = |query: &str| provider_words(&Fields::parse(query.as_bytes()));
        assert_eq!(of("error=access_denied"), "access_denied");
        assert_eq!(of("error=access_denied&error_description=not+today%0A"), "access_denied: not today");
        assert_eq!(of("error=a%0Ab"), "ab");
        assert_eq!(of(&format!("error={}", "x".repeat(1000))).chars().count(), WORDS_MAX);
    }
}
