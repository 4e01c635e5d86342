//! Rollouts by steps, of rules and of files alike.

use super::house::{House, Kind, Say, gray_for_zone, kinds, name};
use super::*;
use crate::catalog::history::Thing;
use crate::catalog::releases::{LiveRollout, RolloutChange};
use crate::model::access::UserDraft;
use crate::model::grant::{Grant, Grants, Role};
use crate::model::policy::PolicyDraft;
use crate::model::release::{Action, ReleaseOp, ReleaseState};
use crate::model::rollout::{RolloutAction, RolloutPlan, RolloutState, StagedRollout};

fn plan(json: &str) -> RolloutPlan {
    let plan: RolloutPlan = serde_json::from_str(json).expect("a plan");
    plan.check().expect("a plan that may be kept");
    plan
}

/// Returns a release with a plan: 5 % for ten entries, 50 % for five, then all clients.
fn stepped(name: &'static str) -> Say {
    let steps = r#"[{"percent":5,"hold_s":10},{"percent":50,"hold_s":5},{"percent":100}]"#;
    let plan = plan(&format!(r#"{{"by":"zone","steps":{steps},"guards":[{{"kind":"signal"}}]}}"#));
    Say { is_gray: true, plan: Some(plan), ..super::house::name(name) }
}

fn act(action: RolloutAction) -> Say {
    Say { action: Some(action), ..name("gray") }
}

impl House {
    /// Creates a thing whose releases are made by a releaser.
    fn of_tester(kind: Kind) -> House {
        let mut house = House::new(kind);
        let grants = Some(Grants::new(vec![Grant::of(Role::Releaser)]));
        let user = UserDraft { name: "tester".into(), grants, ..UserDraft::default() };
        assert_eq!(house.bench.codes(Command::Users(Op::Update, vec![user])), [200_000]);
        house
    }

    fn rolling_out(kind: Kind) -> House {
        let mut house = House::of_tester(kind);
        for say in [name("first"), stepped("gray")] {
            house.draft(say.name);
            assert_eq!(house.publish(say), 200_000);
        }
        house
    }

    fn rollout(&self, name: &str) -> StagedRollout {
        let catalog = &self.bench.catalog;
        let rollout = match self.thing() {
            Thing::Rule(family, id) => catalog.rules.of(family).release(&id, name).and_then(|one| one.rollout.clone()),
            Thing::File(key) => catalog.configs.release(&key, name).and_then(|one| one.rollout.clone()),
        };
        *rollout.expect("a rollout")
    }

    /// Proposes a change of every live rollout `later` entries from now, like the leader.
    fn move_all(&mut self, later: u64, change: &RolloutChange) -> Vec<u32> {
        self.bench.index += later;
        let moved = |live: LiveRollout| live.moved(change.clone());
        let moves = self.bench.catalog.live_rollouts().into_iter().map(moved).collect();
        self.bench.codes(Command::Rollouts(moves))
    }

    fn advance(&mut self, later: u64) -> Vec<u32> {
        self.move_all(later, &RolloutChange::Advance)
    }

    /// Returns how many of a thousand clients get the gray release.
    fn reached(&self) -> usize {
        let zones = (0..1000).map(|number| format!("client-{number}"));
        zones.filter(|zone| self.content_for(zone.clone().leak()).as_deref() == Some("gray")).count()
    }
}

#[test]
fn a_share_grows_by_the_plan_and_no_client_goes_back() {
    for kind in kinds() {
        let mut house = House::rolling_out(kind);
        let five = house.reached();
        assert!((20..=90).contains(&five), "{kind:?}: {five}");
        let version = house.find("gray").expect("there").version;
        assert_eq!(house.advance(3), [200_002], "the hold is not over");
        assert_eq!(house.advance(6), [200_000]);
        let half = house.reached();
        assert!((430..=570).contains(&half), "{kind:?}: {half}");
        assert_eq!(house.find("gray").expect("there").version, version, "who has it keeps it");
        assert_eq!((house.rollout("gray").step, house.rollout("gray").percent()), (2, 50));
        assert_eq!(house.advance(3), [200_002]);
        house.check_rows();
        assert_eq!(house.advance(3), [200_000]);
        assert_eq!(house.reached(), 1000);
        assert_eq!(house.find("gray").expect("kept").state, ReleaseState::GrayInactive);
        assert_eq!((house.rollout("gray").state, house.rollout("gray").step), (RolloutState::Done, 3));
        assert!(house.bench.catalog.live_rollouts().is_empty());
        let told: Vec<_> = house.story().into_iter().map(|(action, ..)| action).collect();
        assert_eq!(told, [Action::Promote, Action::RolloutStep, Action::Gray, Action::Publish]);
        house.check_rows();
    }
}

#[test]
fn a_move_that_comes_twice_or_too_late_changes_nothing() {
    for kind in kinds() {
        let mut house = House::rolling_out(kind);
        let found = house.bench.catalog.live_rollouts().remove(0);
        let moved = |change| found.clone().moved(change);
        house.bench.index += 20;
        let twice = || vec![moved(RolloutChange::Advance), moved(RolloutChange::Advance)];
        assert_eq!(house.bench.codes(Command::Rollouts(twice())), [200_000, 200_002]);
        assert_eq!(house.bench.codes(Command::Rollouts(twice())), [200_002, 200_002]);
        let stop = moved(RolloutChange::Stop("too late".into()));
        assert_eq!(house.bench.codes(Command::Rollouts(vec![stop])), [200_002], "of another step");
        assert_eq!(house.change(ReleaseOp::StopGray, name("gray")), 200_000);
        assert_eq!(house.bench.codes(Command::Rollouts(twice())), [200_002, 200_002]);
        assert_eq!(house.rollout("gray").state, RolloutState::Stopped);
        house.check_rows();
    }
}

#[test]
fn callers_pause_resume_advance_and_stop() {
    for kind in kinds() {
        let mut house = House::rolling_out(kind);
        assert_eq!(house.change(ReleaseOp::Rollout, act(RolloutAction::Resume)), 200_002);
        assert_eq!(house.change(ReleaseOp::Rollout, act(RolloutAction::Pause)), 200_000);
        assert_eq!(house.change(ReleaseOp::Rollout, act(RolloutAction::Pause)), 200_002);
        assert_eq!(house.advance(30), [200_002], "it is paused");
        assert_eq!(house.change(ReleaseOp::Rollout, act(RolloutAction::Resume)), 200_000);
        assert_eq!(house.advance(3), [200_002], "the hold began anew");
        assert_eq!(house.change(ReleaseOp::Rollout, act(RolloutAction::Advance)), 200_000);
        assert_eq!(house.rollout("gray").percent(), 50);
        let reached = house.reached();
        assert_eq!(house.change(ReleaseOp::Rollout, act(RolloutAction::Stop)), 200_000);
        assert_eq!((house.reached(), reached > 400), (0, true));
        assert_eq!(house.rollout("gray").state, RolloutState::Stopped);
        assert_eq!(house.change(ReleaseOp::Rollout, act(RolloutAction::Resume)), 400_000, "it has ended");
        assert_eq!(
            house.change(ReleaseOp::Rollout, Say { action: Some(RolloutAction::Stop), ..name("first") }),
            400_000
        );
        assert_eq!(
            house.change(ReleaseOp::Rollout, Say { action: Some(RolloutAction::Stop), ..name("none") }),
            400_202
        );
        assert_eq!(house.publish(gray_for_zone("bare")), 200_000);
        let stop = Say { action: Some(RolloutAction::Stop), ..name("bare") };
        assert_eq!(house.change(ReleaseOp::Rollout, stop), 400_000, "it has no plan");
        house.check_rows();
    }
}

#[test]
fn a_signal_stops_only_where_the_plan_listens() {
    for kind in kinds() {
        let mut house = House::rolling_out(kind);
        let signal = |ok| Say { ok: Some(ok), ..name("gray") };
        assert_eq!(house.change(ReleaseOp::Signal, signal(true)), 200_000);
        assert_eq!(house.rollout("gray").state, RolloutState::Running);
        assert_eq!(house.change(ReleaseOp::Signal, signal(false)), 200_000);
        assert_eq!((house.rollout("gray").state, house.reached()), (RolloutState::Stopped, 0));
        assert_eq!(house.rollout("gray").reason, "signal: not ok");
        assert_eq!(house.story()[0].0, Action::RolloutStopped);
        let deaf = plan(r#"{"by":"zone","steps":[{"percent":5,"hold_s":9},{"percent":100}]}"#);
        assert_eq!(house.publish(Say { plan: Some(deaf), is_gray: true, ..name("deaf") }), 200_000);
        assert_eq!(house.change(ReleaseOp::Signal, Say { ok: Some(false), ..name("deaf") }), 400_000);
    }
}

#[test]
fn what_cannot_be_measured_waits_and_goes_on_by_itself() {
    for kind in kinds() {
        let mut house = House::rolling_out(kind);
        assert_eq!(house.move_all(1, &RolloutChange::GoOn), [200_002], "it runs");
        assert_eq!(house.move_all(1, &RolloutChange::Wait("no sample".into())), [200_000]);
        let waiting = house.rollout("gray");
        assert_eq!((waiting.state, waiting.waits, &*waiting.reason), (RolloutState::Paused, true, "no sample"));
        assert_eq!(house.move_all(1, &RolloutChange::GoOn), [200_000]);
        assert_eq!(house.rollout("gray").state, RolloutState::Running);
        // A rollout paused by a caller stays paused.
        assert_eq!(house.move_all(1, &RolloutChange::Wait("no sample".into())), [200_000]);
        assert_eq!(house.change(ReleaseOp::Rollout, act(RolloutAction::Pause)), 200_000);
        assert_eq!(house.move_all(1, &RolloutChange::GoOn), [200_002]);
        assert_eq!(house.move_all(1, &RolloutChange::Stop("refused: 20 %".into())), [200_000]);
        assert_eq!((house.rollout("gray").reason.as_str(), house.reached()), ("refused: 20 %", 0));
        house.check_rows();
    }
}

#[test]
fn steps_are_judged_by_the_policies_of_their_moment() {
    for kind in kinds() {
        let mut house = House::rolling_out(kind);
        let draft = r#"{"name":"p","gates":["promote"],"approvals":1}"#;
        let policy: PolicyDraft = serde_json::from_str(draft).expect("a policy");
        assert_eq!(house.bench.codes(Command::Policies(Op::Create, vec![policy])), [200_000]);
        assert_eq!(house.advance(10), [200_000], "the first step is none of its gates");
        assert_eq!(house.advance(10), [200_000]);
        let paused = house.rollout("gray");
        assert_eq!((paused.state, paused.waits), (RolloutState::Paused, false));
        assert_eq!(paused.reason, "p asks for approval");
        let half = house.reached();
        assert!((430..=570).contains(&half), "its clients keep it: {half}");
    }
}

#[test]
fn a_rollout_whose_author_may_not_any_more_pauses() {
    for kind in kinds() {
        let mut house = House::rolling_out(kind);
        let gone = UserDraft { name: "tester".into(), ..UserDraft::default() };
        assert_eq!(house.bench.codes(Command::Users(Op::Delete, vec![gone])), [200_000]);
        assert_eq!(house.advance(10), [200_000]);
        let paused = house.rollout("gray");
        assert_eq!((paused.state, &*paused.reason), (RolloutState::Paused, "its author may not any more"));
        assert_eq!(house.advance(10), [200_002]);
    }
}

#[test]
fn a_planned_rollout_begins_when_it_is_published() {
    for kind in kinds() {
        let mut house = House::of_tester(kind);
        assert_eq!(house.publish(name("first")), 200_000);
        house.draft("gray");
        assert_eq!(house.publish(Say { at: Some(house.now(30)), ..stepped("gray") }), 200_000);
        assert!(house.bench.catalog.live_rollouts().is_empty());
        assert_eq!(house.publish_due(30), [200_000]);
        let begun = house.bench.catalog.live_rollouts().remove(0).rollout;
        assert_eq!(begun.since, house.now(0));
        assert_eq!(house.advance(5), [200_002]);
        assert_eq!(house.advance(5), [200_000]);
        house.check_rows();
    }
}
