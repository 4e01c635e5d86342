//! Diagnosis of a provider: each step of a sign-in that needs no person, with its result in words.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::client::HttpAnswer;
use super::documents::{fetch_keys, fetch_metadata};
use super::{IdentityProviders, count, missing_claims};
use crate::model::sso::{Binding, Claims, Provider};
use crate::oidc::{Expected, Jwt, KeySet, Metadata, OidcFault, SignedJwt, check_bearer, check_id_token};

/// Maximum characters of a list in a detail.
const LIST_CHARS_MAX: usize = 400;

/// One step of a diagnosis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagnosisStep {
    pub name: &'static str,
    pub is_good: bool,
    pub detail: String,
}

fn step(name: &'static str, result: Result<String, String>) -> DiagnosisStep {
    let (is_good, detail) = match result {
        Ok(detail) => (true, detail),
        Err(detail) => (false, detail),
    };
    DiagnosisStep { name, is_good, detail }
}

impl IdentityProviders {
    /// Tries a provider, and a token of it if there is one. Documents are fetched whatever is at hand, and replace it.
    /// Steps that depend on one that failed are left out.
    pub async fn diagnose(&self, provider: &Provider, token: Option<&str>) -> Vec<DiagnosisStep> {
        let mut steps = Vec::new();
        let fetched = fetch_metadata(&self.client, &provider.issuer).await;
        count(&self.metrics, &provider.name, "discovery", fetched.is_ok());
        let (metadata, answer) = match fetched {
            Ok(fetched) => fetched,
            Err(why) => return vec![step("discovery", Err(why))],
        };
        steps.push(step("discovery", Ok(format!("{}: {}", metadata.issuer, endpoints(&metadata)))));
        steps.push(step("clock", self.clock_difference(provider, &answer)));
        if provider.client_secret.is_some() {
            let method = metadata.client_authentication().map(|method| format!("by {}", method.name()));
            steps.push(step("client", method.map_err(|fault| fault.to_string())));
        }
        let fetched = fetch_keys(&self.client, &metadata).await;
        count(&self.metrics, &provider.name, "keys", fetched.is_ok());
        let keys = match fetched {
            Ok(keys) => Arc::new(keys),
            Err(why) => {
                steps.push(step("keys", Err(why)));
                return steps;
            }
        };
        let metadata = Arc::new(metadata);
        self.documents(provider).store(metadata.clone(), keys.clone());
        steps.push(step("keys", described_keys(&keys)));
        steps.push(step("algorithms", described_algorithms(&metadata, &keys)));
        if let Some(token) = token {
            self.diagnose_token(provider, (&metadata, &keys), token.trim(), &mut steps);
        }
        steps
    }

    /// Compares the clock of the provider with that of the cluster. The header has whole seconds.
    fn clock_difference(&self, provider: &Provider, answer: &HttpAnswer) -> Result<String, String> {
        let read = |text: &String| httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok();
        let Some(theirs) = answer.date.as_ref().and_then(read) else {
            return Ok("the provider names no time".to_owned());
        };
        let ours = (self.clock.now)().0 / 1000;
        let difference = ours.abs_diff(theirs.as_secs());
        let text = format!("the clocks differ by {difference} s, accepted are {} s", provider.leeway_s);
        if difference <= u64::from(provider.leeway_s) { Ok(text) } else { Err(text) }
    }

    fn diagnose_token(
        &self,
        provider: &Provider,
        (metadata, keys): (&Metadata, &KeySet),
        token: &str,
        steps: &mut Vec<DiagnosisStep>,
    ) {
        let in_words = |fault: OidcFault| fault.to_string();
        let signed = match Jwt::parse(token).and_then(|jwt| keys.verify(jwt)) {
            Ok(signed) => signed,
            Err(fault) => return steps.push(step("token", Err(in_words(fault)))),
        };
        let claims = Claims::new(signed.claims().clone());
        let is_id = is_id_token(&signed);
        steps.push(step("token", self.checked_kind(provider, signed, is_id).map_err(in_words)));
        let claims = match claims {
            Ok(claims) => claims,
            Err(refusal) => return steps.push(step("claims", Err(refusal.detail))),
        };
        // No fault: some providers send these only at the endpoint, which needs an access token.
        let elsewhere = match is_id && metadata.userinfo.is_some() {
            true => missing_claims(provider, &claims),
            false => Vec::new(),
        };
        steps.push(step("claims", described_claims(provider, &claims, &elsewhere)));
        let held: Vec<&Binding> = provider.bindings.iter().filter(|binding| binding.holds(&claims)).collect();
        let all = provider.bindings.len();
        steps.push(step(
            "bindings",
            match held.len() {
                0 if !elsewhere.is_empty() => Ok(format!("none of {all} holds by the token alone, userinfo decides")),
                0 => Err(format!("none of {all} holds: this person has only the grants by hand")),
                some => Ok(format!("{some} of {all} hold: {}", list(held.iter().map(|binding| conditions(binding))))),
            },
        ));
        if !held.is_empty() {
            let grants: BTreeSet<String> = held.iter().map(|binding| granted(binding)).collect();
            steps.push(step("rights", Ok(list(grants.iter()))));
        }
    }

    /// Checks a token as what it is, an ID token of one of the clients or a bearer token.
    fn checked_kind(&self, provider: &Provider, signed: SignedJwt<'_>, is_id: bool) -> Result<String, OidcFault> {
        let claims = signed.claims();
        let nonce = claims.get("nonce").and_then(|nonce| nonce.as_str()).map(str::to_owned);
        let clients = [Some(provider.client_id.as_str()), provider.cli_client()];
        let audiences: Vec<&str> = match is_id {
            true => clients.into_iter().flatten().collect(),
            false => provider.audiences.iter().map(String::as_str).collect(),
        };
        let expected: Expected<'_> = self.expected(provider, &audiences);
        let (name, checked) = match is_id {
            true => ("ID token", check_id_token(signed, &expected, nonce.as_deref(), None)?),
            false => ("bearer token", check_bearer(signed, &expected)?),
        };
        let left = checked.expires_ms.saturating_sub(expected.now_ms) / 1000;
        let unused = if is_id || provider.bearer { "" } else { "; `bearer` is off, the API does not accept it" };
        Ok(format!("{name}, sub {:?}, ends in {left} s{unused}", checked.sub))
    }
}

/// Reports whether a token has a mark of ID tokens.
fn is_id_token(signed: &SignedJwt<'_>) -> bool {
    let claims = signed.claims();
    let has_mark = ["nonce", "at_hash", "c_hash"].iter().any(|claim| claims.contains_key(*claim));
    has_mark || claims.get("typ").and_then(|typ| typ.as_str()) == Some("ID")
}

/// Describes the claims of a token. Those in `elsewhere` are read from userinfo at a sign-in.
fn described_claims(provider: &Provider, claims: &Claims, elsewhere: &[&str]) -> Result<String, String> {
    let found = list(claims.object().keys().map(String::as_str));
    let groups = list(claims.values(&provider.groups_claim).into_iter());
    let rest = match elsewhere {
        [] => String::new(),
        missing => format!("; a sign-in reads from userinfo: {}", list(missing.iter())),
    };
    let described = |first: String| format!("{first}; claims: {found}; {}: {groups}{rest}", provider.groups_claim);
    match provider.check_required(claims).and_then(|()| provider.username(claims)) {
        Ok(name) => Ok(described(provider.holder(&name))),
        Err(refusal) if claims.check_complete().is_ok() && !elsewhere.is_empty() => Ok(described(refusal.detail)),
        Err(refusal) => Err(described(refusal.detail)),
    }
}

fn endpoints(metadata: &Metadata) -> String {
    let optional = [
        ("authorization", &metadata.authorization),
        ("token", &metadata.token),
        ("userinfo", &metadata.userinfo),
        ("device", &metadata.device_authorization),
        ("end of session", &metadata.end_session),
    ];
    let there = optional.iter().filter(|(_, address)| address.is_some()).map(|(name, _)| *name);
    list(["keys"].into_iter().chain(there))
}

fn described_keys(keys: &KeySet) -> Result<String, String> {
    let left_out = keys.left_out().iter().map(|key| {
        let id = key.key_id.as_deref().unwrap_or("without an id");
        format!("{id:.80}: {}", key.reason)
    });
    let left_out = match keys.left_out().len() {
        0 => String::new(),
        count => format!(", {count} not used ({})", list(left_out)),
    };
    let unread = match keys.unread() {
        0 => String::new(),
        count => format!(", {count} beyond the limit"),
    };
    let text = format!("{} usable{left_out}{unread}", keys.len());
    if keys.is_empty() { Err(text) } else { Ok(text) }
}

fn described_algorithms(metadata: &Metadata, keys: &KeySet) -> Result<String, String> {
    let usable: Vec<&str> = keys.algorithms().into_iter().map(|algorithm| algorithm.name()).collect();
    let offered = &metadata.id_token_algorithms;
    let fits = offered.is_empty() || offered.iter().any(|name| usable.contains(&name.as_str()));
    let text = format!("keys for {}; the provider signs with {}", list(usable.iter()), list(offered.iter()));
    if fits && !usable.is_empty() { Ok(text) } else { Err(text) }
}

fn conditions(binding: &Binding) -> String {
    let one = |claim: &str, value: &str| format!("{claim}={value}");
    match binding.all.as_slice() {
        [] => one(&binding.claim, &binding.value),
        all => all.iter().map(|condition| one(&condition.claim, &condition.value)).collect::<Vec<_>>().join(" and "),
    }
}

fn granted(binding: &Binding) -> String {
    format!("{} on {}/{}", binding.role.word(), binding.namespace, binding.name)
}

/// Joins texts of a provider, without control characters and shortened.
fn list(items: impl Iterator<Item = impl AsRef<str>>) -> String {
    let mut text = String::new();
    for item in items {
        let separator = if text.is_empty() { "" } else { ", " };
        text.push_str(separator);
        text.extend(item.as_ref().chars().map(|c| if c.is_control() { ' ' } else { c }));
        if text.chars().count() > LIST_CHARS_MAX {
            return format!("{}, …", text.chars().take(LIST_CHARS_MAX).collect::<String>());
        }
    }
    if text.is_empty() { "none".to_owned() } else { text }
}
