//! Acts of the model's people, made up at random.

use super::*;

impl World {
    fn change_laws(&mut self) {
        let name = format!("p{}", self.random.random_range(0..3));
        let is_there = self.laws.contains_key(&name);
        if is_there && self.chance(2) {
            let gone = PolicyDraft { name: name.clone(), ..PolicyDraft::default() };
            assert_eq!(self.house.bench.codes(Command::Policies(Op::Delete, vec![gone])), [200_000]);
            self.laws.remove(&name);
            return;
        }
        let namespace = *["*", "prod", "te*"].choose(&mut self.random).expect("some");
        let kind = *[None, Some("configfile"), Some("ratelimit")].choose(&mut self.random).expect("some");
        let count = self.random.random_range(1..=4);
        let gates: Vec<&'static str> = GATES.choose_multiple(&mut self.random, count).copied().collect();
        let approvals = self.random.random_range(0..=2);
        let now = self.now().0;
        let freeze = self.chance(2).then(|| (now + 1000, now + self.random.random_range(2..30) * 1000));
        let freezes =
            freeze.map(|(from, until)| json!({"from": Timestamp(from).rfc3339(), "until": Timestamp(until).rfc3339()}));
        let mut draft = json!({"name": name, "namespace": namespace, "gates": gates, "approvals": approvals,
            "freezes": freezes.into_iter().collect::<Vec<_>>(), "kinds": []});
        if let Some(kind) = kind {
            draft["kinds"] = json!([kind]);
        }
        let draft: PolicyDraft = serde_json::from_value(draft).expect("a policy");
        let op = if is_there { Op::Update } else { Op::Create };
        let codes = self.house.bench.codes(Command::Policies(op, vec![draft]));
        assert!(codes == [200_000] || codes == [200_001] || codes == [200_002], "{codes:?}");
        self.laws.insert(name, Law { namespace, kind, gates, approvals, freeze });
    }

    fn save(&mut self) {
        let at = self.random.random_range(0..3);
        self.number += 1;
        let text = format!("a={}", self.number);
        let command = if at == 2 {
            let head = RuleHead {
                name: Some("x".into()),
                namespace: Some("prod".into()),
                description: Some(text.clone()),
                ..RuleHead::default()
            };
            let body = json!({"service": "pay", "rules": [{"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]});
            let body = DeserializeSeed::deserialize(Family::RateLimit, body).expect("a body");
            let op = if self.thing(2).is_some() { Op::Update } else { Op::Create };
            Command::Rules(op, vec![RuleDraft { head, body }])
        } else {
            let key = ConfigKey::new(NAMESPACES[at], "pay", "app.properties");
            let op = if self.house.bench.catalog.configs.file(&key).is_some() { Op::Update } else { Op::Create };
            let draft = ConfigFileDraft { namespace: NAMESPACES[at].into(), ..file(&text) };
            Command::ConfigFiles(op, vec![draft])
        };
        let outcome = self.act(Some("rita"), command, &Cause::Plain).expect("an outcome");
        assert_eq!(outcome.code.number(), 200_000, "{}", outcome.info());
        assert_eq!(self.draft(at), Some(text));
    }

    /// Words for the policies: none, a request, a held one, or an emergency.
    fn plea(&mut self, user: &'static str) -> (Cause, serde_json::Value) {
        match self.random.random_range(0..8) {
            0 | 1 => (Cause::Plain, json!({})),
            4 | 6 => (Cause::Asked, json!({"request": "please", "request_set": "tree"})),
            5 => (Cause::Asked, json!({"request": "please", "request_set": "tree", "hold": self.chance(4)})),
            2 => (Cause::Asked, json!({"request": "please", "hold": true})),
            3 => (Cause::Emergency(user), json!({"emergency": "the house burns"})),
            _ => (Cause::Asked, json!({"request": "please"})),
        }
    }

    /// A publish, or an operation on a release that is there.
    fn release(&mut self) {
        let at = self.random.random_range(0..3);
        let user = *["rita", "eva"].choose(&mut self.random).expect("some");
        let (cause, mut item) = self.plea(user);
        let is_publish = self.chance(2);
        let mut op = ReleaseOp::Rollback;
        if is_publish {
            self.number += 1;
            item["release_name"] = json!(format!("r{}", self.number));
            if self.chance(2) {
                item["release_type"] = json!("gray");
                let steps = json!([{"percent": 5, "hold_s": 2}, {"percent": 50, "hold_s": 2}, {"percent": 100}]);
                match self.chance(2) {
                    true => item["plan"] = json!({"by": "zone", "steps": steps}),
                    false => item["client_labels"] = json!([{"key": "zone", "value": {"value": "a"}}]),
                }
            }
            if self.chance(4) {
                let at = self.now().0 + self.random.random_range(2..20) * 1000;
                item["publish_at"] = json!(Timestamp(at).rfc3339());
            }
        } else {
            let releases = self.releases(at);
            let Some(name) = releases.choose(&mut self.random) else { return };
            item["release_name"] = json!(name);
            use ReleaseOp::{Delete, Promote, Rollback, Rollout, StopGray, Withdraw};
            op = *[Rollback, StopGray, Promote, Withdraw, Rollout, Rollout, Delete]
                .choose(&mut self.random)
                .expect("some");
            if op == Withdraw && self.chance(2) {
                item["to_previous"] = json!(true);
            }
            let actions = ["pause", "resume", "advance", "advance", "stop"];
            item["action"] = json!(actions.choose(&mut self.random).expect("some"));
        }
        item["namespace"] = json!(NAMESPACES[at]);
        let command = if at == 2 {
            item["rule_name"] = json!("x");
            let draft: RuleReleaseDraft = serde_json::from_value(item).expect("a draft");
            match is_publish {
                true => Command::PublishRules(Family::RateLimit, vec![draft]),
                false => Command::RuleReleases(Family::RateLimit, op, vec![draft]),
            }
        } else {
            (item["group"], item["file_name"]) = (json!("pay"), json!("app.properties"));
            let draft: ConfigReleaseDraft = serde_json::from_value(item).expect("a draft");
            match is_publish {
                true => Command::ConfigPublish(vec![draft]),
                false => Command::ConfigReleases(op, vec![draft]),
            }
        };
        let outcome = self.act(Some(user), command, &cause).expect("an outcome");
        if let Entity::Request(request) = &outcome.entity
            && outcome.code.number() == 202_000
        {
            let draft = self.draft(at).expect("saved");
            let head = request.head_id().to_owned();
            let asked = Asked { by: user, thing: at, draft, is_publish, approved_by: BTreeSet::new(), head };
            self.asked.insert(request.id.clone(), asked);
        }
    }

    fn delete(&mut self) {
        let at = self.random.random_range(0..3);
        let (cause, plea) = self.plea("rita");
        let text = |key: &str| plea[key].as_str().map(str::to_owned);
        let (request, request_set, emergency) = (text("request"), text("request_set"), text("emergency"));
        let command = if at == 2 {
            let (name, namespace) = (Some("x".into()), Some("prod".into()));
            let head = RuleHead { name, namespace, request, request_set, emergency, ..RuleHead::default() };
            let body = DeserializeSeed::deserialize(Family::RateLimit, json!({})).expect("a body");
            Command::Rules(Op::Delete, vec![RuleDraft { head, body }])
        } else {
            let draft =
                ConfigFileDraft { namespace: NAMESPACES[at].into(), request, request_set, emergency, ..file("") };
            Command::ConfigFiles(Op::Delete, vec![ConfigFileDraft { content: None, ..draft }])
        };
        let outcome = self.act(Some("rita"), command, &cause).expect("an outcome");
        if let Entity::Request(request) = &outcome.entity
            && outcome.code.number() == 202_000
        {
            let (draft, head) = (String::new(), request.head_id().to_owned());
            let asked = Asked { by: "rita", thing: at, draft, is_publish: false, approved_by: BTreeSet::new(), head };
            self.asked.insert(request.id.clone(), asked);
        }
    }

    fn decide(&mut self) {
        let ids: Vec<_> = self.asked.keys().cloned().collect();
        let Some(id) = ids.choose(&mut self.random).cloned() else { return };
        if self.chance(3) {
            PEOPLE.iter().for_each(|user| self.decide_on(&id, user, RequestOp::Approve));
            return;
        }
        let user = *PEOPLE.choose(&mut self.random).expect("some");
        let op = match self.random.random_range(0..8) {
            0 => RequestOp::Refuse,
            1 => RequestOp::Withdraw,
            2 => RequestOp::Run,
            _ => RequestOp::Approve,
        };
        self.decide_on(&id, user, op);
    }

    fn decide_on(&mut self, id: &str, user: &'static str, op: RequestOp) {
        if !self.asked.contains_key(id) {
            return;
        }
        let id = id.to_owned();
        let set = self.set_of(&id);
        let named = if self.asked[&id].head == id { set.clone() } else { vec![id.clone()] };
        let mut new = Vec::new();
        for one in named {
            let asked = self.asked.get_mut(&one).expect("known");
            let counts = op == RequestOp::Approve && user != asked.by && self.may_approve.contains(user);
            if counts && asked.approved_by.insert(user) {
                new.push(one);
            }
        }
        let parts = self.house.bench.catalog.approvals.get(&id).map(|request| request.parts);
        let draft = RequestDraft { id: id.clone(), comment: None, parts: parts.filter(|parts| *parts > 0) };
        let outcome = self.act(Some(user), Command::Requests(op, vec![draft]), &Cause::Decision(id.clone()));
        let code = outcome.expect("an outcome").code;
        for one in new.iter().filter(|_| !code.is_success()) {
            self.asked.get_mut(one).expect("known").approved_by.remove(user);
        }
        let state_of = |one: &String| self.house.bench.catalog.approvals.get(one).expect("kept").state;
        let states: BTreeSet<_> = set.iter().map(|one| state_of(one).word()).collect();
        assert!(!states.contains("done") || states.len() == 1, "all of a set is done, or nothing: {states:?}");
        if set.len() > 1 && states.contains("done") {
            *self.seen.entry("as a set").or_default() += 1;
        }
        let is_over = |one: &String| !self.house.bench.catalog.approvals.get(one).expect("kept").state.is_pending();
        let over: Vec<_> = set.into_iter().filter(is_over).collect();
        over.iter().for_each(|one| drop(self.asked.remove(one)));
    }

    /// Requests that wait and are decided with this one, and itself.
    pub(super) fn set_of(&self, id: &str) -> Vec<String> {
        let head = &self.asked[id].head;
        self.asked.iter().filter(|(_, asked)| asked.head == *head).map(|(one, _)| one.clone()).collect()
    }

    /// Takes the right to approve from somebody, or gives it back.
    fn change_rights(&mut self) {
        let user = *["abe", "bea"].choose(&mut self.random).expect("some");
        let roles = match self.may_approve.remove(user) {
            true => vec![Grant::of(Role::Reader)],
            false => {
                self.may_approve.insert(user);
                vec![Grant::of(Role::Approver), Grant::of(Role::Reader)]
            }
        };
        let draft = UserDraft { name: user.into(), grants: Some(Grants::new(roles)), ..UserDraft::default() };
        assert_eq!(self.house.bench.codes(Command::Users(Op::Update, vec![draft])), [200_000]);
    }

    fn lead(&mut self) {
        self.house.bench.index += self.random.random_range(0..6);
        let due = self.house.bench.catalog.due(self.now());
        if !due.is_empty() {
            self.act(None, Command::PublishDue(due), &Cause::Leader);
        }
        for live in self.house.bench.catalog.live_rollouts() {
            let change = match self.random.random_range(0..12) {
                0 => RolloutChange::Stop("a guard".into()),
                1 => RolloutChange::Wait("no sample".into()),
                2 => RolloutChange::GoOn,
                3 => RolloutChange::Pause("no".into()),
                _ => RolloutChange::Advance,
            };
            self.act(None, Command::Rollouts(vec![live.moved(change)]), &Cause::Leader);
        }
    }

    pub(super) fn step(&mut self) {
        match self.random.random_range(0..40) {
            0 => self.change_laws(),
            1 => self.change_rights(),
            2 => self.delete(),
            3..8 => self.save(),
            8..20 => self.release(),
            20..34 => self.decide(),
            _ => self.lead(),
        }
    }
}
