//! The frame of every page, and common responses: page, refusal, redirect.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};

use super::assets;
use super::fields::Fields;
use super::session::SessionUser;
use super::texts::Texts;
use crate::catalog::{Entity, Outcome};
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Role, Verb};
use crate::model::release::ReleaseType;
use crate::model::rule::Family;
use crate::model::wire::{Words, word_enum};

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
            Section::Home | Section::Setup | Section::Oneself | Section::Elsewhere => super::ROOT,
        }
    }
}

/// Verbs that a page of the console needs.
const VERBS: [Verb; 6] = [Verb::Read, Verb::Edit, Verb::Release, Verb::Approve, Verb::Operate, Verb::Manage];
/// Lists with a namespace in their address.
const LISTS: [&str; 8] =
    ["/ui", "/ui/services", "/ui/map", "/ui/config", "/ui/clients", "/ui/requests", "/ui/audit", "/ui/search"];
/// Maximum number of namespaces in the switcher.
const NAMESPACES_MAX: usize = 500;

/// Common data of all templates.
pub(super) struct Frame {
    pub(super) t: &'static Texts,
    pub(super) user: String,
    pub(super) form_token: String,
    pub(super) section: Section,
    pub(super) path: String,
    pub(super) is_behind: bool,
    /// Namespace of the page's address; empty for all.
    pub(super) namespace: String,
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
    pub(super) fn of(visitor: &SessionUser, section: Section) -> Frame {
        Frame {
            t: visitor.texts,
            user: visitor.caller.name.clone(),
            form_token: visitor.form_token.clone(),
            section,
            path: visitor.path.clone(),
            is_behind: visitor.is_behind,
            namespace: visitor.namespace(),
            namespaces: visitor.namespaces(NAMESPACES_MAX),
            waiting: visitor.waiting(),
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
            namespace: String::new(),
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
        /// The act awaited approval before.
        AskedBefore = "asked_before",
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
            Flash::AskedBefore => t.help.was_asked_before,
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
    frame: Frame,
    title: &'static str,
    /// Remedies, as sentences.
    remedies: Vec<String>,
    why: String,
}

impl SessionUser {
    /// Renders the page of a refused request.
    pub(super) fn failed(&self, refusal: &Refusal) -> Response {
        self.failed_as(status(refusal.code), refusal)
    }

    /// Renders the page of a refused form.
    pub(super) fn undone(&self, refusal: &Refusal) -> Response {
        self.failed_as(status_of_form(refusal.code), refusal)
    }

    /// Returns the response for an unknown path.
    pub(super) fn nowhere(&self) -> Response {
        self.failed(&Refusal::new(Code::NotFoundResource, "there is no such page"))
    }

    fn failed_as(&self, status: StatusCode, refusal: &Refusal) -> Response {
        let frame = self.frame(Section::Elsewhere);
        let help = &frame.t.help;
        let remedies = match refusal.code {
            Code::NotFoundResource => vec![help.not_there.to_owned()],
            Code::NotAllowedAccess => self.remedies(&refusal.detail),
            _ => Vec::new(),
        };
        page_as(status, &Failed { title: title_of(frame.t, refusal), remedies, why: refusal_text(refusal), frame })
    }

    /// Names the roles that include the right, and the users who can grant them.
    fn remedies(&self, detail: &str) -> Vec<String> {
        let help = &self.texts.help;
        let is_named = |verb: &Verb| detail.split([' ', ',', ':']).any(|word| word == verb.word());
        let needed = VERBS.into_iter().find(is_named);
        let roles = needed.map(|verb| Role::ALL.into_iter().filter(move |role| role.may(verb)));
        let mut roles: Vec<_> = roles.into_iter().flatten().map(Role::word).collect();
        roles.reverse();
        let needs = (!roles.is_empty()).then(|| format!("{} {}.", help.needs_role, roles.join(help.or)));
        let managers = self.managers();
        let ask = (!managers.is_empty()).then(|| format!("{} {}.", help.ask, managers.join(", ")));
        needs.into_iter().chain(ask).collect()
    }
}

fn title_of(t: &Texts, refusal: &Refusal) -> &'static str {
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
