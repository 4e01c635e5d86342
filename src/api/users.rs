//! `/auth/v1/users`, `/auth/v1/user/password` and `/auth/v1/roles`.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::App;
use super::auth::Caller;
use super::doc::{Doc, PAGING};
use super::envelope::{self, Shape};
use super::error::ApiError;
use super::extract::{Batch, ClientAddress, Object, Write};
use super::query::{Fresh, Query};
use crate::catalog::page::Listed;
use crate::catalog::{Command, Op};
use crate::model::access::{PasswordHash, User, UserDraft, check_account_name, check_password};
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grants, Role, Verb};
use crate::openapi::Param;
use crate::origin::Origin;

const DOC: Doc = Doc::new("Users");
const WRITE: Doc = DOC.gives(Shape::batch::<UserView>("user"));
const FIELDS: &[Code] = &[Code::InvalidParameter, Code::LevelNotReached];

/// A user; the password is never shown.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "User")]
pub(super) struct UserView<'a> {
    id: &'a str,
    name: &'a str,
    comment: &'a str,
    disabled: bool,
    grants: &'a Grants,
    /// `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    mtime: String,
}

impl<'a> UserView<'a> {
    pub(super) fn new(user: &'a User) -> Self {
        let User { id, name, comment, disabled, grants, ctime, mtime, .. } = user;
        UserView { id, name, comment, disabled: *disabled, grants, ctime: ctime.text(), mtime: mtime.text() }
    }
}

/// A user as a caller gives it; an absent field stays as it is.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct UserRequest {
    /// Letters, digits and `- . _ @`, at most 128 characters.
    name: String,
    /// 8 to 128 characters; needed on create.
    password: Option<String>,
    /// At most 1024 characters.
    comment: Option<String>,
    /// Nobody logs in under this name, and who has is out.
    disabled: Option<bool>,
    /// At most 100. Without one the user may do nothing.
    grants: Option<Grants>,
}

impl UserRequest {
    pub(super) fn draft(&self) -> UserDraft {
        UserDraft {
            name: self.name.clone(),
            password_hash: None,
            comment: self.comment.clone(),
            disabled: self.disabled,
            grants: self.grants.clone(),
        }
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.draft().check()?;
        self.password.as_deref().map_or(Ok(()), |password| check_password("password", password))
    }

    pub(super) fn check_new(&self) -> Result<(), Refusal> {
        self.check()?;
        check_password("password", self.password.as_deref().unwrap_or_default())
    }
}

pub(super) const LIST: Doc = DOC
    .says("A page of users, by name.")
    .query(&[&[Param::text("name", "Exact, or with `*` a glob that ignores case.")], PAGING])
    .gives(Shape::list::<UserView>("data"));

pub(super) async fn list(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let (name, page) = (query.name("name"), query.page()?);
    let wanted = |user: &User| crate::model::text::NameFilter::passes(&name, &user.name);
    let listed: Listed<Arc<User>> = app.node.state().catalog().access.list_users(wanted, page);
    Ok(envelope::list("data", &listed, |user| UserView::new(user)))
}

pub(super) const CREATE: Doc = WRITE
    .says("Creates users. Without grants a user may log in and nothing more.")
    .codes(&[FIELDS, &[Code::ExistedResource]]);

pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    batch: Batch<UserRequest>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Create, batch.checked(UserRequest::check_new)).await
}

pub(super) const UPDATE: Doc = WRITE
    .says(
        "Updates users: an absent field stays. Who is disabled or gets another password is out at once, on every \
         node; the last administrator stays one.",
    )
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::OperationRoleForbidden]]);

pub(super) async fn update(
    State(app): State<App>,
    caller: Caller,
    batch: Batch<UserRequest>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Update, batch.checked(UserRequest::check)).await
}

pub(super) const DELETE: Doc = WRITE
    .says("Deletes users and ends their logins; one that is not there is success.")
    .codes(&[FIELDS, &[Code::OperationRoleForbidden]]);

pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    batch: Batch<UserRequest>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Delete, batch.checked(|request| check_account_name(&request.name))).await
}

/// Passwords become hashes here; nothing behind the door knows them.
async fn write(app: &App, caller: &Caller, op: Op, batch: Batch<UserRequest>) -> Result<Response, ApiError> {
    let Batch { items, is_single, warnings } = batch;
    let mut drafts = Vec::with_capacity(items.len());
    for item in items {
        drafts.push(match item {
            Ok(request) => {
                let password_hash = match &request.password {
                    Some(password) if op != Op::Delete => Some(hashed(app, password).await?),
                    _ => None,
                };
                Ok(UserDraft { password_hash, ..request.draft() })
            }
            Err(refusal) => Err(refusal),
        });
    }
    Write::new(app, caller).batch(Batch { items: drafts, is_single, warnings }, |items| Command::Users(op, items)).await
}

async fn hashed(app: &App, password: &str) -> Result<PasswordHash, ApiError> {
    app.passwords.hash(password.to_owned()).await.ok_or_else(|| Code::ExecuteException.into())
}

/// The caller's own password, or by `name` that of another.
#[derive(Deserialize, JsonSchema)]
pub(super) struct PasswordRequest {
    /// Absent: the caller's own.
    #[serde(default)]
    name: Option<String>,
    /// Of the caller, where it is the caller's own.
    #[serde(default)]
    old_password: Option<String>,
    /// 8 to 128 characters.
    new_password: String,
}

pub(super) const PASSWORD: Doc = DOC
    .says(
        "Changes the caller's own password, with the old one; an administrator resets any with `name`. All logins of \
         the user end, on every node.",
    )
    .codes(&[FIELDS, &[Code::NotAllowedAccess, Code::NotFoundResource, Code::DataConflict, Code::TooManyLogins]]);

pub(super) async fn change_password(
    State(app): State<App>,
    caller: Caller,
    ClientAddress(address): ClientAddress,
    Object(request): Object<PasswordRequest>,
) -> Result<Response, ApiError> {
    let name = request.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| caller.name.clone());
    check_password("new_password", &request.new_password)?;
    // Who resets the password of somebody by name need not know the old one; if it is given, it has to be right.
    let is_named = request.name.as_deref().is_some_and(|name| !name.is_empty());
    let resets = is_named && request.old_password.is_none() && caller.grants.may_everywhere(Verb::Manage);
    if !is_named && request.old_password.is_none() {
        return Err(ApiError::new(Code::InvalidParameter, "old_password is required for one's own password"));
    }
    let replaces = match resets {
        true => None,
        false => Some(old_hash(&app, &caller, address, &name, request.old_password.unwrap_or_default()).await?),
    };
    let password_hash = hashed(&app, &request.new_password).await?;
    let command = Command::ChangePassword { name, password_hash, replaces };
    let outcomes = app.ask(&caller.name, caller.asks(command)).await?;
    match outcomes.into_iter().next() {
        Some(refused) if !refused.code.is_success() => Err(Refusal::new(refused.code, refused.detail).into()),
        _ => Ok(envelope::plain(Code::ExecuteSuccess, Code::ExecuteSuccess.info().to_owned())),
    }
}

/// The hash of the password that is to be replaced, if the caller may replace it and knows it.
async fn old_hash(
    app: &App,
    caller: &Caller,
    address: Option<IpAddr>,
    name: &str,
    old: String,
) -> Result<PasswordHash, ApiError> {
    let wrong = || ApiError::new(Code::NotAllowedAccess, "the old password is wrong");
    if name != caller.name {
        return Err(ApiError::new(Code::NotAllowedAccess, "this needs manage on everything"));
    }
    let user = app.node.state().catalog().access.user_named(name).ok_or_else(wrong)?;
    check_password("old_password", &old).map_err(|_| wrong())?;
    let hash = user.password_hash.clone();
    match app.passwords.check(name, Origin::of_any(address), old, Some(hash)).await {
        Ok(true) => Ok(user.password_hash.clone()),
        Ok(false) => Err(wrong()),
        Err(_) => Err(Code::TooManyLogins.into()),
    }
}

/// A role and what it lets do.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Role")]
struct RoleView {
    name: Role,
    comment: &'static str,
    verbs: &'static [Verb],
}

pub(super) const ROLES: Doc =
    DOC.says("The roles that a grant may name, with what each lets do.").gives(Shape::list::<RoleView>("data"));

pub(super) async fn roles() -> Response {
    let listed = Listed { amount: Role::ALL.len(), rows: Role::ALL.to_vec() };
    envelope::list("data", &listed, |role| RoleView { name: *role, comment: role.about(), verbs: role.verbs() })
}
