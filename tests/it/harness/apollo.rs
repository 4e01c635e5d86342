//! A minimal client of the Apollo surface: sends what the test specifies and interprets nothing.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::api::http;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use sha1::Sha1;
use url::form_urlencoded::byte_serialize;

/// Past the longest hold that a test sets.
const REQUEST_LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone)]
pub(crate) struct Apollo {
    base: String,
    http: reqwest::Client,
}

#[derive(Debug)]
pub(crate) struct Pulled {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

/// The end of a long poll.
#[derive(Debug)]
pub(crate) struct Polled {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) ended: Instant,
    pub(crate) held: Duration,
}

impl Apollo {
    /// Creates a client without connection reuse, like the simplest real ones.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let builder = http().pool_max_idle_per_host(0).timeout(REQUEST_LIMIT);
        Apollo { base: format!("http://{address}"), http: builder.build().expect("a client without TLS can be built") }
    }

    /// GET of a path with its query, and with an `Authorization` header if one is given.
    pub(crate) async fn get_as(&self, path: &str, authorization: Option<&str>) -> Pulled {
        let headers: Vec<_> = authorization.map(|value| ("Authorization", value.to_owned())).into_iter().collect();
        self.get_with(path, &headers).await
    }

    /// GET of a path with its query, and with these headers.
    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, String)]) -> Pulled {
        let request = self.http.get(format!("{}{path}", self.base));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let response = request.send().await.unwrap_or_else(|error| panic!("GET {path}: {error:?}"));
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Pulled { status, headers, text: response.text().await.expect("the body arrives whole") }
    }

    pub(crate) async fn get(&self, path: &str) -> Pulled {
        self.get_as(path, None).await
    }

    /// `/configs` of a file; panics unless it is there.
    pub(crate) async fn config(&self, app: &str, cluster: &str, file: &str) -> Value {
        let pulled = self.get(&format!("/configs/{app}/{cluster}/{file}")).await;
        assert_eq!(pulled.status, 200, "{pulled:?}");
        serde_json::from_str(&pulled.text).expect("a config is JSON")
    }

    /// Returns `/configs` of a file for the client that the query describes; panics unless it exists.
    pub(crate) async fn config_for(&self, app: &str, file: &str, query: &str) -> Value {
        let pulled = self.get(&format!("/configs/{app}/default/{file}?{query}")).await;
        serde_json::from_str(&pulled.text).unwrap_or_else(|_| panic!("{query}: {pulled:?}"))
    }

    /// Says for the client of an address that it has applied the release of this key, or why it could not.
    pub(crate) async fn say_applied(&self, of: (&str, &str), address: &str, key: &Value, refusal: Option<&str>) {
        let url = format!("{}/configs/{}/default/{}/applied?ip={address}", self.base, of.0, of.1);
        let body = json!({"releaseKey": key, "ok": refusal.is_none(), "message": refusal});
        let answer = self.http.post(&url).json(&body).send().await.unwrap_or_else(|error| panic!("{url}: {error:?}"));
        assert_eq!(answer.status().as_u16(), 204, "{url}");
    }

    /// A long poll for files with the ids that the client holds.
    pub(crate) async fn poll(&self, app: &str, cluster: &str, held: &[(&str, i64)]) -> Result<Polled, reqwest::Error> {
        self.poll_with(app, cluster, held, "").await
    }

    /// The same with more query text, such as `&dataCenter=x`.
    pub(crate) async fn poll_with(
        &self,
        app: &str,
        cluster: &str,
        held: &[(&str, i64)],
        more: &str,
    ) -> Result<Polled, reqwest::Error> {
        let path = poll_path(app, cluster, held, more);
        let started = Instant::now();
        let response = self.http.get(format!("{}{path}", self.base)).send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let ended = Instant::now();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Polled { status, headers, body, ended, held: ended - started })
    }

    /// Returns the id that this node sends to a client without one; fails for files without any release.
    pub(crate) async fn current_id(&self, app: &str, cluster: &str, file: &str) -> i64 {
        let polled = self.poll(app, cluster, &[(file, -1)]).await.expect("the poll is answered");
        polled.id_of(file).unwrap_or_else(|| panic!("no id for {file}: {polled:?}"))
    }
}

impl Polled {
    /// Returns the id of a file, if it is in the answer.
    pub(crate) fn id_of(&self, file: &str) -> Option<i64> {
        let entries = self.body.as_array()?;
        entries.iter().find(|entry| entry["namespaceName"] == file)?["notificationId"].as_i64()
    }
}

/// The two headers of a client that holds an access key of an app, signed `off_ms` from now.
pub(crate) fn signed(secret: &str, app: &str, path: &str, off_ms: i64) -> [(&'static str, String); 2] {
    let now_ms = time::OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000 + i128::from(off_ms);
    let mut code = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).expect("a key of any length will do");
    code.update(format!("{now_ms}\n{path}").as_bytes());
    let signature = STANDARD.encode(code.finalize().into_bytes());
    [("Timestamp", now_ms.to_string()), ("Authorization", format!("Apollo {app}:{signature}"))]
}

/// Path and query of a long poll.
pub(crate) fn poll_path(app: &str, cluster: &str, held: &[(&str, i64)], more: &str) -> String {
    let items: Vec<Value> =
        held.iter().map(|(file, id)| json!({"namespaceName": file, "notificationId": id})).collect();
    let notifications: String = byte_serialize(Value::Array(items).to_string().as_bytes()).collect();
    format!("/notifications/v2?appId={app}&cluster={cluster}&notifications={notifications}{more}")
}
