//! The frame of every page, and common responses: page, refusal, redirect.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};

use super::assets;
use super::form::Fields;
use super::session::SessionUser;
use super::texts::Texts;
use crate::catalog::{Entity, Outcome};
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::model::release::ReleaseType;
use crate::model::wire::{Words, word_enum};

/// The part of the console that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Services,
    Rules,
    Config,
    Audit,
    Accounts,
    Cluster,
    Proxies,
    Requests,
    Oneself,
}

/// Common data of all templates.
pub(super) struct Frame {
    pub(super) t: &'static Texts,
    pub(super) user: String,
    pub(super) form_token: String,
    pub(super) section: Section,
    pub(super) path: String,
    pub(super) is_behind: bool,
    /// True if the visitor may see users, tokens, keys and the audit trail.
    pub(super) manages: bool,
    /// True if the visitor may see and change the cluster.
    pub(super) operates: bool,
    /// Text about the preceding act; `None` if there was none.
    pub(super) done: Option<&'static str>,
    /// Reason of a refusal; `None` if nothing was refused.
    pub(super) fault: Option<String>,
    /// The same without the code, for a field: it begins with the field's path, if it is about one.
    pub(super) detail: Option<String>,
}

impl Frame {
    pub(super) fn of(visitor: &SessionUser, section: Section) -> Frame {
        Frame {
            t: visitor.texts,
            user: visitor.caller.name.clone(),
            form_token: visitor.form_token.clone(),
            section,
            path: visitor.path.clone(),
            is_behind: visitor.is_behind,
            manages: visitor.caller.grants.may_everywhere(Verb::Manage),
            operates: visitor.caller.grants.may_everywhere(Verb::Operate),
            done: visitor.done.map(|flash| flash.text(visitor.texts)),
            fault: None,
            detail: None,
        }
    }

    /// Returns the frame of a page without a visitor.
    #[cfg(test)]
    pub(super) fn bare(t: &'static Texts, section: Section) -> Frame {
        Frame {
            t,
            user: String::new(),
            form_token: String::new(),
            section,
            path: String::new(),
            is_behind: false,
            manages: true,
            operates: true,
            done: None,
            fault: None,
            detail: None,
        }
    }

    /// Adds a refusal.
    pub(super) fn refused(self, refusal: &Refusal) -> Frame {
        Frame { fault: Some(refusal_text(refusal)), detail: Some(refusal.detail.clone()), ..self }
    }

    pub(super) fn asset(&self, stem: &str, suffix: &str) -> String {
        assets::path(stem, suffix)
    }

    /// Returns `aria-current` for a link to a section.
    pub(super) fn current(&self, section: Section) -> &'static str {
        if self.section == section { "page" } else { "false" }
    }
}

/// Formats a refusal with its code.
pub(super) fn refusal_text(refusal: &Refusal) -> String {
    format!("{} ({})", refusal.info(), refusal.code.number())
}

/// Renders a page.
pub(super) fn page(template: &impl Template) -> Response {
    page_as(StatusCode::OK, template)
}

/// Renders the page of a refused form, with its submitted values.
pub(super) fn page_refused(code: Code, template: &impl Template) -> Response {
    page_as(status_of_form(code), template)
}

/// Renders the page of a refused request, or after a wrong password: signing in may help.
pub(super) fn page_unproven(code: Code, template: &impl Template) -> Response {
    page_as(status(code), template)
}

fn status(code: Code) -> StatusCode {
    match code {
        // The browser's status for a missing object.
        Code::NotFoundResource => StatusCode::NOT_FOUND,
        code => StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// Returns 403 for a signed-in visitor without the right, who gains nothing from signing in again.
fn status_of_form(code: Code) -> StatusCode {
    if code == Code::NotAllowedAccess { StatusCode::FORBIDDEN } else { status(code) }
}

fn page_as(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

word_enum! {
    /// Completed act, as the next page reports it.
    pub(super) enum Flash {
        Created = "created",
        /// A draft was saved, which clients do not see yet.
        Drafted = "drafted",
        Saved = "saved",
        Deleted = "deleted",
        Released = "released",
        /// The release is a canary, which some clients get.
        ReleasedToSome = "canary",
        /// The release waits for its time.
        Scheduled = "scheduled",
        Changed = "changed",
        /// The act awaits approval.
        Asked = "asked",
        /// The work continues in the background.
        Continues = "continues",
        /// The act changed nothing.
        Unchanged = "unchanged",
    }
}

impl Flash {
    /// Name of the query key.
    const QUERY: &'static str = "done";

    pub(super) fn of_query(query: &Fields) -> Option<Flash> {
        Flash::of_word(query.get(Flash::QUERY))
    }

    /// Returns the report of an act that is called `done` if it was done whole and at once.
    pub(super) fn of(outcome: &Outcome, done: Flash) -> Flash {
        let (release_type, plan) = match &outcome.entity {
            Entity::RuleRelease(release) => (release.release_type, release.plan.as_ref()),
            Entity::ConfigRelease(release) => (release.release_type, release.plan.as_ref()),
            _ => (ReleaseType::Normal, None),
        };
        match (outcome.code, done) {
            (Code::RequestAccepted, _) => Flash::Asked,
            (Code::NoNeedUpdate, _) => Flash::Unchanged,
            (_, Flash::Released) if plan.is_some() => Flash::Scheduled,
            (_, Flash::Released) if release_type == ReleaseType::Gray => Flash::ReleasedToSome,
            (_, done) => done,
        }
    }

    fn text(self, t: &Texts) -> &'static str {
        match self {
            Flash::Created => t.was_created,
            Flash::Drafted => t.was_saved,
            Flash::Saved => t.was_kept,
            Flash::Deleted => t.was_deleted,
            Flash::Released => t.was_released,
            Flash::Changed => t.was_changed,
            Flash::Asked => t.was_asked,
            Flash::ReleasedToSome => t.was_released_to_some,
            Flash::Scheduled => t.was_scheduled,
            Flash::Unchanged => t.was_as_it_was,
            Flash::Continues => t.goes_on,
        }
    }
}

/// Redirects to the page that shows the result.
pub(super) fn on_to(path: &str, flash: Flash) -> Response {
    let sign = if path.contains('?') { '&' } else { '?' };
    Redirect::to(&format!("{path}{sign}{}={}", Flash::QUERY, flash.word())).into_response()
}

/// Redirects to a page that itself says what the act did.
pub(super) fn to_result(path: &str) -> Response {
    Redirect::to(path).into_response()
}

/// Page of a refusal that no other page can show.
#[derive(Template)]
#[template(path = "failed.html")]
struct Failed {
    t: &'static Texts,
    styles: String,
    icon: String,
    title: &'static str,
    why: String,
}

pub(super) fn failed(t: &'static Texts, refusal: &Refusal) -> Response {
    failed_as(status(refusal.code), t, refusal)
}

/// Renders the page of a refused form.
pub(super) fn undone(t: &'static Texts, refusal: &Refusal) -> Response {
    failed_as(status_of_form(refusal.code), t, refusal)
}

fn failed_as(status: StatusCode, t: &'static Texts, refusal: &Refusal) -> Response {
    let (styles, icon) = (assets::path("console", "css"), assets::path("icon", "svg"));
    let title = match refusal.code {
        Code::NotFoundResource => t.not_there,
        Code::NotAllowedAccess => t.not_allowed,
        _ => t.failed,
    };
    page_as(status, &Failed { t, styles, icon, title, why: refusal_text(refusal) })
}

/// Returns the response for an unknown path.
pub(super) fn nowhere(t: &'static Texts) -> Response {
    failed(t, &Refusal::new(Code::NotFoundResource, "there is no such page"))
}
