//! Entry point for [`crate::fuzzing`]: the handlers of the management surface over a catalog in memory, without the
//! layers around them. Every caller is an administrator.
//!
//! A request is the letter of a route, see [`ROUTES`], then its body.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

use super::admin::cluster::{Addition, Member, Nothing, Successor};
use super::auth::login;
use super::http::{ApiError, Batch, envelope, parse_item, parse_object};
use super::routes::routes;
use super::{ApiSettings, App, discover};
use crate::catalog::Credential;
use crate::catalog::fuzzing::{check, founded, token};
use crate::catalog::testing::Bench;
use crate::data_key::DataKey;
use crate::hosts::Hosts;
use crate::keyring::Keyring;
use crate::model::alias::AliasDraft;
use crate::model::config_file::{ConfigFileDraft, ConfigGroupDraft, ConfigReleaseDraft};
use crate::model::config_template::ConfigTemplateDraft;
use crate::model::grant::{Grant, Grants, Role};
use crate::model::instance::InstanceDraft;
use crate::model::limits::{BATCH_ITEMS_MAX, PAGE_ROWS_MAX};
use crate::model::namespace::NamespaceDraft;
use crate::model::rule::Family;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::service::ServiceDraft;
use crate::openapi::LazyDocument;
use crate::operations::accounts::PasswordRequest;
use crate::operations::replica::Replica;
use crate::operations::testing::InMemory;
use crate::operations::{Bounds, Caller, Operations};

/// Small maximum length of a config file, so that an input can exceed it.
const BOUNDS: Bounds = Bounds {
    config_content_chars_max: 1000,
    token_trust: Duration::from_secs(30),
    webhook_networks: Vec::new(),
    sso_ca_file: None,
};

/// The handlers over a catalog in memory.
pub(crate) struct Desk {
    runtime: Runtime,
    router: Router,
    memory: Arc<InMemory>,
    /// Catalog restored before each input.
    prepared: Bench,
}

impl Desk {
    /// Creates the handlers over a catalog that has an object of every kind.
    pub(crate) fn prepared() -> Desk {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let memory = Arc::new(InMemory::new(founded(), keyring()));
        let settings = ApiSettings {
            trusted_proxies: Vec::new(),
            budget: None,
            hosts: Hosts::any(),
            metrics_elsewhere: false,
            document: LazyDocument::new(Box::new(Bytes::new)),
        };
        let app = App::new(Operations::in_memory(memory.clone(), BOUNDS), settings);
        let router = routes().into_iter().fold(Router::new(), |router, route| router.route(&route.path, route.handler));
        let mut desk = Desk { runtime, router: router.with_state(app), memory, prepared: Bench::default() };
        for request in PREPARED {
            let answer = desk.answered(request.as_bytes()).map(read).expect("a route");
            assert_eq!(answer["code"], 200_000, "{request}: {answer}");
        }
        desk.prepared = desk.memory.bench();
        check(&desk.prepared);
        desk
    }

    pub(crate) fn into_bench(self) -> Bench {
        self.prepared
    }

    /// Serves requests separated by NUL; returns whether the last one succeeded.
    pub(crate) fn serve_all(&self, requests: &[u8]) -> bool {
        self.memory.restore(self.prepared.clone());
        let mut done = false;
        for request in requests.split(|byte| *byte == 0) {
            done = self.serve(request);
        }
        check(&self.memory.bench());
        done
    }

    /// Returns the requests that fill the catalog.
    #[cfg(test)]
    pub(super) fn preparation() -> &'static [&'static str] {
        PREPARED
    }

    /// Serves one request over the restored catalog and returns the answer.
    #[cfg(test)]
    pub(super) fn answer(&self, request: &[u8]) -> Value {
        self.memory.restore(self.prepared.clone());
        self.answered(request).map(read).expect("a route")
    }

    fn serve(&self, request: &[u8]) -> bool {
        self.answered(request).is_some_and(is_success)
    }

    /// Serves one request; `None` if there is no such route.
    fn answered(&self, request: &[u8]) -> Option<Response> {
        let (letter, body) = request.split_first()?;
        let family = letter.checked_sub(b'0').and_then(|number| Family::ALL.get(usize::from(number)));
        if let (Some(family), Some((operation, body))) = (family, body.split_first()) {
            let (method, rest) = route_of(RULE_ROUTES, *operation, body)?;
            return self.send(method, &format!("/naming/v1/{}{rest}", family.kind()), body);
        }
        if let Some((_, read)) = READ_ONLY.iter().find(|(known, _)| known == letter) {
            return Some(read(body).map_or_else(IntoResponse::into_response, |()| envelope::done()));
        }
        match letter {
            b'n' => Some(self.discover(body).unwrap_or_else(IntoResponse::into_response)),
            b'o' => self.send("GET", &format!("/naming/v1/services?{}", str::from_utf8(body).ok()?), b""),
            _ => {
                let (method, path) = route_of(ROUTES, *letter, body)?;
                self.send(method, path, body)
            }
        }
    }

    fn discover(&self, body: &[u8]) -> Result<Response, ApiError> {
        let request: discover::DiscoverRequest = parse_object(body)?;
        discover::answer_of(&self.memory.state().catalog(), request, administrator().read_scope())
    }

    fn send(&self, method: &str, target: &str, body: &[u8]) -> Option<Response> {
        let body = Body::from(body.to_vec());
        let request = Request::builder().method(method).uri(target).extension(administrator()).body(body).ok()?;
        Some(self.runtime.block_on(self.router.clone().oneshot(request)).expect("the surface always answers"))
    }
}

fn administrator() -> Caller {
    Caller {
        name: "admin".to_owned(),
        credential: Credential::Token(token()),
        grants: Grants::new([Grant::of(Role::Admin)]),
        address: Some([192, 0, 2, 1].into()),
        is_local: false,
        request: "r".to_owned(),
    }
}

/// Returns method and path of a route, after checking the properties that its body must have.
fn route_of(routes: &[Row], letter: u8, body: &[u8]) -> Option<(&'static str, &'static str)> {
    let (_, route, look) = routes.iter().find(|(known, ..)| *known == letter)?;
    look(body);
    route.split_once(' ')
}

/// Letter, route, and a check of its body.
type Row = (u8, &'static str, fn(&[u8]));

/// Routes with a body, except those of rules.
#[rustfmt::skip] // one row a route
const ROUTES: &[Row] = &[
    (b'A', "POST /naming/v1/namespaces", reads_again::<NamespaceDraft>),
    (b'B', "PUT /naming/v1/namespaces", reads_again::<NamespaceDraft>),
    (b'C', "POST /naming/v1/namespaces/delete", reads_again::<NamespaceDraft>),
    (b'D', "POST /naming/v1/services", reads_again::<ServiceDraft>),
    (b'E', "PUT /naming/v1/services", reads_again::<ServiceDraft>),
    (b'F', "POST /naming/v1/services/delete", reads_again::<ServiceDraft>),
    (b'G', "POST /naming/v1/service/alias", reads_again::<AliasDraft>),
    (b'H', "PUT /naming/v1/service/alias", reads_again::<AliasDraft>),
    (b'I', "POST /naming/v1/service/aliases/delete", reads_again::<AliasDraft>),
    (b'J', "POST /naming/v1/instances", reads_again::<InstanceDraft>),
    (b'K', "PUT /naming/v1/instances", reads_again::<InstanceDraft>),
    (b'L', "POST /naming/v1/instances/delete", reads_again::<InstanceDraft>),
    (b'M', "POST /naming/v1/instances/delete/host", reads_again::<InstanceDraft>),
    (b'N', "PUT /naming/v1/instances/isolate/host", reads_again::<InstanceDraft>),
    (b'P', "POST /config/v1/configfilegroups", reads_again::<ConfigGroupDraft>),
    (b'Q', "PUT /config/v1/configfilegroups", reads_again::<ConfigGroupDraft>),
    (b'R', "POST /config/v1/configfilegroups/delete", reads_again::<ConfigGroupDraft>),
    (b'S', "POST /config/v1/configfiles", reads_again::<ConfigFileDraft>),
    (b'T', "PUT /config/v1/configfiles", reads_again::<ConfigFileDraft>),
    (b'U', "POST /config/v1/configfiles/delete", reads_again::<ConfigFileDraft>),
    (b'V', "POST /config/v1/configfiles/release", reads_again::<ConfigReleaseDraft>),
    (b'W', "POST /config/v1/configfiles/createandpub", any),
    (b'X', "PUT /config/v1/configfiles/releases/rollback", reads_again::<ConfigReleaseDraft>),
    (b'Y', "PUT /config/v1/configfiles/releases/stopbeta", reads_again::<ConfigReleaseDraft>),
    (b'Z', "POST /config/v1/configfiles/releases/delete", reads_again::<ConfigReleaseDraft>),
    (b'a', "POST /auth/v1/users", any),
    (b'b', "PUT /auth/v1/users", any),
    (b'c', "POST /auth/v1/users/delete", any),
    (b'd', "POST /auth/v1/tokens", any),
    (b'e', "POST /auth/v1/accesskeys", any),
    (b'f', "PUT /auth/v1/accesskeys", any),
    (b'g', "PUT /admin/v1/settings", any),
    (b'p', "PUT /config/v1/configfiles/releases/promote", reads_again::<ConfigReleaseDraft>),
    (b'q', "PUT /config/v1/configfiles/releases/withdraw", reads_again::<ConfigReleaseDraft>),
    (b'u', "PUT /config/v1/configfiles/releases/rollout", reads_again::<ConfigReleaseDraft>),
    (b'v', "POST /config/v1/configfiles/releases/signal", reads_again::<ConfigReleaseDraft>),
    (b'r', "POST /config/v1/configfiletemplates", reads_again::<ConfigTemplateDraft>),
    (b's', "PUT /config/v1/configfiletemplates", reads_again::<ConfigTemplateDraft>),
    (b't', "POST /config/v1/configfiletemplates/delete", reads_again::<ConfigTemplateDraft>),
];

/// Routes of rules, which follow the number of a family.
const RULE_ROUTES: &[Row] = &[
    (b'c', "POST ", any),
    (b'u', "PUT ", any),
    (b'd', "POST /delete", any),
    (b'p', "POST /releases", reads_again::<RuleReleaseDraft>),
    (b'r', "PUT /releases/rollback", reads_again::<RuleReleaseDraft>),
    (b's', "PUT /releases/stopbeta", reads_again::<RuleReleaseDraft>),
    (b'x', "POST /releases/delete", reads_again::<RuleReleaseDraft>),
    (b'o', "PUT /releases/promote", reads_again::<RuleReleaseDraft>),
    (b'w', "PUT /releases/withdraw", reads_again::<RuleReleaseDraft>),
    (b'l', "PUT /releases/rollout", reads_again::<RuleReleaseDraft>),
    (b'n', "POST /releases/signal", reads_again::<RuleReleaseDraft>),
    (b'e', "POST /explain", any),
];

/// Letter of a route, and the parser of its body.
type ReadRow = (u8, fn(&[u8]) -> Result<(), ApiError>);

/// Parsers of bodies whose handlers need more than a catalog.
const READ_ONLY: &[ReadRow] = &[
    (b'O', |body| Ok(parse_object::<InstanceDraft>(body)?.check_named()?)),
    (b'h', |body| parse_object::<PasswordRequest>(body).map(drop)),
    (b'i', |body| parse_object::<login::LoginRequest>(body).map(drop)),
    (b'j', |body| parse_object::<Addition>(body).map(drop)),
    (b'k', |body| parse_object::<Member>(body).map(drop)),
    (b'l', |body| parse_object::<Successor>(body).map(drop)),
    (b'm', |body| parse_object::<Nothing>(body).map(drop)),
];

/// Requests that fill the catalog before the input.
const PREPARED: &[&str] = &[
    r#"A[{"name":"n","comment":"c","owners":"o"},{"name":"empty"}]"#,
    r#"D[{"name":"s","namespace":"n","ports":"80","metadata":{"k":"v"}},{"name":"t","namespace":"n"}]"#,
    r#"G[{"service":"s","namespace":"n","alias":"a","alias_namespace":"n"}]"#,
    concat!(
        r#"J[{"id":"i","service":"s","namespace":"n","host":"10.0.0.1","port":80,"metadata":{"k":"v"},"#,
        r#""enable_health_check":true,"health_check":{"type":"HEARTBEAT","heartbeat":{"ttl":5}}}]"#
    ),
    r#"P[{"name":"g","namespace":"n","comment":"c"}]"#,
    concat!(
        r#"S[{"name":"draft.yml","group":"g","namespace":"n","content":"k: v","format":"yaml","tags":[{"key":"k","#,
        r#""value":"v"}]}]"#
    ),
    r#"W[{"file_name":"f.properties","group":"g","namespace":"n","content":"a=1","release_name":"r1"}]"#,
    r#"W[{"file_name":"f.properties","group":"g","namespace":"n","content":"a=2","release_name":"r2"}]"#,
    concat!(
        r#"W[{"file_name":"application","group":"app","namespace":"default","content":"a=1\nb=\\u00e4","#,
        r#""release_name":"r1"}]"#
    ),
    concat!(
        r#"W[{"file_name":"f.properties","group":"g","namespace":"n","content":"a=3","release_name":"r3","#,
        r#""release_type":"gray","betaLabels":[{"key":"zone","value":{"type":"IN","value":"a,b"}}]}]"#
    ),
    r#"V[{"file_name":"f.properties","group":"g","namespace":"n","name":"r4","publish_at":"1970-06-01T00:00:00Z"}]"#,
    concat!(
        r#"V[{"file_name":"f.properties","group":"g","namespace":"n","name":"r5","release_type":"gray","#,
        r#""client_percent":{"by":"CLIENT_IP","percent":10}}]"#
    ),
    r#"S[{"name":"sealed.yml","group":"g","namespace":"n","content":"k: v","encrypted":true}]"#,
    r#"r[{"name":"t","content":"k: v","format":"yaml"}]"#,
    r#"W[{"file_name":"w.yml","group":"g","namespace":"n","content":"k: v","release_name":"r1"}]"#,
    r#"q[{"file_name":"w.yml","group":"g","namespace":"n","name":"r1"}]"#,
    r#"a[{"name":"eva","password":"password of eva","grants":[{"role":"editor","namespace":"n","name":"s*"}]}]"#,
    r#"d[{"name":"ci","grants":[{"role":"reader","namespace":"*"}],"networks":["10.0.0.0/8"],"expires_in_s":3600}]"#,
    r#"e[{"app_id":"app","name":"one","mode":"observe","secret":"0123456789abcdef"}]"#,
    r#"0c[{"name":"r","namespace":"n","target_service":{"namespace":"n","service":"s"},"interval":30}]"#,
    r#"0p[{"rule_name":"r","release_name":"r1"}]"#,
    concat!(
        r#"1c[{"name":"r","namespace":"n","callee":{"namespace":"n","service":"s"},"#,
        r#""rules":[{"apis":[{"path":{"type":"EXACT","value":"/charge"}}],"amounts":[{"maxAmount":5,"#,
        r#""validDuration":"1s"}]}]}]"#
    ),
    r#"1p[{"rule_name":"r","release_name":"r1"}]"#,
    concat!(
        r#"1p[{"rule_name":"r","release_name":"g1","release_type":"gray","client_labels":[{"key":"zone","#,
        r#""value":{"type":"IN","value":"a,b"}}]}]"#
    ),
    concat!(
        r#"2c[{"name":"r","namespace":"n","route_policy":"RulePolicy","routing_config":{"rules":[{"name":"one","#,
        r#""sources":[{"namespace":"n","service":"t","arguments":[]}],"destinations":[{"namespace":"n","#,
        r#""service":"s","labels":{"k":{"type":"EXACT","value":"v"}},"weight":100}]}]}}]"#
    ),
    r#"2p[{"rule_name":"r","release_name":"r1"}]"#,
    concat!(
        r#"3c[{"name":"r","namespace":"n","level":"METHOD","ruleMatcher":{"source":{"service":"*","namespace":"*"},"#,
        r#""destination":{"namespace":"n","service":"s"}},"block_configs":[{"name":"b","#,
        r#""api":{"path":{"type":"EXACT","value":"/charge"}},"error_conditions":[{"input_type":"DELAY","#,
        r#""condition":{"value":"300"}}],"trigger_conditions":[{"trigger_type":"ERROR_RATE","error_percent":50,"#,
        r#""interval":60,"minimum_request":10}]}],"recoverCondition":{"sleep_window":60}}]"#
    ),
    r#"3p[{"rule_name":"r","release_name":"r1"}]"#,
];

fn any(_: &[u8]) {}

/// Checks that each part of a command serializes to JSON that parses to an equal value.
fn reads_again<T: Serialize + DeserializeOwned + PartialEq + Debug>(body: &[u8]) {
    let Ok(batch) = Batch::<T>::parse(body) else { return };
    for item in batch.items.iter().flatten() {
        let written = serde_json::value::to_raw_value(item).expect("a draft is JSON");
        assert_eq!(parse_item::<T>(&written).as_ref(), Ok(item), "{written}");
    }
}

fn keyring() -> Keyring {
    Keyring::new(DataKey::of_hex(&"a".repeat(64)))
}

/// Checks that the answer is the envelope under its own status, within the limits of a page or batch, and no internal
/// error.
fn is_success(response: Response) -> bool {
    let status = response.status();
    let answer = read(response);
    let code = answer["code"].as_u64().expect("a code");
    assert_eq!(code / 1000, u64::from(status.as_u16()), "{answer}");
    assert!(answer["info"].is_string() && !status.is_server_error(), "{answer}");
    assert!(answer["size"].as_u64().is_none_or(|size| size <= PAGE_ROWS_MAX as u64), "{answer}");
    let items = answer["responses"].as_array();
    assert!(items.is_none_or(|items| (1..=BATCH_ITEMS_MAX).contains(&items.len())), "{answer}");
    status.is_success()
}

fn read(response: Response) -> Value {
    let body = response.into_body().collect().now_or_never().expect("at hand").expect("whole").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}
