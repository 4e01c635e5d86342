//! Drafts of the model, and random changes of them: rules are renamed, deleted and created again.

use serde::de::DeserializeSeed;
use serde_json::Value;

use super::*;
use crate::model::rule::RuleHead;

const NAMES: [(&str, &str); 4] = [("prod", "x"), ("prod", "y"), ("test", "x"), ("prod", "pay")];
/// Ids that callers give to the first rule and to its releases, again and again.
const OWN: &str = "own";
const OWN_RELEASES: [&str; 2] = ["own-a", "own-b"];

pub(super) fn body(fields: Value) -> BodyPatch {
    DeserializeSeed::deserialize(Family::RateLimit, fields).expect("a body")
}

impl World {
    /// Saves a draft, by a permitted user.
    pub(super) fn save(&mut self) {
        let text = format!("a={}", self.index);
        if self.chance(2) {
            let slot = self.random.random_range(0..2);
            return self.save_rule(slot, text);
        }
        let file = self.random.random_range(0..FILES.len());
        let (namespace, group, name) = FILES[file];
        let op = if self.things[file].draft.is_some() { Op::Update } else { Op::Create };
        let draft = ConfigFileDraft {
            namespace: namespace.into(),
            group: group.into(),
            name: name.into(),
            content: Some(text.clone()),
            sealing: None,
            ..ConfigFileDraft::default()
        };
        self.write_down(&text);
        assert_eq!(self.by_cluster(Command::ConfigFiles(op, vec![draft])), [200_000]);
        self.things[file].draft = Some(Copied { text, ..Copied::default() });
        self.compare(&[]);
    }

    fn write_down(&mut self, text: &str) {
        self.texts.insert(ContentDigest::of(text), text.into());
    }

    fn save_rule(&mut self, slot: usize, text: String) {
        let there = self.rules[slot];
        let before = there.and_then(|thing| self.things[thing].draft.clone());
        let is_renamed = before.is_none() || self.chance(3);
        self.save_rule_as(slot, text, before.filter(|_| !is_renamed));
    }

    /// Saves a rule under the name of a draft, or under any name.
    fn save_rule_as(&mut self, slot: usize, text: String, called: Option<Copied>) {
        let there = self.rules[slot];
        let before = there.and_then(|thing| self.things[thing].draft.clone());
        let (mut namespace, mut name) = *NAMES.choose(&mut self.random).expect("some");
        if let Some(before) = called {
            let known = NAMES.iter().find(|known| (known.0, known.1) == (&*before.namespace, &*before.name));
            (namespace, name) = *known.expect("one of these");
        }
        let end = *["prod", "prod", "test"].choose(&mut self.random).expect("some");
        self.pass(1);
        let head = RuleHead {
            id: there.map(|thing| self.things[thing].id.clone()).or_else(|| (slot == 0).then(|| OWN.to_owned())),
            name: Some(name.into()),
            namespace: Some(namespace.into()),
            description: Some(text.clone()),
            ..RuleHead::default()
        };
        let body = body(json!({"callee": {"namespace": end, "service": SERVICE},
            "rules": [{"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]}));
        let op = if there.is_some() { Op::Update } else { Op::Create };
        let other = self.rules[1 - slot].and_then(|thing| self.things[thing].draft.as_ref());
        let is_taken = other.is_some_and(|other| (&*other.namespace, &*other.name) == (namespace, name));
        let outcome = self.apply("tester", Command::Rules(op, vec![RuleDraft { head, body }])).remove(0);
        let code = outcome.code.number();
        assert_eq!(code, if is_taken { 400_201 } else { 200_000 }, "{}", outcome.info());
        if is_taken {
            return;
        }
        let draft = Some(Copied { text, namespace: namespace.into(), name: name.into(), end: end.into() });
        let Entity::Rule(rule) = &outcome.entity else { panic!("{outcome:?}") };
        match there {
            Some(thing) => {
                let is_other = before.is_some_and(|before| (&*before.namespace, &*before.name) != (namespace, name));
                self.things[thing].draft = draft;
                if is_other {
                    self.saw("rule renamed");
                }
            }
            None => {
                let was_there = self.things.iter().any(|thing| thing.is_gone && thing.id == rule.id);
                self.rules[slot] = Some(self.things.len());
                self.things.push(Thing::new(None, &rule.id, draft));
                if was_there {
                    self.saw("rule made again");
                }
            }
        }
        self.compare(&[]);
    }

    /// Replaces the subjects of requests by others of the same names and ids: the first rule with its releases, or gray
    /// releases of a file.
    pub(super) fn exchange(&mut self) {
        let Some(who) = self.somebody(Verb::Manage) else { return };
        let emergency = Asking { emergency: Some("the house burns".into()), ..Asking::default() };
        let rule = self.rules[0].filter(|_| self.chance(2));
        let thing = rule.unwrap_or_else(|| self.random.random_range(0..FILES.len()));
        let is_gone = |one: &Release| rule.is_some() || one.is(false, Stand::Active);
        let live = self.things[thing].live().filter(|(_, one)| is_gone(one));
        let mut live: Vec<_> = live.map(|(number, one)| (number, one.clone())).collect();
        live.sort_by_key(|(_, one)| one.stamp);
        live.truncate(2);
        if let Some((number, gray)) = live.iter().find(|(_, one)| one.is(false, Stand::Active))
            && let Some(maker) = self.somebody(Verb::Release)
        {
            let op = match gray.roll {
                Some(_) => Change::Roll(RolloutAction::Advance),
                None => Change::Promote(String::new()),
            };
            let asking = Asking { request: Some("please".into()), ..Asking::default() };
            self.act(maker, &Deed::Change { at: (thing, *number), op }, &asking);
        }
        let called = self.things[thing].draft.clone();
        if rule.is_some() {
            self.act(who, &Deed::Delete { thing }, &emergency);
            if self.rules[0].is_some() {
                return;
            }
            let text = format!("a={}", self.index);
            self.save_rule_as(0, text, called);
        }
        for op in [Change::Stop, Change::Remove] {
            for (number, _) in &live {
                if self.release((thing, *number)).is_some() {
                    self.act(who, &Deed::Change { at: (thing, *number), op: op.clone() }, &emergency);
                }
            }
        }
        let there = if rule.is_some() { self.rules[0] } else { Some(thing) };
        let Some(thing) = there else { return };
        for (_, Release { name, id, reach, .. }) in live {
            let id = if rule.is_some() { id } else { String::new() };
            let writes = rule.is_none().then(|| format!("a={}", self.index));
            writes.iter().for_each(|text| self.write_down(text));
            let publication = Publication { thing, name, id, reach, later: None, writes };
            self.act(who, &Deed::Publish(publication), &emergency);
        }
        self.saw("exchanged");
    }

    /// Returns options for the policies: none, a request, one of a set, a held one, or an emergency.
    fn words(&mut self) -> Asking {
        let request = Some("please".to_owned());
        let set = *["tree", "tree", "wood"].choose(&mut self.random).expect("some");
        match self.random.random_range(0..14) {
            0..3 => Asking::default(),
            3 => Asking { emergency: Some("the house burns".into()), ..Asking::default() },
            4 | 5 => Asking { request, hold: Some(true), ..Asking::default() },
            6..11 => {
                let hold = self.chance(6).then_some(true);
                Asking { request, request_set: Some(set.into()), hold, ..Asking::default() }
            }
            _ => Asking { request, ..Asking::default() },
        }
    }

    pub(super) fn release_something(&mut self) {
        let there = self.there();
        let thing = *there.choose(&mut self.random).expect("some");
        let Some(deed) = self.deed(thing) else { return };
        let verb = if let Deed::Delete { .. } = deed { Verb::Edit } else { Verb::Release };
        let Some(who) = self.somebody(verb) else { return };
        let words = self.words();
        self.act(who, &deed, &words);
    }

    fn deed(&mut self, thing: usize) -> Option<Deed> {
        let kept: Vec<_> = self.things[thing].releases.keys().copied().collect();
        match self.random.random_range(0..20) {
            0 => Some(Deed::Delete { thing }),
            1..11 => Some(Deed::Publish(self.publication(thing))),
            _ => {
                let release = *kept.choose(&mut self.random)?;
                Some(Deed::Change { at: (thing, release), op: self.change(thing, release) })
            }
        }
    }

    fn publication(&mut self, thing: usize) -> Publication {
        let is_first = self.rules[0] == Some(thing);
        let name = match self.random.random_range(0..4) {
            0 => String::new(),
            1 => format!("r{}", self.index),
            _ => (*["g", "h"].choose(&mut self.random).expect("some")).to_owned(),
        };
        let id = OWN_RELEASES.choose(&mut self.random).filter(|_| is_first).copied().unwrap_or_default();
        let id = if self.chance(3) { "" } else { id };
        let reach = match self.random.random_range(0..8) {
            0..4 => Reach::All,
            4 => Reach::Zone(["a", "b"].choose(&mut self.random).expect("some")),
            5 => Reach::Percent(self.random.random_range(1..=99)),
            _ => Reach::Steps,
        };
        let later = self.chance(6).then(|| self.now + self.random.random_range(1..10) * 1000);
        let writes = (self.things[thing].file.is_some() && self.chance(3)).then(|| format!("a={}", self.index));
        if let Some(text) = &writes {
            self.write_down(&text.clone());
        }
        Publication { thing, name, id: id.into(), reach, later, writes }
    }

    /// Returns a change, usually a feasible one.
    fn change(&mut self, thing: usize, release: usize) -> Change {
        let one = &self.things[thing].releases[&release];
        let (is_normal, stand, rolls) = (one.reach == Reach::All, one.stand, one.roll.is_some());
        let new_name = if self.chance(2) { "g".to_owned() } else { String::new() };
        let roll = |action| Change::Roll(action);
        let all = [
            Change::Rollback,
            Change::Stop,
            Change::Promote(new_name),
            Change::Withdraw,
            Change::Back,
            Change::Remove,
            roll(RolloutAction::Advance),
            roll(RolloutAction::Pause),
            roll(RolloutAction::Resume),
            roll(RolloutAction::Stop),
        ];
        let range = match (is_normal, stand) {
            _ if self.chance(6) => 0..10,
            (true, Stand::Active) => 3..5,
            (true, Stand::Inactive) => 0..1,
            (false, Stand::Active) if rolls && self.chance(2) => 6..10,
            (false, Stand::Active) => 1..3,
            _ => 5..6,
        };
        all[self.random.random_range(range)].clone()
    }
}
