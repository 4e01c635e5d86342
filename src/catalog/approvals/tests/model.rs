//! Random acts of several people beside a model of the policies: nothing comes into force that the policies of that
//! moment forbid, whatever was done before. `THUBAN_POLICY_STEPS` sets how many acts.

mod acts;

use std::collections::{BTreeMap, BTreeSet};

use rand::prelude::*;
use serde::de::DeserializeSeed;
use serde_json::json;

use super::*;
use crate::catalog::history::Thing;
use crate::catalog::releases::RolloutChange;
use crate::model::content::ContentDigest;
use crate::model::release::{Action, Event};
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, RuleDraft, RuleHead};
use crate::model::time::Timestamp;

const STEPS: usize = 16_000;
/// Acts on one cluster, before there is a new one.
const STEPS_OF_ONE: usize = 2_000;
const PEOPLE: [&str; 4] = ["rita", "abe", "bea", "eva"];
const GATES: [&str; 7] = ["publish", "gray", "promote", "rollback", "withdraw", "stop", "delete"];

/// A policy as the model understands it.
#[derive(Clone, Debug)]
struct Law {
    namespace: &'static str,
    kind: Option<&'static str>,
    gates: Vec<&'static str>,
    approvals: usize,
    /// From and until, in milliseconds.
    freeze: Option<(u64, u64)>,
}

/// A request that was taken: by whom, of which thing, and the draft as it was.
#[derive(Clone, Debug)]
struct Asked {
    by: &'static str,
    thing: usize,
    draft: String,
    is_publish: bool,
    approved_by: BTreeSet<&'static str>,
    /// Id of the request that it is decided with.
    head: String,
}

/// Cause of what comes into force.
#[derive(Clone, Debug)]
enum Cause {
    Plain,
    Asked,
    Emergency(&'static str),
    Decision(String),
    Leader,
}

struct World {
    house: House,
    random: StdRng,
    laws: BTreeMap<String, Law>,
    asked: BTreeMap<String, Asked>,
    /// Releases that were planned as the policies asked for then, or in an emergency.
    blessed: BTreeSet<String>,
    may_approve: BTreeSet<&'static str>,
    number: usize,
    /// Number of changes that came into force, by cause.
    seen: BTreeMap<&'static str, usize>,
}

const NAMESPACES: [&str; 3] = ["prod", "test", "prod"];
const KINDS: [&str; 3] = ["configfile", "configfile", "ratelimit"];

/// A pattern that ends in `*` is a beginning.
fn is_covered(pattern: &str, text: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == text, |beginning| text.starts_with(beginning))
}

impl World {
    fn new(seed: u64) -> World {
        World {
            house: House::new(),
            random: StdRng::seed_from_u64(seed),
            laws: BTreeMap::new(),
            asked: BTreeMap::new(),
            blessed: BTreeSet::new(),
            may_approve: ["abe", "bea", "eva"].into(),
            number: 0,
            seen: BTreeMap::new(),
        }
    }

    fn chance(&mut self, of: u32) -> bool {
        self.random.random_range(0..of) == 0
    }

    fn now(&self) -> Timestamp {
        self.house.bench.ctx(self.house.bench.index).time
    }

    fn thing(&self, at: usize) -> Option<Thing> {
        match at {
            2 => {
                let rule = self.house.bench.catalog.rules.of(Family::RateLimit).named("prod", "x")?;
                Some(Thing::Rule(Family::RateLimit, rule.id.clone()))
            }
            at => Some(Thing::File(ConfigKey::new(NAMESPACES[at], "pay", "app.properties"))),
        }
    }

    fn in_force(&self, at: usize) -> Option<(u64, String)> {
        let catalog = &self.house.bench.catalog;
        match self.thing(at)? {
            Thing::File(key) => catalog.configs.active_release(&key).map(|one| (one.version, one.content.to_string())),
            Thing::Rule(family, id) => {
                let release = catalog.rules.of(family).active().normal(&id)?;
                Some((release.version, release.rule.description.clone()))
            }
        }
    }

    /// Content of what is saved.
    fn draft(&self, at: usize) -> Option<String> {
        let catalog = &self.house.bench.catalog;
        match self.thing(at)? {
            Thing::File(key) => catalog.configs.file(&key).map(|file| file.content.to_string()),
            Thing::Rule(family, id) => catalog.rules.of(family).get(&id).map(|rule| rule.description.clone()),
        }
    }

    /// True if a release has this content, or is not kept. The text of one that others have followed is on disk alone.
    fn has_content(&self, at: usize, name: &str, text: &str) -> bool {
        let catalog = &self.house.bench.catalog;
        match self.thing(at) {
            Some(Thing::File(key)) => {
                let release = catalog.configs.release(&key, name);
                release.is_none_or(|one| *one.content.digest() == ContentDigest::of(text))
            }
            Some(Thing::Rule(family, id)) => {
                catalog.rules.of(family).release(&id, name).is_none_or(|one| one.rule.description == text)
            }
            None => true,
        }
    }

    fn releases(&self, at: usize) -> Vec<String> {
        let catalog = &self.house.bench.catalog;
        match self.thing(at) {
            Some(Thing::File(key)) => catalog.configs.releases_of(&key).map(|one| one.name.clone()).collect(),
            Some(Thing::Rule(family, id)) => {
                catalog.rules.of(family).releases_of(&id).map(|one| one.name.clone()).collect()
            }
            None => Vec::new(),
        }
    }

    /// Oldest first.
    fn story(&self, at: usize) -> Vec<std::sync::Arc<Event>> {
        let Some(thing) = self.thing(at) else { return Vec::new() };
        let mut events: Vec<_> = self.house.bench.catalog.history.of(&thing).cloned().collect();
        events.reverse();
        events
    }

    /// Approvals that the laws ask for, and whether one of them freezes the act.
    fn demands(&self, at: usize, gate: &str) -> (usize, bool) {
        let now = self.now().0;
        let of = |law: &&Law| {
            law.gates.contains(&gate)
                && is_covered(law.namespace, NAMESPACES[at])
                && law.kind.is_none_or(|kind| kind == KINDS[at])
        };
        let laws = || self.laws.values().filter(of);
        let is_frozen = laws().any(|law| law.freeze.is_some_and(|(from, until)| (from..until).contains(&now)));
        (laws().map(|law| law.approvals).max().unwrap_or_default(), is_frozen)
    }

    /// Does an act, and judges what came into force by it.
    fn act(&mut self, user: Option<&'static str>, command: Command, cause: &Cause) -> Option<Outcome> {
        let before: Vec<_> = (0..3).map(|at| (self.story(at).last().cloned(), self.in_force(at))).collect();
        self.house.bench.index += 1;
        let index = self.house.bench.index;
        let mut ctx = self.house.bench.ctx(index);
        let command = match user {
            None => {
                crate::model::access::CLUSTER.clone_into(&mut ctx.by);
                command
            }
            Some(user) => {
                user.clone_into(&mut ctx.by);
                Command::Authorized(Box::new(AuthorizedCommand {
                    credential: Credential::Token(TokenHash(user.into())),
                    address: None,
                    request: String::new(),
                    self_registration: false,
                    mutes_refusals: false,
                    command,
                }))
            }
        };
        let applied = self.house.bench.apply_as(&ctx, command);
        for (at, (last, was)) in before.into_iter().enumerate() {
            let story = self.story(at);
            let known = last.as_ref().and_then(|last| story.iter().rposition(|event| event == last));
            let new = if last.is_some() && known.is_none() { 0 } else { known.map_or(0, |known| known + 1) };
            if story.is_empty() && was.is_some() && self.in_force(at).is_none() {
                self.judge(at, "delete", cause, None);
                continue;
            }
            for event in &story[new..] {
                self.judge_event(at, event, cause);
            }
        }
        applied.outcomes.into_iter().next()
    }

    fn judge_event(&mut self, at: usize, event: &Event, cause: &Cause) {
        let is_by_leader = matches!(cause, Cause::Leader);
        let gate = match event.action {
            Action::Publish => "publish",
            Action::Gray | Action::RolloutStep => "gray",
            Action::Promote => "promote",
            Action::Rollback => "rollback",
            Action::Stop => "stop",
            // A guard stops whatever the laws say.
            Action::RolloutStopped if is_by_leader => return,
            Action::RolloutStopped => "stop",
            // To the one before, it is a rollback.
            Action::Withdraw if self.in_force(at).is_some() => "rollback",
            Action::Withdraw => "withdraw",
            Action::Schedule => {
                if matches!(cause, Cause::Emergency(_) | Cause::Decision(_)) {
                    self.blessed.insert(event.release_name.clone());
                }
                return;
            }
            Action::Failed | Action::Delete | Action::RolloutPaused | Action::RolloutResumed => return,
        };
        if event.action == Action::Gray && matches!(cause, Cause::Emergency(_) | Cause::Decision(_)) {
            self.blessed.insert(event.release_name.clone());
        }
        self.judge(at, gate, cause, Some(&event.release_name));
    }

    /// Fails if the laws of this moment forbid it.
    fn judge(&mut self, at: usize, gate: &str, cause: &Cause, release: Option<&str>) {
        let (approvals, is_frozen) = self.demands(at, gate);
        let told = format!("{gate} of thing {at}, release {release:?}, by {cause:?}: {:?}", self.laws);
        let word = match cause {
            Cause::Plain | Cause::Asked => {
                assert!(approvals == 0 && !is_frozen, "{told}");
                "at once"
            }
            Cause::Emergency(user) => {
                assert!(*user == "eva" && self.may_approve.contains("eva") || approvals == 0 && !is_frozen, "{told}");
                "in an emergency"
            }
            Cause::Decision(id) => {
                assert!(self.asked.contains_key(id), "{told}: of no request");
                let set: Vec<_> = self.set_of(id).iter().map(|one| self.asked[one].clone()).collect();
                let is_meant = |asked: &&Asked| {
                    let counted = asked.approved_by.iter().filter(|who| **who != asked.by);
                    let counted = counted.filter(|who| self.may_approve.contains(**who)).count();
                    let released = release.filter(|_| asked.is_publish);
                    let is_same = released.is_none_or(|release| self.has_content(at, release, &asked.draft));
                    asked.thing == at && counted >= approvals && is_same
                };
                assert!(!is_frozen && set.iter().any(|asked| is_meant(&asked)), "{told}: {set:?}");
                "approved"
            }
            Cause::Leader => {
                let is_blessed = release.is_some_and(|name| self.blessed.contains(name));
                // A promotion is of the release that was rolled out, under another name.
                let is_blessed = is_blessed || gate == "promote" && !self.blessed.is_empty();
                assert!(!is_frozen && (approvals == 0 || is_blessed), "{told}: {:?}", self.blessed);
                "by the leader"
            }
        };
        *self.seen.entry(word).or_default() += 1;
    }
}

#[test]
fn nothing_comes_into_force_that_the_policies_forbid() {
    let steps = std::env::var("THUBAN_POLICY_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(STEPS);
    let mut seen: BTreeMap<&'static str, usize> = BTreeMap::new();
    crate::test_seed::each_seed("catalog/approvals/model.txt", steps.div_ceil(STEPS_OF_ONE) as u64, |seed| {
        let mut world = World::new(seed);
        for _ in 0..STEPS_OF_ONE {
            world.step();
        }
        crate::catalog::fuzzing::check(&world.house.bench);
        world.seen.into_iter().for_each(|(word, count)| *seen.entry(word).or_default() += count);
    });
    let causes: Vec<_> = seen.keys().copied().collect();
    assert_eq!(
        causes,
        ["approved", "as a set", "at once", "by the leader", "in an emergency"],
        "each came about: {seen:?}"
    );
}
