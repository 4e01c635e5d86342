//! Sign-in by a password, and choice of the language.

use askama::Template;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};

use super::fields::Fields;
use super::form::{Form, OpenForm};
use super::frame::{page, page_unproven, refusal_text, undone};
use super::session::{self, Arrival, Stranger};
use super::texts::{Language, Texts};
use super::{Console, ROOT, assets};
use crate::address::{agent, sender};
use crate::model::code::{Code, Refusal};
use crate::operations::new_token;
use crate::operations::sign_in::{Applicant, SignedIn, WRONG};

/// Maximum length of the path to which a sign-in leads.
pub(super) const PATH_BYTES_MAX: usize = 1024;
/// Form field for the language.
const LANGUAGE: &str = "language";

#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignInPage {
    t: &'static Texts,
    /// Names of the providers to sign in at.
    providers: Vec<String>,
    styles: String,
    icon: String,
    to: String,
    user: String,
    /// Tag of the language, if it was chosen on this page; stored after signing in.
    language: &'static str,
    fault: Option<String>,
}

impl SignInPage {
    fn new(console: &Console, stranger: &Stranger, fields: &Fields) -> SignInPage {
        let chosen = Language::of_tag(fields.get(LANGUAGE));
        let (styles, icon) = (assets::path("console", "css"), assets::path("icon", "svg"));
        SignInPage {
            t: chosen.map_or(stranger.texts, Language::texts),
            providers: console.operations.sso_providers().iter().map(|provider| provider.name.clone()).collect(),
            styles,
            icon,
            to: destination(fields),
            user: fields.get("user").to_owned(),
            language: chosen.map_or("", Language::tag),
            fault: None,
        }
    }

    /// Returns the page after a refusal, from which a sign-in leads on to a page.
    pub(super) fn leading(
        console: &Console,
        stranger: &Stranger,
        fields: &Fields,
        to: &str,
        fault: String,
    ) -> SignInPage {
        SignInPage { to: to.to_owned(), fault: Some(fault), ..SignInPage::new(console, stranger, fields) }
    }
}

/// Returns the requested page, if it is one of the console; the link may come from elsewhere.
pub(super) fn destination(fields: &Fields) -> String {
    let to = fields.get("to");
    let is_ours = to == ROOT || to.starts_with("/ui/") || to.starts_with("/ui?");
    let is_plain = to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_ours && is_plain && to.len() <= PATH_BYTES_MAX { to.to_owned() } else { ROOT.to_owned() }
}

pub(super) async fn show(State(console): State<Console>, stranger: Stranger, fields: Fields) -> Response {
    page(&SignInPage::new(&console, &stranger, &fields))
}

pub(super) async fn sign_in(State(console): State<Console>, request: Request) -> Result<Response, Response> {
    let (parts, body) = request.into_parts();
    let sender = sender(&parts.headers, &parts.extensions, &console.settings.trusted_proxies);
    let id = crate::request_id::of(&parts.extensions);
    let agent = agent(&parts.headers);
    let (headers, extensions) = (parts.headers.clone(), parts.extensions.clone());
    let OpenForm { stranger, fields } = OpenForm::from_request(Request::from_parts(parts, body), &console).await?;
    let (name, password) = (fields.get("user").to_owned(), fields.raw("password").to_owned());
    // While the password waits for its turn, the rest of the form is released.
    let mut page = SignInPage::new(&console, &stranger, &fields);
    let to = destination(&fields);
    drop(fields);
    let cookie = new_token();
    let token = session::token_of(&cookie);
    match console.operations.sign_in(Applicant { name, password, sender, agent, request: id, token }).await {
        Ok(SignedIn { .. }) => {
            let mut response = Redirect::to(&to).into_response();
            let cookies = response.headers_mut();
            let arrival = Arrival { headers: &headers, extensions: &extensions };
            cookies.append(SET_COOKIE, session::begin(&console, arrival, &cookie, session::SESSION_SECONDS));
            if let Some(language) = Language::of_tag(page.language) {
                cookies.append(SET_COOKIE, session::choose(&console, language));
            }
            Ok(response)
        }
        Err(not) => {
            let (refusal, wait) = not.into_parts();
            page.fault = Some(match refusal.code {
                Code::NotAllowedAccess if refusal.detail == WRONG => page.t.help.wrong_password.to_owned(),
                _ => refusal_text(&refusal),
            });
            let mut response = page_unproven(refusal.code, &page);
            response.headers_mut().extend(wait.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
            Ok(response)
        }
    }
}

/// Changes the language. Accepts a form of a signed-in visitor only.
pub(super) async fn choose_language(State(console): State<Console>, request: Request) -> Result<Response, Response> {
    let (mut parts, body) = request.into_parts();
    let Ok(stranger) = Stranger::from_request_parts(&mut parts, &console).await;
    let form = Form::from_request(Request::from_parts(parts, body), &console).await;
    let form = form.map_err(|refused| match refused.status() {
        StatusCode::SEE_OTHER => {
            undone(stranger.texts, &Refusal::new(Code::NotAllowedAccess, "this form is of no page of yours"))
        }
        _ => refused,
    })?;
    let mut response = Redirect::to(&destination(&form.fields)).into_response();
    let language = Language::of_tag(form.fields.get(LANGUAGE));
    response.headers_mut().extend(language.map(|language| (SET_COOKIE, session::choose(&console, language))));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comes_back_to_pages_of_ours_only() {
        let of = |to: &str| {
            let query: String = url::form_urlencoded::Serializer::new(String::new()).append_pair("to", to).finish();
            destination(&Fields::parse(query.as_bytes()))
        };
        for ours in ["/ui", "/ui/services?name=a&offset=100", "/ui?x=1"] {
            assert_eq!(of(ours), ours);
        }
        for other in
            ["", "//example.org/ui/", "https://example.org", "/uix", "/ui/\\\\example.org", "/ui/\r\nSet-Cookie: a"]
        {
            assert_eq!(of(other), ROOT, "{other}");
        }
    }
}
