//! Things of the model and their releases, by identity, and their changes. After each entry, the whole catalog is
//! compared with the model.

use super::*;
use crate::catalog::releases::Releasable;
use crate::model::config_file::ConfigRelease;
use crate::model::content::ContentDigest;
use crate::model::release::ReleaseState;
use crate::model::rule::release::RuleRelease;

/// Content of a release: the text, and for a rule its place and the namespace of the service that it acts on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Copied {
    pub(super) text: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) end: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reach {
    All,
    Zone(&'static str),
    Percent(u32),
    /// Share set by the steps of the plan.
    Steps,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stand {
    Active,
    Inactive,
    Planned(u64),
    Failed,
}

/// Progress of a rollout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roll {
    pub(super) step: usize,
    pub(super) since: u64,
    pub(super) is_paused: bool,
    /// True if paused until something is measured.
    pub(super) waits: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Release {
    /// Id; empty until it was seen.
    pub(super) id: String,
    /// Name; empty until the catalog has generated it.
    pub(super) name: String,
    pub(super) copy: Copied,
    pub(super) reach: Reach,
    pub(super) stand: Stand,
    /// Stamp of its present state, which increases with each activation.
    pub(super) stamp: usize,
    /// Number of its author's account.
    pub(super) author: usize,
    pub(super) is_approved: bool,
    pub(super) roll: Option<Roll>,
}

impl Release {
    pub(super) fn is(&self, reach_is_all: bool, stand: Stand) -> bool {
        (self.reach == Reach::All) == reach_is_all && self.stand == stand
    }

    pub(super) fn is_planned(&self) -> bool {
        matches!(self.stand, Stand::Planned(_))
    }
}

/// A release as stored in the catalog.
#[derive(Clone)]
pub(super) enum Seen {
    File(Arc<ConfigRelease>),
    Rule(Arc<RuleRelease>),
}

impl Seen {
    fn is(&self, other: &Seen) -> bool {
        match (self, other) {
            (Seen::File(one), Seen::File(other)) => Arc::ptr_eq(one, other),
            (Seen::Rule(one), Seen::Rule(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    fn id(&self) -> String {
        match self {
            Seen::File(one) => one.id.to_string(),
            Seen::Rule(one) => one.id.clone(),
        }
    }

    fn name(&self) -> &str {
        match self {
            Seen::File(one) => &one.name,
            Seen::Rule(one) => &one.name,
        }
    }

    fn stand(&self) -> Stand {
        let (state, plan) = match self {
            Seen::File(one) => (Releasable::state(&**one), &one.plan),
            Seen::Rule(one) => (Releasable::state(&**one), &one.plan),
        };
        match state {
            ReleaseState::NormalActive | ReleaseState::GrayActive => Stand::Active,
            ReleaseState::Scheduled => Stand::Planned(plan.as_ref().map_or(0, |plan| plan.at.0)),
            ReleaseState::Failed => Stand::Failed,
            _ => Stand::Inactive,
        }
    }

    /// Reports whether clients get this copy from the release.
    fn gives(&self, copy: &Copied) -> bool {
        match self {
            Seen::File(one) => *one.content.digest() == ContentDigest::of(&copy.text),
            Seen::Rule(one) => {
                let rule = &one.rule;
                let given = (&*rule.description, &*rule.namespace, &*rule.name, &*rule.ends()[0].namespace);
                given == (&*copy.text, &*copy.namespace, &*copy.name, &*copy.end)
            }
        }
    }

    /// Fails unless the release equals that of the model.
    fn check(&self, known: &Release) {
        assert_eq!(self.stand(), known.stand, "{known:?}");
        assert!(self.gives(&known.copy), "{known:?}");
        let (audience, rollout) = match self {
            Seen::File(one) => (one.audience(), &one.rollout),
            Seen::Rule(one) => (one.audience(), &one.rollout),
        };
        let zones: Vec<_> = audience.labels.iter().map(|label| label.value.value.as_str()).collect();
        let zone = if let Reach::Zone(zone) = known.reach { vec![zone] } else { Vec::new() };
        assert_eq!(zones, zone);
        if known.stand == Stand::Inactive {
            return;
        }
        let percent = match (known.reach, &known.roll) {
            (Reach::Percent(percent), _) => Some(percent),
            (Reach::Steps, Some(roll)) => Some(PERCENTS[roll.step - 1]),
            _ => None,
        };
        assert_eq!(audience.percent.map(|share| share.percent.0), percent);
        assert_eq!(rollout.is_some(), known.reach == Reach::Steps);
    }
}

/// A file, or one incarnation of a rule.
pub(super) struct Thing {
    /// Number of the file.
    pub(super) file: Option<usize>,
    /// Id of a rule, which another rule may have after this one is deleted.
    pub(super) id: String,
    /// Draft; `None` for a file that does not exist.
    pub(super) draft: Option<Copied>,
    pub(super) releases: BTreeMap<usize, Release>,
    pub(super) is_gone: bool,
    pub(super) seen: Vec<Seen>,
}

impl Thing {
    pub(super) fn new(file: Option<usize>, id: &str, draft: Option<Copied>) -> Thing {
        Thing { file, id: id.into(), draft, releases: BTreeMap::new(), is_gone: false, seen: Vec::new() }
    }

    /// Returns the normal release in force.
    pub(super) fn in_force(&self) -> Option<(usize, &Release)> {
        self.releases.iter().find(|(_, one)| one.is(true, Stand::Active)).map(|(number, one)| (*number, one))
    }

    pub(super) fn grays(&self) -> usize {
        self.releases.values().filter(|one| one.is(false, Stand::Active)).count()
    }

    /// Returns the normal release that was in force before.
    pub(super) fn earlier(&self) -> Option<usize> {
        let may = self.releases.iter().filter(|(_, one)| one.is(true, Stand::Inactive));
        may.max_by_key(|(_, one)| one.stamp).map(|(number, _)| *number)
    }

    /// Returns the releases in force or planned.
    pub(super) fn live(&self) -> impl Iterator<Item = (usize, &Release)> {
        let live = |one: &Release| one.stand == Stand::Active || one.is_planned();
        self.releases.iter().filter(move |(_, one)| live(one)).map(|(number, one)| (*number, one))
    }
}

impl World {
    /// Returns the existing things: the files, and the rules.
    pub(super) fn there(&self) -> Vec<usize> {
        (0..FILES.len()).chain(self.rules.iter().flatten().copied()).collect()
    }

    pub(super) fn release(&self, (thing, release): (usize, usize)) -> Option<&Release> {
        self.things[thing].releases.get(&release).filter(|_| !self.things[thing].is_gone)
    }

    pub(super) fn release_mut(&mut self, (thing, release): (usize, usize)) -> &mut Release {
        self.things[thing].releases.get_mut(&release).expect("kept")
    }

    pub(super) fn next_stamp(&mut self) -> usize {
        self.stamps += 1;
        self.stamps
    }

    /// Adds a release, active now or planned.
    pub(super) fn add(&mut self, thing: usize, release: Release) {
        if release.is(true, Stand::Active) {
            self.replace_in_force(thing);
        }
        let number = self.next_stamp();
        self.things[thing].releases.insert(number, Release { stamp: number, ..release });
    }

    pub(super) fn replace_in_force(&mut self, thing: usize) {
        if let Some((before, _)) = self.things[thing].in_force() {
            self.release_mut((thing, before)).stand = Stand::Inactive;
        }
    }

    pub(super) fn activate(&mut self, at: (usize, usize)) {
        let (stamp, now) = (self.next_stamp(), self.now);
        if self.release(at).is_some_and(|one| one.reach == Reach::All) {
            self.replace_in_force(at.0);
        }
        let release = self.release_mut(at);
        (release.stand, release.stamp) = (Stand::Active, stamp);
        if let Some(roll) = &mut release.roll {
            *roll = Roll { since: now, is_paused: false, waits: false, ..*roll };
        }
    }

    /// Promotes a gray release to a normal one of the same content.
    pub(super) fn promote(&mut self, at: (usize, usize), name: &str, author: usize) {
        let gray = self.release_mut(at);
        gray.stand = Stand::Inactive;
        if let Some(roll) = &mut gray.roll {
            roll.step = PERCENTS.len();
        }
        let copy = gray.copy.clone();
        let normal = Release {
            id: String::new(),
            name: name.into(),
            copy,
            reach: Reach::All,
            stand: Stand::Active,
            stamp: 0,
            author,
            is_approved: false,
            roll: None,
        };
        self.add(at.0, normal);
    }

    fn look(&self, thing: usize) -> Vec<Seen> {
        let catalog = &self.bench.catalog;
        match self.things[thing].file {
            Some(at) => catalog.configs.releases_of(&self.keys[at]).cloned().map(Seen::File).collect(),
            None => {
                let releases = catalog.rules.of(Family::RateLimit).releases_of(&self.things[thing].id);
                releases.cloned().map(Seen::Rule).collect()
            }
        }
    }

    /// Fails if the catalog has other releases in force or stored than the model.
    pub(super) fn compare(&mut self, touched: &[usize]) {
        for thing in self.there() {
            let seen = self.look(thing);
            let known = &mut self.things[thing];
            let is_same =
                seen.len() == known.seen.len() && seen.iter().zip(&known.seen).all(|(one, other)| one.is(other));
            if is_same && !touched.contains(&thing) {
                continue;
            }
            let mut found = BTreeSet::new();
            for one in &seen {
                let id = one.id();
                let is_it = |known: &Release| match known.id.as_str() {
                    "" => (known.name.is_empty() || known.name == one.name()) && one.gives(&known.copy),
                    known => known == id,
                };
                // A release with a known id takes precedence.
                let by_id = known.releases.iter().find(|(_, known)| known.id == id).map(|(number, _)| *number);
                let number =
                    by_id.or_else(|| known.releases.iter().find(|(_, known)| is_it(known)).map(|(number, _)| *number));
                let number = number.unwrap_or_else(|| panic!("{:?} came to be of thing {thing}", one.name()));
                let release = known.releases.get_mut(&number).expect("found");
                release.id = id;
                one.name().clone_into(&mut release.name);
                one.check(release);
                found.insert(number);
            }
            // The oldest inactive releases are pruned.
            known.releases.retain(|number, one| {
                let may_go = matches!(one.stand, Stand::Inactive | Stand::Failed);
                assert!(found.contains(number) || may_go, "thing {thing} lost {one:?}");
                found.contains(number)
            });
            known.seen = seen;
        }
    }
}
