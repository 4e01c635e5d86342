//! The history of a rule's or a config file's releases as the management surface shows it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::release::{Action, Event, ReleaseState};

/// Event in the history of a release.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReleaseEvent")]
pub(crate) struct EventView<'a> {
    /// `YYYY-MM-DD HH:MM:SS`, UTC.
    time: String,
    /// User that asked for it.
    user: &'a str,
    action: Action,
    release_name: &'a str,
    /// Of the release, afterwards.
    version: u64,
    /// Version in force for all clients before; 0 for none.
    from_version: u64,
    /// Comment, or the reason of a failure.
    comment: &'a str,
}

impl<'a> EventView<'a> {
    pub(crate) fn new(event: &'a Event) -> Self {
        EventView {
            time: event.time.text(),
            user: &event.user,
            action: event.action,
            release_name: &event.release_name,
            version: event.version,
            from_version: event.from_version,
            comment: &event.comment,
        }
    }
}

/// State of a release.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "State")]
#[serde(rename_all = "lowercase")]
pub(crate) enum StateView {
    Active,
    Inactive,
    /// To be published at `publish_at`.
    Scheduled,
    /// It was to be published at `publish_at`, and could not be.
    Failed,
}

impl From<ReleaseState> for StateView {
    fn from(state: ReleaseState) -> Self {
        match state {
            ReleaseState::NormalActive | ReleaseState::GrayActive => StateView::Active,
            ReleaseState::NormalInactive | ReleaseState::GrayInactive | ReleaseState::Missing => StateView::Inactive,
            ReleaseState::Scheduled => StateView::Scheduled,
            ReleaseState::Failed => StateView::Failed,
        }
    }
}
