//! People of identity providers as requesters and approvers: one person through all doors, judged by the bindings of
//! the moment.

use serde_json::json;

use super::*;
use crate::catalog::SsoSignIn;
use crate::catalog::history::Thing;
use crate::catalog::releases::Due;
use crate::model::release::GivenTime;
use crate::model::service_token::ServiceTokenDraft;
use crate::model::sso::{Binding, Claims, ProviderDraft};
use crate::model::time::Timestamp;

const ISSUER: &str = "https://id.acme.org";

fn binding(group: &str, role: Role) -> Binding {
    Binding {
        claim: "groups".into(),
        value: group.into(),
        all: Vec::new(),
        role,
        namespace: "*".into(),
        name: "*".into(),
    }
}

/// Returns bindings of `dev` to change and release, and of `lead` to approve.
fn bindings() -> Vec<Binding> {
    vec![
        binding("dev", Role::Releaser),
        binding("dev", Role::Editor),
        binding("lead", Role::Approver),
        binding("lead", Role::Reader),
        binding("ops", Role::Admin),
    ]
}

impl House {
    fn with_provider(policy: PolicyDraft) -> House {
        let mut house = House::with_policy(policy);
        let draft = ProviderDraft {
            name: "acme".into(),
            issuer: Some(ISSUER.into()),
            client_id: Some("c".into()),
            bindings: Some(bindings()),
            ..ProviderDraft::default()
        };
        assert_eq!(house.bench.codes(Command::Providers(Op::Create, vec![draft])), [200_000]);
        house
    }

    /// Signs a person in; its session has its name.
    fn sign_in(&mut self, name: &str, groups: &[&str]) {
        let provider = self.bench.catalog.access.sso().provider("acme").expect("made").id.clone();
        let claims = json!({ "iss": ISSUER, "sub": name, "preferred_username": name, "groups": groups });
        let sign_in = SsoSignIn {
            hash: TokenHash(format!("acme:{name}")),
            provider,
            claims: Claims::parse(&claims.to_string()).expect("claims"),
            digest: format!("{name} {}", self.bench.index),
            from: Default::default(),
        };
        assert_eq!(self.bench.codes(Command::SsoSignIn(Box::new(sign_in))), [200_000]);
    }

    fn bind(&mut self, bindings: Vec<Binding>) {
        let draft = ProviderDraft { name: "acme".into(), bindings: Some(bindings), ..ProviderDraft::default() };
        let codes = self.bench.codes(Command::Providers(Op::Update, vec![draft]));
        assert!(codes == [200_000] || codes == [200_002], "changed, or as it was: {codes:?}");
    }

    fn disable_provider(&mut self, disabled: bool) {
        let draft = ProviderDraft { name: "acme".into(), disabled: Some(disabled), ..ProviderDraft::default() };
        assert_eq!(self.bench.codes(Command::Providers(Op::Update, vec![draft])), [200_000]);
    }

    /// Returns the id of the request that a person makes.
    fn asks(&mut self, name: &str, draft: ConfigReleaseDraft) -> String {
        let outcome = self.ask(name, Command::ConfigPublish(vec![draft]));
        let Entity::Request(request) = &outcome.entity else { panic!("{outcome:?}") };
        request.id.clone()
    }
}

fn without(group: &str) -> Vec<Binding> {
    bindings().into_iter().filter(|binding| binding.value != group).collect()
}

#[test]
fn a_request_is_carried_out_by_the_bindings_of_the_moment() {
    let mut house = House::with_provider(policy(r#"{"name":"one","approvals":1}"#));
    house.save("a=1");
    house.sign_in("ann", &["dev"]);
    for (state, bindings) in [("failed", without("dev")), ("done", bindings())] {
        let id = house.asks("acme:ann", asked());
        house.bind(bindings);
        assert_eq!(house.decide("abe", RequestOp::Approve, &id).1, state);
        house.bind(self::bindings());
    }
    // The claims are those of the requester, not those of who approves; and they outlive its session.
    house.save("a=2");
    let id = house.asks("acme:ann", asked());
    let kept = house.bench.catalog.approvals.get(&id).expect("a request").author.clone().expect("claims");
    assert_eq!(kept.claims.values("groups"), ["dev"]);
    house.bench.apply(Command::SignOut { hash: TokenHash("acme:ann".into()) });
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("done"));
    // A disabled provider has nothing released.
    house.save("a=3");
    house.sign_in("ann", &["dev"]);
    let id = house.asks("acme:ann", asked());
    house.disable_provider(true);
    assert_eq!(house.decide("abe", RequestOp::Approve, &id).1, "failed");
}

#[test]
fn an_approval_counts_as_long_as_a_binding_gives_it() {
    let mut house = House::with_provider(policy(r#"{"name":"two","approvals":2}"#));
    house.save("a=1");
    house.sign_in("lea", &["lead"]);
    let id = house.request(asked());
    assert_eq!(house.decide("acme:lea", RequestOp::Approve, &id), done("open"));
    house.bind(without("lead"));
    assert_eq!(house.decide("abe", RequestOp::Approve, &id), done("open"), "the first counts no more");
    house.bind(bindings());
    assert_eq!(house.decide("bea", RequestOp::Approve, &id), done("done"));
}

#[test]
fn a_person_is_one_through_all_its_doors() {
    let mut house = House::with_provider(policy(r#"{"name":"one","approvals":1}"#));
    house.save("a=1");
    house.sign_in("ann", &["ops"]);
    let token = ServiceTokenDraft {
        name: "bot".into(),
        hash: TokenHash("token:bot".into()),
        grants: Grants::all(Role::Admin),
        ..ServiceTokenDraft::default()
    };
    assert_eq!(house.code("acme:ann", Command::ServiceTokens(Op::Create, vec![token])), 200_000);
    for (asks, approves) in [("acme:ann", "token:bot"), ("token:bot", "acme:ann"), ("token:bot", "token:bot")] {
        let id = house.asks(asks, asked());
        assert_eq!(house.decide(approves, RequestOp::Approve, &id).0, 401_001, "{asks} {approves}");
        assert_eq!(house.decide("acme:ann", RequestOp::Withdraw, &id), done("withdrawn"));
    }
    // Another name of the same person is the same person; another person is another one.
    let id = house.asks("acme:ann", asked());
    house.sign_in("lea", &["lead"]);
    assert_eq!(house.decide("acme:lea", RequestOp::Approve, &id), done("done"));
}

#[test]
fn a_schedule_keeps_the_claims_of_its_author() {
    for (bindings, code) in [(bindings(), 200_000), (without("dev"), 401_001)] {
        let mut house = House::with_provider(policy(r#"{"name":"other","namespace":"elsewhere","approvals":1}"#));
        house.save("a=1");
        house.sign_in("ann", &["dev"]);
        let at = house.bench.catalog.clock().plus_ms(60_000);
        let draft = ConfigReleaseDraft { publish_at: Some(GivenTime(at)), ..release() };
        assert_eq!(house.code("acme:ann", Command::ConfigPublish(vec![draft])), 200_000);
        house.bind(bindings);
        house.bench.pass_time_until(at.0 + 60_000);
        let due = Due { thing: Thing::File(key()), release_name: "later".into(), at };
        let ctx = crate::catalog::Ctx::new(
            house.bench.index + 1,
            Timestamp(at.0 + 60_000),
            [7; 16],
            crate::catalog::RequestId(7_777),
            "cluster",
        );
        let outcome = house.bench.apply_as(&ctx, Command::PublishDue(vec![due])).outcomes.remove(0);
        assert_eq!(outcome.code.number(), code, "{outcome:?}");
        assert_eq!(house.bench.reloaded(), house.bench.catalog);
    }
}

fn release() -> ConfigReleaseDraft {
    ConfigReleaseDraft { name: Some("later".into()), request: None, ..asked() }
}
