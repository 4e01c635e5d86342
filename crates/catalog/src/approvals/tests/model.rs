//! Random actions of several people, compared with a model of what the policies permit. The model knows people,
//! accounts, things and releases by identity, whatever their names and ids are, and evaluates each action by itself.
//! After each entry, the catalog must have in force exactly what the model has. `THUBAN_POLICY_STEPS` sets the number
//! of actions.

mod asks;
mod deeds;
mod laws;
mod leader;
mod people;
mod saves;
mod things;

use std::collections::{BTreeMap, BTreeSet};

use rand::prelude::*;
use serde_json::json;

use super::*;
use crate::catalog::ctx::{Ctx, RequestId};
use crate::catalog::history;
use crate::model::config_file::ConfigPublish;
use crate::model::content::ContentDigest;
use crate::model::grant::Verb;
use crate::model::rollout::{RolloutAction, RolloutPlan};
use crate::model::rule::matching::MatchString;
use crate::model::rule::{BodyPatch, Family, RuleDraft};
use crate::model::settings::SettingsChange;
use crate::model::time::Timestamp;
use asks::Ask;
use deeds::{Change, Deed, Fit, Publication};
use laws::{Claim, Demand, Law, Scope, Spot};
use leader::Found;
use people::Account;
use things::{Copied, Reach, Release, Roll, Stand, Thing};

const STEPS: usize = 200_000;
/// Number of actions on one cluster before a new one is created.
const STEPS_OF_ONE: usize = 1_000;
/// Namespace, group and name. The first two are equal if a slash in a group is confused with the one before the name.
const FILES: [(&str, &str, &str); 4] = [
    ("prod", "pay/eu", "app.properties"),
    ("prod", "pay", "eu/app.properties"),
    ("prod", "pay", "app.properties"),
    ("test", "pay", "app.properties"),
];
/// Service on whose calls rules act.
const SERVICE: &str = "pay";
/// Shares of the steps of the plan, and the hold of each.
const PERCENTS: [u32; 3] = [5, 50, 100];
const HOLD_MS: u64 = 2000;
/// Limits of planned and of gray releases of one thing.
const PLANNED_MAX: usize = 10;
const GRAYS_MAX: usize = 16;
const EXPIRE_MS: u64 = 30 * 24 * 3600 * 1000;

/// Reports whether a pattern covers a text; a pattern that ends in `*` is a prefix.
fn is_covered(pattern: &str, text: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == text, |beginning| text.starts_with(beginning))
}

/// Options of a caller for the policies.
#[derive(Clone, Debug, Default)]
struct Asking {
    request: Option<String>,
    request_set: Option<String>,
    hold: Option<bool>,
    emergency: Option<String>,
}

/// Outcome that an action should have.
#[derive(Clone, Copy, Debug)]
enum Verdict {
    /// Carried out; true if as approved.
    Done(bool),
    Unchanged,
    Asked,
    /// Refusal with one of these codes, or with any code if the list is empty.
    Refused(&'static [u32]),
}

struct World {
    bench: Bench,
    /// True to apply each entry twice and compare the rows with the catalog.
    has_rows: bool,
    random: StdRng,
    index: u64,
    /// Time of the catalog, of its last entry, and of the leader's next stamp, which may be earlier.
    now: u64,
    clock: u64,
    stamped: u64,
    accounts: Vec<Account>,
    persons: usize,
    laws: BTreeMap<String, Law>,
    things: Vec<Thing>,
    keys: Vec<ConfigKey>,
    /// Present rules; the first one has ids given by callers.
    rules: [Option<usize>; 2],
    asks: BTreeMap<usize, Ask>,
    /// Ids and final states of requests that ended: by this entry, and recently.
    ended: Vec<(String, &'static str)>,
    over: Vec<(String, &'static str)>,
    touched: Vec<usize>,
    found: Vec<Found>,
    stamps: usize,
    texts: BTreeMap<ContentDigest, Arc<str>>,
    plan: RolloutPlan,
    body: BodyPatch,
    /// Last call, for the report of a failure.
    last: Option<Command>,
    seen: BTreeMap<&'static str, usize>,
}

impl World {
    fn new(seed: u64, has_rows: bool) -> World {
        let steps = PERCENTS.map(|percent| json!({"percent": percent, "hold_s": HOLD_MS / 1000}));
        let plan = serde_json::from_value(json!({"by": "zone", "steps": steps, "guards": []})).expect("a plan");
        let mut world = World {
            bench: Bench::founded(),
            has_rows,
            random: StdRng::seed_from_u64(seed),
            index: 10,
            now: 2_000_000,
            clock: 2_000_000,
            stamped: 2_000_000,
            accounts: Vec::new(),
            persons: 0,
            laws: BTreeMap::new(),
            things: (0..FILES.len()).map(|file| Thing::new(Some(file), "", None)).collect(),
            keys: FILES.iter().map(|(namespace, group, name)| ConfigKey::new(*namespace, *group, *name)).collect(),
            rules: [None, None],
            asks: BTreeMap::new(),
            ended: Vec::new(),
            over: Vec::new(),
            touched: Vec::new(),
            found: Vec::new(),
            stamps: 0,
            texts: BTreeMap::new(),
            plan,
            body: saves::body(json!({})),
            last: None,
            seen: BTreeMap::new(),
        };
        let change = SettingsChange { releases_kept: Some(4), ..SettingsChange::default() };
        world.by_cluster(Command::Settings(change));
        world.hire_all();
        world
    }

    fn chance(&mut self, of: u32) -> bool {
        self.random.random_range(0..of) == 0
    }

    fn saw(&mut self, word: &'static str) {
        *self.seen.entry(word).or_default() += 1;
    }

    fn saw_code(&mut self, code: u32) {
        let known = [(401_001, "401001"), (409_000, "409000"), (409_001, "409001"), (409_002, "409002")];
        if let Some((_, word)) = known.into_iter().find(|(known, _)| *known == code) {
            self.saw(word);
        }
    }

    /// Advances the time. A leader with a slow clock may stamp an earlier time; the entry then has that of the last
    /// one.
    fn pass(&mut self, at_least: u64) {
        let passes = self.random.random_range(at_least..3);
        let is_behind = passes == 0 && self.chance(2);
        self.now = if is_behind { self.clock } else { self.now + passes * 1000 };
        self.stamped = if is_behind { self.clock - 5000 } else { self.now };
    }

    fn apply(&mut self, by: &str, command: Command) -> Vec<Outcome> {
        self.index += 1;
        self.clock = self.now;
        self.last = Some(command.clone());
        let seed = u128::from(self.index).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let request = RequestId(u128::from(self.index));
        let ctx = Ctx::new(self.index, Timestamp(self.stamped), seed, request, by);
        if self.has_rows {
            return self.bench.apply_as(&ctx, command).outcomes;
        }
        let applied = self.bench.catalog.apply(&ctx, command);
        for content in applied.unread {
            content.give(self.texts[content.digest()].clone());
        }
        applied.outcomes
    }

    fn by_cluster(&mut self, command: Command) -> Vec<u32> {
        self.apply("tester", command).iter().map(|outcome| outcome.code.number()).collect()
    }

    fn by_leader(&mut self, command: Command) {
        self.apply(crate::model::access::CLUSTER, command);
    }

    /// Sends a command in the name of an account, with one of its secrets.
    fn ask(&mut self, (account, secret): (usize, usize), command: Command) -> Vec<Outcome> {
        let account = &self.accounts[account];
        let (name, secret) = (account.name.clone(), account.secrets[secret].0.clone());
        let asked = AuthorizedCommand {
            credential: Credential::Token(TokenHash(secret)),
            address: None,
            request: String::new(),
            self_registration: false,
            mutes_refusals: false,
            command,
        };
        self.apply(&name, Command::Authorized(Box::new(asked)))
    }

    fn may_needed(&self, account: usize, needs: &[(Verb, Scope)]) -> bool {
        let one = &self.accounts[account];
        needs.iter().all(|(verb, (namespace, name))| one.may(*verb, namespace, name))
    }

    fn verdict(&self, who: (usize, usize), deed: &Deed, words: &Asking) -> Verdict {
        let one = &self.accounts[who.0];
        if !one.is_open() || !self.may_needed(who.0, &self.needs(deed, None)) {
            return Verdict::Refused(&[]);
        }
        let fits = |as_approved: bool| match self.fit(deed, None) {
            Fit::Done => Verdict::Done(as_approved),
            Fit::Unchanged => Verdict::Unchanged,
            Fit::Bad => Verdict::Refused(&[]),
        };
        let Some(gate) = self.gate(deed) else { return fits(false) };
        let is_file = self.things[deed.thing()].file.is_some();
        let spots = self.spots(deed.thing(), &self.copies(deed, None));
        let demand = self.demand((gate, deed.later()), is_file, &spots);
        if demand.is_none() {
            return fits(false);
        }
        if words.emergency.is_some() {
            let named: Vec<_> = spots.iter().filter(|spot| !matches!(spot, Spot::End(_))).map(Spot::scope).collect();
            let may = one.may_all(Verb::Release, &named)
                && one.may_all(Verb::Approve, &named)
                && demand.claims.iter().all(|claim| one.may_all(Verb::Approve, &claim.scopes));
            return if may { fits(true) } else { Verdict::Refused(&[401_001]) };
        }
        if words.request.is_none() || demand.approvals() == 0 {
            return Verdict::Refused(if demand.is_frozen { &[409_002] } else { &[409_001] });
        }
        match (self.head_of(who, &words.request_set), fits(false)) {
            (Some(head), _) if self.is_acted_on(head, deed.thing()) => Verdict::Refused(&[409_000]),
            (_, Verdict::Done(_)) => Verdict::Asked,
            (_, other) => other,
        }
    }

    /// Carries out an action by an account, and compares the outcome with the expected one.
    fn act(&mut self, (account, secret): (usize, usize), deed: &Deed, words: &Asking) {
        self.pass(0);
        let who = (account, self.accounts[account].secrets[secret].1);
        let verdict = self.verdict(who, deed, words);
        let command = self.command(deed, words);
        let outcome = self.ask((account, secret), command).remove(0);
        let code = outcome.code.number();
        let fits = match verdict {
            Verdict::Done(_) => code == 200_000,
            Verdict::Asked => code == 202_000,
            Verdict::Unchanged => code == 200_000 || code == 200_002,
            Verdict::Refused(codes) => codes.contains(&code) || codes.is_empty() && code != 202_000,
        };
        let told =
            || format!("{deed:?} {words:?} by {}: {verdict:?}, {code} {}", self.accounts[account].name, outcome.info());
        assert!(fits, "{}", told());
        self.saw_code(code);
        match (verdict, &outcome.entity) {
            (Verdict::Done(is_approved), _) => {
                self.saw(if is_approved { "in an emergency" } else { "at once" });
                self.saw(deed.word());
                self.carry(deed, None, (account, is_approved));
            }
            (Verdict::Asked, Entity::Request(request)) => {
                self.saw(if request.part_of.is_empty() { "asked" } else { "asked in a set" });
                let id = request.id.clone();
                self.note(who, deed, words, &id);
            }
            _ => {}
        }
        self.compare(&[deed.thing()]);
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..3 => self.change_laws(),
            3..5 => self.change_people(),
            5..8 => self.change_tokens(),
            8 => self.keep_house(),
            9..12 => self.exchange(),
            12..22 => self.save(),
            22..52 => self.release_something(),
            52..88 => self.decide(),
            88..99 => self.lead(),
            _ if self.chance(8) => self.expire(),
            _ => {}
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("entry {} at {}: {:?}", self.index, self.now, self.last);
        }
    }
}

/// Events that each run must have covered.
const EACH: [&str; 47] = [
    "at once",
    "approved",
    "as a set",
    "in an emergency",
    "due",
    "by the leader",
    "due and refused",
    "paused by the leader",
    "stopped by the leader",
    "proposed late",
    "published",
    "planned",
    "gray",
    "rolled out",
    "rolled back",
    "stopped",
    "promoted",
    "withdrawn for all",
    "taken back",
    "deleted",
    "release deleted",
    "advance",
    "asked",
    "asked in a set",
    "done",
    "stale",
    "failed",
    "refused",
    "withdrawn",
    "expired",
    "decided too late",
    "rule renamed",
    "rule made again",
    "exchanged",
    "hired again",
    "dismissed",
    "disabled",
    "token of a token",
    "token rotated",
    "token disabled",
    "policy raised",
    "policy lowered",
    "policy deleted",
    "401001",
    "409000",
    "409001",
    "409002",
];

#[test]
fn what_comes_into_force_is_what_the_policies_let() {
    let steps = std::env::var("THUBAN_POLICY_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(STEPS);
    let mut seen: BTreeMap<&'static str, usize> = BTreeMap::new();
    crate::test_seed::each_seed("catalog/approvals/model.txt", steps.div_ceil(STEPS_OF_ONE) as u64, |seed| {
        let has_rows = seed % 20 == 0;
        let mut world = World::new(seed, has_rows);
        for _ in 0..STEPS_OF_ONE {
            world.step();
        }
        if has_rows {
            crate::catalog::fuzzing::check(&world.bench);
        }
        std::mem::take(&mut world.seen).into_iter().for_each(|(word, count)| *seen.entry(word).or_default() += count);
    });
    let least = steps / 4_000;
    let seldom: Vec<_> = EACH.iter().filter(|word| seen.get(**word).copied().unwrap_or_default() < least).collect();
    assert!(seldom.is_empty(), "{seldom:?} came about less than {least} times: {seen:?}");
}
