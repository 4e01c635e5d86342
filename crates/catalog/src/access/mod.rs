//! Users, tokens of their logins, and service tokens: the maps, and the holders of tokens.

mod changes;
mod logins;
mod providers;
mod sso;
mod sso_changes;
mod sso_rights;

use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;

use super::change::ChangeSet;
use super::command::Credential;
use super::page::{ListKey, Listed, Page, Placed, place_of};
use super::row::{Row, RowKey, Table};
use crate::model::access::{Token, TokenHash, User};
use crate::model::code::{Code, Refusal};
use crate::model::grant::Grants;
use crate::model::limits;
use crate::model::service_token::{ServiceToken, TOKEN_HOLDER, is_within};
use crate::model::sso::{Provider, SsoAuthor, SsoIdentity};
use crate::model::stamp::Stamp;
use crate::model::time::Timestamp;
use logins::Logins;
pub use sso::Sso;
pub(crate) use sso::TakenToken;

impl Row for User {
    const TABLE: Table = Table::User;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.id);
    }
}

impl Row for Token {
    const TABLE: Table = Table::Token;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.hash.0);
    }
}

impl Row for ServiceToken {
    const TABLE: Table = Table::ServiceToken;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.name);
    }
}

/// Holder of a token or certificate, with its grants.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    pub name: String,
    pub grants: Grants,
    /// Id of the user, whichever of their tokens is used; see [`Access::person_named`].
    pub person: String,
    /// Claims of a person or program of an identity provider.
    pub author: Option<Arc<SsoAuthor>>,
    token: Option<Arc<ServiceToken>>,
}

/// Account of an earlier action: a name, and a time at which it belonged to the account. An account that was created
/// under this name later is another one.
#[derive(Clone, Copy, Debug)]
pub struct AccountAt<'a> {
    pub name: &'a str,
    pub time: Timestamp,
    /// Id of the user, if known; several entries of the log may have the same time.
    pub person: &'a str,
    /// Claims of a person or program of an identity provider at that time.
    pub author: Option<&'a SsoAuthor>,
}

impl<'a> From<&'a Stamp> for AccountAt<'a> {
    fn from(stamp: &'a Stamp) -> Self {
        AccountAt { name: &stamp.by, time: stamp.time, person: "", author: None }
    }
}

impl Holder {
    fn of_user(user: &User) -> Option<Holder> {
        let (name, grants, person) = (user.name.clone(), user.grants.clone(), user.id.clone());
        (!user.disabled).then_some(Holder { name, grants, person, author: None, token: None })
    }

    /// Reports whether this is a person that signed in, under its own name: not one of its service tokens.
    pub(super) fn is_login_of(&self, person: &str) -> bool {
        self.token.is_none() && self.person == person
    }

    /// Reports whether the token may be used from an address.
    pub fn is_for(&self, address: Option<IpAddr>) -> bool {
        self.token.as_ref().is_none_or(|token| is_within(&token.networks, address))
    }
}

impl Placed for User {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.name])
    }
}

impl Placed for ServiceToken {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.name])
    }
}

impl Placed for Token {
    fn place(&self) -> ListKey<'_> {
        place_of([self.hash.id()])
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    users: OrdMap<String, Arc<User>>,
    /// Ids of users by name.
    names: OrdMap<String, String>,
    tokens: Logins,
    /// Service tokens by name.
    service_tokens: OrdMap<String, Arc<ServiceToken>>,
    /// Names of service tokens by hash.
    service_hashes: OrdMap<TokenHash, String>,
    sso: Sso,
}

impl Access {
    /// Returns the local user of a name.
    pub fn user_named(&self, name: &str) -> Option<Arc<User>> {
        self.users.get(self.names.get(name)?).filter(|user| user.sso.is_none()).cloned()
    }

    /// Returns the identity providers, their people, and the ID tokens that were taken.
    pub fn sso(&self) -> &Sso {
        &self.sso
    }

    /// Lists users, by name.
    pub fn list_users(&self, wanted: impl Fn(&User) -> bool, page: &Page) -> Listed<Arc<User>> {
        let users = self.names.values().filter_map(|id| self.users.get(id));
        Listed::cut(users.filter(|user| wanted(user)), page)
    }

    pub fn service_token(&self, name: &str) -> Option<&Arc<ServiceToken>> {
        self.service_tokens.get(name)
    }

    /// Lists service tokens, by name, including expired ones.
    pub fn list_service_tokens(
        &self,
        wanted: impl Fn(&ServiceToken) -> bool,
        page: &Page,
    ) -> Listed<Arc<ServiceToken>> {
        Listed::cut(self.service_tokens.values().filter(|token| wanted(token)), page)
    }

    /// Returns the holder of a token, if it is valid at `now` and its user is not disabled.
    pub fn holder(&self, hash: &TokenHash, now: Timestamp) -> Option<Holder> {
        if let Some(token) = self.tokens.get(hash) {
            if now >= token.expires {
                return None;
            }
            if let Some(login) = &token.sso {
                return self.holder_of_login(token, login, now).ok();
            }
            return Holder::of_user(self.users.get(&token.user_id)?);
        }
        let token = self.service_tokens.get(self.service_hashes.get(hash)?)?;
        if !token.lets_in(hash, now) {
            return None;
        }
        let (name, grants) = (token.holder(), token.grants.clone());
        let person = match token.person_of(hash) {
            "" => self.person_named(&name),
            person => person.to_owned(),
        };
        Some(Holder { name, grants, person, author: None, token: Some(token.clone()) })
    }

    /// Returns the holder of a credential, if it is valid at `now`; a checked password has no holder.
    pub fn holder_of(&self, credential: &Credential, now: Timestamp) -> Option<Holder> {
        match credential {
            Credential::Token(hash) => self.holder(hash, now),
            Credential::Certificate(name) => self.holder_named(name),
            Credential::Bearer(bearer) => self.holder_of_bearer(bearer, now).ok(),
            Credential::Login => None,
        }
    }

    /// Returns the reason why a credential has no holder at `now`.
    pub fn refusal_of(&self, credential: &Credential, now: Timestamp) -> Refusal {
        let refused = match credential {
            Credential::Bearer(bearer) => self.holder_of_bearer(bearer, now).err(),
            Credential::Token(hash) => self.tokens.get(hash).and_then(|token| {
                let login = token.sso.as_ref().filter(|_| now < token.expires)?;
                self.holder_of_login(token, login, now).err()
            }),
            Credential::Certificate(_) | Credential::Login => None,
        };
        refused.unwrap_or_else(|| Code::TokenNotExisted.into())
    }

    /// Returns the logins of a person, newest first, by the id of the local user or of the person of a provider.
    pub fn sessions_of(&self, person: &str) -> Vec<Arc<Token>> {
        self.tokens.older_of_user(person, 0)
    }

    /// Returns the login with this id, and the name of its user.
    pub(super) fn session(&self, id: &str) -> Option<(Arc<Token>, String)> {
        let token = self.tokens.shown_as(id)?;
        let name = match &token.sso {
            Some(login) => self.sso.name_of(&login.provider, &login.username),
            None => self.users.get(&token.user_id)?.name.clone(),
        };
        Some((token.clone(), name))
    }

    /// Returns the login of a token, also one that has ended but was not removed yet.
    pub fn login(&self, hash: &TokenHash) -> Option<&Arc<Token>> {
        self.tokens.get(hash)
    }

    /// Reports whether a token is that of a login.
    pub fn is_login(&self, hash: &TokenHash) -> bool {
        self.tokens.get(hash).is_some()
    }

    /// Returns the expiry of a token; `None` if it does not expire.
    pub fn end_of(&self, hash: &TokenHash) -> Option<Timestamp> {
        if let Some(token) = self.tokens.get(hash) {
            return Some(token.sso.as_ref().map_or(token.expires, |login| self.end_of_login(token, login)));
        }
        let token = self.service_tokens.get(self.service_hashes.get(hash)?)?;
        let previous = token.previous.as_ref().filter(|previous| previous.hash == *hash).map(|previous| previous.until);
        previous.into_iter().chain(token.expires).min()
    }

    /// Returns the expiry of a credential. That of a certificate is checked by its connection with each request.
    pub fn end_of_credential(&self, credential: &Credential) -> Option<Timestamp> {
        match credential {
            Credential::Token(hash) => self.end_of(hash),
            Credential::Bearer(bearer) => Some(bearer.expires),
            Credential::Certificate(_) | Credential::Login => None,
        }
    }

    /// Returns the user of a name that was proven by other means than a token.
    pub fn holder_named(&self, name: &str) -> Option<Holder> {
        Holder::of_user(&*self.user_named(name)?)
    }

    /// Returns the grants at `now` of the account of an earlier action; `None` if the account is no longer usable.
    pub fn grants_of(&self, account: AccountAt<'_>, now: Timestamp) -> Option<Grants> {
        let AccountAt { name, time, person, author } = account;
        if let Some(author) = author {
            return self.rights_of(author).ok().map(|(_, grants)| grants);
        }
        if let Some(token) = name.strip_prefix(TOKEN_HOLDER) {
            let token = self.service_tokens.get(token).filter(|token| token.ctime <= time)?;
            return token.is_in_use(now).then(|| token.grants.clone());
        }
        let is_it = |user: &Arc<User>| user.ctime <= time && (person.is_empty() || user.id == person);
        let user = self.user_named(name).filter(is_it)?;
        Holder::of_user(&user).map(|holder| holder.grants)
    }

    /// Returns the person of a name: the id of the user, or of the user who owns the service token. A name without an
    /// owner is returned unchanged.
    pub fn person_named(&self, name: &str) -> String {
        let mut name = name;
        // Tokens from before owners were stored may have been created by other tokens. The chain leads to a user in at
        // most as many steps as there are tokens, or to none.
        for _ in 0..limits::ACCOUNTS_MAX {
            let Some(token) = name.strip_prefix(TOKEN_HOLDER) else { break };
            match self.service_tokens.get(token) {
                Some(token) if token.person.is_empty() => name = &token.by,
                Some(token) => return token.person.clone(),
                None => break,
            }
        }
        match self.user_named(name) {
            Some(user) => user.id.clone(),
            None => self.sso.person_named(name).unwrap_or_else(|| name.to_owned()),
        }
    }

    /// Reports whether this is an unchanged clone of the other. Shared maps are never changed in place.
    pub fn is_shared_with(&self, other: &Access) -> bool {
        self.users.ptr_eq(&other.users)
            && self.names.ptr_eq(&other.names)
            && self.tokens.is_shared_with(&other.tokens)
            && self.service_tokens.ptr_eq(&other.service_tokens)
            && self.service_hashes.ptr_eq(&other.service_hashes)
            && self.sso.is_shared_with(&other.sso)
    }

    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    pub fn user_count(&self) -> usize {
        self.users.len()
    }

    pub fn service_token_count(&self) -> usize {
        self.service_tokens.len()
    }

    /// Counts logins that have expired by `now`; they are removed by the next login.
    pub(super) fn ended_logins(&self, now: Timestamp) -> usize {
        self.tokens.ended_count(now)
    }

    pub(super) fn ended_service_tokens(&self, now: Timestamp) -> usize {
        self.service_tokens.values().filter(|token| token.is_over(now)).count()
    }

    /// Corrects the dates of logins, accounts and service tokens created at `since` or later, and their ends. Older
    /// service tokens keep their ends, except for the end of a secret that was rotated out since.
    pub(super) fn redate(&mut self, since: Timestamp, moved: impl Fn(Timestamp) -> Timestamp, changes: &mut ChangeSet) {
        for token in self.tokens.made_since(since) {
            let Token { ctime, expires, .. } = *token;
            self.put_token(Token { ctime: moved(ctime), expires: moved(expires), ..Token::clone(&token) }, changes);
        }
        let users: Vec<_> = self.users.values().filter(|user| user.ctime >= since).cloned().collect();
        for user in users {
            self.put_user(User { ctime: moved(user.ctime), ..User::clone(&user) }, changes);
        }
        let tokens: Vec<_> =
            self.service_tokens.values().filter(|token| token.is_changed_since(since)).cloned().collect();
        for token in tokens {
            let mut token = ServiceToken::clone(&token);
            if token.ctime >= since {
                (token.ctime, token.expires) = (moved(token.ctime), token.expires.map(&moved));
            }
            if let Some(previous) = &mut token.previous {
                previous.until = moved(previous.until);
            }
            self.put_service_token(token, changes);
        }
        self.redate_taken(since, moved, changes);
    }

    pub(super) fn put_user(&mut self, user: User, changes: &mut ChangeSet) -> Arc<User> {
        changes.put(&user);
        self.load_user(user)
    }

    pub(super) fn remove_user(&mut self, user: &User, changes: &mut ChangeSet) {
        changes.delete(user);
        self.users.remove(&user.id);
        self.names.remove(&user.name);
    }

    pub(super) fn put_token(&mut self, token: Token, changes: &mut ChangeSet) {
        changes.put(&token);
        self.load_token(token);
    }

    /// Ends logins, in the given order.
    pub(super) fn retire(&mut self, over: Vec<Arc<Token>>, changes: &mut ChangeSet) {
        for token in over {
            changes.delete(&*token);
            self.tokens.remove(&token.hash);
        }
    }

    pub(super) fn put_service_token(&mut self, token: ServiceToken, changes: &mut ChangeSet) -> Arc<ServiceToken> {
        changes.put(&token);
        self.load_service_token(token)
    }

    pub(super) fn remove_service_token(&mut self, token: &ServiceToken, changes: &mut ChangeSet) {
        changes.delete(token);
        self.service_tokens.remove(&token.name);
        self.forget_hashes(token);
    }

    fn forget_hashes(&mut self, token: &ServiceToken) {
        for hash in token.hashes() {
            self.service_hashes.remove(hash);
        }
    }

    pub(super) fn load_user(&mut self, user: User) -> Arc<User> {
        let user = Arc::new(user);
        self.names.insert(user.name.clone(), user.id.clone());
        self.users.insert(user.id.clone(), user.clone());
        user
    }

    pub(super) fn load_provider(&mut self, provider: Provider) {
        self.sso.load_provider(provider);
    }

    pub(super) fn load_identity(&mut self, identity: SsoIdentity) {
        self.sso.load_identity(identity);
    }

    pub(super) fn load_taken(&mut self, taken: TakenToken) {
        self.sso.load_taken(taken);
    }

    pub(super) fn load_token(&mut self, token: Token) {
        self.tokens.insert(token);
    }

    pub(super) fn load_service_token(&mut self, token: ServiceToken) -> Arc<ServiceToken> {
        let token = Arc::new(token);
        if let Some(before) = self.service_tokens.insert(token.name.clone(), token.clone()) {
            self.forget_hashes(&before);
        }
        for hash in token.hashes() {
            self.service_hashes.insert(hash.clone(), token.name.clone());
        }
        token
    }
}
