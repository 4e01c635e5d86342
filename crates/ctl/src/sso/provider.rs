//! Calls to an identity provider: its discovery document, and requests for tokens.

use std::path::Path;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use thuban_outbound::{in_words, read_limited};
use url::{Url, form_urlencoded};

use super::super::errors::Usage;
use super::super::remote::http_client;
use super::fault::SignInFault;

const WITHIN: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Maximum characters of an explanation by the provider.
const WHY_CHARS_MAX: usize = 300;
const OPENID: &str = "openid";

/// Public half of a provider, as a node gives it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PublicHalf {
    pub(super) name: String,
    pub(super) issuer: String,
    /// Client of the command line; absent if the provider has only a client with a secret.
    #[serde(default)]
    pub(super) client_id: Option<String>,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
}

/// Members of a discovery document that a sign-in needs.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    token_endpoint: String,
    #[serde(default)]
    authorization_endpoint: Option<String>,
    #[serde(default)]
    device_authorization_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// An identity provider whose addresses are known.
pub(super) struct IdentityProvider {
    pub(super) name: String,
    pub(super) issuer: String,
    pub(super) client_id: String,
    /// Scopes, separated by blanks.
    pub(super) scope: String,
    pub(super) authorization: Option<Url>,
    pub(super) device: Option<Url>,
    /// True if an answer by redirect always names the issuer.
    pub(super) names_itself: bool,
    token: Url,
    client: Client,
}

/// Tokens that come of a sign-in.
#[derive(Debug, Deserialize)]
pub(super) struct SignInTokens {
    #[serde(default)]
    id_token: Option<String>,
    #[serde(default)]
    pub(super) access_token: Option<String>,
}

impl SignInTokens {
    pub(super) fn id_token(&self) -> &str {
        self.id_token.as_deref().unwrap_or_default()
    }
}

/// Answer of the provider to a request that it did not carry out.
pub(super) enum Unserved {
    /// Error code of OAuth, and its explanation.
    Error { code: String, why: String },
    /// A failure that may pass: no connection, a time-out, a fault of the server.
    Away(String),
}

impl IdentityProvider {
    /// Fetches the provider's discovery document. Blocks on the file of authorities.
    pub(super) async fn discover(half: &PublicHalf, ca_file: Option<&Path>) -> anyhow::Result<IdentityProvider> {
        let PublicHalf { name, issuer, client_id, scopes } = half;
        let Some(client_id) = client_id.clone().filter(|id| !id.is_empty()) else {
            let why = format!(
                "identity provider {name} has no client for the command line: an administrator sets its \
                 cli_client_id, as by `thuban edit provider/{name}`"
            );
            return Err(Usage(why).into());
        };
        let builder = http_client(std::slice::from_ref(issuer), ca_file)?.timeout(WITHIN);
        // A plain issuer is on this machine.
        let builder = if issuer.starts_with("https://") { builder } else { builder.no_proxy() };
        let client = builder.build()?;
        let silent = |why: String| SignInFault::Silent { provider: name.clone(), why };
        let address = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let (status, body) = answer(client.get(&address)).await.map_err(silent)?;
        if !status.is_success() {
            return Err(silent(format!("{address} has the status {status}")).into());
        }
        let found: Discovery = serde_json::from_slice(&body)
            .map_err(|error| silent(format!("{address} is no discovery document: {error}")))?;
        if found.issuer != *issuer {
            let why = format!("{address} is of the issuer {:?}, not {issuer:?}", printable(&found.issuer));
            return Err(silent(why).into());
        }
        let endpoint =
            |member: &str, text: &str| endpoint(issuer, text).map_err(|why| silent(format!("{member} {why}")));
        let optional = |member: &str, text: &Option<String>| {
            text.as_deref().filter(|text| !text.is_empty()).map(|text| endpoint(member, text)).transpose()
        };
        let mut words = scopes.iter().map(String::as_str).collect::<Vec<_>>();
        if !words.contains(&OPENID) {
            words.insert(0, OPENID);
        }
        Ok(IdentityProvider {
            name: name.clone(),
            issuer: issuer.clone(),
            client_id,
            scope: words.join(" "),
            authorization: optional("authorization_endpoint", &found.authorization_endpoint)?,
            device: optional("device_authorization_endpoint", &found.device_authorization_endpoint)?,
            names_itself: found.authorization_response_iss_parameter_supported,
            token: endpoint("token_endpoint", &found.token_endpoint)?,
            client,
        })
    }

    /// Sends a form as the client of the command line.
    pub(super) async fn post(&self, to: &Url, form: &[(&str, &str)]) -> Result<Value, Unserved> {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.append_pair("client_id", &self.client_id).extend_pairs(form);
        let request = self.client.post(to.clone()).body(body.finish());
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let (status, body) = answer(request).await.map_err(Unserved::Away)?;
        let parsed = serde_json::from_slice::<Value>(&body).ok().filter(Value::is_object);
        match parsed {
            Some(value) if status.is_success() && value.get("error").is_none() => Ok(value),
            Some(value) if value["error"].is_string() && !status.is_server_error() => {
                let code = printable(value["error"].as_str().unwrap_or_default());
                let more = value["error_description"].as_str().map(printable).filter(|more| !more.is_empty());
                let why = more.map_or_else(|| code.clone(), |more| format!("{more} ({code})"));
                match code.as_str() {
                    "temporarily_unavailable" | "server_error" => Err(Unserved::Away(why)),
                    _ => Err(Unserved::Error { code, why }),
                }
            }
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Err(Unserved::Away(format!("{to} has the status {status}")))
            }
            _ => {
                let why = format!("{to} has the status {status} and no answer of OAuth");
                Err(Unserved::Error { code: String::new(), why })
            }
        }
    }

    /// Sends a request for tokens.
    pub(super) async fn tokens(&self, form: &[(&str, &str)]) -> Result<SignInTokens, Unserved> {
        let value = self.post(&self.token, form).await?;
        let unusable = |why: String| Unserved::Error { code: String::new(), why };
        let tokens: SignInTokens =
            serde_json::from_value(value).map_err(|error| unusable(format!("its answer is of no use: {error}")))?;
        if tokens.id_token().is_empty() {
            return Err(unusable(format!("it gave no ID token for the scopes {:?}", self.scope)));
        }
        Ok(tokens)
    }

    pub(super) fn refused(&self, why: impl Into<String>) -> SignInFault {
        SignInFault::Refused { provider: self.name.clone(), why: why.into() }
    }

    pub(super) fn too_late(&self) -> SignInFault {
        SignInFault::TooLate { provider: self.name.clone() }
    }

    pub(super) fn unserved(&self, unserved: Unserved) -> SignInFault {
        match unserved {
            Unserved::Error { why, .. } => self.refused(why),
            Unserved::Away(why) => SignInFault::Silent { provider: self.name.clone(), why },
        }
    }
}

async fn answer(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), String> {
    let answer = request.header(ACCEPT, "application/json").send().await.map_err(|error| in_words(&error))?;
    let status = answer.status();
    match read_limited(answer, ANSWER_BYTES_MAX).await {
        Ok(Some(body)) => Ok((status, body)),
        Ok(None) => Err(format!("its answer is longer than {ANSWER_BYTES_MAX} bytes")),
        Err(error) => Err(in_words(&error)),
    }
}

/// Parses an address of a discovery document. A provider with TLS has all of its addresses behind TLS, and one without
/// it has them on this machine: nothing secret goes over a network in the clear.
fn endpoint(issuer: &str, text: &str) -> Result<Url, String> {
    let shown = printable(text);
    let url = Url::parse(text).map_err(|error| format!("{shown:?} is no address: {error}"))?;
    let is_loopback = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    match (issuer.starts_with("https://"), url.scheme()) {
        (true, "https") => Ok(url),
        (false, "http") if is_loopback => Ok(url),
        _ => Err(format!("{shown:?} is not protected as the issuer {issuer} is")),
    }
}

/// Makes text of a provider one line of a limited length.
pub(super) fn printable(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(WHY_CHARS_MAX).collect()
}

/// Parses a number of seconds, which some providers send as text.
pub(super) fn seconds(value: &Value) -> Option<Duration> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    Duration::try_from_secs_f64(number).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_are_as_protected_as_the_issuer() {
        let (secure, local) = ("https://id.example.com", "http://127.0.0.1:9");
        for (issuer, text, is_taken) in [
            (secure, "https://id.example.com/token", true),
            (secure, "https://tokens.example.com/token", true),
            (secure, "http://id.example.com/token", false),
            (secure, "http://127.0.0.1/token", false),
            (local, "http://127.0.0.1:9/token", true),
            (local, "http://localhost:9/token", true),
            (local, "http://[::1]:9/token", true),
            (local, "http://10.0.0.1/token", false),
            (local, "http://localhost.example.com/token", false),
            (secure, "/token", false),
            (secure, "file:///etc/passwd", false),
        ] {
            assert_eq!(endpoint(issuer, text).is_ok(), is_taken, "{issuer} {text}");
        }
    }

    #[test]
    fn seconds_are_numbers_or_text() {
        for (value, expected) in [
            (json!(5), Some(5)),
            (json!("900"), Some(900)),
            (json!(5.0), Some(5)),
            (json!(-5), None),
            (json!(1e300), None),
            (json!("soon"), None),
            (Value::Null, None),
        ] {
            assert_eq!(seconds(&value), expected.map(Duration::from_secs), "{value}");
        }
    }
}
