//! Requests of the model, and decisions on them.

use super::*;
use crate::catalog::time::{STEP_MAX_MS, TimeChange};
use crate::model::rollout::RolloutAction;

/// A pending request: its action by identity, and its approvals.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    id: String,
    by: usize,
    person: usize,
    deed: Deed,
    copy: Option<Copied>,
    /// Release in force when the request was made, and the releases that it is about.
    base: Option<(usize, usize)>,
    meant: Vec<(usize, usize)>,
    step: Option<usize>,
    /// Names of the thing and of the release, which may belong to others by now.
    named: (String, String, String),
    gate: &'static str,
    spot: Spot,
    hold: bool,
    word: Option<String>,
    head: usize,
    parts: u64,
    /// Account and person of each approval.
    given: Vec<(usize, usize)>,
    is_approved: bool,
    made: u64,
}

/// Codes that an answer may have; an empty list allows any refusal.
type Codes = &'static [u32];

impl World {
    /// Returns the releases that an action is about now, each with its stamp.
    fn meant(&self, deed: &Deed) -> Vec<(usize, usize)> {
        let thing = &self.things[deed.thing()];
        let of = |number: usize| thing.releases.get(&number).map(|one| (number, one.stamp));
        match deed {
            Deed::Publish(_) => Vec::new(),
            Deed::Change { at, op } => {
                let earlier = thing.earlier().filter(|_| *op == Change::Back);
                [Some(at.1), earlier].into_iter().flatten().filter_map(of).collect()
            }
            Deed::Delete { .. } => thing.live().map(|(number, one)| (number, one.stamp)).collect(),
        }
    }

    fn step_of(&self, deed: &Deed) -> Option<usize> {
        let Deed::Change { at, op: Change::Roll(RolloutAction::Advance) } = deed else { return None };
        self.release(*at)?.roll.map(|roll| roll.step)
    }

    fn base(&self, deed: &Deed) -> Option<(usize, usize)> {
        self.things[deed.thing()].in_force().map(|(number, one)| (number, one.stamp))
    }

    pub(super) fn head_of(&self, (account, person): (usize, usize), word: &Option<String>) -> Option<usize> {
        let name = &self.accounts[account].name;
        let is_it = |ask: &Ask| {
            ask.word.is_some() && ask.word == *word && ask.person == person && self.accounts[ask.by].name == *name
        };
        self.asks.iter().find(|(_, ask)| is_it(ask)).map(|(number, _)| *number)
    }

    /// Reports whether the set of a head has an action on a thing with this name.
    pub(super) fn is_acted_on(&self, head: usize, thing: usize) -> bool {
        let thing = &self.things[thing];
        let set = self.set_of(head);
        set.iter().any(|one| {
            let ask = &self.asks[one];
            let other = &self.things[ask.deed.thing()];
            if thing.file.is_some() || other.file.is_some() {
                return thing.file == other.file;
            }
            other.id == thing.id && self.found(ask).is_some()
        })
    }

    pub(super) fn note(&mut self, (account, person): (usize, usize), deed: &Deed, words: &Asking, id: &str) {
        let copies = self.copies(deed, None);
        let copy = match deed {
            Deed::Publish(Publication { writes: Some(text), .. }) => {
                Some(Copied { text: text.clone(), ..Copied::default() })
            }
            Deed::Publish(_) => copies.into_iter().next(),
            _ => None,
        };
        let thing = &self.things[deed.thing()];
        let spot = self.spots(deed.thing(), &[]).remove(0);
        let named = match deed {
            Deed::Change { at, .. } => {
                let release = &thing.releases[&at.1];
                (thing.id.clone(), release.id.clone(), release.name.clone())
            }
            _ => (thing.id.clone(), String::new(), String::new()),
        };
        let number = self.next_stamp();
        let head = self.head_of((account, person), &words.request_set);
        let ask = Ask {
            id: id.into(),
            by: account,
            person,
            deed: deed.clone(),
            copy,
            base: self.base(deed),
            meant: self.meant(deed),
            step: self.step_of(deed),
            named,
            gate: self.gate(deed).expect("gated"),
            spot,
            hold: words.hold == Some(true),
            word: words.request_set.clone().filter(|_| head.is_none()),
            head: head.unwrap_or(number),
            parts: 0,
            given: Vec::new(),
            is_approved: false,
            made: self.now,
        };
        self.asks.insert(number, ask);
        if let Some(head) = head {
            self.asks.get_mut(&head).expect("it waits").parts += 1;
        }
    }

    fn set_of(&self, number: usize) -> Vec<usize> {
        let head = self.asks[&number].head;
        self.asks.iter().filter(|(_, ask)| ask.head == head).map(|(number, _)| *number).collect()
    }

    /// Returns the action, applied to what has its names now.
    fn found(&self, ask: &Ask) -> Option<Deed> {
        let (thing, release, name) = &ask.named;
        let thing = self.there().into_iter().find(|there| match self.things[ask.deed.thing()].file {
            Some(file) => self.things[*there].file == Some(file),
            None => self.things[*there].file.is_none() && self.things[*there].id == *thing,
        })?;
        Some(match &ask.deed {
            Deed::Publish(one) => Deed::Publish(Publication { thing, ..one.clone() }),
            Deed::Delete { .. } => Deed::Delete { thing },
            Deed::Change { op, .. } => {
                let mut kept = self.things[thing].releases.iter();
                let (number, _) = kept.find(|(_, one)| one.id == *release && one.name == *name)?;
                Deed::Change { at: (thing, *number), op: op.clone() }
            }
        })
    }

    fn demand_of(&self, ask: &Ask) -> Demand {
        let is_file = matches!(ask.spot, Spot::File(_));
        let found = self.found(ask);
        let mut spots =
            found.map_or_else(Vec::new, |deed| self.spots(deed.thing(), &self.copies(&deed, ask.copy.as_ref())));
        if !spots.contains(&ask.spot) {
            spots.push(ask.spot.clone());
        }
        self.demand((ask.gate, ask.deed.later()), is_file, &spots)
    }

    fn may_do(&self, account: usize, ask: &Ask) -> bool {
        let needs = match (self.found(ask), &ask.copy) {
            (Some(deed), copy) => self.needs(&deed, copy.as_ref()),
            (None, copy) => {
                let verb = if let Deed::Delete { .. } = ask.deed { Verb::Edit } else { Verb::Release };
                let of_copy = copy.iter().filter(|copy| !copy.name.is_empty()).flat_map(|copy| {
                    [(copy.namespace.clone(), copy.name.clone()), (copy.end.clone(), SERVICE.to_owned())]
                });
                [(verb, ask.spot.scope())].into_iter().chain(of_copy.map(|scope| (Verb::Release, scope))).collect()
            }
        };
        self.may_needed(account, &needs)
    }

    fn may_approve(&self, account: usize, ask: &Ask) -> bool {
        let (one, scope) = (&self.accounts[account], ask.spot.scope());
        one.may(Verb::Approve, &scope.0, &scope.1)
            || self.demand_of(ask).claims.iter().any(|claim| one.may_all(Verb::Approve, &claim.scopes))
    }

    /// Reports whether an approval is valid now.
    fn counts(&self, account: usize, ask: &Ask) -> bool {
        self.accounts[account].is_open() && self.may_approve(account, ask)
    }

    /// Reports whether the state has changed since the request was made.
    fn is_over(&self, ask: &Ask) -> bool {
        let is_same = ask.base == self.base(&ask.deed)
            && ask.meant == self.meant(&ask.deed)
            && ask.step == self.step_of(&ask.deed)
            && (ask.step.is_none() || self.gate(&ask.deed) == Some(ask.gate));
        self.things[ask.deed.thing()].is_gone || !is_same
    }

    /// Carries out a decision on one request, and returns the codes that the answer may have.
    fn decide_on(&mut self, number: usize, who: (usize, usize), (op, parts): (RequestOp, u64)) -> Codes {
        let (account, person) = who;
        let (ask, set) = (self.asks[&number].clone(), self.set_of(number));
        let is_own = ask.person == person;
        let one = &self.accounts[account];
        let all = || set.iter().map(|one| &self.asks[one]);
        let may = match op {
            RequestOp::Approve | RequestOp::Refuse => self.may_approve(account, &ask),
            RequestOp::Withdraw => is_own || one.may(Verb::Manage, "", ""),
            RequestOp::Run => all().all(|ask| self.may_do(account, ask)),
        };
        if !one.is_open() || !may {
            return &[];
        }
        match op {
            RequestOp::Withdraw => self.end(&set, "withdrawn"),
            RequestOp::Refuse | RequestOp::Approve if is_own => return &[401_001],
            RequestOp::Refuse => self.end(&set, "refused"),
            RequestOp::Approve if parts != ask.parts => return &[409_000],
            RequestOp::Approve => {
                let is_new = |one: usize, ask: &Ask| {
                    let mut own = ask.given.iter().filter(|(_, other)| *other == person);
                    (ask.head == number || one == number)
                        && self.may_approve(account, ask)
                        && !own.any(|(account, _)| self.counts(*account, ask))
                };
                let new: Vec<_> = set.iter().copied().filter(|one| is_new(*one, &self.asks[one])).collect();
                if new.is_empty() {
                    return &[200_002];
                }
                for one in new {
                    let given = &mut self.asks.get_mut(&one).expect("it waits").given;
                    given.retain(|(_, other)| *other != person);
                    given.push((account, person));
                }
                return self.advance(&set, false);
            }
            RequestOp::Run if all().any(|ask| !ask.is_approved) => return &[409_000],
            RequestOp::Run => return self.advance(&set, true),
        }
        &[200_000]
    }

    fn advance(&mut self, set: &[usize], is_run: bool) -> Codes {
        let (mut is_frozen, mut lacks, mut holds) = (false, false, false);
        for number in set {
            let ask = &self.asks[number];
            let demand = self.demand_of(ask);
            let counted: Vec<_> = ask.given.iter().filter(|(account, _)| self.counts(*account, ask)).collect();
            let others = |claim: Option<&Claim>| {
                let may = |account: usize| {
                    claim.is_none_or(|claim| self.accounts[account].may_all(Verb::Approve, &claim.scopes))
                };
                let persons = counted.iter().filter(|(account, _)| may(*account)).map(|(_, person)| *person);
                persons.filter(|person| *person != ask.person).collect::<BTreeSet<_>>().len()
            };
            let is_approved = others(None) > 0 && demand.claims.iter().all(|one| others(Some(one)) >= one.approvals);
            is_frozen |= is_approved && demand.is_frozen;
            lacks |= !is_approved;
            holds |= ask.hold && !is_run;
            self.asks.get_mut(number).expect("it waits").is_approved = is_approved;
        }
        match (is_frozen, lacks, holds) {
            (false, false, false) => self.run(set),
            (true, ..) if is_run => &[409_002],
            (_, true, _) if is_run => &[409_001],
            _ => &[200_000],
        }
    }

    fn run(&mut self, set: &[usize]) -> Codes {
        let all: Vec<_> = set.iter().map(|number| self.asks[number].clone()).collect();
        if all.iter().any(|ask| self.is_over(ask)) {
            self.end(set, "stale");
            return &[409_000];
        }
        let can = |ask: &Ask| {
            let may = self.accounts[ask.by].is_open() && self.may_do(ask.by, ask);
            may && self.fit(&ask.deed, ask.copy.as_ref()) != Fit::Bad
        };
        if !all.iter().all(can) {
            self.end(set, "failed");
            return &[409_000];
        }
        for ask in &all {
            // Stopping what was stopped meanwhile is a success.
            if self.fit(&ask.deed, ask.copy.as_ref()) == Fit::Done {
                self.carry(&ask.deed, ask.copy.as_ref(), (ask.by, true));
                self.saw(ask.deed.word());
            }
            self.saw(if set.len() > 1 { "as a set" } else { "approved" });
        }
        self.end(set, "done");
        &[200_000]
    }

    fn end(&mut self, set: &[usize], word: &'static str) {
        for number in set {
            let ask = self.asks.remove(number).expect("it waits");
            self.touched.push(ask.deed.thing());
            self.ended.push((ask.id, word));
            self.saw(word);
        }
    }

    pub(super) fn decide(&mut self) {
        self.pass(0);
        let op = *[RequestOp::Approve, RequestOp::Approve, RequestOp::Approve, RequestOp::Run, RequestOp::Run]
            .choose(&mut self.random)
            .expect("some");
        let op = match self.random.random_range(0..40) {
            0 => RequestOp::Refuse,
            1 => RequestOp::Withdraw,
            _ => op,
        };
        let verb = match op {
            RequestOp::Approve | RequestOp::Refuse => Verb::Approve,
            RequestOp::Run => Verb::Release,
            RequestOp::Withdraw => Verb::Read,
        };
        let Some((account, secret)) = self.somebody(verb) else { return };
        let person = self.accounts[account].secrets[secret].1;
        if self.chance(30)
            && let Some((id, word)) = self.over.choose(&mut self.random).cloned()
        {
            let draft = RequestDraft { id: id.clone(), ..RequestDraft::default() };
            let outcome = self.ask((account, secret), Command::Requests(op, vec![draft])).remove(0);
            assert!(!outcome.code.is_success(), "{op:?} of what is {word}");
            self.saw("decided too late");
            return self.compare(&[]);
        }
        let count = if self.chance(4) { self.random.random_range(2..=3) } else { 1 };
        let mut picked: Vec<usize> = Vec::new();
        let wanted = |ask: &Ask| op != RequestOp::Run || ask.is_approved;
        let all = self.asks.iter().filter(|(_, ask)| wanted(ask));
        let mut all: Vec<_> = all.map(|(number, _)| *number).collect();
        // Sets need more decisions than single requests, and few remain before something makes them stale.
        if self.chance(2) && all.iter().any(|one| self.asks[one].parts > 0) {
            all.retain(|one| self.asks[one].parts > 0);
        }
        for number in all.choose_multiple(&mut self.random, count).copied() {
            let head = self.asks[&number].head;
            // Members of a set are chosen less often than the whole.
            let number = if self.random.random_range(0..3) > 0 { head } else { number };
            // Every action prunes releases, so there is only one per thing.
            let things = |one: usize| self.set_of(one).into_iter().map(|one| self.asks[&one].deed.thing());
            if things(head).all(|thing| picked.iter().all(|other| things(*other).all(|other| other != thing))) {
                picked.push(number);
            }
        }
        if picked.is_empty() {
            return;
        }
        let wrong = u64::from(self.chance(30));
        let given: Vec<_> =
            picked.iter().map(|one| (self.asks[one].id.clone(), self.asks[one].parts + wrong)).collect();
        let draft = |(id, parts): &(String, u64)| RequestDraft {
            id: id.clone(),
            comment: None,
            parts: Some(*parts).filter(|parts| *parts > 0),
        };
        let command = Command::Requests(op, given.iter().map(draft).collect());
        let mut sets: Vec<_> = Vec::new();
        let mut expected = Vec::new();
        for (number, (_, parts)) in picked.into_iter().zip(&given) {
            sets.extend(self.set_of(number));
            expected.push(self.decide_on(number, (account, person), (op, *parts)));
        }
        let outcomes = self.ask((account, secret), command);
        for (outcome, codes) in outcomes.iter().zip(expected) {
            let code = outcome.code.number();
            let fits = codes.contains(&code) || codes.is_empty() && !outcome.code.is_success();
            assert!(fits, "{code} {} instead of {codes:?}", outcome.info());
            self.saw_code(code);
        }
        self.check_asks(&sets);
    }

    /// Fails if requests differ from those of the model.
    fn check_asks(&mut self, sets: &[usize]) {
        let kept = |id: &str| self.bench.catalog.approvals.get(id).expect("kept");
        for (id, word) in &self.ended {
            assert_eq!(kept(id).state.word(), *word, "{:?}", kept(id));
        }
        for ask in sets.iter().filter_map(|number| self.asks.get(number)) {
            let word = if ask.is_approved { "approved" } else { "open" };
            let request = kept(&ask.id);
            let told = (request.state.word(), request.approvals.len(), request.parts);
            assert_eq!(told, (word, ask.given.len(), ask.parts), "{ask:?}");
        }
        let touched = std::mem::take(&mut self.touched);
        self.compare(&touched);
        self.over.append(&mut self.ended);
        self.over.drain(..self.over.len().saturating_sub(20));
    }

    /// Expires requests that have waited too long.
    pub(super) fn expire(&mut self) {
        let until = self.now + EXPIRE_MS;
        while self.now < until {
            // Some seconds have passed since the last entry, and a step of more than an hour is doubted.
            self.now = until.min(self.now + STEP_MAX_MS / 2);
            self.stamped = self.now;
            self.by_leader(Command::Time(TimeChange::Tick));
        }
        self.pass(1);
        let old: Vec<_> = self.asks.iter().filter(|(_, ask)| ask.made < self.now - EXPIRE_MS).collect();
        let heads: BTreeSet<_> = old.into_iter().map(|(_, ask)| ask.head).collect();
        let all: Vec<_> = self.asks.iter().filter(|(_, ask)| heads.contains(&ask.head)).map(|(one, _)| *one).collect();
        self.end(&all, "expired");
        self.by_cluster(Command::ExpireRequests);
        self.check_asks(&[]);
        self.accounts.iter_mut().for_each(|one| one.secrets.truncate(1));
        self.sign_in_again();
    }
}
