//! Sign-ins and sign-outs of people of identity providers, and the end of their identities.

use std::sync::Arc;

use super::sso::TakenToken;
use super::sso_rights::{nobody, session_end};
use super::{Access, Sso};
use crate::catalog::Catalog;
use crate::catalog::change::{ChangeSet, Entity, Outcome, admits_one_more, too_many};
use crate::catalog::ctx::{Apply, Ctx};
use crate::catalog::row::{Row, RowKey, Table};
use crate::catalog::scope::AuthTarget;
use crate::catalog::sso_commands::{SsoLogout, SsoSignIn};
use crate::model::access::{Token, User};
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::model::service_token::{ServiceToken, TOKEN_HOLDER};
use crate::model::sso::{
    FreedIdentity, IdentityKey, IdentityRequest, Provider, SsoAuthor, SsoIdentity, SsoLogin, check_sub,
};
use crate::model::time::Timestamp;

impl Row for Provider {
    const TABLE: Table = Table::Provider;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.id);
    }
}

impl Row for SsoIdentity {
    const TABLE: Table = Table::Identity;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.key.issuer).part(&self.key.sub);
    }
}

impl Row for TakenToken {
    const TABLE: Table = Table::TakenToken;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.digest);
    }
}

/// A person whose sign-in is admitted, and its state afterwards.
struct Admitted {
    provider: Arc<Provider>,
    identity: SsoIdentity,
    login: SsoLogin,
}

impl Access {
    /// Admits a sign-in. Every check of the node that depends on the settings of the provider is made again.
    fn admit(&self, ctx: &Ctx, asked: &SsoSignIn) -> Result<Admitted, Refusal> {
        let wrong = |why: &str| Refusal::new(Code::TokenNotExisted, why);
        let sso = &self.sso;
        let provider = sso.provider_by_id(&asked.provider).ok_or_else(|| wrong("its provider was deleted"))?;
        provider.check_sign_in()?;
        let claims = &asked.claims;
        if claims.text("iss") != Some(&provider.issuer) {
            return Err(wrong("the token is another issuer's (iss)"));
        }
        let sub =
            claims.text("sub").filter(|sub| check_sub(sub).is_ok()).ok_or_else(|| wrong("the token has no sub"))?;
        if sso.is_taken(&asked.digest) {
            return Err(wrong("the ID token was taken before, each is taken once"));
        }
        let key = IdentityKey { issuer: provider.issuer.clone(), sub: sub.to_owned() };
        let author = SsoAuthor { provider: provider.id.clone(), key: key.clone(), claims: claims.clone() };
        let (_, grants) = self.rights_of(&author)?;
        let username = provider.username(claims)?;
        if grants.is_empty() {
            return Err(nobody(&provider.holder(&username)));
        }
        sso.check_name(provider, &username, &key)?;
        let identity = sso.identity_after(ctx, provider, &key, &username)?;
        let sid = claims.text("sid").unwrap_or_default().to_owned();
        let login = SsoLogin { provider: provider.id.clone(), key, sid, username, claims: claims.clone() };
        Ok(Admitted { provider: provider.clone(), identity, login })
    }
}

impl Sso {
    /// Returns the identity of a person after a sign-in under this name. A name that it had before stays its own.
    fn identity_after(
        &self,
        ctx: &Ctx,
        provider: &Provider,
        key: &IdentityKey,
        username: &str,
    ) -> Result<SsoIdentity, Refusal> {
        let Some(before) = self.identity(key) else {
            admits_one_more("people of providers", self.identity_count(), limits::IDENTITIES_MAX)?;
            return Ok(SsoIdentity {
                key: key.clone(),
                provider: provider.id.clone(),
                username: username.to_owned(),
                earlier: Vec::new(),
                created: ctx.time,
                last_seen: ctx.time,
            });
        };
        let mut identity = SsoIdentity { last_seen: ctx.time, ..SsoIdentity::clone(before) };
        if identity.username != username {
            let renamed = std::mem::replace(&mut identity.username, username.to_owned());
            identity.earlier.retain(|earlier| earlier != username);
            identity.earlier.push(renamed);
        }
        if identity.usernames().count() > limits::IDENTITY_NAMES_MAX {
            return Err(too_many("names of one person: free them (identities/delete)", limits::IDENTITY_NAMES_MAX));
        }
        Ok(identity)
    }
}

impl Apply<'_> {
    /// Stores the session of a person of a provider. Refuses one that has no right, and one under another's name.
    pub(crate) fn sso_sign_in(&mut self, asked: SsoSignIn) -> Outcome {
        let sub = format!("sub {}", asked.claims.text("sub").unwrap_or_default());
        let session = format!("session {}", asked.hash.id());
        let (outcome, after) = match self.try_sso_sign_in(asked) {
            Ok(()) => (Outcome::default(), session),
            Err(refusal) => (refusal.into(), String::new()),
        };
        self.changes.did_sign_in(&self.ctx.by, outcome.code, (sub, after));
        outcome
    }

    fn try_sso_sign_in(&mut self, asked: SsoSignIn) -> Result<(), Refusal> {
        let Apply { catalog: Catalog { access, .. }, ctx, changes } = self;
        let Admitted { provider, identity, login } = access.admit(ctx, &asked)?;
        let SsoSignIn { hash, digest, from, .. } = asked;
        let person = identity.person();
        access.retire(access.tokens.ended(ctx.sure()), changes);
        let oldest = access.tokens.older_of_user(&person, limits::SSO_SESSIONS_PER_PERSON_MAX - 1);
        let freed: usize = oldest.iter().filter_map(|token| token.sso.as_ref()).map(|login| login.bytes()).sum();
        if access.tokens.claim_bytes() - freed + login.bytes() > limits::SSO_CLAIMS_BYTES_MAX {
            return Err(too_many("MiB of the claims of sessions", limits::SSO_CLAIMS_BYTES_MAX >> 20));
        }
        let until = ctx.time.plus_ms(limits::TAKEN_TOKEN_MS);
        access.take(ctx, TakenToken { digest, until }, changes)?;
        access.retire(oldest, changes);
        access.put_identity(identity, changes);
        let expires = session_end(ctx.time, &provider);
        let sso = Some(Box::new(login));
        access.put_token(Token { hash, user_id: person, ctime: ctx.time, expires, from, sso }, changes);
        Ok(())
    }

    /// Ends the sessions that a logout token names.
    pub(crate) fn sso_logout(&mut self, asked: &SsoLogout) -> Outcome {
        let name = self.catalog.access.sso.provider_by_id(&asked.provider).map(|provider| provider.name.clone());
        let (by, outcome) = match self.try_sso_logout(asked) {
            Ok(ended) if !ended.is_empty() => {
                for name in ended {
                    self.changes.did(AuthTarget::of_cluster("session", name), &Outcome::default());
                }
                return Outcome::default();
            }
            Ok(_) => (name, Outcome::default()),
            Err(refusal) => (name, refusal.into()),
        };
        self.changes.did(AuthTarget::of_cluster("provider", by.unwrap_or_default()), &outcome);
        outcome
    }

    /// Ends sessions, and returns the names of those that had them, each once.
    fn try_sso_logout(&mut self, asked: &SsoLogout) -> Result<Vec<String>, Refusal> {
        let Apply { catalog: Catalog { access, .. }, ctx, changes } = self;
        let wrong = |why: &str| Refusal::new(Code::TokenNotExisted, why);
        let provider = access.sso.provider_by_id(&asked.provider).ok_or_else(|| wrong("its provider was deleted"))?;
        let (id, issuer) = (provider.id.clone(), provider.issuer.clone());
        // Digests of ID tokens are hex, so the two never meet.
        let digest = format!("jti {id} {}", asked.jti);
        if access.sso.is_taken(&digest) {
            return Err(wrong("the logout token was taken before, each is taken once (jti)"));
        }
        let latest = ctx.time.plus_ms(limits::TAKEN_LOGOUT_MS_MAX);
        let until = asked.expires.max(ctx.time.plus_ms(limits::TAKEN_TOKEN_MS)).min(latest);
        let person = asked.sub.as_ref().map(|sub| IdentityKey { issuer, sub: sub.clone() }.person());
        let ended = match (&asked.sid, &person) {
            (Some(sid), _) => access.tokens.of_provider(&id, Some(sid)),
            (None, Some(person)) => access.tokens.older_of_user(person, 0),
            (None, None) => return Err(wrong("the logout token has neither sid nor sub")),
        };
        access.take(ctx, TakenToken { digest, until }, changes)?;
        let is_theirs = |token: &Arc<Token>| person.as_ref().is_none_or(|person| token.user_id == *person);
        let ended: Vec<_> = ended.into_iter().filter(is_theirs).collect();
        let name = |token: &Arc<Token>| token.sso.as_ref().map(|login| access.sso.name_of(&id, &login.username));
        let mut names: Vec<_> = ended.iter().filter_map(name).collect();
        names.sort_unstable();
        names.dedup();
        access.retire(ended, changes);
        Ok(names)
    }

    /// Deletes the identity of a person, so that its names are free, and ends its sessions; with `tokens` also its
    /// service tokens.
    pub(crate) fn free_identity(&mut self, identity: &IdentityRequest, tokens: bool) -> Outcome {
        let Apply { catalog: Catalog { access, .. }, changes, .. } = self;
        let key = access.sso.key_of(identity);
        let Some(identity) = key.and_then(|key| access.sso.identity(&key).cloned()) else { return Outcome::default() };
        let (person, name) = (identity.person(), access.sso.name_of(&identity.provider, &identity.username));
        access.retire(access.tokens.older_of_user(&person, 0), changes);
        access.remove_identity(&identity, changes);
        let owned = access.tokens_of_person(&person);
        let names = owned.iter().map(|token| token.name.clone()).collect();
        if tokens {
            for token in owned {
                access.end_share_of(&token, &person, changes);
            }
        }
        let identity = Arc::unwrap_or_clone(identity);
        Outcome::done(Entity::Identity(Arc::new(FreedIdentity { identity, name, tokens: names, ended: tokens })))
    }
}

impl Access {
    /// Remembers a token that is taken, for as long as it could be presented again.
    fn take(&mut self, ctx: &Ctx, taken: TakenToken, changes: &mut ChangeSet) -> Result<(), Refusal> {
        for old in self.sso.taken_until(ctx.sure()) {
            changes.delete(&old);
            self.sso.unload_taken(&old);
        }
        admits_one_more("tokens of providers within 15 minutes", self.sso.taken_count(), limits::TAKEN_TOKENS_MAX)?;
        self.put_taken(taken, changes);
        Ok(())
    }

    fn put_taken(&mut self, taken: TakenToken, changes: &mut ChangeSet) {
        changes.put(&taken);
        self.sso.load_taken(taken);
    }

    /// Corrects the ends of tokens that were taken since `since`.
    pub(super) fn redate_taken(
        &mut self,
        since: Timestamp,
        moved: impl Fn(Timestamp) -> Timestamp,
        changes: &mut ChangeSet,
    ) {
        for TakenToken { digest, until } in self.sso.taken_since(since) {
            self.put_taken(TakenToken { digest, until: moved(until) }, changes);
        }
    }

    pub(super) fn put_provider(&mut self, provider: Provider, changes: &mut ChangeSet) -> Arc<Provider> {
        changes.put(&provider);
        self.sso.load_provider(provider)
    }

    /// Removes a provider with its people, and the rights that they got by hand.
    pub(super) fn remove_provider(&mut self, provider: &Provider, changes: &mut ChangeSet) {
        for person in self.sso.people_of(&provider.id) {
            self.remove_identity(&person, changes);
        }
        let is_of_it = |user: &&Arc<User>| user.sso.as_ref().is_some_and(|sso| sso.provider == provider.id);
        let users: Vec<_> = self.users.values().filter(is_of_it).cloned().collect();
        for user in users {
            self.remove_user(&user, changes);
        }
        changes.delete(provider);
        self.sso.unload_provider(provider);
    }

    fn put_identity(&mut self, identity: SsoIdentity, changes: &mut ChangeSet) {
        changes.put(&identity);
        self.sso.load_identity(identity);
    }

    fn remove_identity(&mut self, identity: &SsoIdentity, changes: &mut ChangeSet) {
        changes.delete(identity);
        self.sso.unload_identity(identity);
    }

    /// Returns the service tokens of which a person received a secret that is still valid, by name.
    pub fn tokens_of_person(&self, person: &str) -> Vec<Arc<ServiceToken>> {
        let has = |token: &&Arc<ServiceToken>| {
            let owner = match token.person.as_str() {
                "" => self.person_named(&format!("{TOKEN_HOLDER}{}", token.name)),
                owner => owner.to_owned(),
            };
            owner == person || token.previous.as_ref().is_some_and(|previous| previous.person == person)
        };
        self.service_tokens.values().filter(has).cloned().collect()
    }

    /// Deletes a service token of a person; only its earlier secret, if another person has the present one.
    fn end_share_of(&mut self, token: &ServiceToken, person: &str, changes: &mut ChangeSet) {
        let is_previous = token.previous.as_ref().is_some_and(|previous| previous.person == person);
        if is_previous && token.person != person {
            self.put_service_token(ServiceToken { previous: None, ..token.clone() }, changes);
        } else {
            self.remove_service_token(token, changes);
        }
    }
}
