//! Responses of a provider: callbacks, tokens, device flows, userinfo.

use serde::Deserialize;
use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::DOCUMENT_BYTES_MAX;
use crate::fault::{OidcFault, quoted, shortened};
use crate::json::strict_object;
use crate::jwt::{TOKEN_BYTES_MAX, text_claim};

/// Maximum length of the query of a callback.
const QUERY_BYTES_MAX: usize = 16 * 1024;
/// Maximum characters of a provider's own words.
const WORDS_CHARS_MAX: usize = 200;
const POLL_INTERVAL_S: u64 = 5;
const POLL_INTERVAL_S_MAX: u64 = 300;
/// Lifetime of a device code if the provider names none, and at most.
const DEVICE_CODE_S: u64 = 600;
const DEVICE_CODE_S_MAX: u64 = 3600;

/// Query of a callback that belongs to this issuer.
#[derive(Clone, PartialEq, Eq)]
pub struct Callback {
    pub state: String,
    /// The code, or the refusal of the provider.
    pub code: Result<String, EndpointRefusal>,
}

/// Error response of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}{}{description}", if description.is_empty() { "" } else { ": " })]
pub struct EndpointRefusal {
    /// Code such as `access_denied`.
    pub error: String,
    /// Words of the provider, shortened and without control characters; may be empty.
    pub description: String,
}

/// Tokens from the token endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedTokens {
    pub id_token: Option<String>,
    pub access_token: Option<String>,
    pub refresh_token: Option<String>,
}

/// Response to the start of a device flow.
#[derive(Clone, PartialEq, Eq)]
pub struct DeviceStart {
    pub device_code: String,
    /// Code that the person types.
    pub user_code: String,
    pub verification_uri: String,
    /// Address that contains the code.
    pub verification_uri_complete: Option<String>,
    pub interval_s: u64,
    pub expires_s: u64,
}

/// Response to a poll of a device flow.
#[derive(Clone, PartialEq, Eq)]
pub enum DevicePoll {
    Tokens(IssuedTokens),
    /// The person has not confirmed yet.
    Pending,
    /// As `Pending`, and all later polls are 5 s further apart.
    SlowDown,
    /// The person refused, or the code has ended.
    Refused(EndpointRefusal),
}

#[derive(Deserialize)]
struct ErrorDocument {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

#[derive(Deserialize)]
struct TokenDocument {
    id_token: Option<String>,
    access_token: Option<String>,
    refresh_token: Option<String>,
    token_type: Option<String>,
}

#[derive(Deserialize)]
struct DeviceDocument {
    device_code: String,
    user_code: String,
    // Google's name, from before the standard.
    #[serde(alias = "verification_url")]
    verification_uri: String,
    #[serde(alias = "verification_url_complete")]
    verification_uri_complete: Option<String>,
    interval: Option<Value>,
    expires_in: Option<Value>,
}

impl EndpointRefusal {
    fn new(error: &str, description: Option<&str>) -> EndpointRefusal {
        EndpointRefusal { error: words(error), description: words(description.unwrap_or_default()) }
    }

    /// Returns the refusal in the body of an error response; one without words if the body is not of this kind.
    fn read(status: u16, body: &[u8]) -> EndpointRefusal {
        match serde_json::from_slice::<ErrorDocument>(body) {
            Ok(read) => EndpointRefusal::new(&read.error, read.error_description.as_deref()),
            Err(_) => EndpointRefusal::new(&format!("the status {status}"), None),
        }
    }
}

/// Reads the query of a callback. A parameter that occurs twice is refused, and so is another issuer's response;
/// `sends_issuer` is [`crate::Metadata::sends_issuer`]. Unknown parameters are ignored.
pub fn read_callback(query: &str, issuer: &str, sends_issuer: bool) -> Result<Callback, OidcFault> {
    if query.len() > QUERY_BYTES_MAX {
        return Err(OidcFault::whole("query", "the query of the callback is too long"));
    }
    let mut found: [Option<String>; 5] = Default::default();
    let names = ["code", "state", "iss", "error", "error_description"];
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let Some(at) = names.iter().position(|known| *known == name) else { continue };
        if found[at].replace(value.into_owned()).is_some() {
            return Err(OidcFault::new(names[at], "occurs twice in the callback"));
        }
    }
    let [code, state, iss, error, description] = found;
    match iss {
        Some(iss) if iss != issuer => {
            return Err(OidcFault::new("iss", format!("of the callback is {}, not {}", quoted(&iss), quoted(issuer))));
        }
        None if sends_issuer => return Err(OidcFault::new("iss", "is missing in the callback")),
        _ => {}
    }
    let state = state.ok_or_else(|| OidcFault::new("state", "is missing in the callback"))?;
    let code = match (code, error) {
        (_, Some(error)) => Err(EndpointRefusal::new(&error, description.as_deref())),
        (Some(code), None) if !code.is_empty() => Ok(code),
        _ => return Err(OidcFault::new("code", "is missing in the callback")),
    };
    Ok(Callback { state, code })
}

/// Reads a response of the token endpoint.
pub fn read_tokens(status: u16, body: &[u8]) -> Result<Result<IssuedTokens, EndpointRefusal>, OidcFault> {
    if !(200..300).contains(&status) {
        return Ok(Err(EndpointRefusal::read(status, body)));
    }
    let read: TokenDocument = document("token response", body)?;
    if let Some(typ) = read.token_type.filter(|typ| !typ.eq_ignore_ascii_case("bearer")) {
        return Err(OidcFault::new("token_type", format!("is {}, not Bearer", quoted(&typ))));
    }
    let fields =
        [("id_token", &read.id_token), ("access_token", &read.access_token), ("refresh_token", &read.refresh_token)];
    for (field, token) in fields {
        if token.as_ref().is_some_and(|token| token.len() > TOKEN_BYTES_MAX) {
            return Err(OidcFault::new(field, format!("has more than {TOKEN_BYTES_MAX} bytes")));
        }
    }
    let TokenDocument { id_token, access_token, refresh_token, .. } = read;
    Ok(Ok(IssuedTokens { id_token, access_token, refresh_token }))
}

/// Reads a response of the device authorization endpoint.
pub fn read_device_start(status: u16, body: &[u8]) -> Result<Result<DeviceStart, EndpointRefusal>, OidcFault> {
    if !(200..300).contains(&status) {
        return Ok(Err(EndpointRefusal::read(status, body)));
    }
    let read: DeviceDocument = document("device response", body)?;
    for (field, text) in [("user_code", &read.user_code), ("verification_uri", &read.verification_uri)] {
        if text.is_empty() || text.len() > 2048 || text.chars().any(char::is_control) {
            return Err(OidcFault::new(field, format!("is {}", quoted(text))));
        }
    }
    let complete = read.verification_uri_complete.filter(|uri| uri.len() <= 2048 && !uri.chars().any(char::is_control));
    let interval_s = seconds(read.interval.as_ref()).unwrap_or(POLL_INTERVAL_S).clamp(1, POLL_INTERVAL_S_MAX);
    let expires_s = seconds(read.expires_in.as_ref()).unwrap_or(DEVICE_CODE_S).clamp(1, DEVICE_CODE_S_MAX);
    let (device_code, user_code, verification_uri) = (read.device_code, read.user_code, read.verification_uri);
    let verification_uri_complete = complete;
    Ok(Ok(DeviceStart { device_code, user_code, verification_uri, verification_uri_complete, interval_s, expires_s }))
}

/// Reads the response to a poll.
pub fn read_device_poll(status: u16, body: &[u8]) -> Result<DevicePoll, OidcFault> {
    Ok(match read_tokens(status, body)? {
        Ok(tokens) => DevicePoll::Tokens(tokens),
        Err(refusal) => match refusal.error.as_str() {
            "authorization_pending" => DevicePoll::Pending,
            "slow_down" => DevicePoll::SlowDown,
            _ => DevicePoll::Refused(refusal),
        },
    })
}

/// Reads a successful response of the userinfo endpoint, about the `sub` of the ID token. `media_type` is its header
/// `Content-Type`.
pub fn read_userinfo(media_type: &str, body: &[u8], sub: &str) -> Result<Map<String, Value>, OidcFault> {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/jwt") {
        let text = "the userinfo response is a JWT; the provider has to send it as JSON to this client";
        return Err(OidcFault::whole("response", text));
    }
    if body.len() > DOCUMENT_BYTES_MAX {
        return Err(OidcFault::whole("response", "the userinfo response is larger than 1 MiB"));
    }
    let claims =
        strict_object(body).map_err(|why| OidcFault::whole("response", format!("the userinfo response {why}")))?;
    let found = text_claim(&claims, "sub")?;
    if found != sub {
        let rest = format!("of userinfo is {}, not {} as in the ID token", quoted(found), quoted(sub));
        return Err(OidcFault::new("sub", rest));
    }
    Ok(claims)
}

fn document<'a, T: Deserialize<'a>>(name: &str, body: &'a [u8]) -> Result<T, OidcFault> {
    if body.len() > DOCUMENT_BYTES_MAX {
        return Err(OidcFault::whole("response", format!("the {name} is larger than 1 MiB")));
    }
    serde_json::from_slice(body)
        .map_err(|error| OidcFault::whole("response", format!("the {name} cannot be read: {}", shortened(&error))))
}

/// Returns a number of seconds, which some providers send as a text.
fn seconds(value: Option<&Value>) -> Option<u64> {
    let number = match value? {
        Value::String(text) => text.parse().ok()?,
        value => value.as_f64()?,
    };
    // Saturates, and callers clamp it.
    Some(number.ceil() as u64)
}

/// Returns a provider's words in one short line.
fn words(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(WORDS_CHARS_MAX).collect::<String>().trim().to_owned()
}
