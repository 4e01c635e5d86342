//! Tokens of logins: by hash, by user in order of creation, and by expiry, so that neither a login nor a logout walks
//! the tokens of other users.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::model::access::{Token, TokenHash};
use crate::model::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Logins {
    by_hash: OrdMap<TokenHash, Arc<Token>>,
    by_user: OrdMap<String, OrdSet<Dated>>,
    by_end: OrdSet<Dated>,
    /// Sessions of providers: id of the provider, session at the provider, hash.
    by_sid: OrdSet<(String, String, TokenHash)>,
    /// Bytes of the claims of these sessions.
    claim_bytes: usize,
}

/// A token by a moment of its life, then by hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Dated(Timestamp, TokenHash);

impl Logins {
    pub(super) fn get(&self, hash: &TokenHash) -> Option<&Arc<Token>> {
        self.by_hash.get(hash)
    }

    /// Finds a login by the id under which lists show it.
    pub(super) fn shown_as(&self, id: &str) -> Option<&Arc<Token>> {
        let (hash, token) = self.by_hash.range(TokenHash(id.to_owned())..).next()?;
        (hash.id() == id).then_some(token)
    }

    pub(super) fn len(&self) -> usize {
        self.by_hash.len()
    }

    pub(super) fn is_shared_with(&self, other: &Logins) -> bool {
        self.by_hash.ptr_eq(&other.by_hash)
    }

    /// Returns the logins of a user, in the order of their hashes.
    pub(super) fn of_user(&self, user_id: &str) -> Vec<Arc<Token>> {
        self.in_order_of_hashes(self.by_user.get(user_id).into_iter().flatten())
    }

    /// Returns the logins of a user, newest first, without the `newest` first ones.
    pub(super) fn older_of_user(&self, user_id: &str, newest: usize) -> Vec<Arc<Token>> {
        let all = self.by_user.get(user_id).into_iter().flat_map(|all| all.iter().rev());
        all.skip(newest).filter_map(|dated| self.by_hash.get(&dated.1).cloned()).collect()
    }

    /// Returns the logins that have expired by `now`, in the order of their hashes.
    pub(super) fn ended(&self, now: Timestamp) -> Vec<Arc<Token>> {
        self.in_order_of_hashes(self.ended_by(now))
    }

    pub(super) fn ended_count(&self, now: Timestamp) -> usize {
        self.ended_by(now).count()
    }

    fn ended_by(&self, now: Timestamp) -> impl Iterator<Item = &Dated> {
        self.by_end.iter().take_while(move |dated| dated.0 <= now)
    }

    /// Returns the logins created at `since` or later, in the order of their hashes. None of them ended before.
    pub(super) fn made_since(&self, since: Timestamp) -> Vec<Arc<Token>> {
        let first = Dated(since, TokenHash(String::new()));
        let mut tokens = self.in_order_of_hashes(self.by_end.range(first..));
        tokens.retain(|token| token.ctime >= since);
        tokens
    }

    /// Returns the sessions of a provider, in the order of the sessions at the provider and of their hashes; with
    /// `sid`, only those of this one.
    pub(super) fn of_provider(&self, provider: &str, sid: Option<&str>) -> Vec<Arc<Token>> {
        let first = (provider.to_owned(), sid.unwrap_or_default().to_owned(), TokenHash(String::new()));
        let is_it = |at: &&(String, String, TokenHash)| at.0 == provider && sid.is_none_or(|sid| at.1 == sid);
        let all = self.by_sid.range(first..).take_while(is_it);
        all.filter_map(|at| self.by_hash.get(&at.2).cloned()).collect()
    }

    /// Returns the bytes of the claims of all sessions.
    pub(super) fn claim_bytes(&self) -> usize {
        self.claim_bytes
    }

    fn in_order_of_hashes<'a>(&self, dated: impl Iterator<Item = &'a Dated>) -> Vec<Arc<Token>> {
        let mut tokens: Vec<_> = dated.filter_map(|dated| self.by_hash.get(&dated.1).cloned()).collect();
        tokens.sort_by(|a, b| a.hash.cmp(&b.hash));
        tokens
    }

    pub(super) fn insert(&mut self, token: Token) {
        self.remove(&token.hash);
        let made = Dated(token.ctime, token.hash.clone());
        self.by_user.entry(token.user_id.clone()).or_default().insert(made);
        self.by_end.insert(Dated(token.expires, token.hash.clone()));
        if let Some(login) = &token.sso {
            self.by_sid.insert((login.provider.clone(), login.sid.clone(), token.hash.clone()));
            self.claim_bytes += login.bytes();
        }
        self.by_hash.insert(token.hash.clone(), Arc::new(token));
    }

    pub(super) fn remove(&mut self, hash: &TokenHash) -> Option<Arc<Token>> {
        let token = self.by_hash.remove(hash)?;
        self.by_end.remove(&Dated(token.expires, token.hash.clone()));
        if let Some(login) = &token.sso {
            self.by_sid.remove(&(login.provider.clone(), login.sid.clone(), token.hash.clone()));
            self.claim_bytes -= login.bytes();
        }
        if let Some(of_user) = self.by_user.get_mut(&token.user_id) {
            of_user.remove(&Dated(token.ctime, token.hash.clone()));
            if of_user.is_empty() {
                self.by_user.remove(&token.user_id);
            }
        }
        Some(token)
    }
}
