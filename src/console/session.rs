//! Sessions of visitors: a cookie for the console alone, from which the token of a login is derived.
//!
//! `HttpOnly` hides it from scripts, and its path restricts it to the console. Browsers send it with a link from
//! another site, but not with a form (`SameSite=Lax`); changes require a form that was made for its visitor
//! ([`super::form`]).

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};
use sha2::{Digest, Sha256};

use super::Console;
use super::fields::Fields;
use super::flash::Flash;
use super::texts::{Language, Texts};
use crate::address::{came_by_tls, sender};
use crate::catalog::Credential;
use crate::catalog::namespaces::NamespaceFilter;
use crate::catalog::page::Page;
use crate::model::access::User;
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::operations::{Caller, token_hash};

const SESSION: &str = "thuban_session";
const LANGUAGE: &str = "thuban_language";
/// Lifetime of a login by a password.
pub(super) const SESSION_SECONDS: u64 = 7 * 24 * 3600;
/// Maximum number of users named on a page of a refusal.
const MANAGERS_NAMED: usize = 3;
const LANGUAGE_SECONDS: u64 = 365 * 24 * 3600;

/// Key in the metadata of a namespace, and the colours that it may have.
const COLOUR: &str = "colour";
const COLOURS: [&str; 5] = ["red", "orange", "green", "blue", "purple"];

/// Headers and connection of a request.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) extensions: &'a Extensions,
}

impl Arrival<'_> {
    /// Reports whether the browser's own connection uses TLS.
    pub(super) fn is_secure(self, console: &Console) -> bool {
        let proxies = &console.settings.trusted_proxies;
        console.settings.is_secure || came_by_tls(self.headers, self.extensions, proxies)
    }
}

/// Returns the value of a cookie.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let pairs =
        headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok()).flat_map(|text| text.split(';'));
    let mut named = pairs.filter_map(|pair| pair.trim().split_once('=')).filter(|(key, _)| *key == name);
    named.next().map(|(_, value)| value).filter(|value| !value.is_empty())
}

/// Sets a cookie for `seconds` below a path; 0 deletes it.
pub(super) fn set(is_secure: bool, name: &str, path: &str, value: &str, seconds: u64) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

/// Sets the session cookie for the lifetime of its login.
pub(super) fn begin(console: &Console, arrival: Arrival<'_>, cookie: &str, seconds: u64) -> HeaderValue {
    set(arrival.is_secure(console), SESSION, super::ROOT, cookie, seconds)
}

pub(super) fn end(console: &Console) -> HeaderValue {
    set(console.settings.is_secure, SESSION, super::ROOT, "", 0)
}

pub(super) fn choose(console: &Console, language: Language) -> HeaderValue {
    set(console.settings.is_secure, LANGUAGE, super::ROOT, language.tag(), LANGUAGE_SECONDS)
}

/// Derives the token of the login from the cookie by a hash, so that neither can be used as the other.
pub(super) fn token_of(cookie: &str) -> String {
    hex::encode(Sha256::new().chain_update("session of the console\n").chain_update(cookie).finalize())
}

/// Returns the token of this visitor's forms, which only a holder of the cookie can compute.
fn form_token(cookie: &str) -> String {
    hex::encode(Sha256::new().chain_update("form of the console\n").chain_update(cookie).finalize())
}

/// Data of a browser before the visitor signs in.
pub(super) struct Stranger {
    pub(super) texts: &'static Texts,
}

impl FromRequestParts<Console> for Stranger {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Console) -> Result<Self, Self::Rejection> {
        let chosen = cookie(&parts.headers, LANGUAGE).and_then(Language::of_tag);
        let language = chosen.unwrap_or_else(|| Language::accepted(&parts.headers));
        Ok(Stranger { texts: language.texts() })
    }
}

/// Signed-in visitor.
pub(super) struct SessionUser {
    console: Console,
    pub(super) texts: &'static Texts,
    pub(super) caller: Caller,
    pub(super) form_token: String,
    /// Requested page with its query.
    pub(super) path: String,
    /// Template of its route.
    pub(super) route: String,
    /// Preceding act; `None` if there was none.
    pub(super) done: Option<Flash>,
    /// True if no leader answers, so the state may be stale.
    pub(super) is_behind: bool,
}

impl SessionUser {
    pub(super) fn may(&self, verb: Verb, namespace: &str, name: &str) -> bool {
        self.caller.grants.may(verb, namespace, name)
    }

    /// Refuses a visitor without the verb at this place.
    pub(super) fn check(&self, verb: Verb, namespace: &str, name: &str) -> Result<(), Refusal> {
        let refuse = || Refusal::new(Code::NotAllowedAccess, format!("this needs {} there", verb.word()));
        if self.may(verb, namespace, name) { Ok(()) } else { Err(refuse()) }
    }

    /// Returns the namespace in the page's address; empty for all.
    pub(super) fn namespace(&self) -> String {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        Fields::parse(query.as_bytes()).get("namespace").to_owned()
    }

    /// Returns the colour of that namespace, which its metadata name; empty for none, and for other words.
    pub(super) fn colour(&self) -> &'static str {
        let view = self.console.node().state().view();
        let name = self.namespace();
        let is_seen = self.caller.read_scope().sees_namespace(&name);
        let namespace = view.namespaces.get(&name).filter(|_| is_seen);
        let word = namespace.and_then(|namespace| namespace.metadata.get(COLOUR));
        COLOURS.into_iter().find(|colour| word.is_some_and(|word| word == colour)).unwrap_or_default()
    }

    /// Returns the names of the first namespaces that the visitor sees, sorted.
    pub(super) fn namespaces(&self, most: usize) -> Vec<String> {
        let filter = NamespaceFilter { read_scope: self.caller.read_scope(), ..NamespaceFilter::default() };
        let listed = self.console.node().state().view().namespaces.list(&filter, &Page::new(0, most));
        let mut names: Vec<_> = listed.rows.iter().map(|namespace| namespace.name.clone()).collect();
        names.sort();
        names
    }

    /// Returns the number of requests that the visitor may decide or carry out.
    pub(super) fn waiting(&self) -> usize {
        super::inbox::waiting_for(&self.console.node().state().view(), &self.caller).len()
    }

    /// Returns the names of some users who may grant roles.
    pub(super) fn managers(&self) -> Vec<String> {
        let manages = |user: &User| !user.disabled && user.grants.may_everywhere(Verb::Manage);
        let view = self.console.node().state().view();
        let listed = view.access.list_users(manages, &Page::new(0, MANAGERS_NAMED));
        listed.rows.iter().map(|user| user.name.clone()).collect()
    }

    pub(super) fn may_somewhere(&self, verb: Verb) -> bool {
        self.caller.grants.may_somewhere(verb)
    }
}

impl FromRequestParts<Console> for SessionUser {
    type Rejection = Response;

    /// Redirects an unknown visitor to the sign-in page, which leads back to the requested page.
    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Response> {
        let Ok(Stranger { texts }) = Stranger::from_request_parts(parts, console).await;
        let path = parts.uri.path_and_query().map_or(super::ROOT, |path| path.as_str()).to_owned();
        let ask = || {
            let query: String = url::form_urlencoded::Serializer::new(String::new()).append_pair("to", &path).finish();
            Redirect::to(&format!("/ui/sign-in?{query}")).into_response()
        };
        let cookie = cookie(&parts.headers, SESSION).ok_or_else(ask)?;
        let sender = sender(&parts.headers, &parts.extensions, &console.settings.trusted_proxies);
        let request = crate::request_id::of(&parts.extensions);
        // Pages show everything acknowledged before, on any node; without a leader they show this node's state with a
        // notice.
        let is_behind = parts.method.is_safe() && console.node().await_linearizable().await.is_err();
        let credential = Credential::Token(token_hash(&token_of(cookie)));
        match console.operations.identify(credential, sender, request).await {
            Ok(caller) => {
                let done = Flash::of_query(&Fields::parse(parts.uri.query().unwrap_or_default().as_bytes()));
                let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
                Ok(SessionUser {
                    console: console.clone(),
                    route,
                    texts,
                    caller,
                    form_token: form_token(cookie),
                    is_behind,
                    path: path.clone(),
                    done,
                })
            }
            Err(refusal) if refusal.code == Code::TokenNotExisted => Err(ask()),
            Err(refusal) => Err(super::frame::failed(texts, &refusal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found_by_their_whole_name() {
        let headers =
            HeaderMap::from_iter([(COOKIE, HeaderValue::from_static("a=1; xthuban_session=2; thuban_session=3"))]);
        assert_eq!(cookie(&headers, SESSION), Some("3"));
        assert_eq!(cookie(&headers, LANGUAGE), None);
    }

    #[test]
    fn forms_of_others_carry_another_token() {
        assert_ne!(form_token("a"), form_token("b"));
        assert_ne!(form_token("a"), token_hash("a").0);
        assert_ne!(form_token("a"), token_of("a"), "the page does not tell the token");
    }
}
