//! Work of others on the object of a page: a draft saved meanwhile, and a request that waits for approval.

use super::fields::Fields;
use super::releases::{Line, compared};
use super::texts::Texts;
use super::time_ago::TimeAgo;
use crate::catalog::Catalog;
use crate::catalog::approvals::RequestFilter;
use crate::catalog::page::Page as Rows;
use crate::model::approval::RequestState;
use crate::model::grant::ReadScope;
use crate::model::policy::{Gate, PolicyKind};
use crate::model::stamp::Stamp;
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;

/// A draft that somebody else saved while the visitor edited.
pub(super) struct Conflict {
    pub(super) by: String,
    pub(super) saved: TimeAgo,
    /// Difference from the saved draft to what the visitor typed.
    pub(super) diff: Vec<Line>,
}

impl Conflict {
    /// Compares a submitted draft with the saved one; `None` if the form was made from the saved one.
    pub(super) fn of(
        (t, now): (&Texts, Timestamp),
        fields: &Fields,
        (revision, modified): (&str, &Stamp),
        (saved, typed): (&str, &str),
    ) -> Option<Conflict> {
        if fields.get("revision") == revision || !fields.is_set("revision") {
            return None;
        }
        Some(Conflict {
            by: modified.by.clone(),
            saved: TimeAgo::of(t, now, modified.time),
            diff: compared(saved, typed),
        })
    }
}

/// A pending request to release the object of a page.
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) by: String,
    pub(super) time: TimeAgo,
    pub(super) is_approved: bool,
    /// True if the draft was not changed after the request.
    pub(super) is_of_draft: bool,
}

impl Asked {
    /// Returns the page of the request.
    pub(super) fn path(&self) -> String {
        let id: String = url::form_urlencoded::byte_serialize(self.id.as_bytes()).collect();
        format!("/ui/requests/{id}")
    }

    /// Returns the newest pending request to publish a rule or file that the visitor sees.
    pub(super) fn of(
        catalog: &Catalog,
        t: &Texts,
        (kind, namespace, name): (PolicyKind, &str, &str),
        modified: &Stamp,
        read_scope: &ReadScope,
    ) -> Option<Asked> {
        if catalog.approvals.pending_count() == 0 {
            return None;
        }
        let exactly = |text: &str| Some(NameFilter::Exact(text.to_owned()));
        let filter = RequestFilter {
            kind: Some(kind),
            namespace: exactly(namespace),
            name: exactly(name),
            read_scope: read_scope.clone(),
            ..RequestFilter::default()
        };
        let listed = catalog.approvals.list(&filter, &Rows::ALL).rows;
        let publishes = |act: Gate| matches!(act, Gate::Publish | Gate::Gray);
        let newest = listed.iter().find(|request| request.state.is_pending() && publishes(request.act))?;
        Some(Asked {
            id: newest.id.clone(),
            by: newest.created.by.clone(),
            time: TimeAgo::of(t, catalog.clock(), newest.created.time),
            is_approved: newest.state == RequestState::Approved,
            is_of_draft: modified.time <= newest.created.time,
        })
    }
}
