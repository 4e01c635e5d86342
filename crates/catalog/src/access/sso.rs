//! Identity providers and their people: the maps.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

use crate::catalog::page::{ListKey, Listed, Page, Placed, place_of};
use crate::model::code::{Code, Refusal};
use crate::model::sso::{IdentityKey, IdentityRequest, Provider, SEPARATOR, SsoIdentity, SsoUser};
use crate::model::time::Timestamp;

/// An ID or logout token that was taken, and is not taken again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TakenToken {
    /// Digest of the token, or a name of its own that its provider gave it.
    pub(super) digest: String,
    /// Time from which it would be refused because of its age.
    pub(super) until: Timestamp,
}

impl Placed for Provider {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.name])
    }
}

impl Placed for SsoIdentity {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.provider, &self.username, &self.key.sub])
    }
}

/// Identity providers, people that have signed in, and tokens that were taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sso {
    providers: OrdMap<String, Arc<Provider>>,
    /// Ids of providers by name; below, by issuer.
    names: OrdMap<String, String>,
    issuers: OrdMap<String, String>,
    identities: OrdMap<IdentityKey, Arc<SsoIdentity>>,
    /// Owners of names: provider id and username.
    owners: OrdMap<(String, String), IdentityKey>,
    taken: OrdMap<String, Timestamp>,
    taken_by_end: OrdSet<(Timestamp, String)>,
}

impl Sso {
    /// Returns the provider of a name.
    pub fn provider(&self, name: &str) -> Option<&Arc<Provider>> {
        self.providers.get(self.names.get(name)?)
    }

    /// Returns the provider of an issuer, exactly as its tokens name it.
    pub fn provider_of_issuer(&self, issuer: &str) -> Option<&Arc<Provider>> {
        self.providers.get(self.issuers.get(issuer)?)
    }

    pub fn provider_by_id(&self, id: &str) -> Option<&Arc<Provider>> {
        self.providers.get(id)
    }

    /// Returns the providers, by name.
    pub fn providers(&self) -> impl Iterator<Item = &Arc<Provider>> {
        self.names.values().filter_map(|id| self.providers.get(id))
    }

    /// Lists providers, by name.
    pub fn list_providers(&self, wanted: impl Fn(&Provider) -> bool, page: &Page) -> Listed<Arc<Provider>> {
        Listed::cut(self.providers().filter(|provider| wanted(provider)), page)
    }

    pub fn provider_count(&self) -> usize {
        self.providers.len()
    }

    pub fn identity(&self, key: &IdentityKey) -> Option<&Arc<SsoIdentity>> {
        self.identities.get(key)
    }

    /// Lists people that have signed in, by provider and name.
    pub fn list_identities(&self, wanted: impl Fn(&SsoIdentity) -> bool, page: &Page) -> Listed<Arc<SsoIdentity>> {
        let in_order = self.owners.iter().filter_map(|((_, username), key)| {
            self.identities.get(key).filter(|identity| identity.username == *username)
        });
        Listed::cut(in_order.filter(|identity| wanted(identity)), page)
    }

    pub fn identity_count(&self) -> usize {
        self.identities.len()
    }

    /// Returns the name of a person: `PROVIDER:USERNAME`; without the provider if that was deleted.
    pub fn name_of(&self, provider: &str, username: &str) -> String {
        self.providers.get(provider).map_or_else(|| username.to_owned(), |provider| provider.holder(username))
    }

    /// Returns the id of the person that owns a name, `PROVIDER:USERNAME`.
    pub(super) fn person_named(&self, name: &str) -> Option<String> {
        let (provider, username) = name.split_once(SEPARATOR)?;
        let owner = self.owners.get(&(self.provider(provider)?.id.clone(), username.to_owned()))?;
        Some(owner.person())
    }

    /// Returns the key of a person, by the name of its provider and its `sub`.
    pub fn key_of(&self, identity: &IdentityRequest) -> Option<IdentityKey> {
        let provider = self.provider(&identity.provider)?;
        Some(IdentityKey { issuer: provider.issuer.clone(), sub: identity.sub.clone() })
    }

    /// Returns the person of a new user.
    pub(super) fn user_to_be(&self, identity: &IdentityRequest) -> Result<SsoUser, Refusal> {
        let missing = || Refusal::missing(&format!("provider {:?}", identity.provider));
        let provider = self.provider(&identity.provider).ok_or_else(missing)?;
        let key = IdentityKey { issuer: provider.issuer.clone(), sub: identity.sub.clone() };
        Ok(SsoUser { provider: provider.id.clone(), key })
    }

    /// Returns the owner of a name of a provider.
    pub(super) fn owner_of(&self, provider: &Provider, username: &str) -> Option<&IdentityKey> {
        self.owners.get(&(provider.id.clone(), username.to_owned()))
    }

    /// Refuses a name that belongs to somebody else.
    pub(super) fn check_name(&self, provider: &Provider, username: &str, key: &IdentityKey) -> Result<(), Refusal> {
        match self.owner_of(provider, username) {
            Some(owner) if owner != key => {
                let name = provider.holder(username);
                let why = format!("the name {name} belongs to another sub of the provider until it is freed");
                Err(Refusal::new(Code::NotAllowedAccess, why))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn is_shared_with(&self, other: &Sso) -> bool {
        self.providers.ptr_eq(&other.providers)
            && self.identities.ptr_eq(&other.identities)
            && self.owners.ptr_eq(&other.owners)
            && self.taken.ptr_eq(&other.taken)
    }

    pub(super) fn load_provider(&mut self, provider: Provider) -> Arc<Provider> {
        let provider = Arc::new(provider);
        self.names.insert(provider.name.clone(), provider.id.clone());
        self.issuers.insert(provider.issuer.clone(), provider.id.clone());
        self.providers.insert(provider.id.clone(), provider.clone());
        provider
    }

    pub(super) fn unload_provider(&mut self, provider: &Provider) {
        self.names.remove(&provider.name);
        self.issuers.remove(&provider.issuer);
        self.providers.remove(&provider.id);
    }

    /// Returns the people of a provider.
    pub(super) fn people_of(&self, provider: &str) -> Vec<Arc<SsoIdentity>> {
        self.identities.values().filter(|person| person.provider == provider).cloned().collect()
    }

    pub(super) fn load_identity(&mut self, identity: SsoIdentity) {
        for username in identity.usernames() {
            self.owners.insert((identity.provider.clone(), username.to_owned()), identity.key.clone());
        }
        self.identities.insert(identity.key.clone(), Arc::new(identity));
    }

    pub(super) fn unload_identity(&mut self, identity: &SsoIdentity) {
        for username in identity.usernames() {
            self.owners.remove(&(identity.provider.clone(), username.to_owned()));
        }
        self.identities.remove(&identity.key);
    }

    /// Reports whether a token was taken.
    pub(super) fn is_taken(&self, digest: &str) -> bool {
        self.taken.contains_key(digest)
    }

    pub(super) fn taken_count(&self) -> usize {
        self.taken.len()
    }

    /// Returns the tokens that are refused because of their age at `now`.
    pub(super) fn taken_until(&self, now: Timestamp) -> Vec<TakenToken> {
        let old = self.taken_by_end.iter().take_while(|(until, _)| *until <= now);
        old.map(|(until, digest)| TakenToken { digest: digest.clone(), until: *until }).collect()
    }

    /// Returns the tokens that are refused because of their age at `since` or later.
    pub(super) fn taken_since(&self, since: Timestamp) -> Vec<TakenToken> {
        let young = self.taken_by_end.range((since, String::new())..);
        young.map(|(until, digest)| TakenToken { digest: digest.clone(), until: *until }).collect()
    }

    pub(super) fn load_taken(&mut self, TakenToken { digest, until }: TakenToken) {
        if let Some(before) = self.taken.insert(digest.clone(), until) {
            self.taken_by_end.remove(&(before, digest.clone()));
        }
        self.taken_by_end.insert((until, digest));
    }

    pub(super) fn unload_taken(&mut self, taken: &TakenToken) {
        self.taken.remove(&taken.digest);
        self.taken_by_end.remove(&(taken.until, taken.digest.clone()));
    }
}
