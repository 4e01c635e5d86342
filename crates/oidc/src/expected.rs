//! Checks of verified tokens: ID tokens, bearer tokens of programs, logout tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::fault::{FaultCause, OidcFault, quoted};
use crate::jwt::{SignedJwt, text_claim};

/// Maximum length of `sub` in a token about a person, by the standard.
const PERSON_SUB_BYTES_MAX: usize = 255;
/// Maximum length of `sub` in a bearer token: CI systems put repository and branch there.
const PROGRAM_SUB_BYTES_MAX: usize = 1024;
const SHORT_TEXT_BYTES_MAX: usize = 255;
/// Maximum age of an ID token when it is handed in.
const ID_TOKEN_AGE_MS_MAX: u64 = 5 * 60 * 1000;
/// Maximum age of a logout token without `exp`.
const LOGOUT_AGE_MS_MAX: u64 = 2 * 60 * 1000;
/// Highest accepted time, the end of the year 9999.
const SECONDS_MAX: f64 = 253_402_300_799.0;
/// Member of `events` that makes a token a logout token.
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
/// Claims that only ID tokens and logout tokens have.
const FOREIGN_TO_BEARERS: [&str; 4] = ["nonce", "at_hash", "c_hash", "events"];

/// Expectations on a token.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Issuer, compared exactly.
    pub issuer: &'a str,
    /// Audiences of which the token has to name one.
    pub audiences: &'a [&'a str],
    /// Current time in milliseconds since 1970.
    pub now_ms: u64,
    /// Accepted difference of the clocks.
    pub leeway_ms: u64,
}

/// An ID token or a bearer token that passed its checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    pub sub: String,
    pub sid: Option<String>,
    /// Time of `iat`; `None` for a bearer token without it.
    pub issued_ms: Option<u64>,
    /// Time of `exp`, without the leeway.
    pub expires_ms: u64,
    pub claims: Map<String, Value>,
    /// SHA-256 of the signed part. Two spellings of one token have the same.
    pub digest: [u8; 32],
}

/// A logout token that passed its checks. `sub`, `sid` or both name what ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogoutToken {
    pub sub: Option<String>,
    pub sid: Option<String>,
    /// Id of the token, which is to be accepted once.
    pub jti: String,
    /// Time from which the token is refused in any case.
    pub refused_from_ms: u64,
}

/// Checks an ID token for one of the client ids in `expected.audiences`. `nonce` is the one of the request: the token
/// must have the same, or none if there was none. An access token that came with it must fit `at_hash`.
pub fn check_id_token(
    jwt: SignedJwt<'_>,
    expected: &Expected<'_>,
    nonce: Option<&str>,
    access_token: Option<&str>,
) -> Result<Checked, OidcFault> {
    let claims = jwt.claims();
    check_media_type(&jwt, &["jwt", "id_token+jwt"], "an ID token")?;
    if let Some(typ) = payload_typ(claims).filter(|typ| ["bearer", "refresh", "offline", "logout"].contains(typ)) {
        return Err(OidcFault::new("typ", format!("is {}: the token is no ID token", quoted(typ))));
    }
    if claims.contains_key("events") {
        return Err(OidcFault::new("events", "is there: the token is no ID token"));
    }
    let audiences = check_parties(claims, expected)?;
    check_authorized_party(claims, expected, audiences)?;
    let issued_ms = issued(claims, expected)?.ok_or_else(|| OidcFault::new("iat", "is missing"))?;
    let expires_ms = check_times(claims, expected)?;
    if expected.now_ms >= issued_ms.saturating_add(ID_TOKEN_AGE_MS_MAX).saturating_add(expected.leeway_ms) {
        return Err(OidcFault::new("iat", "is more than 5 minutes ago").with(FaultCause::Time));
    }
    match (nonce, claims.get("nonce")) {
        (Some(sent), Some(Value::String(found))) if found == sent => {}
        (None, None) => {}
        (Some(_), None) => return Err(OidcFault::new("nonce", "is missing")),
        (None, Some(_)) => return Err(OidcFault::new("nonce", "is there, and none was handed in with the token")),
        (Some(_), Some(_)) => return Err(OidcFault::new("nonce", "is not the one of this sign-in")),
    }
    if let (Some(access_token), Some(found)) = (access_token, claims.get("at_hash")) {
        let hash = URL_SAFE_NO_PAD.encode(jwt.algorithm().half_hash(access_token));
        if found.as_str() != Some(&hash) {
            return Err(OidcFault::new("at_hash", "is not the hash of the access token"));
        }
    }
    let sub = subject(claims, PERSON_SUB_BYTES_MAX)?.ok_or_else(|| OidcFault::new("sub", "is missing"))?;
    let sid = short_text(claims, "sid")?;
    let digest = jwt.digest();
    Ok(Checked { sub, sid, issued_ms: Some(issued_ms), expires_ms, claims: jwt.into_claims(), digest })
}

/// Checks a bearer token of a program. ID, refresh and logout tokens are refused, and so are tokens that are bound to
/// a key.
pub fn check_bearer(jwt: SignedJwt<'_>, expected: &Expected<'_>) -> Result<Checked, OidcFault> {
    let claims = jwt.claims();
    check_media_type(&jwt, &["jwt", "at+jwt"], "an access token")?;
    if let Some(typ) = payload_typ(claims).filter(|typ| ["id", "refresh", "offline", "logout"].contains(typ)) {
        return Err(OidcFault::new("typ", format!("is {}: the token is no access token", quoted(typ))));
    }
    if let Some(name) = FOREIGN_TO_BEARERS.into_iter().find(|name| claims.contains_key(*name)) {
        return Err(OidcFault::new(name, "is there: the token is no access token"));
    }
    if claims.contains_key("cnf") {
        return Err(OidcFault::new("cnf", "binds the token to a key, which a bearer does not prove to have"));
    }
    check_parties(claims, expected)?;
    let issued_ms = issued(claims, expected)?;
    let expires_ms = check_times(claims, expected)?;
    let sub = subject(claims, PROGRAM_SUB_BYTES_MAX)?.ok_or_else(|| OidcFault::new("sub", "is missing"))?;
    // Its text may be of any kind here: no session is found by it.
    let sid = claims.get("sid").and_then(Value::as_str).map(str::to_owned);
    let digest = jwt.digest();
    Ok(Checked { sub, sid, issued_ms, expires_ms, claims: jwt.into_claims(), digest })
}

/// Checks a logout token for one of the client ids in `expected.audiences`.
pub fn check_logout_token(jwt: SignedJwt<'_>, expected: &Expected<'_>) -> Result<LogoutToken, OidcFault> {
    let claims = jwt.claims();
    check_media_type(&jwt, &["jwt", "logout+jwt"], "a logout token")?;
    if let Some(typ) = payload_typ(claims).filter(|typ| ["id", "bearer", "refresh", "offline"].contains(typ)) {
        return Err(OidcFault::new("typ", format!("is {}: the token is no logout token", quoted(typ))));
    }
    let event = claims.get("events").and_then(|events| events.get(LOGOUT_EVENT));
    if !event.is_some_and(Value::is_object) {
        return Err(OidcFault::new("events", format!("does not have {LOGOUT_EVENT:?} with an object")));
    }
    if claims.contains_key("nonce") {
        return Err(OidcFault::new("nonce", "is there, which no logout token has"));
    }
    check_parties(claims, expected)?;
    let issued_ms = issued(claims, expected)?.ok_or_else(|| OidcFault::new("iat", "is missing"))?;
    let refused_from_ms = if claims.contains_key("exp") {
        check_times(claims, expected)?.saturating_add(expected.leeway_ms)
    } else {
        let until = issued_ms.saturating_add(LOGOUT_AGE_MS_MAX);
        if expected.now_ms > until {
            let rest = "is missing, and `iat` is more than 2 minutes ago";
            return Err(OidcFault::new("exp", rest).with(FaultCause::Time));
        }
        until.saturating_add(1)
    };
    let (sub, sid) = (subject(claims, PERSON_SUB_BYTES_MAX)?, short_text(claims, "sid")?);
    if sub.is_none() && sid.is_none() {
        return Err(OidcFault::new("sub", "is missing, and so is `sid`"));
    }
    let jti = short_text(claims, "jti")?.ok_or_else(|| OidcFault::new("jti", "is missing"))?;
    Ok(LogoutToken { sub, sid, jti, refused_from_ms })
}

/// Checks the media type in the header. A type that ends in `+jwt` names one purpose; other types say nothing.
fn check_media_type(jwt: &SignedJwt<'_>, accepted: &[&str], purpose: &str) -> Result<(), OidcFault> {
    match jwt.media_type() {
        Some(typ) if typ.ends_with("+jwt") && !accepted.contains(&&*typ) => {
            Err(OidcFault::new("typ", format!("is {} in the header: the token is not {purpose}", quoted(&typ))))
        }
        _ => Ok(()),
    }
}

/// Returns the purpose in the payload, in lower case, if it is one that providers write.
fn payload_typ(claims: &Map<String, Value>) -> Option<&'static str> {
    let typ = claims.get("typ")?.as_str()?;
    ["id", "bearer", "refresh", "offline", "logout"].into_iter().find(|known| typ.eq_ignore_ascii_case(known))
}

/// Checks issuer and audience. Returns the number of audiences.
fn check_parties(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<usize, OidcFault> {
    let issuer = text_claim(claims, "iss")?;
    if issuer != expected.issuer {
        return Err(OidcFault::new("iss", format!("is {}, not {}", quoted(issuer), quoted(expected.issuer))));
    }
    let audiences: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => {
            let texts: Option<Vec<_>> = list.iter().map(Value::as_str).collect();
            texts.ok_or_else(|| OidcFault::new("aud", "has an item that is not a text"))?
        }
        Some(_) => return Err(OidcFault::new("aud", "is neither a text nor a list")),
        None => return Err(OidcFault::new("aud", "is missing")),
    };
    // A provider without a client would otherwise accept tokens for none.
    let is_accepted = |audience: &&str| !audience.is_empty() && expected.audiences.contains(audience);
    if !audiences.iter().any(is_accepted) {
        let found = quoted(&audiences.join(", "));
        let wanted = quoted(&expected.audiences.join(", "));
        return Err(OidcFault::new("aud", format!("is {found}; accepted is {wanted}")));
    }
    Ok(audiences.len())
}

/// Checks the party that an ID token was issued to: one of ours, and named if there are several audiences.
fn check_authorized_party(
    claims: &Map<String, Value>,
    expected: &Expected<'_>,
    audiences: usize,
) -> Result<(), OidcFault> {
    match claims.get("azp") {
        Some(Value::String(party)) if expected.audiences.contains(&&**party) => Ok(()),
        Some(party) => Err(OidcFault::new("azp", format!("is {}, another client", quoted(&party.to_string())))),
        None if audiences > 1 => Err(OidcFault::new("azp", "is missing, and the token has several audiences")),
        None => Ok(()),
    }
}

/// Checks `exp`, which must be there, and `nbf`. Returns the time of `exp`.
fn check_times(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<u64, OidcFault> {
    let Expected { now_ms, leeway_ms, .. } = *expected;
    let expires_ms = time(claims, "exp")?.ok_or_else(|| OidcFault::new("exp", "is missing"))?;
    if now_ms >= expires_ms.saturating_add(leeway_ms) {
        let ago = (now_ms - expires_ms) / 1000;
        return Err(OidcFault::new("exp", format!("is over: the token ended {ago} s ago")).with(FaultCause::Time));
    }
    match time(claims, "nbf")? {
        Some(from) if from > now_ms.saturating_add(leeway_ms) => Err(not_yet("nbf", from - now_ms)),
        _ => Ok(expires_ms),
    }
}

/// Returns the time of `iat`, which is not in the future.
fn issued(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<Option<u64>, OidcFault> {
    let Expected { now_ms, leeway_ms, .. } = *expected;
    match time(claims, "iat")? {
        Some(issued) if issued > now_ms.saturating_add(leeway_ms) => Err(not_yet("iat", issued - now_ms)),
        issued => Ok(issued),
    }
}

fn not_yet(field: &'static str, ahead_ms: u64) -> OidcFault {
    let rest = format!("is {} s ahead of the clock of this cluster", ahead_ms.div_ceil(1000));
    OidcFault::new(field, rest).with(FaultCause::Time)
}

/// Returns a time claim in milliseconds. Fractions of seconds are accepted.
fn time(claims: &Map<String, Value>, name: &'static str) -> Result<Option<u64>, OidcFault> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    let seconds = seconds.ok_or_else(|| OidcFault::new(name, "is not a time in seconds since 1970"))?;
    // Within the bound, no digit before the point is lost.
    Ok(Some((seconds * 1000.0) as u64))
}

/// Returns `sub` if it is there: not blank, without control characters.
fn subject(claims: &Map<String, Value>, bytes_max: usize) -> Result<Option<String>, OidcFault> {
    bounded_text(claims, "sub", bytes_max)
}

fn short_text(claims: &Map<String, Value>, name: &'static str) -> Result<Option<String>, OidcFault> {
    bounded_text(claims, name, SHORT_TEXT_BYTES_MAX)
}

fn bounded_text(
    claims: &Map<String, Value>,
    name: &'static str,
    bytes_max: usize,
) -> Result<Option<String>, OidcFault> {
    if !claims.contains_key(name) {
        return Ok(None);
    }
    let text = text_claim(claims, name)?;
    if text.len() > bytes_max {
        return Err(OidcFault::new(name, format!("has {} bytes; at most {bytes_max} are accepted", text.len())));
    }
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err(OidcFault::new(name, format!("is {}: blank, or with control characters", quoted(text))));
    }
    Ok(Some(text.to_owned()))
}
