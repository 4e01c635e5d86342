//! A provider under the control of a test: an HTTP server whose answers can be hostile in any way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::metrics::Metrics;
use crate::model::sso::{Binding, Provider};
use crate::model::stamp::Stamp;
use crate::model::time::Timestamp;
use crate::oidc::Algorithm;
use crate::oidc::testing::{TestKey, key_set};
use crate::sso::client::ProviderClient;
use crate::sso::{IdentityProviders, SsoClock};
use crate::tasks;

/// Time of the tests in seconds.
pub(super) const NOW_S: u64 = 1_800_000_000;

/// Answer of a path.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Json(u16, Value),
    /// A body of any kind with its media type.
    Text(&'static str, String),
    Redirect(String),
    /// Bytes without end.
    Endless,
    /// A byte now and then, without end.
    Trickle,
    /// A head, and then nothing.
    Silent,
    /// The end of the connection.
    Close,
}

impl Answer {
    /// Returns the beginning of the answer, for failures of tests.
    pub(super) fn name(&self) -> String {
        format!("{self:?}").chars().take(120).collect()
    }
}

/// A request that was received.
#[derive(Clone, Debug)]
pub(super) struct Received {
    pub(super) path: String,
    pub(super) head: String,
    pub(super) body: String,
}

#[derive(Default)]
struct Script {
    answers: HashMap<String, Answer>,
    received: Vec<Received>,
    is_down: bool,
}

/// A provider at a loopback address.
pub(super) struct HostileProvider {
    pub(super) issuer: String,
    script: Arc<Mutex<Script>>,
    server: JoinHandle<()>,
}

impl Drop for HostileProvider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl HostileProvider {
    /// Starts an honest provider with these keys.
    pub(super) async fn start<'a>(keys: impl IntoIterator<Item = &'a TestKey>) -> HostileProvider {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let script = Arc::new(Mutex::new(Script::default()));
        let served = script.clone();
        let server = tasks::errand(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tasks::errand(serve(stream, served.clone()));
            }
        });
        let provider = HostileProvider { issuer: format!("http://{address}/acme"), script, server };
        provider.answer("/acme/.well-known/openid-configuration", Answer::Json(200, provider.document()));
        provider.answer_keys(keys);
        provider
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.issuer.trim_end_matches("/acme"))
    }

    /// Returns an honest discovery document.
    pub(super) fn document(&self) -> Value {
        json!({
            "issuer": self.issuer, "jwks_uri": self.url("/keys"), "authorization_endpoint": self.url("/auth"),
            "token_endpoint": self.url("/token"), "userinfo_endpoint": self.url("/userinfo"),
            "id_token_signing_alg_values_supported": ["RS256", "ES256"]
        })
    }

    pub(super) fn answer(&self, path: &str, answer: Answer) {
        self.script.lock().answers.insert(path.to_owned(), answer);
    }

    pub(super) fn answer_discovery(&self, answer: Answer) {
        self.answer("/acme/.well-known/openid-configuration", answer);
    }

    pub(super) fn answer_keys<'a>(&self, keys: impl IntoIterator<Item = &'a TestKey>) {
        self.answer("/keys", Answer::Json(200, key_set(keys)));
    }

    /// Closes every connection unanswered, or ends that.
    pub(super) fn set_down(&self, is_down: bool) {
        self.script.lock().is_down = is_down;
    }

    /// Returns the number of requests for a path, answered or not.
    pub(super) fn count(&self, path: &str) -> usize {
        self.script.lock().received.iter().filter(|one| one.path == path).count()
    }

    pub(super) fn last(&self, path: &str) -> Received {
        self.script.lock().received.iter().rev().find(|one| one.path == path).expect("a request").clone()
    }

    /// Returns the provider as the state has it.
    pub(super) fn provider(&self) -> Provider {
        let binding = json!({"claim": "groups", "value": "dev", "role": "operator", "namespace": "shop"});
        let binding: Binding = serde_json::from_value(binding).expect("a binding");
        Provider {
            issuer: self.issuer.clone(),
            client_id: "thuban".to_owned(),
            bearer: true,
            audiences: vec!["thuban-api".to_owned()],
            bindings: vec![binding],
            revision: "r1".to_owned(),
            ..Provider::new("p1", "acme", Stamp::default())
        }
    }

    /// Claims of an ID token with the nonce `n`.
    pub(super) fn id_claims(&self) -> Value {
        json!({
            "iss": self.issuer, "sub": "u-1", "aud": "thuban", "nonce": "n", "sid": "s-1", "iat": NOW_S - 5,
            "exp": NOW_S + 300, "preferred_username": "ann", "groups": ["dev"]
        })
    }

    /// Claims of a bearer token.
    pub(super) fn bearer_claims(&self) -> Value {
        json!({
            "iss": self.issuer, "sub": "u-9", "aud": "thuban-api", "iat": NOW_S - 5, "exp": NOW_S + 300,
            "preferred_username": "pipeline", "groups": ["dev"]
        })
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Mutex<Script>>) {
    loop {
        let Some(received) = read(&mut stream).await else { return };
        let answer = {
            let mut script = script.lock();
            let answer = script.answers.get(&received.path).cloned();
            script.received.push(received);
            if script.is_down { Some(Answer::Close) } else { answer }
        };
        let head = |status: u16, more: &str| format!("HTTP/1.1 {status} X\r\nDate: {DATE}\r\n{more}\r\n");
        let text = match answer.unwrap_or(Answer::Json(404, json!({}))) {
            Answer::Json(status, body) => with_body(&head(status, ""), "application/json", &body.to_string()),
            Answer::Text(media_type, body) => with_body(&head(200, ""), media_type, &body),
            Answer::Redirect(to) => head(302, &format!("Location: {to}\r\nContent-Length: 0\r\n")),
            Answer::Close => return,
            Answer::Silent => {
                let _ = stream.write_all(head(200, "Content-Length: 10\r\n").as_bytes()).await;
                return std::future::pending().await;
            }
            endless => {
                let _ = stream.write_all(head(200, "Content-Type: application/json\r\n").as_bytes()).await;
                let (bytes, pause) = match endless {
                    Answer::Endless => (vec![b' '; 65_536], Duration::ZERO),
                    _ => (vec![b' '], Duration::from_millis(20)),
                };
                while stream.write_all(&bytes).await.is_ok() {
                    tokio::time::sleep(pause).await;
                }
                return;
            }
        };
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// [`NOW_S`] as a header has it.
const DATE: &str = "Fri, 15 Jan 2027 08:00:00 GMT";

fn with_body(head: &str, media_type: &str, body: &str) -> String {
    let head = head.trim_end_matches("\r\n");
    format!("{head}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

async fn read(stream: &mut TcpStream) -> Option<Received> {
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(end) = text.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        text.extend_from_slice(&buffer[..read]);
    };
    let head = String::from_utf8(text[..end].to_vec()).ok()?;
    let lower = head.to_lowercase();
    let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let length: usize = length.map_or(Some(0), |length| length.parse().ok())?;
    while text.len() < end + length {
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        text.extend_from_slice(&buffer[..read]);
    }
    let path = head.split(' ').nth(1)?.split('?').next()?.to_owned();
    Some(Received { path, head, body: String::from_utf8(text[end..].to_vec()).ok()? })
}

/// The providers of a node, with a clock that the test moves.
pub(super) struct NodeUnderTest {
    pub(super) providers: Arc<IdentityProviders>,
    pub(super) metrics: Arc<Metrics>,
    passed_ms: Arc<AtomicU64>,
}

impl NodeUnderTest {
    pub(super) fn new() -> NodeUnderTest {
        let (metrics, passed_ms) = (Arc::new(Metrics::new().expect("metrics")), Arc::new(AtomicU64::new(0)));
        let (one, two) = (passed_ms.clone(), passed_ms.clone());
        let clock = SsoClock {
            now: Arc::new(move || Timestamp(NOW_S * 1000 + one.load(Ordering::Relaxed))),
            elapsed: Arc::new(move || Duration::from_millis(two.load(Ordering::Relaxed))),
        };
        let mut providers = IdentityProviders::new(clock, None, metrics.clone());
        providers.client = Arc::new(ProviderClient::new(None, Duration::from_millis(500)));
        NodeUnderTest { providers: Arc::new(providers), metrics, passed_ms }
    }

    /// Moves both clocks.
    pub(super) fn pass(&self, time: Duration) {
        self.passed_ms.fetch_add(u64::try_from(time.as_millis()).expect("a short time"), Ordering::Relaxed);
    }
}

pub(super) fn key(id: &str) -> TestKey {
    TestKey::new(Algorithm::Es256, id)
}
