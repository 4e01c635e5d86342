//! A client of the management surface: sends JSON, keeps the token, and reads the envelope.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio_rustls::rustls::ClientConfig;

/// Past the server's own limit of 10 s, so that its answer is what a test sees.
const REQUEST_LIMIT: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub(crate) struct Api {
    base: String,
    token: Option<String>,
    http: reqwest::Client,
}

/// An answer in the envelope, with its HTTP status and headers.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// A client that speaks HTTP without TLS.
pub(crate) fn http() -> reqwest::ClientBuilder {
    https(thuban_outbound::trust::trusting_nobody().expect("a client without authorities"))
}

/// A client that speaks HTTP with this TLS.
pub(crate) fn https(tls: ClientConfig) -> reqwest::ClientBuilder {
    #[expect(clippy::disallowed_methods, reason = "this is the place that gives it its TLS")]
    let builder = reqwest::Client::builder();
    builder.tls_backend_preconfigured(tls)
}

impl Api {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Api::with_client(address, http())
    }

    /// A connection per request: what happens to it is then known to have happened to that request.
    pub(crate) fn unpooled(address: SocketAddr) -> Self {
        Api::with_client(address, http().pool_max_idle_per_host(0))
    }

    /// Connects by TLS.
    pub(crate) fn secure(address: SocketAddr, tls: &ClientConfig) -> Self {
        let api = Api::with_client(address, https(tls.clone()).pool_max_idle_per_host(0));
        Api { base: format!("https://{address}"), ..api }
    }

    fn with_client(address: SocketAddr, builder: reqwest::ClientBuilder) -> Self {
        let http = builder.timeout(REQUEST_LIMIT).build().expect("a client without TLS can be built");
        Api { base: format!("http://{address}"), token: None, http }
    }

    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    pub(crate) fn without_token(mut self) -> Self {
        self.token = None;
        self
    }

    /// The token of the administrator, or why there is none.
    pub(crate) async fn login(&self, password: &str) -> Result<String, String> {
        let body = json!({"name": "admin", "password": password});
        let answer =
            self.try_send(Method::POST, "/auth/v1/user/login", Some(&body)).await.map_err(|e| e.to_string())?;
        match answer.body["loginResponse"]["token"].as_str() {
            Some(token) if answer.code() == 200_000 => Ok(token.to_owned()),
            _ => Err(answer.to_string()),
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.header("Authorization", token),
            None => request,
        }
    }

    /// Sends; an error is one of the connection, never of the answer's content.
    pub(crate) async fn try_send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, reqwest::Error> {
        let request = self.request(method, path);
        Answer::read(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let told = format!("{method} {}{path}", self.base);
        self.try_send(method, path, body).await.unwrap_or_else(|error| panic!("{told}: {error:?}"))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, Some(body)).await
    }

    /// Saves and publishes a config file in one step; a name without suffix is a properties file.
    pub(crate) async fn publish(&self, namespace: &str, group: &str, file: &str, content: &str) -> Answer {
        let mut body = json!({"namespace": namespace, "group": group, "file_name": file, "content": content});
        if !file.contains('.') {
            body["format"] = json!("properties");
        }
        self.post("/config/v1/configfiles/createandpub", &body).await.expect_code(200_000)
    }

    /// This node's view of the cluster.
    pub(crate) async fn cluster(&self) -> Result<Answer, String> {
        let answer = self.try_send(Method::GET, "/admin/v1/cluster", None).await.map_err(|e| e.to_string())?;
        if answer.code() == 200_000 { Ok(answer) } else { Err(answer.to_string()) }
    }

    /// The value of one series on `/metrics`, named as it is written there, labels included.
    pub(crate) async fn metric(&self, series: &str) -> Option<f64> {
        let request = self.request(Method::GET, "/metrics");
        let text = request.send().await.ok()?.text().await.ok()?;
        let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
        line[series.len()..].trim().parse().ok()
    }

    /// The status and text of a health endpoint.
    pub(crate) async fn health(&self, path: &str) -> Result<(u16, String), String> {
        let response = self.request(Method::GET, path).send().await.map_err(|e| e.to_string())?;
        Ok((response.status().as_u16(), response.text().await.map_err(|e| e.to_string())?))
    }
}

impl Answer {
    /// Sends a request prepared by hand and reads the envelope.
    pub(crate) async fn read(request: RequestBuilder) -> Result<Answer, reqwest::Error> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let body = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text));
        Ok(Answer { status, headers, body })
    }

    /// The business code; 0 when the answer is not in the envelope.
    pub(crate) fn code(&self) -> u64 {
        self.body["code"].as_u64().unwrap_or(0)
    }

    /// Fails unless the answer has this code and its status.
    #[track_caller]
    pub(crate) fn expect_code(self, code: u64) -> Answer {
        assert_eq!(self.code(), code, "{self}");
        assert_eq!(u64::from(self.status), code / 1000, "{self}");
        self
    }

    /// The codes of a batch's items, in order.
    pub(crate) fn item_codes(&self) -> Vec<u64> {
        let items = self.body["responses"].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().map(|item| item["code"].as_u64().unwrap_or(0)).collect()
    }

    pub(crate) fn amount(&self) -> u64 {
        self.body["amount"].as_u64().unwrap_or_else(|| panic!("no amount in {self}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HTTP {} {}", self.status, self.body)
    }
}
