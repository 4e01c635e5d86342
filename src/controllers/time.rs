//! The time of the cluster: the leader writes a stamp if nothing else is written, and ends a doubt once the members'
//! clocks have agreed.
//!
//! A step between two stamps is in doubt from an hour on ([`crate::catalog::time`]), so an idle cluster gets an entry
//! every twenty minutes. A leader that follows a long pause, or whose clock is slow while no member knows the time,
//! writes one at once, so that the time is determined and a doubt is recorded.

use std::time::Duration;

use tokio::time::Instant;

use super::Controller;
use crate::catalog::Command;
use crate::catalog::time::{Doubt, TimeChange};
use crate::raft::{ClockVerdict, Lead};

/// Interval between two checks.
const ROUND: Duration = Duration::from_secs(1);
/// Maximum time without a stamp.
const STAMPED_WITHIN_MS: u64 = 20 * 60_000;
/// Time for which most members' clocks have to agree with a doubted time.
const AGREED_FOR: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(super) struct Time {
    agreement: Agreement,
}

/// Agreement of the members' clocks with the time, with its start.
#[derive(Default)]
struct Agreement(Option<(u64, Instant)>);

impl Agreement {
    /// Records the verdict on a doubt; reports whether the clocks have agreed for long enough.
    fn take(&mut self, doubt: &Doubt, verdict: ClockVerdict, now: Instant) -> bool {
        if verdict != ClockVerdict::Agree || !doubt.ends_by_itself() {
            self.0 = None;
            return false;
        }
        let (index, since) = self.0.filter(|(index, _)| *index == doubt.index).unwrap_or((doubt.index, now));
        self.0 = Some((index, since));
        now.duration_since(since) >= AGREED_FOR
    }
}

impl Controller for Time {
    async fn act(&mut self, lead: &Lead) -> Duration {
        let (stamped, doubt) = {
            let catalog = lead.catalog();
            (catalog.clock(), catalog.time.doubt().copied())
        };
        if lead.node().since_stamp_ms(stamped) >= STAMPED_WITHIN_MS {
            // A failed proposal is repeated at the next check.
            let _ = lead.propose("the time", Command::Time(TimeChange::Tick)).await;
            return ROUND;
        }
        let Some(doubt) = doubt else {
            self.agreement = Agreement::default();
            return ROUND;
        };
        if self.agreement.take(&doubt, lead.node().survey_clocks().verdict, Instant::now()) {
            let change = TimeChange::Agree { doubt: doubt.index };
            if lead.propose("the end of a doubt of the time", Command::Time(change)).await.is_ok() {
                tracing::info!(ahead_ms = doubt.ahead_ms, "cluster clock confirmed by local clocks");
            }
        }
        ROUND
    }

    fn stand_down(&mut self) {
        self.agreement = Agreement::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Timestamp;

    #[tokio::test(start_paused = true)]
    async fn a_doubt_ends_once_the_clocks_have_agreed_for_ten_minutes() {
        const DAY_MS: u64 = 86_400_000;
        let doubt = |index, ahead_ms| Doubt { index, before: Timestamp(1), from: Timestamp(1 + ahead_ms), ahead_ms };
        let (agree, unclear) = (ClockVerdict::Agree, ClockVerdict::Unclear);
        let elsewhere = ClockVerdict::Elsewhere(Timestamp(7));
        let begun = Instant::now();
        let mut agreement = Agreement::default();
        for (second, doubt, verdict, ends) in [
            (0, doubt(5, DAY_MS), agree, false),
            (599, doubt(5, DAY_MS), agree, false),
            (600, doubt(5, DAY_MS), agree, true),
            (601, doubt(5, DAY_MS), unclear, false),
            (602, doubt(5, DAY_MS), agree, false),
            (1201, doubt(5, DAY_MS), elsewhere, false),
            (1202, doubt(5, DAY_MS), agree, false),
            (1500, doubt(9, 2 * DAY_MS), agree, false),
            (1802, doubt(9, 2 * DAY_MS), agree, false),
            (2100, doubt(9, 7 * DAY_MS), agree, true),
            (2200, doubt(9, 7 * DAY_MS + 1), agree, false),
            (9999, doubt(9, 7 * DAY_MS + 1), agree, false),
        ] {
            let now = begun + Duration::from_secs(second);
            assert_eq!(agreement.take(&doubt, verdict, now), ends, "second {second}");
        }
    }
}
