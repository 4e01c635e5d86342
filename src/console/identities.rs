//! People of identity providers, and the sessions of a person.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::flash::{Flash, on_to};
use super::form::Form;
use super::frame::{Frame, Section, page, page_refused};
use super::oneself::{SessionRow, session_rows};
use super::pager::Pager;
use super::session::SessionUser;
use super::time_ago::TimeAgo;
use crate::catalog::Entity;
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::model::sso::{IdentityRequest, SsoIdentity};
use crate::operations::one;
use crate::operations::oneself::SessionRequest;

const PATH: &str = "/ui/identities";
pub(super) const SESSIONS: &str = "/ui/sessions";

struct IdentityRow {
    /// `PROVIDER:USERNAME`.
    name: String,
    /// Name of the provider.
    provider: String,
    sub: String,
    created: TimeAgo,
    last_seen: TimeAgo,
}

#[derive(Template)]
#[template(path = "identities.html")]
struct IdentitiesPage {
    frame: Frame,
    rows: Vec<IdentityRow>,
    pager: Pager,
    /// Names of the service tokens of a person that was just removed.
    tokens: Option<String>,
}

pub(super) async fn list(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    match identities_page(&console, &visitor, &query) {
        Ok(identities) => page(&identities),
        Err(refusal) => visitor.failed(&refusal),
    }
}

fn identities_page(console: &Console, visitor: &SessionUser, query: &Fields) -> Result<IdentitiesPage, Refusal> {
    visitor.caller.check_everywhere(Verb::Manage)?;
    let (frame, now) = (visitor.frame(Section::Setup), console.node().now());
    let t = frame.t;
    let access = console.node().state().access();
    let listed = access.sso().list_identities(|_| true, &Pager::page_of(query));
    let row = |identity: &SsoIdentity| {
        let provider = access.sso().provider_by_id(&identity.provider);
        IdentityRow {
            name: access.sso().name_of(&identity.provider, &identity.username),
            provider: provider.map(|provider| provider.name.clone()).unwrap_or_default(),
            sub: identity.key.sub.clone(),
            created: TimeAgo::of(t, now, identity.created),
            last_seen: TimeAgo::of(t, now, identity.last_seen),
        }
    };
    let rows = listed.rows.iter().map(|identity| row(identity)).collect();
    Ok(IdentitiesPage { pager: Pager::new(PATH, query, &listed), frame, rows, tokens: None })
}

/// Frees the name of a person.
pub(super) async fn free(State(console): State<Console>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    let freed = match visitor.caller.check_everywhere(Verb::Manage) {
        Ok(()) => {
            let request =
                IdentityRequest { provider: fields.get("provider").to_owned(), sub: fields.raw("sub").to_owned() };
            let ends_tokens = fields.is_set("tokens");
            one(console.operations.free_identities(&visitor.caller, vec![Ok(request)], ends_tokens).await)
        }
        Err(refusal) => Err(refusal),
    };
    match (freed, identities_page(&console, &visitor, &Fields::default())) {
        (Ok(outcome), Ok(identities)) => {
            let tokens = match &outcome.entity {
                Entity::Identity(freed) => freed.tokens.join(", "),
                _ => String::new(),
            };
            page(&IdentitiesPage { tokens: Some(tokens), ..identities })
        }
        (Err(refusal), Ok(identities)) => {
            page_refused(refusal.code, &IdentitiesPage { frame: identities.frame.refused(&refusal), ..identities })
        }
        (_, Err(refusal)) => visitor.undone(&refusal),
    }
}

#[derive(Template)]
#[template(path = "sessions.html")]
struct SessionsPage {
    frame: Frame,
    /// The user or person.
    name: String,
    rows: Vec<SessionRow>,
}

pub(super) async fn sessions(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    match sessions_page(&console, &visitor, query.get("user")) {
        Ok(sessions) => page(&sessions),
        Err(refusal) => visitor.failed(&refusal),
    }
}

fn sessions_page(console: &Console, visitor: &SessionUser, name: &str) -> Result<SessionsPage, Refusal> {
    visitor.caller.check_everywhere(Verb::Manage)?;
    let rows = session_rows(console, visitor, Some(name))?;
    Ok(SessionsPage { frame: visitor.frame(Section::Setup), name: name.to_owned(), rows })
}

/// Ends a session.
pub(super) async fn end_session(State(console): State<Console>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    let name = fields.get("user");
    let request = SessionRequest { id: fields.get("id").to_owned() };
    let ended = match (visitor.caller.check_everywhere(Verb::Manage), fields.get("change")) {
        (Ok(()), "end") => one(console.operations.end_sessions(&visitor.caller, vec![Ok(request)]).await).map(drop),
        (Ok(()), _) => Err(Code::InvalidParameter.into()),
        (Err(refusal), _) => Err(refusal),
    };
    match (ended, sessions_page(&console, &visitor, name)) {
        (Ok(()), _) => {
            let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
            on_to(&format!("{SESSIONS}?user={name}"), Flash::Changed)
        }
        (Err(refusal), Ok(sessions)) => {
            page_refused(refusal.code, &SessionsPage { frame: sessions.frame.refused(&refusal), ..sessions })
        }
        (_, Err(refusal)) => visitor.undone(&refusal),
    }
}
