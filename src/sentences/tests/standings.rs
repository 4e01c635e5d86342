//! Requests for approval, and what is said of each.

use super::Language;
use crate::model::approval::{Obstacle, RequestStanding, RequestState};
use crate::model::time::Timestamp;
use crate::sentences::standing;

fn open(obstacles: Vec<Obstacle>) -> RequestStanding {
    RequestStanding {
        state: RequestState::Open,
        given: 1,
        needed: 2,
        obstacles,
        planned: None,
        refused_by: String::new(),
        reason: String::new(),
    }
}

#[test]
fn a_request_says_what_was_decided_and_what_it_waits_for() {
    let policies = || vec!["two".to_owned(), "ice".to_owned()];
    let approved = |obstacles| RequestStanding { state: RequestState::Approved, given: 2, ..open(obstacles) };
    let ended = |state, reason: &str| RequestStanding {
        state,
        given: 2,
        refused_by: "bea".into(),
        reason: reason.into(),
        ..open(Vec::new())
    };
    let freeze = |until| Obstacle::Freeze { policies: vec!["ice".to_owned()], until };
    let begin = "approved 2 of 2; nothing is changed yet; ";
    let rows = [
        (
            open(vec![Obstacle::Approvals { missing: 1, policies: policies() }]),
            "approved 1 of 2; nothing is changed yet; approvals missing: 1 (two, ice asks for them)".to_owned(),
        ),
        (
            open(vec![Obstacle::Approvals { missing: 1, policies: Vec::new() }]),
            "approved 1 of 2; nothing is changed yet; approvals missing: 1".to_owned(),
        ),
        (
            approved(vec![freeze(Some(Timestamp(3_600_000)))]),
            format!(
                "{begin}it waits for the freeze of ice, which ends at 1970-01-01T01:00:00Z; after that somebody has to \
                 carry it out"
            ),
        ),
        (
            approved(vec![freeze(None), Obstacle::Hold]),
            format!(
                "{begin}it waits for the freeze of ice, whose end is not known; it is on hold until somebody carries \
                 it out"
            ),
        ),
        (approved(vec![Obstacle::Hold]), format!("{begin}it is on hold until somebody carries it out")),
        (approved(Vec::new()), format!("{begin}somebody has to carry it out")),
        (
            approved(vec![Obstacle::OtherAct { act: "publish of shop/limit".into() }]),
            format!("{begin}publish of shop/limit, which is decided with it, is not approved yet"),
        ),
        (approved(vec![Obstacle::Parts]), format!("{begin}acts that are decided with it are not there any more")),
        (
            approved(vec![Obstacle::Rights { policies: policies() }]),
            format!("{begin}none of those who approved may approve for all of two, ice"),
        ),
        (
            approved(vec![Obstacle::Rights { policies: Vec::new() }]),
            format!("{begin}whoever approved it may not any more"),
        ),
        (ended(RequestState::Done, ""), "approved 2 of 2; carried out".to_owned()),
        (
            RequestStanding { planned: Some(Timestamp(0)), ..ended(RequestState::Done, "") },
            "approved 2 of 2; planned for 1970-01-01T00:00:00Z".to_owned(),
        ),
        (ended(RequestState::Refused, "not today"), "refused by bea: not today".to_owned()),
        (ended(RequestState::Refused, ""), "refused by bea".to_owned()),
        (ended(RequestState::Failed, "no such rule"), "failed, nothing was changed: no such rule".to_owned()),
        (ended(RequestState::Stale, "another"), "out of date, nothing was changed: another".to_owned()),
        (ended(RequestState::Withdrawn, ""), "withdrawn, nothing was changed".to_owned()),
        (ended(RequestState::Expired, ""), "expired, nothing was changed".to_owned()),
    ];
    for (found, expected) in rows {
        assert_eq!(standing(Language::English, &found), expected);
    }
    assert_eq!(
        standing(Language::Chinese, &approved(vec![freeze(Some(Timestamp(0)))])),
        "已批准 2/2；尚未生效；等待 ice 的冻结于 1970-01-01T00:00:00Z 结束；之后需要有人执行"
    );
}
