//! Reports of completed acts on the next page.

use axum::response::{IntoResponse, Redirect, Response};

use super::fields::Fields;
use super::texts::Texts;
use crate::catalog::{Entity, Outcome};
use crate::model::code::Code;
use crate::model::release::ReleaseType;
use crate::model::wire::{Words, word_enum};

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

    pub(super) fn text(self, t: &Texts) -> &'static str {
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

/// Redirects to the part with this id on the page that shows the result.
pub(super) fn on_to_part(path: &str, flash: Flash, part: &str) -> Response {
    let sign = if path.contains('?') { '&' } else { '?' };
    Redirect::to(&format!("{path}{sign}{}={}#{part}", Flash::QUERY, flash.word())).into_response()
}

/// Redirects to a page that itself says what the act did.
pub(super) fn to_result(path: &str) -> Response {
    Redirect::to(path).into_response()
}
