//! Users, tokens of programs and keys of config clients, for who manages them.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::form::{Fields, Form};
use super::frame::{Frame, Section, failed, on_to, page, page_refused, told};
use super::rules::one;
use super::session::Visitor;
use crate::catalog::Op;
use crate::catalog::access_keys::AccessKeyFilter;
use crate::catalog::page::Page as Rows;
use crate::model::access::ServiceTokenRequest;
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grant, Grants, Role, Verb};
use crate::model::limits;
use crate::model::wire::Words;
use crate::operations::accounts::{PasswordRequest, UserRequest};

struct AccountRow {
    name: String,
    comment: String,
    grants: String,
    time: String,
    is_off: bool,
}

#[derive(Template)]
#[template(path = "accounts.html")]
struct Page {
    frame: Frame,
    query: Fields,
    roles: Vec<&'static str>,
    users: Vec<AccountRow>,
    tokens: Vec<AccountRow>,
    keys: Vec<AccountRow>,
    /// What was drawn, and is shown once.
    secret: Option<String>,
}

fn in_words(grants: &Grants) -> String {
    let grants = grants.iter().map(|grant| format!("{} {} / {}", grant.role.word(), grant.namespace, grant.name));
    grants.collect::<Vec<_>>().join(", ")
}

pub(super) async fn show(State(console): State<Console>, visitor: Visitor, query: Fields) -> Response {
    match shown(&console, &visitor, query) {
        Ok(accounts) => page(&accounts),
        Err(refusal) => failed(visitor.texts, &refusal),
    }
}

fn shown(console: &Console, visitor: &Visitor, query: Fields) -> Result<Page, Refusal> {
    visitor.caller.check_everywhere(Verb::Manage)?;
    let (rows, catalog) = (Rows::new(0, limits::PAGE_ROWS_MAX), console.node.state().view());
    let users = catalog.access.list_users(|_| true, rows).rows;
    let tokens = catalog.access.list_service_tokens(|_| true, rows).rows;
    let keys = catalog.access_keys.list(&AccessKeyFilter { app_id: None, name: None }, rows).rows;
    Ok(Page {
        frame: visitor.frame(Section::Accounts),
        query,
        roles: Role::ALL.iter().map(|role| role.word()).collect(),
        users: users
            .iter()
            .map(|user| AccountRow {
                name: user.name.clone(),
                comment: user.comment.clone(),
                grants: in_words(&user.grants),
                time: user.mtime.text(),
                is_off: user.disabled,
            })
            .collect(),
        tokens: tokens
            .iter()
            .map(|token| AccountRow {
                name: token.name.clone(),
                comment: token.by.clone(),
                grants: in_words(&token.grants),
                time: token.expires.map(|expires| expires.text()).unwrap_or_default(),
                is_off: false,
            })
            .collect(),
        keys: keys
            .iter()
            .map(|key| AccountRow {
                name: key.name.clone(),
                comment: key.app_id.clone(),
                grants: key.mode.word().to_owned(),
                time: key.modified.time.text(),
                is_off: !key.is_on(),
            })
            .collect(),
        secret: None,
    })
}

/// The one grant that the form gives.
fn grants(fields: &Fields) -> Result<Grants, Refusal> {
    let role = Role::ALL.into_iter().find(|role| role.word() == fields.get("role"));
    let role = role.ok_or_else(|| Refusal::new(Code::InvalidParameter, "role"))?;
    let mut grant = Grant::of(role);
    if let Some(namespace) = fields.given("namespace") {
        grant.namespace = namespace;
    }
    if let Some(name) = fields.given("scope") {
        grant.name = name;
    }
    Ok(Grants::new([grant]))
}

/// What a button of the page asks for.
pub(super) async fn change(State(console): State<Console>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    let done = match visitor.caller.check_everywhere(Verb::Manage) {
        Ok(()) => changed(&console, &visitor, &fields).await,
        Err(refusal) => Err(refusal),
    };
    match (done, shown(&console, &visitor, fields)) {
        (Ok(None), _) => on_to("/ui/accounts"),
        (Ok(secret), Ok(accounts)) => page(&Page { secret, ..accounts }),
        (Err(refusal), Ok(accounts)) => {
            let fault = Some(told(&refusal));
            page_refused(refusal.code, &Page { frame: Frame { fault, ..accounts.frame }, ..accounts })
        }
        (_, Err(refusal)) => failed(visitor.texts, &refusal),
    }
}

/// With what was drawn.
async fn changed(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Option<String>, Refusal> {
    let (caller, name) = (&visitor.caller, fields.get("name").to_owned());
    let user = || UserRequest { name: name.clone(), ..UserRequest::default() };
    let users = |op, request| console.users(caller, op, vec![Ok(request)]);
    match fields.get("change") {
        "create" => {
            let (password, comment) = (Some(fields.raw("password").to_owned()), fields.given("comment"));
            let request = UserRequest { password, comment, grants: Some(grants(fields)?), ..user() };
            one(users(Op::Create, request).await)?;
        }
        "grant" => {
            one(users(Op::Update, UserRequest { grants: Some(grants(fields)?), ..user() }).await)?;
        }
        "disable" => {
            one(users(Op::Update, UserRequest { disabled: Some(true), ..user() }).await)?;
        }
        "enable" => {
            one(users(Op::Update, UserRequest { disabled: Some(false), ..user() }).await)?;
        }
        "delete" => {
            one(users(Op::Delete, user()).await)?;
        }
        "password" => {
            let new_password = fields.raw("password").to_owned();
            let request = PasswordRequest { name: Some(name), old_password: None, new_password };
            console.change_password(caller, request).await?;
        }
        "token" => {
            let request = ServiceTokenRequest { name, grants: grants(fields)?, ..ServiceTokenRequest::default() };
            let made = console.create_tokens(caller, vec![Ok(request)]).await?;
            let (outcomes, secrets): (Vec<_>, Vec<_>) = made.into_iter().unzip();
            one(Ok(outcomes))?;
            return Ok(secrets.into_iter().next().flatten());
        }
        "retire" => {
            let request = ServiceTokenRequest { name, ..ServiceTokenRequest::default() };
            one(console.delete_tokens(caller, vec![Ok(request)]).await)?;
        }
        _ => return Err(Code::InvalidParameter.into()),
    }
    Ok(None)
}
