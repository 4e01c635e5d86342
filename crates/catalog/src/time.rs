//! Time of the cluster as replicated state: unproven steps of the time, and what waits for their confirmation.
//!
//! Every entry has a stamp, which dates its changes. A stamp that is more than [`STEP_MAX_MS`] after the previous one
//! does not prove that so much time has passed: the clocks of a whole cluster that was down may be wrong together. The
//! step is then in doubt, and what cannot be undone is decided by the sure time ([`Ctx::sure`]), the stamp without the
//! doubted part. The sure time continues at the pace of the stamps from the last moment before the step, and jumps when
//! the doubt ends.
//!
//! A doubt ends when the members' clocks have agreed with the time for a while, if it is at most
//! [`DOUBT_ENDS_BY_ITSELF_MS`]; when an administrator confirms the time; or when one sets it. Setting the time,
//! possibly back, begins another epoch. Entries that were stamped before, and follow in the log, have the epoch known
//! to their leader ([`Ctx::epoch`]) and do not move the time. `redate` handles what is then dated in the
//! future.

use serde::{Deserialize, Serialize};

use super::Catalog;
use super::change::{ChangeSet, Outcome};
use super::ctx::{Apply, Ctx};
use super::row::{Row, RowKey, Table};
use crate::model::code::{Code, Refusal};
use crate::model::rollout::StagedRollout;
use crate::model::time::{Present, Timestamp};

/// Longest undoubted step between two stamps.
pub const STEP_MAX_MS: u64 = 3_600_000;
/// Largest doubt that the members' clocks can end without an administrator.
pub const DOUBT_ENDS_BY_ITSELF_MS: u64 = 7 * 24 * 3_600_000;

/// Row of the time; it does not exist before the first doubt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterTime {
    /// Number of times that the time was set, modulo 2^16.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    epoch: u64,
    /// Sum of all settings of the time in milliseconds; negative if it was set back.
    #[serde(default, skip_serializing_if = "is_nothing")]
    shift_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    doubt: Option<Doubt>,
}

fn is_nothing(ms: &i64) -> bool {
    *ms == 0
}

impl Row for ClusterTime {
    const TABLE: Table = Table::Time;
    fn name(&self, _: &mut RowKey) {}
}

/// Unconfirmed steps of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Index of the entry that made the last step; it identifies the doubt.
    pub index: u64,
    /// Newest stamp before the first step.
    pub before: Timestamp,
    /// First stamp after the first step.
    pub from: Timestamp,
    /// Sum of the steps, in milliseconds.
    pub ahead_ms: u64,
}

impl Doubt {
    pub fn ends_by_itself(&self) -> bool {
        self.ahead_ms <= DOUBT_ENDS_BY_ITSELF_MS
    }
}

/// Replicated state by which a node computes the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeMark {
    /// Newest stamp.
    pub newest: Timestamp,
    pub epoch: u16,
    pub shift_ms: i64,
    /// Doubted part of the newest stamp, in milliseconds.
    pub ahead_ms: u64,
}

/// Change of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeChange {
    /// No change; its stamp advances the time when nothing else is written.
    Tick,
    /// The members' clocks have agreed with the time since the step of this doubt.
    Agree { doubt: u64 },
    /// Confirmation by an administrator who knows this doubt.
    Confirm { doubt: u64 },
    /// Setting of the time by an administrator who knows this epoch.
    Set { shift_ms: i64, epoch: u16 },
}

impl TimeChange {
    /// Reports whether the cluster makes this change by itself.
    pub(super) fn is_own(&self) -> bool {
        matches!(self, TimeChange::Tick | TimeChange::Agree { .. })
    }

    /// Returns the name of the change in the audit trail.
    pub(super) fn word(&self) -> &'static str {
        match self {
            TimeChange::Tick => "tick",
            TimeChange::Agree { .. } => "agree",
            TimeChange::Confirm { .. } => "confirm",
            TimeChange::Set { .. } => "set",
        }
    }
}

impl ClusterTime {
    pub fn doubt(&self) -> Option<&Doubt> {
        self.doubt.as_ref()
    }

    /// Returns the number of times that the time was set, modulo 2^16.
    pub fn epoch(&self) -> u16 {
        self.epoch as u16
    }

    fn ahead_ms(&self) -> u64 {
        self.doubt.map_or(0, |doubt| doubt.ahead_ms)
    }

    pub(super) fn load(&mut self, row: ClusterTime) {
        *self = row;
    }
}

/// Number of things that are due, but wait because the time is in doubt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldUp {
    /// Planned releases.
    pub releases: usize,
    /// Rollouts whose next step is due.
    pub rollouts: usize,
    /// Requests for approval that would have expired.
    pub requests: usize,
    pub logins: usize,
    pub service_tokens: usize,
}

impl Catalog {
    /// Counts what waits for the end of a doubt.
    pub fn held_up(&self, now: Present) -> HeldUp {
        let Present { stamped, sure } = now;
        let count = |of: &dyn Fn(Timestamp) -> usize| of(stamped).saturating_sub(of(sure));
        let expired = |now: Timestamp| self.approvals.made_before(self.requests_expire_before(now));
        let live = self.live_rollouts();
        let has_next = |now| live.iter().filter(|live| live.rollout.next_at().is_some_and(|at| at <= now)).count();
        HeldUp {
            releases: count(&|now| self.configs.due(now).count() + self.rules.due(now).count()),
            rollouts: count(&has_next),
            requests: count(&expired),
            logins: count(&|now| self.access.ended_logins(now)),
            service_tokens: count(&|now| self.access.ended_service_tokens(now)),
        }
    }

    /// Returns the newest stamp, and the other state by which a node computes the time.
    pub fn time_mark(&self) -> TimeMark {
        TimeMark {
            newest: self.clock(),
            epoch: self.time.epoch(),
            shift_ms: self.time.shift_ms,
            ahead_ms: self.time.ahead_ms(),
        }
    }

    /// Dates an entry: not before the previous one, and not by a stamp of an earlier epoch.
    pub(super) fn dated(&self, ctx: &Ctx) -> Ctx {
        match ctx.epoch == self.time.epoch() {
            true => ctx.not_before(self.clock()),
            false => ctx.at(self.clock()),
        }
    }

    /// Puts the step from the stamp `before` in doubt if it is long, and returns the context with the sure time.
    pub(super) fn judged(&mut self, ctx: Ctx, before: Timestamp, changes: &mut ChangeSet) -> Ctx {
        let step_ms = ctx.time.0 - before.0.min(ctx.time.0);
        if before > Timestamp::default() && step_ms > STEP_MAX_MS {
            let first = Doubt { index: ctx.index, before, from: ctx.time, ahead_ms: 0 };
            let doubt = self.time.doubt.unwrap_or(first);
            let ahead_ms = doubt.ahead_ms.saturating_add(step_ms);
            self.time.doubt = Some(Doubt { index: ctx.index, ahead_ms, ..doubt });
            changes.put(&self.time);
        }
        ctx.with_doubted(self.time.ahead_ms())
    }
}

impl Apply<'_> {
    /// Applies a change of the time. A change that was based on another doubt or epoch is ignored or refused.
    pub(super) fn change_time(&mut self, change: TimeChange) -> Outcome {
        let doubted = self.catalog.time.doubt.map(|doubt| doubt.index);
        let overtaken =
            || Refusal::new(Code::DataConflict, "the time has changed meanwhile: look at it, and try again");
        match change {
            TimeChange::Tick => {}
            TimeChange::Agree { doubt } if doubted != Some(doubt) => return Code::NoNeedUpdate.into(),
            TimeChange::Confirm { doubt } if doubted != Some(doubt) => return overtaken().into(),
            TimeChange::Agree { .. } | TimeChange::Confirm { .. } => {
                self.catalog.time.doubt = None;
                self.changes.put(&self.catalog.time);
            }
            TimeChange::Set { epoch, .. } if epoch != self.catalog.time.epoch() => return overtaken().into(),
            TimeChange::Set { shift_ms, .. } => {
                let set = Timestamp(self.ctx.time.0.saturating_add_signed(shift_ms));
                if shift_ms < 0 {
                    let wrong_from = self.catalog.time.doubt.map_or(set.plus_ms(1), |doubt| doubt.from);
                    self.redate(wrong_from, shift_ms.unsigned_abs());
                }
                self.catalog.time = ClusterTime {
                    epoch: u64::from(self.catalog.time.epoch().wrapping_add(1)),
                    shift_ms: self.catalog.time.shift_ms.saturating_add(shift_ms),
                    doubt: None,
                };
                self.changes.put(&self.catalog.time);
                self.catalog.requests.date_newest(self.ctx, set, self.changes);
            }
        }
        Outcome::default()
    }

    /// Corrects the dates of what was dated too late by `back_ms`, if its date has an effect: logins and service tokens
    /// with their ends, accounts, and steps of rollouts. Dates that are only displayed are not changed.
    fn redate(&mut self, wrong_from: Timestamp, back_ms: u64) {
        let earlier = |time: Timestamp| Timestamp(time.0.saturating_sub(back_ms));
        self.catalog.access.redate(wrong_from, earlier, self.changes);
        let moved = |rollout: &StagedRollout| {
            let is_wrong = rollout.since >= wrong_from;
            is_wrong.then(|| StagedRollout { since: earlier(rollout.since), ..rollout.clone() })
        };
        self.redate_rollouts(moved);
    }
}
