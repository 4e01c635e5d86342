//! `/auth/v1/users`, `/auth/v1/user/password` and `/auth/v1/roles`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

use super::login;
use crate::api::http::{
    ApiResult, App, Caller, Doc, Fresh, PAGING, Query, Shape, Strict, StrictObject, answer, envelope,
};
use crate::api::view::UserView;
use crate::catalog::Op;
use crate::catalog::page::Listed;
use crate::model::access::User;
use crate::model::code::Code;
use crate::model::grant::{Role, Verb};
use crate::openapi::Param;
use crate::operations::accounts::{PasswordRequest, UserRequest};

const DOC: Doc = Doc::new("Users");
const WRITE: Doc = DOC.gives(Shape::batch::<UserView>("user"));
const FIELDS: &[Code] = &[Code::InvalidParameter, Code::LevelNotReached];

pub(crate) const LIST: Doc = DOC
    .says("A page of users, by name.")
    .query(&[&[Param::text("name", "Exact, or with `*` a glob that ignores case.")], PAGING])
    .gives(Shape::list::<UserView>("data"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh) -> ApiResult {
    let (name, page) = (query.name("name"), query.page()?);
    let wanted = |user: &User| crate::model::text::NameFilter::passes(&name, &user.name);
    let listed: Listed<Arc<User>> = app.node().state().catalog().access.list_users(wanted, &page);
    Ok(envelope::list("data", &listed, |user| UserView::new(user)))
}

pub(crate) const CREATE: Doc = WRITE
    .says("Creates users. Without grants a user may log in and nothing more.")
    .codes(&[FIELDS, &[Code::ExistedResource, Code::TooMany]]);

pub(crate) const UPDATE: Doc = WRITE
    .says(
        "Updates users: an absent field stays. Who is disabled or gets another password is out at once, on every \
         node; the last administrator stays one.",
    )
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict, Code::OperationRoleForbidden]]);

pub(crate) const DELETE: Doc = WRITE
    .says("Deletes users and ends their logins; one that is not there is success.")
    .codes(&[FIELDS, &[Code::DataConflict, Code::OperationRoleForbidden]]);

pub(crate) async fn write(op: Op, app: State<App>, caller: Caller, Strict(batch): Strict<UserRequest>) -> ApiResult {
    let outcomes = app.operations.users(&caller, op, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}

pub(crate) const PASSWORD: Doc = DOC
    .says(
        "Changes the caller's own password, with the old one; an administrator resets any with `name`. All logins of \
         the user end, on every node.",
    )
    .codes(&[FIELDS, &[Code::NotAllowedAccess, Code::NotFoundResource, Code::DataConflict, Code::TooManyLogins]]);

pub(crate) async fn change_password(
    State(app): State<App>,
    caller: Caller,
    StrictObject(request): StrictObject<PasswordRequest>,
) -> ApiResult {
    if let Err(not) = app.operations.change_password(&caller, request).await {
        return login::refused(not);
    }
    Ok(envelope::done())
}

/// A role and its verbs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Role")]
struct RoleView {
    name: Role,
    comment: &'static str,
    verbs: &'static [Verb],
}

pub(crate) const ROLES: Doc =
    DOC.says("The roles for grants, with the verbs of each.").gives(Shape::list::<RoleView>("data"));

pub(crate) async fn roles() -> Response {
    let listed = Listed { rows: Role::ALL.to_vec(), ..Listed::amount(Role::ALL.len()) };
    envelope::list("data", &listed, |role| RoleView { name: *role, comment: role.about(), verbs: role.verbs() })
}
