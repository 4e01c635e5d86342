//! Rights of people and programs of identity providers.
//!
//! Nothing that a person of a provider may do is stored with it. Its session, request, approval or schedule has the
//! claims, and the bindings in force are applied to them each time ([`Access::rights_of`]).

use std::sync::Arc;

use super::{Access, Holder};
use crate::catalog::command::Credential;
use crate::model::access::{Token, User};
use crate::model::code::{Code, Refusal};
use crate::model::grant::Grants;
use crate::model::sso::{Bearer, IdentityKey, IdentityRequest, Provider, SsoAuthor, SsoLogin};
use crate::model::time::Timestamp;

impl Access {
    /// Returns the provider and the present grants of claims: those of the bindings, and those by hand.
    pub(super) fn rights_of(&self, author: &SsoAuthor) -> Result<(&Arc<Provider>, Grants), Refusal> {
        let ended = |why: String| Refusal::new(Code::TokenNotExisted, why);
        let provider = self.sso.provider_by_id(&author.provider);
        let provider = provider.ok_or_else(|| ended("its provider was deleted".to_owned()))?;
        if provider.disabled {
            return Err(ended(format!("the provider {} is disabled", provider.name)));
        }
        if provider.issuer != author.key.issuer {
            return Err(ended(format!("the provider {} is another issuer's", provider.name)));
        }
        provider.check_required(&author.claims)?;
        let bound = provider.grants(&author.claims);
        match self.user_by_hand(&author.key) {
            Some(user) if user.disabled => Err(ended("the user is disabled".to_owned())),
            Some(user) => Ok((provider, bound.with(&user.grants))),
            None => Ok((provider, bound)),
        }
    }

    /// Returns the holder of claims under a name. Refuses one without any right: there is no default role.
    fn holder_of_claims(&self, author: SsoAuthor, username: &str) -> Result<Holder, Refusal> {
        let (provider, grants) = self.rights_of(&author)?;
        let name = provider.holder(username);
        if grants.is_empty() {
            return Err(nobody(&name));
        }
        let person = author.key.person();
        Ok(Holder { name, grants, person, author: Some(Arc::new(author)), token: None })
    }

    /// Returns the holder of a session of a provider.
    pub(super) fn holder_of_login(&self, token: &Token, login: &SsoLogin, now: Timestamp) -> Result<Holder, Refusal> {
        if now >= self.end_of_login(token, login) {
            return Err(Refusal::new(Code::TokenNotExisted, "the session has ended, sign in again"));
        }
        self.holder_of_claims(login.author(), &login.username)
    }

    /// Returns the end of a session: a provider may have a shorter one by now.
    pub(super) fn end_of_login(&self, token: &Token, login: &SsoLogin) -> Timestamp {
        let provider = self.sso.provider_by_id(&login.provider);
        provider.map_or(token.expires, |provider| token.expires.min(session_end(token.ctime, provider)))
    }

    /// Returns the holder of a bearer token, which a node has verified. What depends on the settings of the provider is
    /// checked again.
    pub fn holder_of_bearer(&self, bearer: &Bearer, now: Timestamp) -> Result<Holder, Refusal> {
        let wrong = |why: &str| Refusal::new(Code::TokenNotExisted, why);
        if now >= bearer.expires {
            return Err(wrong("the token has expired"));
        }
        let (author, claims) = (bearer.author(), &bearer.claims);
        let provider = self.sso.provider_by_id(&bearer.provider).ok_or_else(|| wrong("its provider was deleted"))?;
        if !provider.bearer {
            return Err(wrong("the provider gives no tokens for the API (bearer)"));
        }
        if !claims.values("aud").iter().any(|audience| provider.audiences.iter().any(|own| own == audience)) {
            return Err(wrong("the token is for another audience (aud)"));
        }
        if claims.text("iss") != Some(&author.key.issuer) || claims.text("sub") != Some(&author.key.sub) {
            return Err(wrong("the token is another one's (iss, sub)"));
        }
        if provider.username(claims)? != bearer.username {
            return Err(wrong("the token has another name by now (username_claim)"));
        }
        self.sso.check_name(provider, &bearer.username, &author.key)?;
        self.holder_of_claims(author, &bearer.username)
    }

    /// Returns the name under which a credential of a provider would act, to record a refusal; empty for others.
    pub fn claimed_name(&self, credential: &Credential) -> String {
        match credential {
            Credential::Bearer(bearer) => self.sso.name_of(&bearer.provider, &bearer.username),
            Credential::Token(hash) => {
                let login = self.tokens.get(hash).and_then(|token| token.sso.as_ref());
                login.map_or_else(String::new, |login| self.sso.name_of(&login.provider, &login.username))
            }
            Credential::Certificate(_) | Credential::Login => String::new(),
        }
    }

    /// Returns the grants of a holder that bindings give; `None` for one of no provider.
    pub fn bound_grants(&self, holder: &Holder) -> Option<Grants> {
        let author = holder.author.as_ref()?;
        Some(self.sso.provider_by_id(&author.provider)?.grants(&author.claims))
    }

    /// Returns the user to whom an administrator granted rights by hand.
    pub(super) fn user_by_hand(&self, key: &IdentityKey) -> Option<&Arc<User>> {
        self.users.get(&key.person()).filter(|user| user.sso.is_some())
    }

    /// Returns the same user, by the name of its provider and its `sub`.
    pub fn user_of(&self, identity: &IdentityRequest) -> Option<Arc<User>> {
        self.user_by_hand(&self.sso.key_of(identity)?).cloned()
    }
}

/// Returns the latest end of a session that began at `since`.
pub(super) fn session_end(since: Timestamp, provider: &Provider) -> Timestamp {
    since.plus_ms(u64::from(provider.session_s) * 1000)
}

/// Returns the refusal of a person without any right.
pub(super) fn nobody(name: &str) -> Refusal {
    let why = format!("signed in as {name}, but no binding gives it a right");
    Refusal::new(Code::NotAllowedAccess, why)
}
