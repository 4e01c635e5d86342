//! Sign-out, here and at the provider of the session.

use askama::Template;
use axum::extract::State;
use axum::http::header::{HeaderName, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};

use super::form::Form;
use super::frame::page;
use super::session::{self, Arrival};
use super::texts::Texts;
use super::{Console, assets};
use crate::model::sso::Provider;

/// Cookie with the ID token of the session, which a provider wants to see at sign-out.
const HINT: &str = "thuban_id_token";
/// Path of the form that signs out, the only one to which browsers send the cookie.
pub(super) const PATH: &str = "/ui/sign-out";
/// Maximum length of a sealed ID token: browsers keep cookies of 4096 bytes with their attributes.
const HINT_BYTES_MAX: usize = 3900;
/// Header that leads a browser on from a page.
const REFRESH: HeaderName = HeaderName::from_static("refresh");

pub(super) async fn sign_out(State(console): State<Console>, headers: HeaderMap, form: Form) -> Response {
    // If the leader cannot be reached, the login ends on this browser, with its cookie.
    let caller = &form.visitor.caller;
    let provider = console.operations.provider_of(caller);
    let _ = console.operations.sign_out(caller).await;
    let page = match provider {
        Some(provider) => leading_on(&console, &headers, form.visitor.texts, &provider).await,
        None => None,
    };
    let mut response = page.unwrap_or_else(|| Redirect::to("/ui/sign-in").into_response());
    response.headers_mut().append(SET_COOKIE, session::end(&console));
    response.headers_mut().append(SET_COOKIE, forget_hint(&console));
    response
}

/// Returns the header that keeps the ID token in the browser, for its sign-out; `None` for one that is too long.
pub(super) fn hint_of(console: &Console, arrival: Arrival<'_>, id_token: &str, seconds: u64) -> Option<HeaderValue> {
    let sealed = console.settings.keys.seal(HINT, id_token);
    (sealed.len() <= HINT_BYTES_MAX).then(|| session::set(arrival.is_secure(console), HINT, PATH, &sealed, seconds))
}

#[derive(Template)]
#[template(path = "signed_out.html")]
struct SignedOutPage {
    t: &'static Texts,
    styles: String,
    icon: String,
    /// Name of the provider.
    provider: String,
    leads_to: String,
}

/// Returns the page that leads from a sign-out here to one at the provider; `None` for a provider that offers none.
/// The page of the form cannot lead to another site by itself: browsers follow
/// a redirect of a form to this site only.
async fn leading_on(
    console: &Console,
    headers: &HeaderMap,
    texts: &'static Texts,
    provider: &Provider,
) -> Option<Response> {
    let sealed = session::cookie(headers, HINT);
    let hint = sealed.and_then(|sealed| console.settings.keys.open(HINT, sealed));
    let leads_to = console.operations.end_session_address(provider, hint.as_deref().map(String::as_str)).await?;
    let (styles, icon) = (assets::path("console", "css"), assets::path("icon", "svg"));
    let refresh = HeaderValue::from_str(&format!("0; url={leads_to}")).ok()?;
    let mut response = page(&SignedOutPage { t: texts, styles, icon, provider: provider.name.clone(), leads_to });
    response.headers_mut().insert(REFRESH, refresh);
    Some(response)
}

/// Returns the header that removes the kept ID token.
fn forget_hint(console: &Console) -> HeaderValue {
    session::set(console.settings.is_secure, HINT, PATH, "", 0)
}
