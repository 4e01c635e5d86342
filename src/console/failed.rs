//! Common data of the pages of a visitor, and the pages that refuse one.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use super::Console;
use super::frame::{Frame, Section, page_as, refusal_text, status, status_of_form, title_of};
use super::session::SessionUser;
use crate::catalog::audit::AuditNote;
use crate::controllers::RateClass;
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Role, Verb};
use crate::model::time::Timestamp;

/// Verbs that a page of the console needs.
const VERBS: [Verb; 6] = [Verb::Read, Verb::Edit, Verb::Release, Verb::Approve, Verb::Operate, Verb::Manage];
/// Maximum number of namespaces in the switcher.
const NAMESPACES_MAX: usize = 500;

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
    /// Returns the frame of a page for this visitor.
    pub(super) fn frame(&self, section: Section) -> Frame {
        Frame {
            t: self.texts,
            user: self.caller.name.clone(),
            form_token: self.form_token.clone(),
            section,
            path: self.path.clone(),
            now: Timestamp(0),
            is_behind: self.is_behind,
            namespace: self.namespace(),
            colour: self.colour(),
            namespaces: self.namespaces(NAMESPACES_MAX),
            waiting: self.waiting(),
            manages: self.caller.grants.may_everywhere(Verb::Manage),
            operates: self.caller.grants.may_everywhere(Verb::Operate),
            done: self.done.map(|flash| flash.text(self.texts)),
            fault: None,
            detail: None,
        }
    }

    /// Answers a form without the right to send it, and adds an audit note.
    pub(super) fn barred(&self, console: &Console, refusal: &Refusal) -> Response {
        let note = AuditNote::refused("route", &format!("POST {}", self.route), refusal.code);
        console.node().note(RateClass::Refused, self.caller.signs(note));
        self.undone(refusal)
    }

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
