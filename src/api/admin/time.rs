//! `/admin/v1/cluster/time`: the time of the cluster with the members' clocks, and its confirmation.

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::http::{ApiResult, App, Caller, Doc, Object, Shape, envelope};
use crate::catalog::time::Doubt;
use crate::model::code::Code;
use crate::model::time::Timestamp;
use crate::operations::cluster_time::{RightTime, TimeReport};
use crate::raft::ClockVerdict;
use crate::raft::clock::survey::{ahead_ms, length};

const DOC: Doc = Doc::new("Cluster").gives(Shape::whole::<TimeBody>());

#[derive(Serialize, JsonSchema)]
struct TimeBody {
    code: u32,
    info: &'static str,
    /// Time of the cluster, used for all dates.
    time: String,
    time_ms: u64,
    /// Time without unconfirmed steps; acts that cannot be undone depend on it.
    sure_time: String,
    sure_time_ms: u64,
    /// Unconfirmed steps of the time; null if there are none.
    doubt: Option<DoubtBody>,
    /// Time of most members' clocks, if it differs; null if they agree or do not answer.
    most_clocks: Option<String>,
    /// True if most members' clocks agree with the time.
    clocks_agree: bool,
    members: Vec<ClockBody>,
    /// Number of objects that are due by the time but wait for a confirmation.
    waits: WaitBody,
}

#[derive(Serialize, JsonSchema)]
struct DoubtBody {
    reason: String,
    /// Last stamp before the step, and first stamp after it.
    before: String,
    since: String,
    /// Milliseconds of the step that are unconfirmed.
    ahead_ms: u64,
    /// True if the step is confirmed once most members' clocks have agreed with the time for ten minutes; else an
    /// administrator has to confirm it.
    ends_by_itself: bool,
}

#[derive(Serialize, JsonSchema)]
struct ClockBody {
    id: u64,
    /// Clock of the member; null if it does not answer.
    clock: Option<String>,
    /// Milliseconds by which the clock is ahead of the cluster's time; negative if it is behind.
    difference_ms: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
struct WaitBody {
    releases: usize,
    rollouts: usize,
    requests: usize,
    logins: usize,
    service_tokens: usize,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Confirmation {
    /// The correct time: the cluster's own (`present`), or that of most members' clocks (`clocks`).
    time: RightTime,
}

fn doubt_body(doubt: &Doubt) -> DoubtBody {
    DoubtBody {
        reason: format!("the time went on by {} from one entry to the next", length(doubt.ahead_ms)),
        before: doubt.before.text(),
        since: doubt.from.text(),
        ahead_ms: doubt.ahead_ms,
        ends_by_itself: doubt.ends_by_itself(),
    }
}

fn body(report: &TimeReport, code: Code) -> TimeBody {
    let TimeReport { survey, doubt, held_up } = report;
    let clock = |(id, clock): (&u64, &Option<Timestamp>)| ClockBody {
        id: *id,
        clock: clock.map(Timestamp::text),
        difference_ms: clock.map(|clock| ahead_ms(clock, survey.time)),
    };
    let most_clocks = match survey.verdict {
        ClockVerdict::Elsewhere(shown) => Some(shown.text()),
        ClockVerdict::Agree | ClockVerdict::Unclear => None,
    };
    TimeBody {
        code: code.number(),
        info: code.info(),
        time: survey.time.text(),
        time_ms: survey.time.0,
        sure_time: survey.sure.text(),
        sure_time_ms: survey.sure.0,
        doubt: doubt.as_ref().map(doubt_body),
        most_clocks,
        clocks_agree: survey.verdict == ClockVerdict::Agree,
        members: survey.clocks.iter().map(clock).collect(),
        waits: WaitBody {
            releases: held_up.releases,
            rollouts: held_up.rollouts,
            requests: held_up.requests,
            logins: held_up.logins,
            service_tokens: held_up.service_tokens,
        },
    }
}

pub(crate) const SHOW: Doc = DOC.says(
    "The time of the cluster with the members' clocks, as this node sees both; what is in doubt of it, and what waits \
     for that. Needs no majority.",
);

pub(crate) async fn show(State(app): State<App>, _: Caller) -> Response {
    answer(&app, Code::ExecuteSuccess)
}

pub(crate) const CONFIRM: Doc = DOC
    .says(
        "Confirms the time of the cluster, which ends a doubt, or sets it to that of most members' clocks, also back. \
         The answer shows it as it is then.",
    )
    .codes(&[&[
        Code::InvalidParameter,
        Code::BadRequest,
        Code::NoNeedUpdate,
        Code::DataConflict,
        Code::LevelNotReached,
    ]]);

pub(crate) async fn confirm(
    State(app): State<App>,
    caller: Caller,
    Object(Confirmation { time }): Object<Confirmation>,
) -> ApiResult {
    let code = app.operations.confirm_time(&caller, time).await?;
    Ok(answer(&app, code))
}

fn answer(app: &App, code: Code) -> Response {
    envelope::answer(code, &body(&app.operations.cluster_time(), code))
}
