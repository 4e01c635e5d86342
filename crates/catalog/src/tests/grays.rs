//! The limit on active gray releases of one thing, each of which keeps its compiled conditions.

use super::house::{House, Kind, Say, gray_for_zone, kinds, name};
use super::*;
use crate::model::code::Code;
use crate::model::limits;
use crate::model::release::{Action, ReleaseOp, ReleaseState};

const NAMES: [&str; limits::ACTIVE_GRAYS_MAX + 1] =
    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"];
const LAST: &str = NAMES[limits::ACTIVE_GRAYS_MAX];

fn full(kind: Kind) -> House {
    let mut house = House::new(kind);
    for each in &NAMES[..limits::ACTIVE_GRAYS_MAX] {
        assert_eq!(house.publish(gray_for_zone(each)), 200000, "{kind:?} {each}");
    }
    house
}

#[test]
fn active_grays_are_limited() {
    for kind in kinds() {
        let mut house = full(kind);
        assert_eq!(house.publish(gray_for_zone(LAST)), Code::TooMany.number(), "{kind:?}");
        assert_eq!(house.find(LAST), None, "{kind:?}");
        assert_eq!(house.change(ReleaseOp::StopGray, name("c")), 200000);
        assert_eq!(house.publish(gray_for_zone(LAST)), 200000, "{kind:?}: one was stopped");
        house.check_rows();
    }
}

#[test]
fn a_planned_gray_for_which_there_is_no_place_has_failed() {
    for kind in kinds() {
        let mut house = full(kind);
        let planned = Say { at: Some(house.now(5)), ..gray_for_zone(LAST) };
        assert_eq!(house.publish(planned), 200000, "{kind:?}: it is judged later");
        assert_eq!(house.publish_due(10), [Code::TooMany.number()]);
        assert_eq!(house.find(LAST).map(|seen| seen.state), Some(ReleaseState::Failed), "{kind:?}");
        let newest = house.bench.catalog.history.of(&house.thing()).next().expect("remembered").clone();
        assert_eq!((newest.action, newest.comment.as_str()), (Action::Failed, words::TOO_MANY_GRAYS), "{kind:?}");
        house.check_rows();
    }
}
