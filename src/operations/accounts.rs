//! Accounts: users, service tokens, and access keys of config clients. Secrets are hashed or sealed here; nothing below
//! sees them in clear, and a generated secret is returned once.

use schemars::JsonSchema;
use serde::Deserialize;

use super::sign_in::NotSignedIn;
use super::write::made;
use super::{Caller, Items, Operations, WithSecret, new_token, token_hash};
use crate::catalog::{Command, Op, Outcome};
use crate::model::access::{PasswordHash, TokenHash, UserDraft, check_password};
use crate::model::access_key::{AccessKeyDraft, AccessKeyRequest, ClearSecret};
use crate::model::code::{Code, Refusal};
use crate::model::grant::{GivenGrant, Grants, Verb};
use crate::model::service_token::{RotationRequest, ServiceTokenRequest};
use crate::model::sso::IdentityRequest;

/// A user in a request. An absent field keeps its value.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UserRequest {
    /// Letters, digits and `- . _ @`, at most 128 characters. A person of a provider has none of its own.
    pub name: String,
    /// Name of an identity provider: rights are granted to the person that it knows as `sub`, in addition to those of
    /// its bindings.
    pub provider: Option<String>,
    pub sub: Option<String>,
    /// 8 to 128 characters; needed on create, except for a person of a provider, which has none here.
    pub password: Option<String>,
    /// Comment of at most 1024 characters.
    pub comment: Option<String>,
    /// True if the user cannot log in. Disabling a user ends all of its logins.
    pub disabled: Option<bool>,
    /// Grants, at most 100. A user without grants has no rights.
    #[serde(deserialize_with = "GivenGrant::read_all")]
    #[schemars(with = "Option<Vec<GivenGrant>>")]
    pub grants: Option<Grants>,
    /// An update or delete is refused with 409000 if this is not the current revision.
    pub revision: Option<String>,
}

impl UserRequest {
    pub fn draft(&self) -> UserDraft {
        UserDraft {
            name: self.name.clone(),
            password_hash: None,
            comment: self.comment.clone(),
            disabled: self.disabled,
            grants: self.grants.clone(),
            revision: self.revision.clone(),
            identity: self.identity(),
        }
    }

    /// Returns the person of a provider; `None` for a local user.
    fn identity(&self) -> Option<IdentityRequest> {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (provider, sub) = (text(&self.provider), text(&self.sub));
        (!provider.is_empty() || !sub.is_empty()).then_some(IdentityRequest { provider, sub })
    }

    pub fn check(&self) -> Result<(), Refusal> {
        self.check_named()?;
        self.draft().check()?;
        let password = self.password.as_deref().filter(|password| !password.is_empty() || self.identity().is_none());
        match (password, self.identity()) {
            (Some(_), Some(_)) => Err(invalid("password: a person of a provider has none here")),
            (Some(password), None) => check_password("password", password),
            (None, _) => Ok(()),
        }
    }

    pub fn check_new(&self) -> Result<(), Refusal> {
        self.check()?;
        match self.identity() {
            Some(_) => Ok(()),
            None => check_password("password", self.password.as_deref().unwrap_or_default()),
        }
    }

    /// Checks the name of a local user, or provider and `sub`, of which a given name has to be made.
    fn check_named(&self) -> Result<(), Refusal> {
        self.draft().check_named()?;
        match self.identity() {
            Some(identity) if !self.name.is_empty() && self.name != identity.account() => {
                Err(invalid("name: a person of a provider is named by provider and sub"))
            }
            _ => Ok(()),
        }
    }
}

fn invalid(why: &str) -> Refusal {
    Refusal::new(Code::InvalidParameter, why)
}

impl Operations {
    pub async fn users(&self, caller: &Caller, op: Op, items: Items<UserRequest>) -> Result<Vec<Outcome>, Refusal> {
        let mut drafts = Vec::with_capacity(items.len());
        for item in items {
            let checked = item.and_then(|request| {
                match op {
                    Op::Create => request.check_new(),
                    Op::Update => request.check(),
                    Op::Delete => request.check_named(),
                }
                .map(|()| request)
            });
            drafts.push(match checked {
                Ok(request) => {
                    let password_hash = match &request.password {
                        Some(password) if op != Op::Delete && request.identity().is_none() => {
                            Some(self.hashed(password).await?)
                        }
                        _ => None,
                    };
                    Ok(UserDraft { password_hash, ..request.draft() })
                }
                Err(refusal) => Err(refusal),
            });
        }
        self.write(caller, drafts, |items| Command::Users(op, items)).await
    }

    async fn hashed(&self, password: &str) -> Result<PasswordHash, Refusal> {
        self.passwords.hash(password.to_owned()).await.ok_or_else(|| Code::ExecuteException.into())
    }
}

/// A change of the caller's own password, or of the password of the user `name`.
#[derive(Deserialize, JsonSchema)]
pub struct PasswordRequest {
    /// The user; absent for the caller.
    #[serde(default)]
    pub name: Option<String>,
    /// The present password; required for the caller's own.
    #[serde(default)]
    pub old_password: Option<String>,
    /// 8 to 128 characters.
    pub new_password: String,
}

impl Operations {
    /// Changes a password and ends all logins of the user, on every node.
    pub async fn change_password(&self, caller: &Caller, request: PasswordRequest) -> Result<(), NotSignedIn> {
        let name = request.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| caller.name.clone());
        check_password("new_password", &request.new_password)?;
        // An administrator resets the password of a named user without the old one; an old password that is given is
        // checked.
        let is_named = request.name.as_deref().is_some_and(|name| !name.is_empty());
        let resets = is_named && request.old_password.is_none() && caller.grants.may_everywhere(Verb::Manage);
        if !is_named && request.old_password.is_none() {
            return Err(Refusal::new(Code::InvalidParameter, "old_password is required for one's own password").into());
        }
        let mut replaces = None;
        if !resets {
            replaces = Some(self.old_hash(caller, &name, request.old_password.unwrap_or_default()).await?);
        }
        let password_hash = self.hashed(&request.new_password).await?;
        let command = Command::ChangePassword { name, password_hash, replaces };
        self.ask_one(&caller.name, caller.asks(command)).await?;
        Ok(())
    }

    /// Returns the hash of the password to be replaced. Refuses a caller that may not replace it, or gives a wrong one.
    async fn old_hash(&self, caller: &Caller, name: &str, old: String) -> Result<PasswordHash, NotSignedIn> {
        let wrong = || Refusal::new(Code::NotAllowedAccess, "the old password is wrong");
        if name != caller.name {
            return Err(Refusal::new(Code::NotAllowedAccess, "this needs manage on everything").into());
        }
        let user = self.node.state().catalog().access.user_named(name).ok_or_else(wrong)?;
        check_password("old_password", &old).map_err(|_| wrong())?;
        let hash = user.password_hash.clone();
        match self.passwords.check(name, caller.sender().guesser(), old, Some(hash)).await {
            Ok(true) => Ok(user.password_hash.clone()),
            Ok(false) => Err(wrong().into()),
            Err(not_checked) => Err(self.later(not_checked)),
        }
    }

    /// Creates service tokens. Only the hash of a token is stored.
    pub async fn create_tokens(
        &self,
        caller: &Caller,
        items: Items<ServiceTokenRequest>,
    ) -> Result<Vec<WithSecret>, Refusal> {
        let drafts = made(items, |request| with_token(|hash| request.read(hash)));
        self.write_with_secrets(caller, drafts, |items| Command::ServiceTokens(Op::Create, items)).await
    }

    pub async fn delete_tokens(
        &self,
        caller: &Caller,
        items: Items<ServiceTokenRequest>,
    ) -> Result<Vec<Outcome>, Refusal> {
        self.write(caller, made(items, ServiceTokenRequest::named), |items| Command::ServiceTokens(Op::Delete, items))
            .await
    }

    /// Changes grants and expiry of service tokens.
    pub async fn update_tokens(
        &self,
        caller: &Caller,
        items: Items<ServiceTokenRequest>,
    ) -> Result<Vec<Outcome>, Refusal> {
        self.write(caller, made(items, |request| request.change()), Command::ChangeTokens).await
    }

    /// Gives service tokens new secrets, each returned once. The previous secret stays valid for as long as the request
    /// says.
    pub async fn rotate_tokens(
        &self,
        caller: &Caller,
        items: Items<RotationRequest>,
    ) -> Result<Vec<WithSecret>, Refusal> {
        let changes = made(items, |request| with_token(|hash| request.read(hash)));
        self.write_with_secrets(caller, changes, Command::ChangeTokens).await
    }

    /// Creates, changes or deletes access keys. The secret of a new key is given or generated.
    pub async fn access_keys(
        &self,
        caller: &Caller,
        op: Op,
        items: Items<AccessKeyRequest>,
    ) -> Result<Vec<WithSecret>, Refusal> {
        let keyring = self.node.keyring();
        let seal = |request: AccessKeyRequest| match op {
            Op::Create => {
                request.check()?;
                keyring.seal_new(request).map(|(draft, secret)| (draft, Some(secret)))
            }
            Op::Update => {
                request.check()?;
                Ok((keyring.seal(request)?, None))
            }
            Op::Delete => {
                request.check_named()?;
                let AccessKeyRequest { app_id, name, revision, .. } = request;
                Ok((AccessKeyDraft { app_id, name, revision, ..AccessKeyDraft::default() }, None))
            }
        };
        self.write_with_secrets(caller, made(items, seal), |items| Command::AccessKeys(op, items)).await
    }
}

/// Returns the draft of a new token's hash, and the token.
fn with_token<T>(draft: impl FnOnce(TokenHash) -> Result<T, Refusal>) -> Result<(T, Option<ClearSecret>), Refusal> {
    let token = new_token();
    Ok((draft(token_hash(&token))?, Some(ClearSecret::from(token))))
}
