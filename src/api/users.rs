//! `/auth/v1/users`, `/auth/v1/user/password` and `/auth/v1/roles`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

use super::auth::Caller;
use super::doc::{Doc, PAGING};
use super::envelope::{self, Shape};
use super::error::ApiError;
use super::extract::Batch;
use super::query::{Fresh, Query};
use super::strict::{Strict, StrictObject};
use super::{App, answer, login};
use crate::catalog::Op;
use crate::catalog::page::Listed;
use crate::model::access::User;
use crate::model::code::Code;
use crate::model::grant::{Grants, Role, Verb};
use crate::openapi::Param;
use crate::operations::accounts::{PasswordRequest, UserRequest};

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
    /// Changes with every write that changes something; empty of one that is older than that.
    revision: &'a str,
}

impl<'a> UserView<'a> {
    pub(super) fn new(user: &'a User) -> Self {
        let User { id, name, comment, disabled, grants, ctime, mtime, revision, .. } = user;
        let (ctime, mtime) = (ctime.text(), mtime.text());
        UserView { id, name, comment, disabled: *disabled, grants, ctime, mtime, revision }
    }
}

pub(super) const LIST: Doc = DOC
    .says("A page of users, by name.")
    .query(&[&[Param::text("name", "Exact, or with `*` a glob that ignores case.")], PAGING])
    .gives(Shape::list::<UserView>("data"));

pub(super) async fn list(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let (name, page) = (query.name("name"), query.page()?);
    let wanted = |user: &User| crate::model::text::NameFilter::passes(&name, &user.name);
    let listed: Listed<Arc<User>> = app.node.state().catalog().access.list_users(wanted, &page);
    Ok(envelope::list("data", &listed, |user| UserView::new(user)))
}

pub(super) const CREATE: Doc = WRITE
    .says("Creates users. Without grants a user may log in and nothing more.")
    .codes(&[FIELDS, &[Code::ExistedResource, Code::TooMany]]);

pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<UserRequest>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Create, batch).await
}

pub(super) const UPDATE: Doc = WRITE
    .says(
        "Updates users: an absent field stays. Who is disabled or gets another password is out at once, on every \
         node; the last administrator stays one.",
    )
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict, Code::OperationRoleForbidden]]);

pub(super) async fn update(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<UserRequest>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Update, batch).await
}

pub(super) const DELETE: Doc = WRITE
    .says("Deletes users and ends their logins; one that is not there is success.")
    .codes(&[FIELDS, &[Code::DataConflict, Code::OperationRoleForbidden]]);

pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<UserRequest>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Delete, batch).await
}

async fn write(app: &App, caller: &Caller, op: Op, batch: Batch<UserRequest>) -> Result<Response, ApiError> {
    let outcomes = app.users(caller, op, batch.items).await?;
    Ok(answer::batch(app, outcomes, batch.warnings))
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
    StrictObject(request): StrictObject<PasswordRequest>,
) -> Result<Response, ApiError> {
    if let Err(not) = app.change_password(&caller, request).await {
        return login::refused(not);
    }
    Ok(envelope::plain(Code::ExecuteSuccess, Code::ExecuteSuccess.info().to_owned()))
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
    let listed = Listed { rows: Role::ALL.to_vec(), ..Listed::amount(Role::ALL.len()) };
    envelope::list("data", &listed, |role| RoleView { name: *role, comment: role.about(), verbs: role.verbs() })
}
