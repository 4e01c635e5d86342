//! Users, service tokens and access keys, for visitors who manage them.

use std::cmp::Ordering;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::flash::{Flash, on_to};
use super::form::Form;
use super::frame::{Frame, Section, page, page_refused};
use super::listing::{Heading, Sorting, cut, headings};
use super::pager::Pager;
use super::session::SessionUser;
use super::time_ago::TimeAgo;
use crate::catalog::Op;
use crate::catalog::access_keys::AccessKeyFilter;
use crate::catalog::page::Page as Rows;
use crate::model::access::User;
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grants, Verb};
use crate::model::limits;
use crate::model::service_token::ServiceTokenRequest;
use crate::model::wire::Words;
use crate::operations::accounts::UserRequest;
use crate::operations::one;

const PATH: &str = "/ui/accounts";

struct AccountRow {
    name: String,
    comment: String,
    grants: String,
    time: Option<TimeAgo>,
    is_off: bool,
}

#[derive(Template)]
#[template(path = "accounts.html")]
struct AccountsPage {
    frame: Frame,
    user_headings: Vec<Heading>,
    users: Vec<AccountRow>,
    pager: Pager,
    tokens: Vec<AccountRow>,
    keys: Vec<AccountRow>,
}

pub(super) fn in_words(grants: &Grants) -> String {
    let grants = grants.iter().map(|grant| format!("{} {} / {}", grant.role.word(), grant.namespace, grant.name));
    grants.collect::<Vec<_>>().join(", ")
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    match accounts_page(&console, &visitor, &query) {
        Ok(accounts) => page(&accounts),
        Err(refusal) => visitor.failed(&refusal),
    }
}

fn accounts_page(console: &Console, visitor: &SessionUser, query: &Fields) -> Result<AccountsPage, Refusal> {
    visitor.caller.check_everywhere(Verb::Manage)?;
    let rows = &Rows::new(0, limits::PAGE_ROWS_MAX);
    let catalog = console.node().state().view();
    let (frame, now) = (visitor.frame(Section::Setup), console.node().now());
    let t = frame.t;
    let mut users = catalog.access.list_users(|_| true, &Rows::ALL).rows;
    let by_key = |key: &str, one: &Arc<User>, other: &Arc<User>| match key {
        "name" => one.name.cmp(&other.name),
        "changed" => one.mtime.cmp(&other.mtime),
        _ => Ordering::Equal,
    };
    Sorting::of(query).sort(&mut users, by_key, |one, other| one.name.cmp(&other.name));
    let users = cut(users, &Pager::page_of(query));
    let tokens = catalog.access.list_service_tokens(|_| true, rows).rows;
    let keys = catalog.access_keys.list(&AccessKeyFilter { app_id: None, name: None }, rows).rows;
    let columns = [("name", t.name), ("", t.grants), ("", t.comment), ("changed", t.home.changed), ("", t.action)];
    Ok(AccountsPage {
        user_headings: headings(PATH, query, &columns),
        pager: Pager::new(PATH, query, &users),
        users: users
            .rows
            .iter()
            .map(|user| AccountRow {
                name: user.name.clone(),
                comment: user.comment.clone(),
                grants: in_words(&user.grants),
                time: Some(TimeAgo::of(t, now, user.mtime)),
                is_off: user.disabled,
            })
            .collect(),
        tokens: tokens
            .iter()
            .map(|token| AccountRow {
                name: token.name.clone(),
                comment: token.by.clone(),
                grants: in_words(&token.grants),
                time: token.expires.map(|expires| TimeAgo::until(t, now, expires)),
                is_off: token.disabled,
            })
            .collect(),
        keys: keys
            .iter()
            .map(|key| AccountRow {
                name: key.name.clone(),
                comment: key.app_id.clone(),
                grants: key.mode.word().to_owned(),
                time: Some(TimeAgo::of(t, now, key.modified.time)),
                is_off: !key.is_on(),
            })
            .collect(),
        frame,
    })
}

/// Carries out the act of the submitted button.
pub(super) async fn change(State(console): State<Console>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    let done = match visitor.caller.check_everywhere(Verb::Manage) {
        Ok(()) => changed(&console, &visitor, &fields).await,
        Err(refusal) => Err(refusal),
    };
    match (done, accounts_page(&console, &visitor, &Fields::default())) {
        (Ok(flash), _) => on_to(PATH, flash),
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
