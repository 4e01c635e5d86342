//! Identity providers as this node sees them: their documents and keys, fetched when they are needed, and the tokens
//! that were verified by them.
//!
//! Each node fetches for itself, and nothing of it is replicated. While a provider is out of reach its last documents
//! and keys stay in use, and whatever needs no provider works on. What a token means for rights is decided above, by
//! the bindings in the state.
//!
//! Uses no state and no raft: providers are arguments, and the time is a function.

mod client;
mod diagnosis;
mod documents;
mod remembered;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::metrics::Metrics;
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::model::sso::{Claims, Provider};
use crate::model::time::Timestamp;
use crate::oidc::{
    Checked, ClientAccount, CodeVerifier, Expected, FaultCause, FormRequest, Jwt, KeySet, LogoutToken, Metadata,
    OidcFault, SignedJwt, check_bearer, check_id_token, check_logout_token, code_form, fill_missing, read_tokens,
    read_userinfo,
};
use crate::uptime;
use client::{HttpAnswer, ProviderClient};
pub use diagnosis::DiagnosisStep;
use documents::{Newer, ProviderDocuments};
use remembered::RememberedTokens;

/// Time limit of one request to a provider, from the connection to the last byte.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Maximum number of verified bearer tokens of a node.
const REMEMBERED_TOKENS_MAX: usize = 10_000;

/// Time of a node.
#[derive(Clone)]
pub struct SsoClock {
    /// Time by which tokens begin and end.
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Time that never runs backwards, for the age of documents.
    elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl SsoClock {
    /// Creates the clock of a node; `now` returns the time that is beyond doubt.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> SsoClock {
        SsoClock { now: Arc::new(now), elapsed: Arc::new(uptime::now) }
    }
}

/// The identity providers of a node.
pub struct IdentityProviders {
    clock: SsoClock,
    client: Arc<ProviderClient>,
    metrics: Arc<Metrics>,
    documents: Mutex<HashMap<String, Arc<ProviderDocuments>>>, // bound: sso-documents
    remembered: RememberedTokens,
}

/// A token that passed every check: signature, issuer, audience, times, and the claims that the provider requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedToken {
    pub sub: String,
    /// Session at the provider.
    pub sid: Option<String>,
    /// Claims of the token, and those that userinfo added.
    pub claims: Claims,
    /// Time of `iat`; 0 for a bearer token without it.
    pub issued: Timestamp,
    /// Time of `exp`, with the leeway of the provider.
    pub expires: Timestamp,
    /// SHA-256 of header and payload, in hex. All signatures of one content have the same.
    pub digest: String,
}

/// Tokens that a provider issued for a code.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInTokens {
    pub id_token: String,
    pub access_token: Option<String>,
}

impl IdentityProviders {
    /// Creates the providers of a node, without I/O. `ca_file` has the authorities that providers are verified by;
    /// without it those of the system are used. It is read again for each fetch.
    pub fn new(clock: SsoClock, ca_file: Option<PathBuf>, metrics: Arc<Metrics>) -> IdentityProviders {
        IdentityProviders {
            client: Arc::new(ProviderClient::new(ca_file, ANSWER_WITHIN)),
            documents: Mutex::default(),
            remembered: RememberedTokens::new(REMEMBERED_TOKENS_MAX),
            clock,
            metrics,
        }
    }

    /// Returns the discovery document of a provider, fetched at most once an hour.
    pub async fn metadata(&self, provider: &Provider) -> Result<Arc<Metadata>, Refusal> {
        self.documents(provider).metadata().await.map_err(|why| away(provider, &why))
    }

    /// Returns the issuer that a token names, verified or not.
    pub fn issuer_of(&self, token: &str) -> Result<String, Refusal> {
        if let Some(issuer) = self.remembered.issuer(token, (self.clock.now)()) {
            return Ok(issuer);
        }
        let jwt = Jwt::parse(token).map_err(|fault| refused("bearer token", &fault))?;
        jwt.issuer().map(str::to_owned).map_err(|fault| refused("bearer token", &fault))
    }

    /// Verifies a bearer token of a program. It is remembered until it ends or the provider is changed.
    pub async fn bearer(&self, provider: &Provider, token: &str) -> Result<VerifiedToken, Refusal> {
        if let Some(verified) = self.remembered.get(provider, token, (self.clock.now)()) {
            return Ok(verified);
        }
        let what = format!("bearer token of {}", provider.name);
        let signed = self.signed(provider, token, &what).await?;
        let audiences: Vec<&str> = provider.audiences.iter().map(String::as_str).collect();
        let expected = self.expected(provider, &audiences);
        let checked = check_bearer(signed, &expected).map_err(|fault| refused(&what, &fault))?;
        let verified = verified(provider, checked)?;
        self.remembered.add(provider, token, &verified);
        self.metrics.sso_remembered_tokens.set(i64::try_from(self.remembered.len()).unwrap_or(i64::MAX));
        Ok(verified)
    }

    /// Verifies an ID token for a client. Claims that it lacks and the provider's settings name are added from
    /// userinfo, if there is an access token for it.
    pub async fn id_token(
        &self,
        provider: &Provider,
        client_id: &str,
        token: &str,
        nonce: Option<&str>,
        access_token: Option<&str>,
    ) -> Result<VerifiedToken, Refusal> {
        let what = format!("ID token of {}", provider.name);
        let signed = self.signed(provider, token, &what).await?;
        let clients = [client_id];
        let expected = self.expected(provider, &clients);
        let checked = check_id_token(signed, &expected, nonce, access_token);
        let mut checked = checked.map_err(|fault| refused(&what, &fault))?;
        if let Some(access_token) = access_token
            && !missing_claims(provider, &Claims::new(checked.claims.clone())?).is_empty()
        {
            self.add_userinfo(provider, &mut checked, access_token).await?;
        }
        verified(provider, checked)
    }

    /// Verifies a logout token for one of the clients of a provider.
    pub async fn logout_token(&self, provider: &Provider, token: &str) -> Result<LogoutToken, Refusal> {
        let what = format!("logout token of {}", provider.name);
        let signed = self.signed(provider, token, &what).await?;
        let clients = [Some(provider.client_id.as_str()), provider.cli_client()];
        let clients: Vec<&str> = clients.into_iter().flatten().collect();
        check_logout_token(signed, &self.expected(provider, &clients)).map_err(|fault| refused(&what, &fault))
    }

    /// Exchanges the code of a callback for tokens. `secret` is that of the client; public clients have none.
    pub async fn exchange(
        &self,
        provider: &Provider,
        secret: Option<&str>,
        code: &str,
        verifier: &str,
        redirect_uri: &str,
    ) -> Result<SignInTokens, Refusal> {
        let metadata = self.metadata(provider).await?;
        let name = &provider.name;
        let verifier = CodeVerifier::of_text(verifier)
            .ok_or_else(|| Refusal::new(Code::InvalidParameter, "code_verifier is none"))?;
        let client = ClientAccount { client_id: &provider.client_id, secret };
        let form = code_form(&metadata, client, code, &verifier, redirect_uri);
        let form = form.map_err(|fault| away(provider, &fault.to_string()))?;
        let answer = self.post(provider, form).await?;
        match read_tokens(answer.status, &answer.body) {
            _ if answer.status >= 500 => Err(away(provider, &format!("the token endpoint answers {}", answer.status))),
            Ok(Ok(tokens)) => {
                let none = || unfit(format!("provider {name} sent no ID token; its scopes must include openid"));
                let id_token = tokens.id_token.ok_or_else(none)?;
                Ok(SignInTokens { id_token, access_token: tokens.access_token })
            }
            Ok(Err(refusal)) => Err(unfit(format!("provider {name} refuses the sign-in: {refusal}"))),
            Err(fault) => Err(away(provider, &fault.to_string())),
        }
    }

    async fn post(&self, provider: &Provider, form: FormRequest) -> Result<HttpAnswer, Refusal> {
        let answer = self.client.post(form).await;
        count(&self.metrics, &provider.name, "tokens", answer.is_ok());
        answer.map_err(|why| away(provider, &why))
    }

    /// Verifies issuer and signature. If no key verifies the token, the keys are fetched again, as often as the limit
    /// allows.
    async fn signed<'a>(&self, provider: &Provider, token: &'a str, what: &str) -> Result<SignedJwt<'a>, Refusal> {
        let wrong = |fault: OidcFault| refused(what, &fault);
        let jwt = Jwt::parse(token).map_err(wrong)?;
        // The token of another issuer costs no fetch.
        let issuer = jwt.issuer().map_err(wrong)?;
        if issuer != provider.issuer {
            return Err(unfit(format!("{what}: `iss` is {issuer:.100?}, not {:?}", provider.issuer)));
        }
        let documents = self.documents(provider);
        let keys = documents.keys().await.map_err(|why| away(provider, &why))?;
        let fault = match keys.verify(jwt.clone()) {
            Ok(signed) => return Ok(signed),
            Err(fault) if fault.cause() == FaultCause::Key => fault,
            Err(fault) => return Err(wrong(fault)),
        };
        match documents.newer_keys(&keys).await {
            Newer::Keys(newer) => newer.verify(jwt).map_err(wrong),
            Newer::TooEarly => Err(wrong(fault)),
            // A key that is known and did not sign will not have signed later either.
            Newer::Away(_) if fault.field() == "signature" => Err(wrong(fault)),
            Newer::Away(why) => Err(away(provider, &why)),
        }
    }

    fn expected<'a>(&self, provider: &'a Provider, audiences: &'a [&'a str]) -> Expected<'a> {
        let leeway_ms = u64::from(provider.leeway_s) * 1000;
        Expected { issuer: &provider.issuer, audiences, now_ms: (self.clock.now)().0, leeway_ms }
    }

    async fn add_userinfo(
        &self,
        provider: &Provider,
        checked: &mut Checked,
        access_token: &str,
    ) -> Result<(), Refusal> {
        let metadata = self.metadata(provider).await?;
        let Some(userinfo) = &metadata.userinfo else { return Ok(()) };
        let answer = self.client.get_as(userinfo, access_token).await;
        let is_answered = answer.as_ref().is_ok_and(|answer| answer.status < 500);
        count(&self.metrics, &provider.name, "userinfo", is_answered);
        let answer = answer.map_err(|why| away(provider, &why))?;
        match answer.status {
            200 => {}
            500.. => return Err(away(provider, &format!("userinfo answers {}", answer.status))),
            other => return Err(unfit(format!("userinfo of {} refuses the access token: {other}", provider.name))),
        }
        let claims = read_userinfo(&answer.media_type, &answer.body, &checked.sub);
        let claims = claims.map_err(|fault| refused(&format!("userinfo of {}", provider.name), &fault))?;
        fill_missing(&mut checked.claims, claims);
        Ok(())
    }

    /// Returns the documents of a provider. Of too many, those used longest ago are forgotten.
    fn documents(&self, provider: &Provider) -> Arc<ProviderDocuments> {
        let now = (self.clock.elapsed)();
        let mut all = self.documents.lock();
        if let Some(documents) = all.get(&provider.id).filter(|documents| documents.is_of(provider)) {
            documents.used(now);
            return documents.clone();
        }
        if all.len() >= limits::PROVIDERS_MAX {
            let oldest = all.iter().min_by_key(|(_, documents)| documents.last_used()).map(|(id, _)| id.clone());
            oldest.and_then(|id| all.remove(&id));
        }
        let (client, metrics) = (self.client.clone(), self.metrics.clone());
        let documents = Arc::new(ProviderDocuments::new(provider, client, metrics, self.clock.elapsed.clone()));
        documents.used(now);
        all.insert(provider.id.clone(), documents.clone());
        documents
    }
}

/// Returns the claims that the provider's settings name and the token does not have: the name, the groups, and those of
/// bindings and requirements.
fn missing_claims<'a>(provider: &'a Provider, claims: &Claims) -> Vec<&'a str> {
    let username = match provider.username_claim.as_str() {
        "" => "preferred_username",
        claim => claim,
    };
    let bound = provider.bindings.iter().flat_map(|binding| {
        let all = binding.all.iter().map(|condition| condition.claim.as_str());
        all.chain([binding.claim.as_str()]).filter(|claim| !claim.is_empty())
    });
    let required = provider.required_claims.keys().map(String::as_str);
    let named = [username, provider.groups_claim.as_str()].into_iter().chain(bound).chain(required);
    let mut missing: Vec<&str> = named.filter(|claim| claims.get(claim).is_none()).collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// Converts a checked token, if its claims are what the provider requires.
fn verified(provider: &Provider, checked: Checked) -> Result<VerifiedToken, Refusal> {
    let Checked { sub, sid, issued_ms, expires_ms, claims, digest } = checked;
    let claims = Claims::new(claims)?;
    provider.check_required(&claims)?;
    let expires = Timestamp(expires_ms).plus_ms(u64::from(provider.leeway_s) * 1000);
    let issued = Timestamp(issued_ms.unwrap_or_default());
    Ok(VerifiedToken { sub, sid, claims, issued, expires, digest: hex::encode(digest) })
}

fn count(metrics: &Metrics, provider: &str, kind: &str, is_done: bool) {
    let outcome = if is_done { "done" } else { "failed" };
    metrics.sso_fetches.with_label_values(&[provider, kind, outcome]).inc();
}

fn unfit(why: String) -> Refusal {
    Refusal::new(Code::TokenNotExisted, why)
}

fn refused(what: &str, fault: &OidcFault) -> Refusal {
    unfit(format!("{what}: {fault}"))
}

fn away(provider: &Provider, why: &str) -> Refusal {
    Refusal::new(Code::ProviderAway, format!("identity provider {} does not answer: {why}", provider.name))
}

/// Reads the keys of a document.
fn read_keys(body: &[u8]) -> Result<KeySet, String> {
    KeySet::parse(body).map_err(|fault| fault.to_string())
}
