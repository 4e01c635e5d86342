//! Actions of the model: subject, required rights, feasibility and effect of each.

use super::*;
use crate::model::audience::{ClientLabel, ClientPercent};
use crate::model::release::GivenTime;
use crate::model::rollout::RolloutAction;
use crate::model::rule::RuleHead;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::wire::Uint32;

#[derive(Clone, Debug)]
pub(super) enum Deed {
    Publish(Publication),
    /// Change of a release that still exists.
    Change {
        at: (usize, usize),
        op: Change,
    },
    Delete {
        thing: usize,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Publication {
    pub(super) thing: usize,
    pub(super) name: String,
    /// Id that the caller gives to the release of a rule.
    pub(super) id: String,
    pub(super) reach: Reach,
    pub(super) later: Option<u64>,
    /// Text of a file that is written with the publication.
    pub(super) writes: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Rollback,
    Stop,
    Promote(String),
    Withdraw,
    /// Withdrawal to the previous release.
    Back,
    Roll(RolloutAction),
    Remove,
}

/// Outcome that an action would have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fit {
    Done,
    Unchanged,
    Bad,
}

impl Deed {
    pub(super) fn thing(&self) -> usize {
        match self {
            Deed::Publish(Publication { thing, .. }) | Deed::Change { at: (thing, _), .. } | Deed::Delete { thing } => {
                *thing
            }
        }
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Deed::Publish(one) if one.later.is_some() => "planned",
            Deed::Publish(one) if one.reach == Reach::Steps => "rolled out",
            Deed::Publish(one) if one.reach != Reach::All => "gray",
            Deed::Publish(_) => "published",
            Deed::Change { op, .. } => match op {
                Change::Rollback => "rolled back",
                Change::Stop => "stopped",
                Change::Promote(_) => "promoted",
                Change::Withdraw => "withdrawn for all",
                Change::Back => "taken back",
                Change::Roll(action) => action.word(),
                Change::Remove => "release deleted",
            },
            Deed::Delete { .. } => "deleted",
        }
    }

    /// Returns the gate that the action passes later by itself.
    pub(super) fn later(&self) -> Option<&'static str> {
        matches!(self, Deed::Publish(Publication { reach: Reach::Steps, .. })).then_some("promote")
    }
}

impl World {
    pub(super) fn gate(&self, deed: &Deed) -> Option<&'static str> {
        match deed {
            Deed::Publish(one) => Some(if one.reach == Reach::All { "publish" } else { "gray" }),
            Deed::Change { at, op } => match op {
                Change::Rollback | Change::Back => Some("rollback"),
                Change::Stop | Change::Roll(RolloutAction::Stop) => Some("stop"),
                Change::Promote(_) => Some("promote"),
                Change::Withdraw => Some("withdraw"),
                Change::Roll(RolloutAction::Advance) => Some(self.gate_of_step(*at)),
                Change::Roll(_) | Change::Remove => None,
            },
            Deed::Delete { thing } => self.things[*thing].live().next().map(|_| "delete"),
        }
    }

    pub(super) fn gate_of_step(&self, at: (usize, usize)) -> &'static str {
        let roll = self.release(at).and_then(|one| one.roll);
        if roll.is_some_and(|roll| roll.step + 1 >= PERCENTS.len()) { "promote" } else { "gray" }
    }

    /// Returns the copies that an action would make visible to clients.
    pub(super) fn copies(&self, deed: &Deed, copy: Option<&Copied>) -> Vec<Copied> {
        match deed {
            Deed::Publish(one) => copy.or(self.things[one.thing].draft.as_ref()).cloned().into_iter().collect(),
            Deed::Change { at: (thing, release), op } => {
                let earlier = self.things[*thing].earlier().filter(|_| *op == Change::Back);
                let releases = [Some(*release), earlier].into_iter().flatten();
                releases.filter_map(|number| self.release((*thing, number))).map(|one| one.copy.clone()).collect()
            }
            Deed::Delete { .. } => Vec::new(),
        }
    }

    /// Returns the places at which a thing is evaluated: by its present name, in releases in force or planned, and in
    /// copies.
    pub(super) fn spots(&self, thing: usize, copies: &[Copied]) -> Vec<Spot> {
        let thing = &self.things[thing];
        if let Some(file) = thing.file {
            return vec![Spot::File(file)];
        }
        let Some(draft) = &thing.draft else { return Vec::new() };
        let mut spots = vec![Spot::Name(draft.namespace.clone(), draft.name.clone())];
        for copy in thing.live().map(|(_, one)| &one.copy).chain(copies) {
            let of_copy = [Spot::Name(copy.namespace.clone(), copy.name.clone()), Spot::End(copy.end.clone())];
            spots.extend(of_copy);
        }
        spots
    }

    /// Returns the rights that an action requires: verbs at scopes.
    pub(super) fn needs(&self, deed: &Deed, copy: Option<&Copied>) -> Vec<(Verb, Scope)> {
        let thing = &self.things[deed.thing()];
        let is_release = |scope: Scope| (Verb::Release, scope);
        let end = |copy: &Copied| (Verb::Release, (copy.end.clone(), SERVICE.into()));
        let place = |copy: &Copied| (copy.namespace.clone(), copy.name.clone());
        if let Some(file) = thing.file {
            let scope = Spot::File(file).scope();
            let is_there = thing.draft.is_some();
            return match deed {
                Deed::Delete { .. } => {
                    let taken = thing.live().next().map(|_| is_release(scope.clone()));
                    [(Verb::Edit, scope)].into_iter().chain(taken).collect()
                }
                Deed::Publish(one) if one.writes.is_some() => vec![(Verb::Edit, scope.clone()), is_release(scope)],
                Deed::Publish(_) if copy.is_some() && !is_there => vec![(Verb::Edit, scope.clone()), is_release(scope)],
                Deed::Publish(_) if !is_there => Vec::new(),
                _ => vec![is_release(scope)],
            };
        }
        let Some(draft) = &thing.draft else { return Vec::new() };
        let now = thing.in_force().map(|(_, one)| end(&one.copy));
        match deed {
            Deed::Delete { .. } => {
                let taken = thing.live().map(|(_, one)| end(&one.copy));
                let release = thing.live().next().map(|_| is_release(place(draft)));
                [(Verb::Edit, place(draft))].into_iter().chain(release).chain(taken).collect()
            }
            _ => {
                let copies = self.copies(deed, copy);
                let copied = copy.map(|copy| is_release(place(copy)));
                let ends = copies.iter().map(end);
                [is_release(place(draft))].into_iter().chain(copied).chain(now).chain(ends).collect()
            }
        }
    }

    pub(super) fn fit(&self, deed: &Deed, copy: Option<&Copied>) -> Fit {
        let thing = &self.things[deed.thing()];
        let fit = |can: bool| if can { Fit::Done } else { Fit::Bad };
        if thing.is_gone {
            return Fit::Bad;
        }
        match deed {
            Deed::Publish(one) => {
                let is_later = one.later.is_some_and(|at| at > self.now);
                let is_taken = thing.releases.values().any(|kept| {
                    !one.name.is_empty() && kept.name == one.name || !one.id.is_empty() && kept.id == one.id
                });
                let is_full = thing.releases.values().filter(|kept| kept.is_planned()).count() >= PLANNED_MAX;
                let is_there = thing.draft.is_some() || copy.is_some() || one.writes.is_some();
                let grays = if is_later { 0 } else { thing.grays() };
                let has_room = if one.reach == Reach::All { grays == 0 } else { grays < GRAYS_MAX };
                fit(is_there && !is_taken && has_room && !(is_later && is_full))
            }
            Deed::Delete { .. } => {
                if thing.draft.is_some() {
                    Fit::Done
                } else {
                    Fit::Unchanged
                }
            }
            Deed::Change { at, op } => {
                let Some(release) = self.release(*at) else { return Fit::Bad };
                let (is_normal, stand) = (release.reach == Reach::All, release.stand);
                match (op, is_normal, stand) {
                    (Change::Remove, _, stand) => fit(stand != Stand::Active),
                    (_, _, Stand::Planned(_) | Stand::Failed) => Fit::Bad,
                    (Change::Rollback, true, Stand::Inactive) => Fit::Done,
                    (Change::Rollback, true, _) => Fit::Unchanged,
                    (Change::Stop, false, Stand::Active) => Fit::Done,
                    (Change::Stop, false, _) => Fit::Unchanged,
                    (Change::Promote(name), false, Stand::Active) => {
                        fit(name.is_empty() || thing.releases.values().all(|kept| kept.name != *name))
                    }
                    (Change::Withdraw | Change::Back, true, Stand::Inactive) => Fit::Unchanged,
                    (Change::Withdraw, true, _) => Fit::Done,
                    (Change::Back, true, _) => fit(thing.earlier().is_some()),
                    (Change::Roll(action), false, Stand::Active) => match (action, release.roll) {
                        (_, None) => Fit::Bad,
                        (RolloutAction::Pause, Some(roll)) if roll.is_paused && !roll.waits => Fit::Unchanged,
                        (RolloutAction::Resume, Some(roll)) if !roll.is_paused => Fit::Unchanged,
                        _ => Fit::Done,
                    },
                    _ => Fit::Bad,
                }
            }
        }
    }

    /// Carries out a feasible action, in the name of an account.
    pub(super) fn carry(&mut self, deed: &Deed, copy: Option<&Copied>, (author, is_approved): (usize, bool)) {
        let now = self.now;
        match deed {
            Deed::Publish(one) => {
                let thing = &mut self.things[one.thing];
                let draft = thing.draft.clone();
                let written = one.writes.as_ref().map(|text| Copied { text: text.clone(), ..Copied::default() });
                let released = copy.cloned().or(written).or(draft).expect("it fits");
                // A publication of a copy does not change the draft.
                if thing.draft.is_none() || copy.is_none() {
                    thing.draft = Some(released.clone());
                }
                let later = one.later.filter(|at| *at > now);
                let begun = Roll { step: 1, since: now, is_paused: false, waits: false };
                let release = Release {
                    id: one.id.clone(),
                    name: one.name.clone(),
                    copy: released,
                    reach: one.reach,
                    stand: later.map_or(Stand::Active, Stand::Planned),
                    stamp: 0,
                    author,
                    is_approved,
                    roll: (one.reach == Reach::Steps).then_some(begun),
                };
                self.add(one.thing, release);
            }
            Deed::Delete { thing } => {
                let is_rule = self.things[*thing].file.is_none();
                let gone = &mut self.things[*thing];
                gone.releases.clear();
                gone.draft = None;
                gone.is_gone = is_rule;
                self.rules.iter_mut().filter(|slot| is_rule && **slot == Some(*thing)).for_each(|slot| *slot = None);
            }
            Deed::Change { at, op } => match op {
                Change::Rollback => self.activate(*at),
                Change::Back => {
                    let earlier = self.things[at.0].earlier().expect("it fits");
                    self.activate((at.0, earlier));
                }
                Change::Stop | Change::Withdraw | Change::Roll(RolloutAction::Stop) => {
                    self.release_mut(*at).stand = Stand::Inactive;
                }
                Change::Promote(name) => self.promote(*at, name, author),
                Change::Roll(action) => self.roll(*at, *action, author),
                Change::Remove => drop(self.things[at.0].releases.remove(&at.1)),
            },
        }
    }

    pub(super) fn roll(&mut self, at: (usize, usize), action: RolloutAction, author: usize) {
        let now = self.now;
        let Some(roll) = &mut self.release_mut(at).roll else { return };
        match action {
            RolloutAction::Advance if roll.step + 1 == PERCENTS.len() => self.promote(at, "", author),
            RolloutAction::Advance => *roll = Roll { step: roll.step + 1, since: now, is_paused: false, waits: false },
            RolloutAction::Resume => *roll = Roll { since: now, is_paused: false, waits: false, ..*roll },
            RolloutAction::Pause | RolloutAction::Stop => *roll = Roll { is_paused: true, waits: false, ..*roll },
        }
    }

    /// Returns the action as a command of the catalog.
    pub(super) fn command(&mut self, deed: &Deed, approval_options: &Asking) -> Command {
        let Asking { request, request_set, hold, emergency } = approval_options.clone();
        let thing = &self.things[deed.thing()];
        let named = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (mut name, mut id, mut new_name, mut action) = (None, None, None, None);
        let (mut to_previous, mut labels, mut percent, mut plan, mut later) = (None, None, None, None, None);
        let mut op = ReleaseOp::Rollback;
        match deed {
            Deed::Publish(one) => {
                (name, id) = (named(&one.name), named(&one.id));
                later = one.later.map(|at| GivenTime(Timestamp(at)));
                match one.reach {
                    Reach::All => {}
                    Reach::Zone(zone) => labels = Some(vec![zone_of(zone)]),
                    Reach::Percent(of) => percent = Some(ClientPercent { by: "zone".into(), percent: Uint32(of) }),
                    Reach::Steps => plan = Some(self.plan.clone()),
                }
            }
            Deed::Change { at, op: change } => {
                let release = &thing.releases[&at.1];
                match self.random.random_range(0..3) {
                    0 => id = named(&release.id),
                    1 => name = named(&release.name),
                    _ => (id, name) = (named(&release.id), named(&release.name)),
                }
                op = match change {
                    Change::Rollback => ReleaseOp::Rollback,
                    Change::Stop => ReleaseOp::StopGray,
                    Change::Promote(name) => {
                        new_name = named(name);
                        ReleaseOp::Promote
                    }
                    Change::Withdraw => ReleaseOp::Withdraw,
                    Change::Back => {
                        to_previous = Some(true);
                        ReleaseOp::Withdraw
                    }
                    Change::Roll(of) => {
                        action = Some(*of);
                        ReleaseOp::Rollout
                    }
                    Change::Remove => ReleaseOp::Delete,
                };
            }
            Deed::Delete { .. } => {}
        }
        let release_type = (labels.is_some() || percent.is_some() || plan.is_some()).then(|| "gray".to_owned());
        let Some(file) = thing.file else {
            let draft = thing.draft.clone().unwrap_or_default();
            let (by_name, rule) = (self.random.random_range(0..2) == 0, thing.id.clone());
            if let Deed::Delete { .. } = deed {
                let (rule_name, namespace) = (by_name.then_some(draft.name), by_name.then_some(draft.namespace));
                let id = (!by_name).then_some(rule);
                let head = RuleHead {
                    id,
                    name: rule_name,
                    namespace,
                    request,
                    request_set,
                    hold,
                    emergency,
                    ..RuleHead::default()
                };
                return Command::Rules(Op::Delete, vec![RuleDraft { head, body: self.body.clone() }]);
            }
            let draft = RuleReleaseDraft {
                rule_id: (!by_name).then_some(rule),
                rule_name: by_name.then_some(draft.name),
                namespace: by_name.then_some(draft.namespace),
                id,
                release_name: name,
                release_type,
                client_labels: labels,
                client_percent: percent,
                publish_at: later,
                new_release_name: new_name,
                to_previous,
                plan,
                action,
                request,
                request_set,
                hold,
                emergency,
                ..RuleReleaseDraft::default()
            };
            return match deed {
                Deed::Publish(_) => Command::PublishRules(Family::RateLimit, vec![draft]),
                _ => Command::RuleReleases(Family::RateLimit, op, vec![draft]),
            };
        };
        let (namespace, group, file_name) = FILES[file];
        let of_file = ConfigFileDraft {
            namespace: namespace.into(),
            group: group.into(),
            name: file_name.into(),
            ..ConfigFileDraft::default()
        };
        if let Deed::Delete { .. } = deed {
            let draft = ConfigFileDraft { request, request_set, hold, emergency, ..of_file };
            return Command::ConfigFiles(Op::Delete, vec![draft]);
        }
        let release = ConfigReleaseDraft {
            namespace: namespace.into(),
            group: group.into(),
            file_name: file_name.into(),
            id: id.and_then(|id| id.parse().ok()),
            name,
            release_type,
            beta_labels: labels,
            client_percent: percent,
            publish_at: later,
            new_release_name: new_name,
            to_previous,
            plan,
            action,
            request,
            request_set,
            hold,
            emergency,
            ..ConfigReleaseDraft::default()
        };
        match deed {
            Deed::Publish(Publication { writes: Some(text), .. }) => {
                let file = ConfigFileDraft { content: Some(text.clone()), ..of_file };
                Command::ConfigCreateAndPublish(vec![ConfigPublish { file, release, md5: None }])
            }
            Deed::Publish(_) => Command::ConfigPublish(vec![release]),
            _ => Command::ConfigReleases(op, vec![release]),
        }
    }
}

fn zone_of(zone: &str) -> ClientLabel {
    let value = MatchString { value: zone.into(), ..MatchString::default() };
    ClientLabel { key: "zone".into(), value }
}
