//! The visitor's own account: grants, logins, and a change of the password.

use askama::Template;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::response::{IntoResponse, Redirect, Response};

use super::Console;
use super::accounts::in_words;
use super::fields::Fields;
use super::flash::{Flash, on_to};
use super::form::Form;
use super::frame::{Frame, Section, page, page_unproven};
use super::session::{self, SessionUser};
use super::time_ago::TimeAgo;
use crate::model::code::{Code, Refusal};
use crate::operations::accounts::PasswordRequest;
use crate::operations::one;
use crate::operations::oneself::SessionRequest;
use crate::operations::sign_in::NotSignedIn;

pub(super) const PATH: &str = "/ui/account";

/// A login of a user.
pub(super) struct SessionRow {
    pub(super) id: String,
    pub(super) since: TimeAgo,
    pub(super) until: TimeAgo,
    pub(super) address: String,
    pub(super) agent: String,
    /// True for the login of this request.
    pub(super) is_this: bool,
}

#[derive(Template)]
#[template(path = "oneself.html")]
struct OneselfPage {
    frame: Frame,
    grants: String,
    verbs: String,
    until: Option<TimeAgo>,
    sessions: Vec<SessionRow>,
    /// True for a user of this cluster, who has a password here.
    has_password: bool,
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser) -> Response {
    match profile_page(&console, &visitor) {
        Ok(account) => page(&account),
        Err(refusal) => visitor.failed(&refusal),
    }
}

fn profile_page(console: &Console, visitor: &SessionUser) -> Result<OneselfPage, Refusal> {
    let oneself = console.operations.oneself(&visitor.caller);
    let verbs: Vec<_> = oneself.verbs.iter().map(|verb| verb.word()).collect();
    let now = console.node().now();
    Ok(OneselfPage {
        frame: visitor.frame(Section::Oneself),
        grants: in_words(&oneself.grants),
        verbs: verbs.join(", "),
        until: oneself.until.map(|until| TimeAgo::until(visitor.texts, now, until)),
        sessions: session_rows(console, visitor, None)?,
        has_password: console.operations.provider_of(&visitor.caller).is_none(),
    })
}

/// Returns the logins of a user; `None` for the visitor's own.
pub(super) fn session_rows(
    console: &Console,
    visitor: &SessionUser,
    user: Option<&str>,
) -> Result<Vec<SessionRow>, Refusal> {
    let own = visitor.caller.credential.token_id();
    let now = console.node().now();
    let row = |session: &crate::model::access::Token| SessionRow {
        id: session.hash.id().to_owned(),
        since: TimeAgo::of(visitor.texts, now, session.ctime),
        until: TimeAgo::until(visitor.texts, now, session.expires),
        address: session.from.address.map(|address| address.to_string()).unwrap_or_default(),
        agent: session.from.agent.clone(),
        is_this: session.hash.id() == own,
    };
    Ok(console.operations.sessions(&visitor.caller, user)?.iter().map(|session| row(session)).collect())
}

/// Carries out the act of the submitted button.
pub(super) async fn change(State(console): State<Console>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    let done = match fields.get("change") {
        "end" => ended(&console, &visitor, &fields).await.map_err(NotSignedIn::Refused),
        "password" => replaced(&console, &visitor, &fields).await,
        _ => Err(NotSignedIn::Refused(Code::InvalidParameter.into())),
    };
    match done {
        Ok(response) => response,
        Err(not) => {
            let (refusal, wait) = not.into_parts();
            let mut response = match profile_page(&console, &visitor) {
                Ok(account) => {
                    page_unproven(refusal.code, &OneselfPage { frame: account.frame.refused(&refusal), ..account })
                }
                Err(refusal) => visitor.failed(&refusal),
            };
            response.headers_mut().extend(wait.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
            response
        }
    }
}

async fn ended(console: &Console, visitor: &SessionUser, fields: &Fields) -> Result<Response, Refusal> {
    let request = SessionRequest { id: fields.get("id").to_owned() };
    one(console.operations.end_sessions(&visitor.caller, vec![Ok(request)]).await)?;
    Ok(on_to(PATH, Flash::Changed))
}

/// Changes the password, which ends all logins, this one included.
async fn replaced(console: &Console, visitor: &SessionUser, fields: &Fields) -> Result<Response, NotSignedIn> {
    if fields.raw("new_password") != fields.raw("again") {
        return Err(Refusal::new(Code::InvalidParameter, "the new password was typed in two ways").into());
    }
    let request = PasswordRequest {
        name: None,
        old_password: Some(fields.raw("old_password").to_owned()),
        new_password: fields.raw("new_password").to_owned(),
    };
    console.operations.change_password(&visitor.caller, request).await?;
    let mut response = Redirect::to("/ui/sign-in").into_response();
    response.headers_mut().append(SET_COOKIE, session::end(console));
    Ok(response)
}
