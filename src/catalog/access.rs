//! Users and live tokens.

use std::borrow::Cow;
use std::sync::Arc;

use imbl::OrdMap;

use super::change::{Journal, Outcome};
use super::ctx::Ctx;
use super::row::{Row, Table};
use crate::model::access::{Token, TokenHash, User};
use crate::model::code::Code;
use crate::model::limits;
use crate::model::time::Timestamp;

impl Row for User {
    const TABLE: Table = Table::User;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        vec![self.id.as_bytes().into()]
    }
}

impl Row for Token {
    const TABLE: Table = Table::Token;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        vec![self.hash.0.as_bytes().into()]
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    users: OrdMap<String, Arc<User>>,
    tokens: OrdMap<TokenHash, Arc<Token>>,
}

impl Access {
    pub fn user_named(&self, name: &str) -> Option<Arc<User>> {
        self.users.values().find(|user| user.name == name).cloned()
    }

    /// The user who holds this token, if it is live at `now`.
    pub fn holder(&self, hash: &TokenHash, now: Timestamp) -> Option<Arc<User>> {
        let token = self.tokens.get(hash).filter(|token| now < token.expires)?;
        self.users.get(&token.user_id).cloned()
    }

    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn add_user(&mut self, user: User, journal: &mut Journal) {
        journal.put(&user);
        self.load_user(user);
    }

    /// Keeps a new token; the user's expired ones go, and the oldest where there are too many.
    pub(super) fn sign_in(&mut self, ctx: &Ctx, hash: TokenHash, user_id: String, journal: &mut Journal) -> Outcome {
        if !self.users.contains_key(&user_id) {
            return Code::NotAllowedAccess.into();
        }
        let token = Token { hash, user_id, ctime: ctx.time, expires: ctx.time.plus_ms(limits::TOKEN_LIFETIME_MS) };
        self.retire(|kept| kept.expires <= ctx.time, journal);
        let mut held: Vec<_> = self.tokens.values().filter(|kept| kept.user_id == token.user_id).cloned().collect();
        held.sort_by(|a, b| (b.ctime, &b.hash).cmp(&(a.ctime, &a.hash)));
        for surplus in held.iter().skip(limits::TOKENS_PER_USER_MAX - 1) {
            self.retire(|kept| kept.hash == surplus.hash, journal);
        }
        journal.put(&token);
        self.load_token(token);
        Outcome::default()
    }

    pub(super) fn sign_out(&mut self, hash: &TokenHash, journal: &mut Journal) -> Outcome {
        self.retire(|kept| kept.hash == *hash, journal);
        Outcome::default()
    }

    fn retire(&mut self, is_over: impl Fn(&Token) -> bool, journal: &mut Journal) {
        let over: Vec<_> = self.tokens.values().filter(|token| is_over(token)).cloned().collect();
        for token in over {
            journal.delete(&*token);
            self.tokens.remove(&token.hash);
        }
    }

    pub(super) fn load_user(&mut self, user: User) {
        self.users.insert(user.id.clone(), Arc::new(user));
    }

    pub(super) fn load_token(&mut self, token: Token) {
        self.tokens.insert(token.hash.clone(), Arc::new(token));
    }
}
