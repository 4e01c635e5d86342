//! Life cycle of releases for every family of rules and for config files. The table at the top of `model::release` is
//! read from its source, and each cell is tested for each kind.

use super::house::{House, Kind, Say, gray_for_zone, kinds, name};
use super::rules::{of_rule, rule};
use super::*;
use crate::catalog::releases::Due;
use crate::model::audience::ClientPercent;
use crate::model::release::{Action, ReleaseOp, ReleaseState, ReleaseType};
use crate::model::rule::Family;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::wire::Uint32;

#[test]
fn every_cell_of_the_transition_table() {
    let source = include_str!("../../../model/src/release.rs");
    let row = |title: &str| -> Vec<&str> {
        let line = source.lines().find(|line| line.starts_with(&format!("//! | {title} |"))).expect(title);
        line.trim_start_matches("//! |").split('|').skip(1).map(str::trim).filter(|cell| !cell.is_empty()).collect()
    };
    let operations = [
        ("rollback", ReleaseOp::Rollback),
        ("stopbeta", ReleaseOp::StopGray),
        ("promote", ReleaseOp::Promote),
        ("withdraw", ReleaseOp::Withdraw),
        ("delete", ReleaseOp::Delete),
    ];
    let states = row("operation");
    let mut cells = 0;
    for kind in kinds() {
        let prepared = House::with_all_states(kind);
        for (title, op) in operations {
            for (state, cell) in states.iter().zip(row(title)) {
                let (_, expected_state, target) =
                    House::STATES.into_iter().find(|(known, ..)| known == state).expect(state);
                let mut house = House { bench: prepared.bench.clone(), kind };
                let at = format!("{kind:?}: {title} {state}");
                let before = house.find(target);
                assert_eq!(before.as_ref().map_or(ReleaseState::Missing, |seen| seen.state), expected_state, "{at}");
                let (rules, configs) = (house.bench.catalog.rules.clone(), house.bench.catalog.configs.clone());
                let events = house.story().len();
                let code = house.change(op, Say { new_name: Some("promoted"), ..name(target) });
                let after = house.find(target).map(|seen| seen.state);
                let second = house.find("second").map(|seen| seen.state);
                match cell {
                    "activate" => {
                        assert_eq!(
                            (after, second),
                            (Some(ReleaseState::NormalActive), Some(ReleaseState::NormalInactive))
                        );
                        assert_eq!(house.find("gray").map(|seen| seen.state), Some(ReleaseState::GrayActive), "{at}");
                        assert_eq!(house.content_for("three").as_deref(), Some("first"), "{at}");
                    }
                    "deactivate" => assert_eq!(after, Some(ReleaseState::GrayInactive), "{at}"),
                    "remove" => assert_eq!(after, None, "{at}"),
                    "withdraw" => {
                        assert_eq!(after, Some(ReleaseState::NormalInactive), "{at}");
                        assert_eq!(house.content_for("three"), None, "{at}");
                        assert_eq!(house.content_for("one").as_deref(), Some("gray"), "{at}: grays are untouched");
                    }
                    "promote" => {
                        assert_eq!(
                            (after, second),
                            (Some(ReleaseState::GrayInactive), Some(ReleaseState::NormalInactive))
                        );
                        let promoted = house.find("promoted").expect("made");
                        assert_eq!((promoted.state, promoted.content.as_str()), (ReleaseState::NormalActive, "gray"));
                        assert!(before.is_some_and(|gray| gray.version < promoted.version), "{at}");
                        assert_eq!(house.content_for("one").as_deref(), Some("gray"), "{at}");
                        assert_eq!(house.content_for("three").as_deref(), Some("gray"), "{at}");
                    }
                    refused => {
                        assert_eq!(code, refused.parse::<u32>().expect("a code"), "{at}");
                        let catalog = &house.bench.catalog;
                        assert!(catalog.rules == rules && catalog.configs == configs, "{at}: nothing changed");
                    }
                }
                let is_done = cell.parse::<u32>().is_err();
                assert!(!is_done || code == 200000, "{at}: {code}");
                assert_eq!(house.story().len(), events + usize::from(is_done), "{at}: what is done is remembered");
                house.check_rows();
                cells += 1;
            }
        }
    }
    assert_eq!(cells, 35 * kinds().count());
}

#[test]
fn who_has_the_gray_release_keeps_its_content_when_it_is_promoted() {
    for kind in kinds() {
        let mut house = House::new(kind);
        house.draft("old");
        house.publish(name("old"));
        house.draft("new");
        house.publish(gray_for_zone("new"));
        // The promotion releases what was tried, not the draft edited meanwhile.
        house.draft("newer");
        assert_eq!(house.change(ReleaseOp::Promote, Say { new_name: Some("old"), ..name("new") }), 400201);
        assert_eq!(house.change(ReleaseOp::Promote, name("new")), 200000);
        assert_eq!([house.content_for("one"), house.content_for("nine")], [Some("new".into()), Some("new".into())]);
        let (action, generated, version, from) = house.story()[0].clone();
        assert_eq!((action, version, from), (Action::Promote, 3, 1));
        let seen = house.find(&generated).expect("it has a name of its own");
        assert_eq!((seen.release_type, seen.version), (ReleaseType::Normal, 3));
        assert_eq!(house.change(ReleaseOp::Promote, name("new")), 400000, "it is not active any more");
        // A normal release may now be published again.
        assert_eq!(house.publish(name("newer")), 200000);
        house.check_rows();
    }
}

#[test]
fn what_is_withdrawn_leaves_nothing_or_the_one_before() {
    for kind in kinds() {
        let mut house = House::new(kind);
        for content in ["one", "two", "three"] {
            house.draft(content);
            house.publish(name(content));
        }
        let back = |name| Say { name, to_previous: true, ..Say::default() };
        assert_eq!(house.change(ReleaseOp::Withdraw, back("three")), 200000);
        assert_eq!(house.content_for("x").as_deref(), Some("two"));
        assert_eq!(house.find("two").map(|seen| seen.version), Some(4), "every activation takes a version");
        assert_eq!(house.change(ReleaseOp::Withdraw, name("three")), 200002, "it is not active");
        assert_eq!(house.change(ReleaseOp::Withdraw, name("two")), 200000);
        assert_eq!(house.content_for("x"), None);
        let story = house.story();
        assert_eq!(story[0], (Action::Withdraw, "two".into(), 4, 4));
        assert_eq!(story[1], (Action::Withdraw, "two".into(), 4, 3));
        // From the state without any release, one can be rolled back to.
        assert_eq!(house.change(ReleaseOp::Rollback, name("three")), 200000);
        assert_eq!(house.content_for("x").as_deref(), Some("three"));
        let mut alone = House::new(kind);
        alone.publish(name("only"));
        assert_eq!(alone.change(ReleaseOp::Withdraw, back("only")), 400202, "there is none before");
        assert_eq!(alone.find("only").map(|seen| seen.state), Some(ReleaseState::NormalActive));
    }
}

#[test]
fn a_share_of_the_clients_sees_the_gray_release() {
    for kind in kinds() {
        let mut house = House::new(kind);
        house.draft("all");
        house.publish(name("all"));
        house.draft("some");
        let share = |percent| ClientPercent { by: "zone".into(), percent: Uint32(percent) };
        let say = |name, percent| Say { name, is_gray: true, percent: Some(share(percent)), ..Say::default() };
        assert_eq!(house.publish(say("ten", 10)), 200000);
        // Selected by the number derived from the SHA-256 of the value: 3 and 50.
        assert_eq!(house.content_for("pay-7").as_deref(), Some("some"));
        assert_eq!(house.content_for("a").as_deref(), Some("all"));
        house.draft("more");
        assert_eq!(house.publish(say("sixty", 60)), 200000);
        assert_eq!(house.content_for("pay-7").as_deref(), Some("more"));
        assert_eq!(house.content_for("a").as_deref(), Some("more"));
        house.check_rows();
    }
}

#[test]
fn what_is_published_later_is_what_stood_then_and_is_published_once() {
    for kind in kinds() {
        let mut house = House::new(kind);
        house.draft("old");
        house.publish(name("old"));
        house.draft("reviewed");
        let at = house.now(100);
        assert_eq!(house.publish(Say { at: Some(at), ..name("later") }), 200000);
        house.draft("unfinished");
        assert_eq!(house.publish_due(10), [0; 0], "nothing is due");
        let early = Due { thing: house.thing(), release_name: "later".into(), at };
        assert_eq!(
            house.bench.codes(Command::PublishDue(vec![early.clone()])),
            [200002],
            "nor by a clock that is ahead"
        );
        assert_eq!(house.content_for("x").as_deref(), Some("old"));
        house.check_rows();
        assert_eq!(house.publish_due(100), [200000]);
        assert_eq!(house.content_for("x").as_deref(), Some("reviewed"));
        assert_eq!(house.find("later").map(|seen| (seen.state, seen.version)), Some((ReleaseState::NormalActive, 3)));
        // An overtaken leader proposes it again.
        assert_eq!(house.bench.codes(Command::PublishDue(vec![early])), [200002]);
        assert_eq!(house.publish_due(10), [0; 0]);
        let actions: Vec<_> = house.story().into_iter().map(|(action, ..)| action).collect();
        assert_eq!(actions, [Action::Publish, Action::Schedule, Action::Publish]);
        // A time in the past means now.
        assert_eq!(house.publish(Say { at: Some(Timestamp(1)), ..name("past") }), 200000);
        assert_eq!(house.content_for("x").as_deref(), Some("unfinished"));
        house.check_rows();
    }
}

#[test]
fn what_cannot_be_published_then_has_failed_and_says_why() {
    for kind in kinds() {
        let mut house = House::new(kind);
        house.publish(name("old"));
        house.publish(gray_for_zone("gray"));
        assert_eq!(house.publish(Say { at: Some(house.now(5)), ..name("later") }), 200000, "it is judged later");
        assert_eq!(house.publish_due(10), [409000]);
        assert_eq!(house.find("later").map(|seen| seen.state), Some(ReleaseState::Failed));
        let newest = house.bench.catalog.history.of(&house.thing()).next().expect("remembered").clone();
        assert_eq!(newest.action, Action::Failed);
        assert!(newest.comment.contains("gray release is active"), "{newest:?}");
        assert_eq!(newest.user, "tester", "in the name of who asked for it");
        assert_eq!(house.publish_due(10), [0; 0], "once");
        house.check_rows();
    }
}

#[test]
fn plans_are_limited_and_kept_by_retention() {
    for kind in kinds() {
        let mut house = House::new(kind);
        house.bench.keep(1);
        const NAMES: [&str; limits::SCHEDULED_RELEASES_MAX + 1] =
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
        let codes = NAMES.map(|each| house.publish(Say { at: Some(house.now(1000)), ..name(each) }));
        let expected: Vec<u32> = std::iter::repeat_n(200000, limits::SCHEDULED_RELEASES_MAX).chain([507002]).collect();
        assert_eq!(codes.to_vec(), expected);
        for each in ["r1", "r2", "r3", "r4"] {
            assert_eq!(house.publish(name(each)), 200000);
        }
        assert_eq!(house.find("r2"), None, "of the inactive ones the newest stays");
        assert!(NAMES.iter().take(10).all(|each| house.find(each).is_some()), "what is planned stays");
        house.check_rows();
    }
}

#[test]
fn a_history_is_bounded_and_goes_with_its_thing() {
    for kind in kinds() {
        let mut house = House::new(kind);
        house.publish(name("one"));
        house.publish(name("two"));
        for turn in 0..limits::HISTORY_EVENTS_MAX {
            house.change(ReleaseOp::Rollback, name(if turn % 2 == 0 { "one" } else { "two" }));
        }
        assert_eq!(house.story().len(), limits::HISTORY_EVENTS_MAX);
        assert_eq!(house.story().last().map(|(action, ..)| *action), Some(Action::Rollback), "the oldest went");
        house.check_rows();
        let command = match kind {
            Kind::Rule(family) => Command::Rules(Op::Delete, vec![rule(family, "x")]),
            Kind::File => Command::ConfigFiles(Op::Delete, vec![file("x.yml", "")]),
        };
        assert_eq!(house.bench.codes(command), [200000]);
        assert!(house.bench.catalog.history.is_empty());
        house.check_rows();
    }
}

/// A publish names the revision that its author has seen.
#[test]
fn a_rule_is_published_as_it_was_seen_or_not_at_all() {
    let family = Family::RateLimit;
    let mut house = House::new(Kind::Rule(family));
    let seen = house.bench.catalog.rules.of(family).named("a", "x").expect("there").revision.clone();
    house.draft("edited");
    let publish = |revision: &str| RuleReleaseDraft { revision: Some(revision.into()), ..of_rule("x", "r") };
    assert_eq!(house.bench.codes(Command::PublishRules(family, vec![publish(&seen)])), [409000]);
    let seen = house.bench.catalog.rules.of(family).named("a", "x").expect("there").revision.clone();
    assert_eq!(house.bench.codes(Command::PublishRules(family, vec![publish(&seen)])), [200000]);
}
