//! An identity provider of the test's own: strict about everything that a client sends, with code flow, PKCE and
//! tokens signed by ES256. Real providers are in `tests/clients/sso`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

pub(super) const CLIENT: &str = "thuban";
pub(super) const SECRET: &str = "a secret of the client";
pub(super) const CLI_CLIENT: &str = "thuban-cli";
/// Audience of tokens for programs.
pub(super) const AUDIENCE: &str = "thuban-api";
const KEY_ID: &str = "first";

/// A running provider; it ends when this is dropped.
pub(super) struct Provider {
    shared: Arc<Shared>,
    server: AbortHandle,
}

struct Shared {
    address: SocketAddr,
    key: EcdsaKeyPair,
    random: SystemRandom,
    /// Claims of the person who sits in front of the browser.
    person: Mutex<Value>,
    /// Redirect addresses that are registered.
    redirects: Mutex<Vec<String>>,
    codes: Mutex<HashMap<String, Granted>>,
    fetched_keys: AtomicUsize,
    /// Mistakes of clients.
    faults: Mutex<Vec<String>>,
}

/// A sign-in that a code completes.
struct Granted {
    redirect_uri: String,
    nonce: String,
    challenge: String,
    claims: Value,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[expect(clippy::disallowed_methods, reason = "a provider has a clock of its own")]
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs()
}

impl Provider {
    pub(super) async fn start() -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let shared = Arc::new(Shared {
            address: listener.local_addr().expect("an address"),
            key: EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("a key"),
            random,
            person: Mutex::default(),
            redirects: Mutex::default(),
            codes: Mutex::default(),
            fetched_keys: AtomicUsize::new(0),
            faults: Mutex::default(),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(shared.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Provider { shared, server: serving.abort_handle() }
    }

    pub(super) fn issuer(&self) -> String {
        self.shared.issuer()
    }

    /// The item of `POST /auth/v1/providers` for this provider.
    pub(super) fn item(&self, name: &str) -> Value {
        json!({
            "name": name,
            "issuer": self.issuer(),
            "client_id": CLIENT,
            "client_secret": SECRET,
            "cli_client_id": CLI_CLIENT,
            "bearer": true,
            "audiences": [AUDIENCE],
            "bindings": [
                {"claim": "groups", "value": "admins", "role": "admin", "namespace": "*"},
                {"claim": "groups", "value": "dev-*", "role": "reader", "namespace": "*"},
                {"claim": "groups", "value": "dev-*", "role": "client", "namespace": "*"},
            ],
        })
    }

    /// Registers a redirect address.
    pub(super) fn register(&self, redirect_uri: &str) {
        self.shared.redirects.lock().push(redirect_uri.to_owned());
    }

    /// Puts a person in front of the browser.
    pub(super) fn seat(&self, sub: &str, username: &str, groups: &[&str]) {
        *self.shared.person.lock() =
            json!({"sub": sub, "sid": format!("session-of-{sub}"), "preferred_username": username, "groups": groups});
    }

    /// Signs a token with these claims besides issuer and times.
    pub(super) fn sign(&self, claims: &Value) -> String {
        self.shared.sign("JWT", claims)
    }

    /// A token for programs, for five minutes.
    pub(super) fn bearer(&self, sub: &str, username: &str, groups: &[&str]) -> String {
        self.sign(&json!({"sub": sub, "preferred_username": username, "groups": groups, "aud": AUDIENCE}))
    }

    /// An ID token of the client for command lines.
    pub(super) fn id_token(&self, sub: &str, username: &str, groups: &[&str]) -> String {
        // The number makes each token another one.
        self.sign(&json!({"sub": sub, "sid": format!("session-of-{sub}"), "preferred_username": username,
            "groups": groups, "aud": CLI_CLIENT, "jti": drawn()}))
    }

    /// A token that ends the session of a person at the clients.
    pub(super) fn logout_token(&self, sub: &str) -> String {
        let events = json!({"http://schemas.openid.net/event/backchannel-logout": {}});
        let claims = json!({"aud": CLIENT, "sid": format!("session-of-{sub}"), "sub": sub, "jti": drawn(),
            "events": events});
        self.shared.sign("logout+jwt", &claims)
    }

    pub(super) fn fetched_keys(&self) -> usize {
        self.shared.fetched_keys.load(Ordering::Relaxed)
    }

    /// Returns the mistakes of clients.
    pub(super) fn faults(&self) -> Vec<String> {
        self.shared.faults.lock().clone()
    }
}

fn drawn() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

impl Shared {
    fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    fn sign(&self, kind: &str, claims: &Value) -> String {
        let mut all = json!({"iss": self.issuer(), "iat": now(), "exp": now() + 300});
        all.as_object_mut().expect("an object").extend(claims.as_object().expect("an object").clone());
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&json!({"alg": "ES256", "kid": KEY_ID, "typ": kind})), part(&all));
        let signature = self.key.sign(&self.random, text.as_bytes()).expect("a signature");
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    fn refuse(&self, why: impl Into<String>) -> Response {
        let why = why.into();
        self.faults.lock().push(why.clone());
        (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_request", "error_description": why}))).into_response()
    }
}

async fn discovery(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let issuer = shared.issuer();
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "end_session_endpoint": format!("{issuer}/end"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    }))
}

async fn keys(State(shared): State<Arc<Shared>>) -> Json<Value> {
    shared.fetched_keys.fetch_add(1, Ordering::Relaxed);
    // An uncompressed point: a byte, then both coordinates.
    let point = shared.key.public_key().as_ref();
    let half = |at: usize| URL_SAFE_NO_PAD.encode(&point[at..at + 32]);
    Json(json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": KEY_ID, "use": "sig", "x": half(1), "y": half(33)}]}))
}

async fn authorize(State(shared): State<Arc<Shared>>, Query(asked): Query<HashMap<String, String>>) -> Response {
    let of = |key: &str| asked.get(key).map(String::as_str).unwrap_or_default();
    for (key, expected) in [("response_type", "code"), ("client_id", CLIENT), ("code_challenge_method", "S256")] {
        if of(key) != expected {
            return shared.refuse(format!("{key} is {:?}", of(key)));
        }
    }
    let redirect_uri = of("redirect_uri").to_owned();
    if !shared.redirects.lock().contains(&redirect_uri) {
        return shared.refuse(format!("redirect_uri {redirect_uri} is not registered"));
    }
    if !of("scope").split(' ').any(|scope| scope == "openid") {
        return shared.refuse("scope lacks openid");
    }
    for key in ["state", "nonce", "code_challenge"] {
        if of(key).len() < 32 {
            return shared.refuse(format!("{key} is too short"));
        }
    }
    let code = drawn();
    let granted = Granted {
        redirect_uri: redirect_uri.clone(),
        nonce: of("nonce").to_owned(),
        challenge: of("code_challenge").to_owned(),
        claims: shared.person.lock().clone(),
    };
    shared.codes.lock().insert(code.clone(), granted);
    let issuer = shared.issuer();
    let pairs = [("code", code.as_str()), ("state", of("state")), ("iss", &issuer), ("session_state", "any")];
    let query: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    Redirect::to(&format!("{redirect_uri}?{query}")).into_response()
}

async fn token(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> Response {
    let asked: HashMap<_, _> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let of = |key: &str| asked.get(key).map(String::as_str).unwrap_or_default();
    let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let expected = format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(CLIENT), encoded(SECRET))));
    if headers.get("authorization").and_then(|value| value.to_str().ok()) != Some(&expected) {
        return shared.refuse("the client is not authenticated");
    }
    if of("grant_type") != "authorization_code" {
        return shared.refuse("grant_type");
    }
    // A code is used once.
    let Some(granted) = shared.codes.lock().remove(of("code")) else { return shared.refuse("code is unknown or used") };
    if granted.redirect_uri != of("redirect_uri") {
        return shared.refuse("redirect_uri differs");
    }
    if URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier"))) != granted.challenge {
        return shared.refuse("code_verifier does not fit");
    }
    let mut claims = granted.claims;
    claims["aud"] = CLIENT.into();
    claims["nonce"] = granted.nonce.into();
    let id_token = shared.sign("JWT", &claims);
    Json(json!({"access_token": drawn(), "token_type": "Bearer", "expires_in": 300, "id_token": id_token}))
        .into_response()
}
