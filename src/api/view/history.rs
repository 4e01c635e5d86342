//! Release history of a rule or config file in the management API.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::release::{Action, Event, ReleaseState};

/// Event in the history of a release.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReleaseEvent")]
pub(crate) struct EventView<'a> {
    /// `YYYY-MM-DD HH:MM:SS`, UTC.
    time: String,
    /// User who performed or requested the act.
    user: &'a str,
    action: Action,
    release_name: &'a str,
    /// Version of the release after the act.
    version: u64,
    /// Active normal version before the act; 0 for none.
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
    /// The release is to be published at `publish_at`.
    Scheduled,
    /// The publish at `publish_at` failed.
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
