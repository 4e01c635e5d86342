//! The situation of a request for approval: what was decided, what that changed, and what it waits for.

use super::conditions::{listed, quoted};
use super::language::Language;
use crate::model::approval::{Obstacle, RequestStanding, RequestState};

/// Describes the situation of a request in one line.
pub(crate) fn standing(language: Language, standing: &RequestStanding) -> String {
    let reason = |clause: String| match standing.reason.is_empty() {
        true => clause,
        false => language.because(clause, quoted(&standing.reason)),
    };
    let approved = || language.approved_of(standing.given, standing.needed);
    match standing.state {
        RequestState::Open | RequestState::Approved => {
            let waits = waits(language, &standing.obstacles);
            language.clauses([approved(), language.nothing_yet()].into_iter().chain(waits))
        }
        RequestState::Done => {
            let done = standing.planned.map_or_else(|| language.carried_out(), |time| language.planned(time.rfc3339()));
            language.clauses([approved(), done])
        }
        RequestState::Refused => reason(language.was_refused(quoted(&standing.refused_by))),
        RequestState::Failed => reason(language.has_failed()),
        RequestState::Stale => reason(language.is_stale()),
        RequestState::Withdrawn => reason(language.was_withdrawn()),
        RequestState::Expired => reason(language.has_expired()),
    }
}

/// Describes everything that a pending request waits for, in the order in which it can happen.
fn waits(language: Language, obstacles: &[Obstacle]) -> Vec<String> {
    let mut clauses: Vec<String> = obstacles.iter().map(|obstacle| of_obstacle(language, obstacle)).collect();
    let lacks_approval = |one: &Obstacle| {
        matches!(
            one,
            Obstacle::Approvals { .. } | Obstacle::Rights { .. } | Obstacle::OtherAct { .. } | Obstacle::Parts
        )
    };
    let is_frozen = obstacles.iter().any(|one| matches!(one, Obstacle::Freeze { .. }));
    let is_held = obstacles.contains(&Obstacle::Hold);
    if is_frozen && !is_held {
        clauses.push(language.to_run_then());
    } else if !is_held && !obstacles.iter().any(lacks_approval) {
        clauses.push(language.to_run());
    }
    clauses
}

fn of_obstacle(language: Language, obstacle: &Obstacle) -> String {
    let names = |policies: &[String]| listed(language, policies.iter().map(String::as_str));
    match obstacle {
        Obstacle::Approvals { missing, policies } if policies.is_empty() => language.lacks(missing),
        Obstacle::Approvals { missing, policies } => language.asked_by(language.lacks(missing), names(policies)),
        Obstacle::Rights { policies } if policies.is_empty() => language.lacks_right(),
        Obstacle::Rights { policies } => language.lacks_rights(names(policies)),
        Obstacle::OtherAct { act } => language.lacks_other(quoted(act)),
        Obstacle::Parts => language.lacks_parts(),
        Obstacle::Freeze { policies, until: Some(end) } => language.frozen_until(names(policies), end.rfc3339()),
        Obstacle::Freeze { policies, until: None } => language.frozen(names(policies)),
        Obstacle::Hold => language.on_hold(),
    }
}
