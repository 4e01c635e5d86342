//! Places of streams, counted by origin.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::brief_places::{BriefPlace, check};
use crate::connections::StreamCut;
use crate::origin::{Origin, OriginQuota, Short};
use crate::tasks;

/// Reserved stream, counted for an origin or as a health check; released on drop.
pub(super) enum StreamPlace {
    Counted(StreamUser),
    Check(#[expect(dead_code, reason = "the end of the check is that this is dropped")] DropGuard),
}

/// Origin that a stream is counted for until the stream ends.
#[derive(Clone)]
pub(super) struct StreamUser {
    places: Arc<OriginQuota>,
    origin: Arc<Mutex<Option<Origin>>>,
}

impl StreamPlace {
    /// Wraps a place that was already reserved.
    pub(super) fn new(places: Arc<OriginQuota>, origin: Origin) -> StreamPlace {
        StreamPlace::Counted(StreamUser { places, origin: Arc::new(Mutex::new(Some(origin))) })
    }

    /// Reserves a place for a health check. The check is cut off if it takes too long or a newer check needs its place.
    pub(super) fn of_check(place: BriefPlace, cut: StreamCut) -> StreamPlace {
        let ended = CancellationToken::new();
        let end = ended.clone();
        tasks::errand(async move {
            if check(&place, ended.cancelled()).await.is_none() {
                cut.cut();
            }
        });
        StreamPlace::Check(end.drop_guard())
    }

    pub(super) fn user(&self) -> Option<&StreamUser> {
        match self {
            StreamPlace::Counted(user) => Some(user),
            StreamPlace::Check(_) => None,
        }
    }
}

impl StreamUser {
    /// Charges the stream to the user of a token once that is known.
    pub(super) fn pass_to(&self, user: Origin) -> Result<(), Short> {
        let mut origin = self.origin.lock();
        if let Some(before) = *origin {
            self.places.pass(before, user, 1)?;
            *origin = Some(user);
        }
        Ok(())
    }
}

impl fmt::Debug for StreamUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.origin.lock().fmt(f)
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        if let Some(user) = self.user()
            && let Some(origin) = user.origin.lock().take()
        {
            user.places.give_back(origin, 1);
        }
    }
}
