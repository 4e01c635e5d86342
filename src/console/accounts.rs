//! Users, service tokens and access keys, for visitors who manage them.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::flash::{Flash, on_to};
use super::form::Form;
use super::frame::{Frame, Section, page, page_refused};
use super::session::SessionUser;
use crate::catalog::Op;
use crate::catalog::access_keys::AccessKeyFilter;
use crate::catalog::page::Page as Rows;
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grants, Verb};
use crate::model::limits;
use crate::model::service_token::ServiceTokenRequest;
use crate::model::wire::Words;
use crate::operations::accounts::UserRequest;
use crate::operations::one;

struct AccountRow {
    name: String,
    comment: String,
    grants: String,
    time: String,
    is_off: bool,
}

#[derive(Template)]
#[template(path = "accounts.html")]
struct AccountsPage {
    frame: Frame,
    users: Vec<AccountRow>,
    tokens: Vec<AccountRow>,
    keys: Vec<AccountRow>,
}

pub(super) fn in_words(grants: &Grants) -> String {
    let grants = grants.iter().map(|grant| format!("{} {} / {}", grant.role.word(), grant.namespace, grant.name));
    grants.collect::<Vec<_>>().join(", ")
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser) -> Response {
    match accounts_page(&console, &visitor) {
        Ok(accounts) => page(&accounts),
        Err(refusal) => visitor.failed(&refusal),
    }
}

fn accounts_page(console: &Console, visitor: &SessionUser) -> Result<AccountsPage, Refusal> {
    visitor.caller.check_everywhere(Verb::Manage)?;
    let rows = &Rows::new(0, limits::PAGE_ROWS_MAX);
    let catalog = console.node().state().view();
    let users = catalog.access.list_users(|_| true, rows).rows;
    let tokens = catalog.access.list_service_tokens(|_| true, rows).rows;
    let keys = catalog.access_keys.list(&AccessKeyFilter { app_id: None, name: None }, rows).rows;
    Ok(AccountsPage {
        frame: visitor.frame(Section::Setup),
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
                is_off: token.disabled,
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
    })
}

/// Carries out the act of the submitted button.
pub(super) async fn change(State(console): State<Console>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    let done = match visitor.caller.check_everywhere(Verb::Manage) {
        Ok(()) => changed(&console, &visitor, &fields).await,
        Err(refusal) => Err(refusal),
    };
    match (done, accounts_page(&console, &visitor)) {
        (Ok(flash), _) => on_to("/ui/accounts", flash),
        (Err(refusal), Ok(accounts)) => {
            page_refused(refusal.code, &AccountsPage { frame: accounts.frame.refused(&refusal), ..accounts })
        }
        (_, Err(refusal)) => visitor.undone(&refusal),
    }
}

async fn changed(console: &Console, visitor: &SessionUser, fields: &Fields) -> Result<Flash, Refusal> {
    let caller = &visitor.caller;
    let name = fields.get("name").to_owned();
    let user = |disabled| UserRequest { name: name.clone(), disabled, ..UserRequest::default() };
    let done = match fields.get("change") {
        "disable" => console.operations.users(caller, Op::Update, vec![Ok(user(Some(true)))]).await,
        "enable" => console.operations.users(caller, Op::Update, vec![Ok(user(Some(false)))]).await,
        "delete" => console.operations.users(caller, Op::Delete, vec![Ok(user(None))]).await,
        "retire" => {
            let request = ServiceTokenRequest { name, ..ServiceTokenRequest::default() };
            console.operations.delete_tokens(caller, vec![Ok(request)]).await
        }
        _ => Err(Code::InvalidParameter.into()),
    };
    one(done).map(|outcome| Flash::of(&outcome, Flash::Changed))
}
