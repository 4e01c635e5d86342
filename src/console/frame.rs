//! The frame of every page, and common responses: page, refusal, redirect.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::assets;
use super::texts::Texts;
use super::time_ago::TimeAgo;
use crate::model::code::{Code, Refusal};
use crate::model::rule::Family;
use crate::model::time::Timestamp;

/// The part of the console that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Home,
    Services,
    Rules,
    Config,
    Clients,
    Requests,
    /// Pages behind the menu of settings.
    Setup,
    Oneself,
    Book,
    /// Pages of no part: search results and failures.
    Elsewhere,
}

impl Section {
    /// Returns the page to which the namespace switcher leads from any page of this part.
    fn list(self) -> &'static str {
        match self {
            Section::Services => "/ui/services",
            Section::Rules => "/ui/rules/routings",
            Section::Config => "/ui/config",
            Section::Clients => "/ui/clients",
            Section::Requests => "/ui/requests",
            Section::Home | Section::Setup | Section::Oneself | Section::Book | Section::Elsewhere => super::ROOT,
        }
    }
}

/// Lists with a namespace in their address.
const LISTS: [&str; 8] =
    ["/ui", "/ui/services", "/ui/map", "/ui/config", "/ui/clients", "/ui/requests", "/ui/audit", "/ui/search"];

/// Common data of all templates.
pub(super) struct Frame {
    pub(super) t: &'static Texts,
    pub(super) user: String,
    pub(super) form_token: String,
    pub(super) section: Section,
    pub(super) path: String,
    /// Time of the cluster when the page is made; 0 if the page has no times, see [`Frame::at`].
    pub(super) now: Timestamp,
    pub(super) is_behind: bool,
    /// Namespace of the page's address; empty for all.
    pub(super) namespace: String,
    /// Colour of that namespace, by its metadata; empty for none.
    pub(super) colour: &'static str,
    /// Names of the namespaces that the visitor sees, sorted.
    pub(super) namespaces: Vec<String>,
    /// Number of requests that the visitor may decide or carry out.
    pub(super) waiting: usize,
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
    /// Returns the frame of a page without a visitor.
    #[cfg(test)]
    pub(super) fn bare(t: &'static Texts, section: Section) -> Frame {
        Frame {
            t,
            user: String::new(),
            form_token: String::new(),
            section,
            path: String::new(),
            now: Timestamp(0),
            is_behind: false,
            namespace: String::new(),
            colour: "",
            namespaces: Vec::new(),
            waiting: 0,
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

    /// Sets the time at which the page is made.
    pub(super) fn at(self, now: Timestamp) -> Frame {
        Frame { now, ..self }
    }

    /// Returns a past or future time as its distance from now.
    pub(super) fn moment(&self, time: &Timestamp) -> TimeAgo {
        TimeAgo::until(self.t, self.now, *time)
    }

    /// Returns an address within the namespace of this page.
    pub(super) fn within(&self, path: &str) -> String {
        if self.namespace.is_empty() {
            return path.to_owned();
        }
        let name: String = url::form_urlencoded::byte_serialize(self.namespace.as_bytes()).collect();
        let sign = if path.contains('?') { '&' } else { '?' };
        format!("{path}{sign}namespace={name}")
    }

    /// Returns the list to which the namespace switcher leads: this page if it is a list, otherwise that of its part.
    pub(super) fn switch_path(&self) -> &str {
        let path = self.path.split('?').next().unwrap_or_default();
        if LISTS.contains(&path) {
            return path;
        }
        let of_family =
            |family: &Family| path.strip_prefix("/ui/rules/")?.split('/').next().filter(|kind| *kind == family.kind());
        match Family::ALL.iter().find_map(of_family) {
            Some(kind) => &path[.."/ui/rules/".len() + kind.len()],
            None => self.section.list(),
        }
    }

    /// Reports whether this is the page of search results, which the search field leads to.
    pub(super) fn is_search(&self) -> bool {
        self.path.split('?').next() == Some("/ui/search")
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

pub(super) fn status(code: Code) -> StatusCode {
    match code {
        // The browser's status for a missing object.
        Code::NotFoundResource => StatusCode::NOT_FOUND,
        code => StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// Returns 403 for a signed-in visitor without the right, who gains nothing from signing in again.
pub(super) fn status_of_form(code: Code) -> StatusCode {
    if code == Code::NotAllowedAccess { StatusCode::FORBIDDEN } else { status(code) }
}

pub(super) fn page_as(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

pub(super) fn title_of(t: &Texts, refusal: &Refusal) -> &'static str {
    match refusal.code {
        Code::NotFoundResource => t.not_there,
        Code::NotAllowedAccess => t.not_allowed,
        _ => t.failed,
    }
}

/// Page of a refusal without a visitor.
#[derive(Template)]
#[template(path = "failed_bare.html")]
struct FailedBare {
    t: &'static Texts,
    styles: String,
    icon: String,
    title: &'static str,
    why: String,
}

/// Renders the page of a refused request without a visitor.
pub(super) fn failed(t: &'static Texts, refusal: &Refusal) -> Response {
    failed_bare(status(refusal.code), t, refusal)
}

/// Renders the page of a refused form without a visitor.
pub(super) fn undone(t: &'static Texts, refusal: &Refusal) -> Response {
    failed_bare(status_of_form(refusal.code), t, refusal)
}

fn failed_bare(status: StatusCode, t: &'static Texts, refusal: &Refusal) -> Response {
    let (styles, icon) = (assets::path("console", "css"), assets::path("icon", "svg"));
    page_as(status, &FailedBare { t, styles, icon, title: title_of(t, refusal), why: refusal_text(refusal) })
}
