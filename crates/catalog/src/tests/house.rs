//! A rule or file with releases, and the operations that tests of their life cycle need.

use std::sync::Arc;

use super::rules::{of_rule, rule};
use super::*;
use crate::catalog::history::Thing;
use crate::model::audience::{ClientLabel, ClientPercent};
use crate::model::grant::{Grant, Role};
use crate::model::release::{Action, Event, GivenTime, ReleaseOp, ReleaseState, ReleaseType};
use crate::model::rollout::{RolloutAction, RolloutPlan};
use crate::model::rule::Family;
use crate::model::rule::matching::{MatchString, MatchType};
use crate::model::rule::release::RuleReleaseDraft;

/// Kind of a thing with releases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Rule(Family),
    File,
}

/// Properties of a release that rules and files share.
#[derive(Clone, Debug, Default)]
pub(super) struct Say {
    pub(super) name: &'static str,
    pub(super) is_gray: bool,
    pub(super) percent: Option<ClientPercent>,
    pub(super) at: Option<Timestamp>,
    pub(super) new_name: Option<&'static str>,
    pub(super) to_previous: bool,
    pub(super) plan: Option<RolloutPlan>,
    pub(super) action: Option<RolloutAction>,
    pub(super) ok: Option<bool>,
}

/// A release of a rule or of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) state: ReleaseState,
    pub(super) release_type: ReleaseType,
    pub(super) version: u64,
    pub(super) content: String,
}

pub(super) struct House {
    pub(super) bench: Bench,
    pub(super) kind: Kind,
}

pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    Family::ALL.iter().map(|family| Kind::Rule(*family)).chain([Kind::File])
}

pub(super) fn name(name: &'static str) -> Say {
    Say { name, ..Say::default() }
}

pub(super) fn gray_for_zone(name: &'static str) -> Say {
    Say { name, is_gray: true, ..Say::default() }
}

pub(super) fn labels() -> Vec<ClientLabel> {
    let value = MatchString { kind: MatchType::In, value: "one,two".into(), ..MatchString::default() };
    vec![ClientLabel { key: "zone".into(), value }]
}

impl House {
    /// Creates one rule or file without releases.
    pub(super) fn new(kind: Kind) -> House {
        let mut bench = Bench::founded();
        let tester = super::trust::user("tester", &[Grant::of(Role::Admin)]);
        assert_eq!(bench.codes(Command::Users(Op::Create, vec![tester])), [200000], "author of what is planned");
        match kind {
            Kind::Rule(family) => bench.codes(Command::Rules(Op::Create, vec![rule(family, "x")])),
            Kind::File => bench.codes(Command::ConfigFiles(Op::Create, vec![file("x.yml", "0")])),
        };
        House { bench, kind }
    }

    /// Creates a rule or file with a release in each state.
    pub(super) fn with_all_states(kind: Kind) -> House {
        let mut house = House::new(kind);
        for say in [name("first"), name("second"), gray_for_zone("gray"), gray_for_zone("stopped")] {
            house.draft(say.name);
            assert_eq!(house.publish(say.clone()), 200000, "{say:?}");
        }
        assert_eq!(house.change(ReleaseOp::StopGray, name("stopped")), 200000);
        // Its publication fails, because a gray release is active.
        assert_eq!(house.publish(Say { at: Some(house.now(10)), ..name("failed") }), 200000);
        assert_eq!(house.publish_due(10), [409000]);
        assert_eq!(house.publish(Say { at: Some(house.now(1000)), ..name("scheduled") }), 200000);
        house
    }

    pub(super) const STATES: [(&str, ReleaseState, &str); 7] = [
        ("missing", ReleaseState::Missing, "none"),
        ("normal active", ReleaseState::NormalActive, "second"),
        ("normal inactive", ReleaseState::NormalInactive, "first"),
        ("gray active", ReleaseState::GrayActive, "gray"),
        ("gray inactive", ReleaseState::GrayInactive, "stopped"),
        ("scheduled", ReleaseState::Scheduled, "scheduled"),
        ("failed", ReleaseState::Failed, "failed"),
    ];

    /// Returns the time of an entry that many entries after the last one.
    pub(super) fn now(&self, entries: u64) -> Timestamp {
        self.bench.ctx(self.bench.index + entries).time
    }

    /// Saves a draft with distinguishable content.
    pub(super) fn draft(&mut self, content: &str) {
        let command = match self.kind {
            Kind::Rule(family) => {
                let mut draft = rule(family, "x");
                draft.head.description = Some(content.into());
                Command::Rules(Op::Update, vec![draft])
            }
            Kind::File => Command::ConfigFiles(Op::Update, vec![file("x.yml", content)]),
        };
        assert_eq!(self.bench.codes(command), [200000]);
    }

    pub(super) fn of_rule(say: &Say) -> RuleReleaseDraft {
        let bare = of_rule("x", say.name);
        let is_labelled = say.is_gray && say.percent.is_none() && say.plan.is_none();
        RuleReleaseDraft {
            release_type: say.is_gray.then(|| "gray".into()),
            client_labels: is_labelled.then(labels),
            client_percent: say.percent.clone(),
            publish_at: say.at.map(GivenTime),
            new_release_name: say.new_name.map(str::to_owned),
            to_previous: say.to_previous.then_some(true),
            plan: say.plan.clone(),
            action: say.action,
            ok: say.ok,
            ..bare
        }
    }

    pub(super) fn of_file(say: &Say) -> ConfigReleaseDraft {
        let bare = release("x.yml", say.name);
        let is_labelled = say.is_gray && say.percent.is_none() && say.plan.is_none();
        ConfigReleaseDraft {
            release_type: say.is_gray.then(|| "gray".into()),
            beta_labels: is_labelled.then(labels),
            client_percent: say.percent.clone(),
            publish_at: say.at.map(GivenTime),
            new_release_name: say.new_name.map(str::to_owned),
            to_previous: say.to_previous.then_some(true),
            plan: say.plan.clone(),
            action: say.action,
            ok: say.ok,
            ..bare
        }
    }

    pub(super) fn publish(&mut self, say: Say) -> u32 {
        let command = match self.kind {
            Kind::Rule(family) => Command::PublishRules(family, vec![House::of_rule(&say)]),
            Kind::File => Command::ConfigPublish(vec![House::of_file(&say)]),
        };
        self.bench.codes(command)[0]
    }

    pub(super) fn change(&mut self, op: ReleaseOp, say: Say) -> u32 {
        let files = vec![House::of_file(&say)];
        let command = match (self.kind, op) {
            (Kind::Rule(family), op) => Command::RuleReleases(family, op, vec![House::of_rule(&say)]),
            (Kind::File, ReleaseOp::Rollback) => Command::ConfigRollback(files),
            (Kind::File, ReleaseOp::StopGray) => Command::ConfigStopGray(files),
            (Kind::File, ReleaseOp::Delete) => Command::ConfigDeleteReleases(files),
            (Kind::File, op) => Command::ConfigReleases(op, files),
        };
        self.bench.codes(command)[0]
    }

    /// Publishes what the leader finds due `later` entries from now.
    pub(super) fn publish_due(&mut self, later: u64) -> Vec<u32> {
        self.bench.index += later;
        let due = self.bench.catalog.due(self.now(1));
        self.bench.codes(Command::PublishDue(due))
    }

    pub(super) fn thing(&self) -> Thing {
        match self.kind {
            Kind::Rule(family) => {
                let rule = self.bench.catalog.rules.of(family).named("a", "x").expect("there");
                Thing::Rule(family, rule.id.clone())
            }
            Kind::File => Thing::File(ConfigKey::new("prod", "shop", "x.yml")),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Seen> {
        match self.thing() {
            Thing::Rule(family, id) => self.bench.catalog.rules.of(family).release(&id, name).map(|release| Seen {
                state: release.state(),
                release_type: release.release_type,
                version: release.version,
                content: release.rule.description.clone(),
            }),
            Thing::File(key) => self.bench.catalog.configs.release(&key, name).map(|release| Seen {
                state: release.state(),
                release_type: release.release_type,
                version: release.version,
                content: release.content.to_string(),
            }),
        }
    }

    /// Returns the released draft that a client of a zone gets.
    pub(super) fn content_for(&self, zone: &'static str) -> Option<String> {
        match self.kind {
            Kind::Rule(family) => {
                let active = self.bench.catalog.rules.of(family).active();
                let seen = active.of_service("a", "target", |key| (key == "zone").then_some(zone));
                seen.first().map(|release| release.rule.description.clone())
            }
            Kind::File => {
                let labels = vec![("zone".to_owned(), zone.to_owned())];
                let client = ClientLabels { address: "192.0.2.1".into(), labels };
                let found = self.bench.catalog.configs.find("prod", "shop", "x.yml", &client);
                found.map(|released| released.content.to_string())
            }
        }
    }

    /// Returns the history, newest first: action, release, version, and the version in force before.
    pub(super) fn story(&self) -> Vec<(Action, String, u64, u64)> {
        let tell = |event: &Arc<Event>| (event.action, event.release_name.clone(), event.version, event.from_version);
        self.bench.catalog.history.of(&self.thing()).map(tell).collect()
    }

    pub(super) fn check_rows(&self) {
        assert_eq!(self.bench.reloaded(), self.bench.catalog, "{:?}", self.kind);
    }
}
