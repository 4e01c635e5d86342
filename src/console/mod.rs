//! The console at `/ui`: web pages over the same operations as the other surfaces.
//!
//! All assets of a page are in the binary. Pages work without scripts: links and forms do everything, scripts only save
//! reloads and keystrokes. A visitor is identified by a cookie that no other surface accepts ([`session`]). A form
//! carries a token of its page ([`form`]), and is not read if its visitor lacks the right to send it ([`bars`]). A
//! module here is a page or several: it reads a form or a query, calls [`crate::operations`] or reads the catalog, and
//! renders a template in `pages/`. Texts are in [`texts`], in two languages.

mod accounts;
mod assets;
mod audit;
mod bars;
mod book;
mod client_labels;
mod clients;
mod cluster;
mod concurrent;
mod config;
mod contracts;
mod curl;
mod drafting;
mod explain;
mod failed;
mod families;
mod fields;
mod file_form;
mod file_list;
mod flash;
mod form;
mod frame;
mod home;
mod identities;
mod inbox;
mod kinds;
mod label_offers;
mod links;
mod listing;
mod lists;
mod map;
mod oneself;
mod own_address;
mod page_head;
mod pager;
mod pending;
mod pictures;
mod policies;
mod providers;
mod proxies;
mod release_fields;
mod release_form;
mod releases;
mod request_facts;
mod request_words;
mod requests;
mod resources;
mod rule_form;
mod rule_list;
mod rule_page;
mod rule_rows;
mod rules;
mod sealed_cookie;
mod search;
mod services;
mod session;
mod settings_text;
mod settle;
mod sheet;
mod sign_in;
mod sign_out;
mod sso;
mod texts;
mod time_ago;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get};
use ipnet::IpNet;
use url::Url;

use crate::model::limits;
use crate::operations::Operations;
use crate::operations::replica::Replica;
use crate::tasks;
pub use sealed_cookie::CookieKeys;
use session::SessionUser;

/// Content security policy: no foreign or inline resources, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// HSTS for 30 days from the last page.
const TLS_ONLY: &str = "max-age=2592000";
/// Path of the console.
pub const ROOT: &str = "/ui";

/// Settings of the console.
pub struct ConsoleSettings {
    /// True if browsers come through TLS: the cookie is then sent only over TLS.
    pub is_secure: bool,
    /// Networks of proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Address of the console for browsers; `None` for the one that a browser asks.
    pub public_url: Option<Url>,
    /// Keys of cookies that browsers carry from node to node.
    pub keys: CookieKeys,
}

/// State shared by the pages; cheap to clone.
#[derive(Clone)]
pub struct Console {
    operations: Arc<Operations>,
    settings: Arc<ConsoleSettings>,
}

impl Console {
    pub fn new(operations: Arc<Operations>, settings: ConsoleSettings) -> Self {
        Console { operations, settings: Arc::new(settings) }
    }

    fn node(&self) -> &Arc<dyn Replica> {
        self.operations.node()
    }
}

/// Builds the router of the console, served on the management port.
pub fn router(console: Console) -> Router {
    // Paths that only receive forms.
    let flash = get(page_of_the_form);
    Router::new()
        .route("/", get(|| async { Redirect::to(ROOT) }))
        .route("/ui/", get(|| async { Redirect::to(ROOT) }))
        .route("/ui/{*page}", any(no_such_page))
        .route("/ui", get(home::show))
        .route("/ui/sign-in", get(sign_in::show).post(sign_in::sign_in))
        .route(sign_out::PATH, flash.clone().post(sign_out::sign_out))
        .route("/ui/sso/{name}/start", get(sso::start))
        .route("/ui/sso/{name}/callback", get(sso::callback))
        .route("/ui/language", flash.clone().post(sign_in::choose_language))
        .route(book::PATH, get(book::contents))
        .route("/ui/book/{*name}", get(book::show))
        .route("/ui/search", get(search::show))
        .route("/ui/services", get(services::list).post(services::create))
        .route("/ui/service", get(services::show))
        .route("/ui/map", get(map::show))
        .route("/ui/service/instance", flash.clone().post(services::change_instance))
        .route("/ui/rules", get(|| async { Redirect::to("/ui/rules/routings") }))
        .route("/ui/rules/{kind}", get(rule_list::list))
        .route("/ui/rules/{kind}/new", get(rules::new).post(rules::create))
        .route("/ui/rules/{kind}/explain", get(explain::show_family))
        .route(explain::PATH, get(explain::show).post(explain::read_command))
        .route("/ui/rules/{kind}/{id}", get(rules::show).post(rules::save))
        .route("/ui/rules/{kind}/{id}/release", flash.clone().post(rules::release))
        .route("/ui/rules/{kind}/{id}/change", flash.clone().post(rules::change))
        .route("/ui/rules/{kind}/{id}/delete", flash.clone().post(rules::delete))
        .route("/ui/config", get(file_list::tree).post(file_list::create))
        .route("/ui/config/file", get(config::show).post(config::save))
        .route("/ui/config/file/release", flash.clone().post(config::release))
        .route("/ui/config/file/change", flash.clone().post(config::change))
        .route("/ui/config/file/delete", flash.clone().post(config::delete))
        .route("/ui/templates", get(lists::templates))
        .route("/ui/webhooks", get(lists::webhooks))
        .route("/ui/namespaces", get(lists::namespaces))
        .route("/ui/edit/{sort}", get(resources::show).post(resources::save))
        .route("/ui/audit", get(audit::show))
        .route(providers::PATH, get(providers::list))
        .route("/ui/providers/{name}", get(providers::show).post(providers::test))
        .route("/ui/identities", get(identities::list).post(identities::free))
        .route(identities::SESSIONS, get(identities::sessions).post(identities::end_session))
        .route("/ui/accounts", get(accounts::show).post(accounts::change))
        .route(oneself::PATH, get(oneself::show).post(oneself::change))
        .route("/ui/cluster", get(cluster::show).post(cluster::change))
        .route("/ui/cluster/backup", flash.clone().post(cluster::backup))
        .route("/ui/clients", get(clients::show))
        .route("/ui/proxies", get(proxies::show))
        .route("/ui/proxies/dump", get(proxies::dump))
        .route("/ui/policies", get(policies::list))
        .route("/ui/contracts", get(contracts::list))
        .route("/ui/config/file/check", flash.post(contracts::check))
        .route("/ui/requests", get(requests::list))
        .route("/ui/requests/{id}", get(requests::show).post(requests::decide))
        .route("/ui/assets/{name}", get(assets::serve))
        .layer(from_fn_with_state(console.clone(), surround))
        .with_state(console)
}

/// Redirects from the path of a form to its page. Browsers request that path after signing in again, after a change of
/// the language, or from the address bar after a refused form.
async fn page_of_the_form(uri: Uri) -> Redirect {
    let page = uri.path().rsplit_once('/').map_or(ROOT, |(page, _)| page);
    match uri.query() {
        Some(query) => Redirect::to(&format!("{page}?{query}")),
        None => Redirect::to(page),
    }
}

async fn no_such_page(visitor: SessionUser) -> Response {
    visitor.nowhere()
}

/// Adds a time limit and security headers to every page.
async fn surround(State(console): State<Console>, request: Request, next: Next) -> Response {
    let limit = Duration::from_secs(limits::REQUEST_TIMEOUT_SECONDS);
    let mut response = match console.node().member().out_of_service() {
        // A node with a diverged state serves nothing from it.
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why.to_owned()).into_response(),
        None => match tokio::time::timeout(limit, tasks::caught(next.run(request))).await {
            Ok(Some(response)) => response,
            Ok(None) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "this failed, by a defect: the log says where").into_response()
            }
            Err(_) => (StatusCode::GATEWAY_TIMEOUT, "this took too long").into_response(),
        },
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    if console.settings.is_secure {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(TLS_ONLY));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
