//! Users, logins and service tokens: changes.
//!
//! A cluster always has an administrator: an enabled user with that role on everything. When a user is disabled,
//! deleted or gets another password, its logins end with that change.

use std::sync::Arc;

use super::Access;
use crate::catalog::Catalog;
use crate::catalog::authorization::Principal;
use crate::catalog::change::{Entity, Outcome, admits_one_more, too_many};
use crate::catalog::command::Op;
use crate::catalog::ctx::{Apply, Ctx};
use crate::catalog::resource::{StoredResource, resource};
use crate::model::access::{PasswordHash, Token, TokenHash, User, UserDraft, Whence};
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::model::service_token::{ServiceToken, ServiceTokenChange, ServiceTokenDraft, ends};
use crate::model::sso::IdentityRequest;
use crate::model::webhook::{HookEvent, LoginNews, News};
use crate::model::{is_stale, limits};

impl Apply<'_> {
    /// Sets a new password; with `replaces`, only if that is the present hash.
    pub(crate) fn change_password(
        &mut self,
        name: &str,
        password_hash: PasswordHash,
        replaces: Option<&PasswordHash>,
    ) -> Outcome {
        let Some(old) = self.catalog.access.user_named(name) else { return Code::NotFoundResource.into() };
        if replaces.is_some_and(|replaced| *replaced != old.password_hash) {
            return Refusal::new(Code::DataConflict, "the password was changed meanwhile").into();
        }
        let draft = UserDraft { password_hash: Some(password_hash), ..UserDraft::default() };
        self.update(&old, &draft)
    }

    pub(crate) fn write_service_token(&mut self, principal: &Principal, op: Op, draft: ServiceTokenDraft) -> Outcome {
        match (op, self.catalog.access.service_token(&draft.name).cloned()) {
            (Op::Delete, Some(token)) if is_stale(&draft.revision, &token.revision) => {
                Outcome::stale(Entity::ServiceToken(token))
            }
            (Op::Delete, Some(token)) => {
                self.catalog.access.remove_service_token(&token, self.changes);
                Outcome::done(Entity::ServiceToken(token))
            }
            (Op::Delete, None) => Outcome::default(),
            (Op::Update, _) => Code::BadRequest.into(),
            (Op::Create, Some(token)) => Outcome::existed(Entity::ServiceToken(token)),
            (Op::Create, None) if self.catalog.access.service_token_count() >= limits::ACCOUNTS_MAX => {
                too_many("service tokens", limits::ACCOUNTS_MAX).into()
            }
            (Op::Create, None) => {
                let ServiceTokenDraft { name, hash, grants, networks, expires_in_s, comment, disabled, .. } = draft;
                let token = ServiceToken {
                    name,
                    hash,
                    grants,
                    networks,
                    ctime: self.ctx.time,
                    by: self.ctx.by.clone(),
                    person: principal.person().to_owned(),
                    expires: ends(self.ctx.time, expires_in_s),
                    comment,
                    disabled,
                    previous: None,
                    modified: None,
                    revision: self.ctx.draw_id(),
                };
                Outcome::done(Entity::ServiceToken(self.catalog.access.put_service_token(token, self.changes)))
            }
        }
    }

    pub(crate) fn change_service_token(&mut self, principal: &Principal, change: &ServiceTokenChange) -> Outcome {
        let Some(old) = self.catalog.access.service_token(&change.name).cloned() else {
            return Code::NotFoundResource.into();
        };
        if is_stale(&change.revision, &old.revision) {
            return Outcome::stale(Entity::ServiceToken(old));
        }
        let mut token = ServiceToken::clone(&old);
        change.lay_over(&mut token, self.ctx.time, principal.person());
        if token == *old {
            return Outcome::unchanged(Entity::ServiceToken(old));
        }
        token.modified = Some(self.ctx.stamp());
        token.revision = self.ctx.draw_id();
        Outcome::done(Entity::ServiceToken(self.catalog.access.put_service_token(token, self.changes)))
    }

    /// Ends a login by its id: one's own, or any with manage on everything.
    pub(crate) fn end_session(&mut self, principal: &Principal, id: &str) -> Outcome {
        let Some((token, _)) = self.catalog.access.session(id) else { return Outcome::default() };
        let may = match principal {
            Principal::Cluster => true,
            Principal::Holder(holder) => {
                holder.is_login_of(&token.user_id) || holder.grants.may_everywhere(Verb::Manage)
            }
            Principal::Stranger | Principal::Gone => false,
        };
        if !may {
            return Refusal::new(Code::NotAllowedAccess, "the session of somebody else: this needs manage").into();
        }
        self.catalog.access.retire(vec![token], self.changes);
        Outcome::default()
    }
}

const NO_PASSWORD: &str = "password: a person of a provider has none here";

/// Returns the refusal of a change that would leave no administrator.
fn last_administrator() -> Refusal {
    Refusal::new(Code::OperationRoleForbidden, "the last administrator stays one")
}

impl StoredResource for User {
    resource!(UserDraft => Entity::User, mtime);

    fn find(catalog: &Catalog, _: Op, draft: &UserDraft) -> Option<Arc<User>> {
        match &draft.identity {
            Some(identity) => catalog.access.user_of(identity),
            None => catalog.access.user_named(&draft.name),
        }
    }

    fn create(apply: &mut Apply<'_>, draft: &UserDraft) -> Result<User, Outcome> {
        admits_one_more("users", apply.catalog.access.user_count(), limits::ACCOUNTS_MAX)?;
        let sso = draft.identity.as_ref().map(|identity| apply.catalog.access.sso.user_to_be(identity)).transpose()?;
        let password_hash = draft.password_hash.clone().unwrap_or_default();
        if password_hash.is_empty() == sso.is_none() {
            let why = if sso.is_none() { "password is required" } else { NO_PASSWORD };
            return Err(Refusal::new(Code::InvalidParameter, why).into());
        }
        let mut user = User {
            id: sso.as_ref().map_or_else(|| apply.ctx.draw_id(), |sso| sso.key.person()),
            name: draft.identity.as_ref().map_or_else(|| draft.name.clone(), IdentityRequest::account),
            password_hash,
            comment: String::new(),
            disabled: false,
            grants: Default::default(),
            ctime: apply.ctx.time,
            mtime: apply.ctx.time,
            revision: apply.ctx.draw_id(),
            sso,
        };
        draft.lay_over(&mut user);
        Ok(user)
    }

    fn check_update(_: &Catalog, old: &User, draft: &UserDraft) -> Result<(), Outcome> {
        if old.sso.is_some() && draft.password_hash.is_some() {
            return Err(Refusal::new(Code::InvalidParameter, NO_PASSWORD).into());
        }
        Ok(())
    }

    fn before_update(apply: &mut Apply<'_>, old: &User, new: &mut User) -> Result<(), Outcome> {
        let access = &mut apply.catalog.access;
        if !new.is_administrator() && access.is_last_administrator(old) {
            return Err(last_administrator().into());
        }
        if new.disabled || new.password_hash != old.password_hash {
            access.retire(access.tokens.of_user(&old.id), apply.changes);
        }
        Ok(())
    }

    fn put(apply: &mut Apply<'_>, user: User) -> Arc<User> {
        apply.catalog.access.put_user(user, apply.changes)
    }

    fn delete(apply: &mut Apply<'_>, old: &Arc<User>) -> Result<(), Outcome> {
        let access = &mut apply.catalog.access;
        if access.is_last_administrator(old) {
            return Err(last_administrator().into());
        }
        access.retire(access.tokens.of_user(&old.id), apply.changes);
        access.remove_user(old, apply.changes);
        Ok(())
    }
}

impl Access {
    fn is_last_administrator(&self, user: &User) -> bool {
        user.is_administrator() && self.users.values().all(|other| other.id == user.id || !other.is_administrator())
    }
}

/// Refusal of a local user while passwords are for administrators.
const ONLY_ADMINISTRATORS: &str = "only administrators log in with a password (password_login), sign in by a provider";

/// Returns the event of a login of a local administrator.
fn login_news(ctx: &Ctx, user: &User, from: &Whence) -> News {
    let address = from.address.map(|address| address.to_string()).unwrap_or_default();
    let login = LoginNews { user: user.name.clone(), address, agent: from.agent.clone() };
    News {
        event: HookEvent::LocalAdminLogin,
        time: ctx.time,
        kind: "user".into(),
        name: user.name.clone(),
        login: Some(login),
        ..News::default()
    }
}

impl Apply<'_> {
    /// Stores the token of a login. Removes tokens that have ended, and the oldest beyond the limit per user. With
    /// `password`, refuses if that is no longer the user's: the node that checked it may have been outdated.
    pub(crate) fn sign_in(
        &mut self,
        hash: TokenHash,
        user_id: String,
        password: &PasswordHash,
        from: Whence,
    ) -> Outcome {
        let admits_only_administrators = self.catalog.settings.admits_only_administrators();
        let Apply { catalog: Catalog { access, .. }, ctx, changes } = self;
        let local = access.users.get(&user_id).filter(|user| user.sso.is_none()).cloned();
        let Some(user) = local else { return Code::NotAllowedAccess.into() };
        if user.disabled || !(password.is_empty() || *password == user.password_hash) {
            return Code::NotAllowedAccess.into();
        }
        if admits_only_administrators && !user.is_administrator() {
            return Refusal::new(Code::NotAllowedAccess, ONLY_ADMINISTRATORS).into();
        }
        if user.is_administrator() {
            changes.tell(login_news(ctx, &user, &from));
        }
        let expires = ctx.time.plus_ms(limits::TOKEN_LIFETIME_MS);
        let token = Token { hash, user_id, ctime: ctx.time, expires, from, sso: None };
        access.retire(access.tokens.ended(ctx.sure()), changes);
        access.retire(access.tokens.older_of_user(&token.user_id, limits::TOKENS_PER_USER_MAX - 1), changes);
        access.put_token(token, changes);
        Outcome::default()
    }

    pub(crate) fn sign_out(&mut self, hash: &TokenHash) -> Outcome {
        let access = &mut self.catalog.access;
        access.retire(access.tokens.get(hash).cloned().into_iter().collect(), self.changes);
        Outcome::default()
    }
}
