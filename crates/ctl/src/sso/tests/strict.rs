//! An identity provider that checks each request of a client and turns its own clock, and a node that takes its ID
//! tokens, both on one port.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::{Url, form_urlencoded};

use super::super::device::Clock;
use super::super::provider::{IdentityProvider, PublicHalf};

pub(super) const CLIENT: &str = "thuban-cli";
pub(super) const TOKEN_OF_NODE: &str = "a token of the node";

/// Behaviour of the provider.
#[derive(Clone)]
pub(super) struct Manner {
    pub(super) has_device: bool,
    pub(super) has_complete: bool,
    /// Interval in the answer, and the one that is held to.
    pub(super) interval: Option<u64>,
    pub(super) interval_held: u64,
    /// Number of requests that are answered with `slow_down` although they are in time.
    pub(super) busy: u32,
    /// Number of requests that are answered with the status 503.
    pub(super) away: u32,
    pub(super) life: Option<u64>,
    pub(super) life_held: u64,
    /// Moment at which the person signs in.
    pub(super) signed_in_at: u64,
    pub(super) is_denied: bool,
    /// Address to which the discovery document has moved.
    pub(super) moved: Option<&'static str>,
    /// Members of the discovery document that differ.
    pub(super) discovery: Value,
    /// Members of the redirect that differ; null ones are left out.
    pub(super) redirect: Value,
}

impl Default for Manner {
    fn default() -> Self {
        Manner {
            has_device: true,
            has_complete: true,
            interval: Some(5),
            interval_held: 5,
            busy: 0,
            away: 0,
            life: Some(600),
            life_held: 600,
            signed_in_at: 0,
            is_denied: false,
            moved: None,
            discovery: json!({}),
            redirect: json!({}),
        }
    }
}

/// Sign-in under way, by a device code or by a code of a redirect.
struct Grant {
    code: String,
    challenge: String,
    redirect_uri: Option<String>,
    nonce: Option<String>,
    /// Moment of the last request for the tokens.
    last: u64,
    until: u64,
}

#[derive(Default)]
pub(super) struct Seen {
    pub(super) now: Duration,
    /// Moments of the requests for tokens of a device code.
    pub(super) polls: Vec<u64>,
    /// Bodies of the logins at the node.
    pub(super) logins: Vec<Value>,
    pub(super) logouts: u32,
    /// Requests that break the standard.
    pub(super) faults: Vec<String>,
}

struct State {
    address: String,
    manner: Manner,
    seen: Seen,
    grant: Option<Grant>,
    serial: u32,
    id_token: Option<(String, Option<String>)>,
    is_token_alive: bool,
}

#[derive(Clone)]
pub(super) struct StrictProvider(Arc<Mutex<State>>);

struct Answer {
    status: u16,
    location: Option<String>,
    body: Value,
}

impl Answer {
    fn ok(body: Value) -> Answer {
        Answer { status: 200, location: None, body }
    }

    fn error(error: &str) -> Answer {
        Answer { status: 400, location: None, body: json!({ "error": error, "error_description": "of the provider" }) }
    }

    fn refused(status: u16, code: u64) -> Answer {
        Answer { status, location: None, body: json!({ "code": code, "info": "of the node" }) }
    }
}

impl StrictProvider {
    pub(super) async fn start(manner: Manner) -> StrictProvider {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let provider = StrictProvider(Arc::new(Mutex::new(State {
            address,
            manner,
            seen: Seen::default(),
            grant: None,
            serial: 0,
            id_token: None,
            is_token_alive: true,
        })));
        let served = provider.clone();
        thuban_tasks::errand(async move {
            while let Ok((stream, _)) = listener.accept().await {
                thuban_tasks::errand(serve(stream, served.clone()));
            }
        });
        provider
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn address(&self) -> String {
        self.lock().address.clone()
    }

    /// Returns all that was seen; the test fails if a request broke the standard.
    pub(super) fn seen(&self) -> Seen {
        let seen = std::mem::take(&mut self.lock().seen);
        assert!(seen.faults.is_empty(), "{:?}", seen.faults);
        seen
    }

    pub(super) fn end_token_of_node(&self) {
        self.lock().is_token_alive = false;
    }

    pub(super) fn half(&self) -> PublicHalf {
        PublicHalf {
            name: "corp".to_owned(),
            issuer: self.address(),
            client_id: Some(CLIENT.to_owned()),
            scopes: vec!["openid".to_owned(), "email".to_owned()],
        }
    }

    pub(super) async fn discovered(&self) -> anyhow::Result<IdentityProvider> {
        IdentityProvider::discover(&self.half(), None).await
    }
}

/// The clock of the provider, which a sleep turns at once.
impl Clock for StrictProvider {
    fn now(&self) -> Duration {
        self.lock().seen.now
    }

    async fn sleep(&self, time: Duration) {
        self.lock().seen.now += time;
    }
}

async fn serve(mut stream: TcpStream, provider: StrictProvider) {
    let (mut request, mut part) = (Vec::new(), [0; 4096]);
    let (head, body) = loop {
        let read = stream.read(&mut part).await.unwrap_or_default();
        if read == 0 {
            return;
        }
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = header(head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if body.len() >= length {
            break (head.to_owned(), body.to_owned());
        }
    };
    let Answer { status, location, body } = provider.lock().answer(&head, &body);
    let body = body.to_string();
    let location = location.map(|location| format!("Location: {location}\r\n")).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{location}Connection: \
         close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

fn challenge_of(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

impl State {
    fn fault(&mut self, fault: impl Into<String>) -> Answer {
        self.seen.faults.push(fault.into());
        Answer::error("invalid_request")
    }

    fn now(&self) -> u64 {
        self.seen.now.as_secs()
    }

    fn answer(&mut self, head: &str, body: &str) -> Answer {
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let url = Url::parse(&self.address).expect("own address").join(target).expect("a target");
        match (method, url.path()) {
            ("GET", "/.well-known/openid-configuration") => match self.manner.moved {
                Some(address) => Answer { status: 302, location: Some(address.to_owned()), body: Value::Null },
                None => self.discovery(),
            },
            ("GET", "/moved") => self.discovery(),
            ("GET", "/authorize") => match self.form(url.query().unwrap_or_default()) {
                Ok(form) => self.authorize(&form),
                Err(fault) => fault,
            },
            ("POST", "/device" | "/token") => {
                if header(head, "content-type") != Some("application/x-www-form-urlencoded") {
                    return self.fault(format!("no form: {head}"));
                }
                match self.form(body) {
                    Ok(form) if url.path() == "/device" => self.device(&form),
                    Ok(form) => self.token(&form),
                    Err(fault) => fault,
                }
            }
            (_, path) if path.starts_with("/auth/") => self.of_node(method, path, head, body),
            _ => self.fault(format!("{method} {target}")),
        }
    }

    /// Parses a form of the client of the command line, whose members are not repeated.
    fn form(&mut self, text: &str) -> Result<BTreeMap<String, String>, Answer> {
        let mut form = BTreeMap::new();
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            if form.insert(key.clone().into_owned(), value.into_owned()).is_some() {
                return Err(self.fault(format!("{key} is repeated")));
            }
        }
        if form.get("client_id").map(String::as_str) != Some(CLIENT) || form.contains_key("client_secret") {
            return Err(self.fault(format!("not the client of the command line: {text}")));
        }
        Ok(form)
    }

    fn discovery(&self) -> Answer {
        let address = &self.address;
        let mut document = json!({
            "issuer": address,
            "authorization_endpoint": format!("{address}/authorize?tenant=a"),
            "token_endpoint": format!("{address}/token"),
            "jwks_uri": format!("{address}/keys"),
        });
        if self.manner.has_device {
            document["device_authorization_endpoint"] = json!(format!("{address}/device"));
        }
        for (member, value) in self.manner.discovery.as_object().into_iter().flatten() {
            document[member] = value.clone();
        }
        Answer::ok(document)
    }

    fn grant(&mut self, form: &BTreeMap<String, String>) -> Result<String, Answer> {
        let of = |member: &str| form.get(member).cloned();
        let challenge = of("code_challenge").unwrap_or_default();
        let is_complete = challenge.len() == 43 && of("code_challenge_method").as_deref() == Some("S256");
        let scopes = of("scope").unwrap_or_default();
        if !is_complete || !scopes.split(' ').any(|scope| scope == "openid") {
            return Err(self.fault(format!("no challenge, or no scope openid: {form:?}")));
        }
        self.serial += 1;
        let code = format!("code {}", self.serial);
        let (now, life) = (self.now(), self.manner.life_held);
        self.grant = Some(Grant {
            code: code.clone(),
            challenge,
            redirect_uri: of("redirect_uri"),
            nonce: of("nonce"),
            last: now,
            until: now + life,
        });
        Ok(code)
    }

    fn device(&mut self, form: &BTreeMap<String, String>) -> Answer {
        let code = match self.grant(form) {
            Ok(code) => code,
            Err(fault) => return fault,
        };
        let page = format!("{}/enter", self.address);
        let mut body = json!({ "device_code": code, "user_code": "WDJB-MJHT", "verification_uri": page });
        if self.manner.has_complete {
            body["verification_uri_complete"] = json!(format!("{page}?code=WDJB-MJHT"));
        }
        for (member, value) in [("interval", self.manner.interval), ("expires_in", self.manner.life)] {
            if let Some(value) = value {
                body[member] = json!(value);
            }
        }
        Answer::ok(body)
    }

    fn authorize(&mut self, form: &BTreeMap<String, String>) -> Answer {
        let of = |member: &str| form.get(member).map(String::as_str).unwrap_or_default();
        let back = of("redirect_uri").to_owned();
        let is_complete = of("response_type") == "code"
            && back.starts_with("http://127.0.0.1:")
            && of("state").len() >= 22
            && of("nonce").len() >= 22
            && of("tenant") == "a";
        if !is_complete {
            return self.fault(format!("not complete: {form:?}"));
        }
        let code = match self.grant(form) {
            Ok(code) => code,
            Err(fault) => return fault,
        };
        let mut members = json!({ "code": code, "state": of("state"), "iss": self.address, "session_state": "x" });
        for (member, value) in self.manner.redirect.as_object().into_iter().flatten() {
            members[member] = value.clone();
        }
        let mut location = Url::parse(&back).expect("an address");
        for (member, value) in members.as_object().into_iter().flatten() {
            if let Some(value) = value.as_str() {
                location.query_pairs_mut().append_pair(member, value);
            }
        }
        Answer { status: 302, location: Some(location.into()), body: Value::Null }
    }

    fn token(&mut self, form: &BTreeMap<String, String>) -> Answer {
        let of = |member: &str| form.get(member).map(String::as_str).unwrap_or_default();
        let now = self.now();
        let is_device = of("grant_type") == "urn:ietf:params:oauth:grant-type:device_code";
        if is_device {
            self.seen.polls.push(now);
        }
        if self.manner.away > 0 {
            self.manner.away -= 1;
            return Answer { status: 503, location: None, body: json!("no JSON of OAuth") };
        }
        let Some(grant) = &mut self.grant else { return self.fault("there is no such code") };
        let code = if is_device { of("device_code") } else { of("code") };
        if code != grant.code || challenge_of(of("code_verifier")) != grant.challenge {
            return self.fault(format!("the code or the verifier is wrong: {form:?}"));
        }
        if is_device {
            let since = now - std::mem::replace(&mut grant.last, now);
            if now >= grant.until {
                return Answer::error("expired_token");
            }
            if self.manner.busy > 0 {
                self.manner.busy -= 1;
                self.manner.interval_held += 5;
                return Answer::error("slow_down");
            }
            if since < self.manner.interval_held {
                return self.fault(format!("polled after {since} s, not {} s", self.manner.interval_held));
            }
            if self.manner.is_denied {
                return Answer::error("access_denied");
            }
            if now < self.manner.signed_in_at {
                return Answer::error("authorization_pending");
            }
        } else if of("grant_type") != "authorization_code"
            || grant.redirect_uri.as_deref() != form.get("redirect_uri").map(String::as_str)
        {
            return self.fault(format!("another address than before: {form:?}"));
        }
        let nonce = grant.nonce.clone();
        // A code is taken once.
        self.grant = None;
        let id_token = format!("header.{}.signature", self.serial);
        self.id_token = Some((id_token.clone(), nonce));
        Answer::ok(json!({ "id_token": id_token, "access_token": "an access token", "token_type": "Bearer" }))
    }

    fn of_node(&mut self, method: &str, path: &str, head: &str, body: &str) -> Answer {
        let row = json!({ "name": "corp", "issuer": self.address, "client_id": CLIENT, "scopes": ["openid", "email"] });
        let ok = |member: &str, value: Value| Answer::ok(json!({ "code": 200_000, "info": "ok", member: value }));
        match (method, path) {
            ("GET", "/auth/v1/sso") => ok("data", json!([row])),
            ("GET", "/auth/v1/sso/corp") => ok("provider", row),
            ("GET", _) if path.starts_with("/auth/v1/sso/") => Answer::refused(404, 400_202),
            ("POST", "/auth/v1/sso/corp/login") => {
                let body: Value = serde_json::from_str(body).expect("JSON");
                let expected = self.id_token.take().map(|(token, nonce)| {
                    let mut expected = json!({ "id_token": token });
                    if let Some(nonce) = nonce {
                        expected["nonce"] = json!(nonce);
                    }
                    expected["access_token"] = json!("an access token");
                    expected
                });
                if Some(&body) != expected.as_ref() {
                    return Answer::refused(401, 401_004);
                }
                self.seen.logins.push(body);
                ok("loginResponse", json!({ "name": "corp:ann", "token": TOKEN_OF_NODE }))
            }
            _ if header(head, "authorization") != Some(TOKEN_OF_NODE) => Answer::refused(401, 401_002),
            _ if !self.is_token_alive => Answer::refused(401, 401_004),
            ("GET", "/auth/v1/user") => ok("user", json!({ "name": "corp:ann", "until": "2026-11-30 03:00:00" })),
            ("POST", "/auth/v1/sso/corp/test") => {
                let body: Value = serde_json::from_str(body).expect("JSON");
                let has_token = body["token"] == "a token of a pipeline";
                ok("steps", json!([{ "step": "keys", "ok": true, "detail": "" }, { "step": "token", "ok": has_token }]))
            }
            ("POST", "/auth/v1/user/logout") => {
                self.seen.logouts += 1;
                self.is_token_alive = false;
                ok("user", Value::Null)
            }
            _ => self.fault(format!("{method} {path}")),
        }
    }
}
