//! Sign-in of people at identity providers, logout by providers, and tests of providers.
//!
//! A proof is verified on this node, before the command is proposed; apply decides by the state: the provider as it is
//! at that log index, its bindings, the owner of the name, and that each ID token is used once. Attempts of an origin
//! have limits of their own, so that neither a flood of them nor a slow provider keeps people with passwords out.

use std::sync::Arc;

use thuban_oidc::{AuthorizationRequest, EndSession, LogoutToken};

use super::passwords::{NotChecked, QueuePlace};
use super::sign_in::{NotSignedIn, before_login};
use super::throttle::{Attempt, LoginThrottle};
use super::{Caller, Operations, token_hash};
use crate::catalog::audit::AuditNote;
use crate::catalog::{Command, SsoLogout, SsoSignIn};
use crate::controllers::RateClass;
use crate::model::access::Whence;
use crate::model::code::{Code, Refusal};
use crate::model::grant::Role;
use crate::model::limits;
use crate::model::sso::Provider;
use crate::model::time::Timestamp;
use crate::origin::{OriginQuota, Sender};
use crate::sso::{DiagnosisStep, VerifiedToken};

/// Person who signs in at a provider.
pub struct SsoApplicant {
    pub proof: Proof,
    pub sender: Sender,
    /// Name of the program, as it reports itself.
    pub agent: String,
    /// Id of the request.
    pub request: String,
    /// New token of the login.
    pub token: String,
}

/// Proof that a provider has identified a person.
pub enum Proof {
    /// Code that a browser brought back, with the values of the sign-in that it belongs to.
    Code { code: String, verifier: String, redirect_uri: String, nonce: String },
    /// ID token that a client got by itself, and the nonce that it sent.
    IdToken { id_token: String, nonce: Option<String>, access_token: Option<String> },
}

/// A person who has signed in.
pub struct SsoSignedIn {
    /// `PROVIDER:USERNAME`.
    pub name: String,
    /// Id of the person.
    pub person: String,
    /// The most powerful role that the person has anywhere; empty for none.
    pub role: &'static str,
    pub token: String,
    pub id_token: String,
}

/// Values of a redirect to a provider.
pub struct AskedSignIn<'a> {
    pub redirect_uri: &'a str,
    pub state: &'a str,
    pub nonce: &'a str,
    /// Challenge of PKCE.
    pub challenge: String,
}

/// Limits of sign-ins at providers, and of logouts by them.
pub(super) struct SsoLimits {
    waiting: Arc<OriginQuota>,
    throttle: LoginThrottle,
}

impl SsoLimits {
    pub(super) fn new() -> SsoLimits {
        SsoLimits {
            waiting: Arc::new(OriginQuota::new(limits::LOGINS_WAITING_MAX, limits::LOGINS_WAITING_PER_ADDRESS)),
            throttle: LoginThrottle::with_failures(limits::SSO_FAILURES_PER_MINUTE),
        }
    }

    fn place(&self, sender: Sender) -> Result<QueuePlace, NotChecked> {
        QueuePlace::take(&self.waiting, sender.guesser().origin)
    }

    /// Begins an attempt. Failures are counted for each origin alone: those of others keep nobody out.
    async fn enter(&self, what: &str, provider: &str, sender: Sender) -> Result<(QueuePlace, Attempt), NotChecked> {
        let place = self.place(sender)?;
        let guesser = sender.guesser();
        let name = format!("{what} {provider} {}", guesser.origin);
        let attempt = self.throttle.attempt(&name, guesser).await.map_err(NotChecked::Throttled)?;
        Ok((place, attempt))
    }
}

impl Operations {
    /// Returns the providers at which people can sign in, by name.
    pub fn sso_providers(&self) -> Vec<Arc<Provider>> {
        let access = self.node.state().access();
        access.sso().providers().filter(|provider| provider.signs_people_in()).cloned().collect()
    }

    /// Returns an enabled provider at which people can sign in. One that this node does not know may have been created
    /// a moment ago on another.
    pub async fn sso_provider(&self, name: &str) -> Result<Arc<Provider>, Refusal> {
        let provider = self.any_provider(name).await?;
        let provider = Some(provider).filter(|provider| !provider.disabled).ok_or_else(|| no_provider(name))?;
        provider.check_sign_in()?;
        Ok(provider)
    }

    async fn any_provider(&self, name: &str) -> Result<Arc<Provider>, Refusal> {
        let find = || self.node.state().access().sso().provider(name).cloned();
        if let Some(provider) = find() {
            return Ok(provider);
        }
        self.node.await_news().await?;
        find().ok_or_else(|| no_provider(name))
    }

    /// Returns the address of the provider to which a browser is sent for a sign-in.
    pub async fn authorization_address(
        &self,
        provider: &Provider,
        sender: Sender,
        asked: AskedSignIn<'_>,
    ) -> Result<String, NotSignedIn> {
        let _place = self.sso_limits.place(sender).map_err(|not_checked| self.later(not_checked))?;
        let metadata = self.sso.metadata(provider).await?;
        let AskedSignIn { redirect_uri, state, nonce, challenge } = asked;
        let scope = provider.scopes.join(" ");
        let client_id = &provider.client_id;
        let request =
            AuthorizationRequest { client_id, redirect_uri, scope: &scope, state, nonce, challenge: &challenge };
        let address = thuban_oidc::authorization_address(&metadata, &request);
        Ok(address.map_err(|fault| Refusal::new(Code::ProviderAway, format!("{}: {fault}", provider.name)))?.into())
    }

    /// Returns the address at which a browser ends its session at the provider; `None` if the provider offers none or
    /// does not answer.
    pub async fn end_session_address(&self, provider: &Provider, id_token_hint: Option<&str>) -> Option<String> {
        let metadata = self.sso.metadata(provider).await.ok()?;
        // An address to return to would have to be registered at the provider.
        let request = EndSession { client_id: &provider.client_id, id_token_hint, return_to: None };
        thuban_oidc::end_session_address(&metadata, &request).map(Into::into)
    }

    /// Returns the provider of the caller's session; `None` for other callers.
    pub fn provider_of(&self, caller: &Caller) -> Option<Arc<Provider>> {
        let access = self.node.state().access();
        let author = access.holder_of(&caller.credential, self.node.sure_now())?.author?;
        access.sso().provider_by_id(&author.provider).cloned()
    }

    /// Signs a person in.
    pub async fn sso_sign_in(&self, provider: &Provider, applicant: SsoApplicant) -> Result<SsoSignedIn, NotSignedIn> {
        let SsoApplicant { proof, sender, agent, request, token } = applicant;
        let entered = self.sso_limits.enter("sign-in", &provider.name, sender).await;
        let (_place, mut attempt) = entered.map_err(|not_checked| self.later(not_checked))?;
        let done = match self.proven(provider, proof).await {
            Ok((verified, id_token)) => {
                let from = Whence { address: sender.address, agent };
                self.sso_login(provider, verified, (token, from), &request)
                    .await
                    .map(|done| SsoSignedIn { id_token, ..done })
            }
            Err(refusal) => {
                if refusal.code.status() == 401 {
                    self.note_sso(provider, "login", sender, &request, refusal.code);
                }
                Err(refusal)
            }
        };
        self.counted(&mut attempt, &done);
        Ok(done?)
    }

    fn counted<T>(&self, attempt: &mut Attempt, done: &Result<T, Refusal>) {
        match done {
            Ok(_) => attempt.succeeded(),
            Err(refusal) if refusal.code.status() == 401 => {
                self.node.metrics().login_failures.with_label_values(&["credentials"]).inc();
                attempt.is_checked();
            }
            Err(_) => {}
        }
    }

    /// Verifies a proof, and returns the ID token.
    async fn proven(&self, provider: &Provider, proof: Proof) -> Result<(VerifiedToken, String), Refusal> {
        match proof {
            Proof::Code { code, verifier, redirect_uri, nonce } => {
                let secret = self.node.keyring().open_client_secret(provider)?;
                let secret = secret.as_ref().map(|secret| secret.as_str());
                let tokens = self.sso.exchange(provider, secret, &code, &verifier, &redirect_uri).await?;
                let (client, access) = (&provider.client_id, tokens.access_token.as_deref());
                let verified = self.sso.id_token(provider, client, &tokens.id_token, Some(&nonce), access).await?;
                Ok((verified, tokens.id_token))
            }
            Proof::IdToken { id_token, nonce, access_token } => {
                let no_client = || {
                    let why = format!("provider {}: cli_client_id is missing, a public client", provider.name);
                    Refusal::new(Code::InvalidParameter, why)
                };
                let client = provider.cli_client().ok_or_else(no_client)?;
                let (nonce, access) = (nonce.as_deref(), access_token.as_deref());
                let verified = self.sso.id_token(provider, client, &id_token, nonce, access).await?;
                Ok((verified, id_token))
            }
        }
    }

    /// Ends the sessions that a logout token of the provider names.
    pub async fn sso_logout(
        &self,
        provider: &Provider,
        logout_token: &str,
        sender: Sender,
        request: String,
    ) -> Result<(), NotSignedIn> {
        let entered = self.sso_limits.enter("logout", &provider.name, sender).await;
        let (_place, mut attempt) = entered.map_err(|not_checked| self.later(not_checked))?;
        let done = match self.sso.logout_token(provider, logout_token).await {
            Ok(verified) => self.logged_out(provider, verified, sender, &request).await,
            Err(refusal) => {
                if refusal.code.status() == 401 {
                    self.note_sso(provider, "logout", sender, &request, refusal.code);
                }
                Err(refusal)
            }
        };
        self.counted(&mut attempt, &done);
        Ok(done?)
    }

    /// Tries a provider, disabled or not, and the token if there is one.
    pub async fn test_provider(&self, name: &str, token: Option<&str>) -> Result<Vec<DiagnosisStep>, Refusal> {
        let provider = self.any_provider(name).await?;
        Ok(self.sso.diagnose(&provider, token).await)
    }

    /// Proposes the sign-in of a person that was verified.
    async fn sso_login(
        &self,
        provider: &Provider,
        VerifiedToken { claims, digest, .. }: VerifiedToken,
        (token, from): (String, Whence),
        request: &str,
    ) -> Result<SsoSignedIn, Refusal> {
        let name = provider.holder(&provider.username(&claims)?);
        let hash = token_hash(&token);
        let address = from.address;
        let sign_in = SsoSignIn { hash: hash.clone(), provider: provider.id.clone(), claims, digest, from };
        let command = Command::SsoSignIn(Box::new(sign_in));
        self.ask_one(&name, before_login(address, request, command)).await?;
        let holder = self.node.state().access().holder(&hash, self.node.sure_now());
        // The provider may have been disabled since.
        let holder = holder.ok_or(Code::TokenNotExisted)?;
        let role = holder.grants.roles().min().map_or("", Role::word);
        Ok(SsoSignedIn { name: holder.name, person: holder.person, role, token, id_token: String::new() })
    }

    async fn logged_out(
        &self,
        provider: &Provider,
        LogoutToken { sub, sid, jti, refused_from_ms }: LogoutToken,
        sender: Sender,
        request: &str,
    ) -> Result<(), Refusal> {
        let expires = Timestamp(refused_from_ms);
        let command = Command::SsoLogout(SsoLogout { provider: provider.id.clone(), sid, sub, jti, expires });
        self.ask_one(&provider.holder(""), before_login(sender.address, request, command)).await?;
        Ok(())
    }

    /// Records an attempt that failed before it became a command.
    fn note_sso(&self, provider: &Provider, action: &str, sender: Sender, request: &str, code: Code) {
        let note = AuditNote {
            address: sender.address,
            request: request.to_owned(),
            ..AuditNote::of(action, "provider", &provider.name, code)
        };
        self.node.note(RateClass::Stranger, note);
    }
}

fn no_provider(name: &str) -> Refusal {
    Refusal::new(Code::NotFoundResource, format!("no enabled provider is called {name:.40?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> Sender {
        Sender { address: Some([192, 0, 2, last].into()), is_local: false }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_of_one_origin_keep_no_other_out() {
        let sso_limits = SsoLimits::new();
        for _ in 0..limits::SSO_FAILURES_PER_MINUTE {
            let (_place, mut attempt) = sso_limits.enter("sign-in", "company", at(1)).await.expect("it may try");
            attempt.is_checked();
        }
        let waits = sso_limits.enter("sign-in", "company", at(1)).await;
        assert!(matches!(waits, Err(NotChecked::Throttled(_))));
        for (what, provider, sender) in
            [("sign-in", "company", at(2)), ("sign-in", "other", at(1)), ("logout", "company", at(1))]
        {
            assert!(sso_limits.enter(what, provider, sender).await.is_ok(), "{what} {provider}");
        }
        tokio::time::advance(std::time::Duration::from_secs(60)).await;
        assert!(sso_limits.enter("sign-in", "company", at(1)).await.is_ok());
    }

    #[tokio::test]
    async fn so_many_wait_at_a_time() {
        let sso_limits = SsoLimits::new();
        let places: Vec<_> = (0..limits::LOGINS_WAITING_PER_ADDRESS).map(|_| sso_limits.place(at(1))).collect();
        assert!(places.iter().all(Result::is_ok));
        assert!(matches!(sso_limits.place(at(1)), Err(NotChecked::Busy)) && sso_limits.place(at(2)).is_ok());
        drop(places);
        assert!(sso_limits.place(at(1)).is_ok());
    }
}
