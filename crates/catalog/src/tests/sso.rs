//! People and programs of identity providers: sign-in, rights, names, and the ends of sessions.

mod doors;
mod model;

use serde_json::{Value, json};

use super::trust::{asked, grant, token_of};
use super::*;
use crate::model::access::{UserDraft, Whence};
use crate::model::code::Code;
use crate::model::grant::{Grant, Grants, Role};
use crate::model::service_token::ServiceTokenDraft;
use crate::model::sso::{Bearer, Binding, Claims, IdentityKey, IdentityRequest, ProviderDraft};

const ISSUER: &str = "https://id.acme.org";
const PROVIDER: &str = "acme";

fn binding(group: &str, role: Role, namespace: &str) -> Binding {
    Binding {
        claim: "groups".into(),
        value: group.into(),
        all: Vec::new(),
        role,
        namespace: namespace.into(),
        name: "*".into(),
    }
}

/// Returns a provider of which the group `dev` edits and `ops` administers.
fn provider() -> ProviderDraft {
    ProviderDraft {
        issuer: Some(ISSUER.into()),
        client_id: Some("thuban".into()),
        bindings: Some(vec![binding("dev", Role::Editor, "prod"), binding("ops", Role::Admin, "*")]),
        ..named(PROVIDER)
    }
}

fn named(name: &str) -> ProviderDraft {
    ProviderDraft { name: name.into(), ..ProviderDraft::default() }
}

fn claims_of(sub: &str, name: &str, groups: &[&str]) -> Value {
    json!({ "iss": ISSUER, "sub": sub, "aud": "api", "preferred_username": name, "groups": groups })
}

fn key(sub: &str) -> IdentityKey {
    IdentityKey { issuer: ISSUER.into(), sub: sub.into() }
}

fn identity(sub: &str) -> IdentityRequest {
    IdentityRequest { provider: PROVIDER.into(), sub: sub.into() }
}

/// Returns the update of the provider by one change of its draft.
fn changed(change: impl FnOnce(&mut ProviderDraft)) -> Command {
    let mut draft = named(PROVIDER);
    change(&mut draft);
    Command::Providers(Op::Update, vec![draft])
}

impl Bench {
    fn with_provider() -> Bench {
        let mut bench = Bench::trusting();
        assert_eq!(bench.by("admin", Command::Providers(Op::Create, vec![provider()])), [200000]);
        bench
    }

    fn provider_id(&self) -> String {
        self.catalog.access.sso().provider(PROVIDER).map(|provider| provider.id.clone()).unwrap_or_default()
    }

    /// Signs in with claims; the session has the token of `session`, and the ID token is a new one each time.
    fn sso(&mut self, session: &str, claims: &Value) -> Outcome {
        let digest = format!("digest {}", self.index);
        self.sso_by(session, claims, &digest)
    }

    fn sso_by(&mut self, session: &str, claims: &Value, digest: &str) -> Outcome {
        let sign_in = SsoSignIn {
            hash: token_of(session),
            provider: self.provider_id(),
            claims: Claims::parse(&claims.to_string()).expect("claims"),
            digest: digest.into(),
            from: Whence::default(),
        };
        self.as_stranger(Command::SsoSignIn(Box::new(sign_in)))
    }

    fn log_out_by(&mut self, sid: Option<&str>, sub: Option<&str>, jti: &str) -> u32 {
        let logout = SsoLogout {
            provider: self.provider_id(),
            sid: sid.map(str::to_owned),
            sub: sub.map(str::to_owned),
            jti: jti.into(),
            expires: self.catalog.clock().plus_ms(60_000),
        };
        self.as_stranger(Command::SsoLogout(logout)).code.number()
    }

    fn as_stranger(&mut self, command: Command) -> Outcome {
        let Command::Authorized(mut asked) = asked("", command) else { unreachable!("a caller's command") };
        asked.credential = Credential::Login;
        let applied = self.apply(Command::Authorized(asked));
        assert_eq!(self.reloaded(), self.catalog, "the rows are the truth");
        applied.outcomes.into_iter().next().expect("an outcome")
    }

    /// Returns the grants of a session; `None` once it is over.
    fn rights(&self, session: &str) -> Option<Grants> {
        self.catalog.access.holder(&token_of(session), self.catalog.clock()).map(|holder| holder.grants)
    }

    fn is_in(&self, session: &str) -> bool {
        self.rights(session).is_some()
    }

    fn bearer(&self, claims: &Value, name: &str) -> Bearer {
        Bearer {
            provider: self.provider_id(),
            issuer: claims["iss"].as_str().unwrap_or_default().into(),
            sub: claims["sub"].as_str().unwrap_or_default().into(),
            username: name.into(),
            claims: Claims::parse(&claims.to_string()).expect("claims"),
            expires: self.catalog.clock().plus_ms(60_000),
            id: "b".into(),
        }
    }

    /// Returns the code with which a bearer token is refused now; 0 if it is accepted.
    fn bearer_code(&self, bearer: &Bearer) -> u32 {
        let credential = Credential::Bearer(Box::new(bearer.clone()));
        match self.catalog.access.holder_of(&credential, self.catalog.clock()) {
            Some(_) => 0,
            None => self.catalog.access.refusal_of(&credential, self.catalog.clock()).code.number(),
        }
    }

    /// Passes time, in seconds.
    fn wait(&mut self, seconds: u64) {
        let until = self.catalog.clock().0 + seconds * 1000;
        self.pass_time_until(until);
        // The next entry of `apply` is stamped by its index.
        self.index = self.index.max((until - 1_000_000) / 1000);
        self.apply(Command::Time(crate::catalog::time::TimeChange::Tick));
    }
}

#[test]
fn providers_come_change_and_go() {
    let mut bench = Bench::trusting();
    bench.add("eva", &[grant(Role::Editor, "*", "*")]);
    let create = |draft: ProviderDraft| Command::Providers(Op::Create, vec![draft]);
    assert_eq!(bench.by("eva", create(provider())), [401001]);
    assert_eq!(bench.by("admin", create(named("bare"))), [400103]);
    assert_eq!(bench.by("admin", create(provider())), [200000]);
    assert_eq!(bench.by("admin", create(provider())), [400201]);
    let second = ProviderDraft { name: "second".into(), ..provider() };
    assert_eq!(bench.by("admin", create(second)), [400103], "an issuer has one provider");
    assert_eq!(bench.by("admin", changed(|draft| draft.issuer = Some("https://other".into()))), [400103]);
    assert_eq!(bench.by("admin", changed(|draft| draft.bearer = Some(true))), [400103], "without audiences");
    assert_eq!(bench.by("admin", changed(|draft| draft.client_id = Some(String::new()))), [400103]);
    assert_eq!(bench.by("admin", changed(|draft| draft.comment = Some("c".into()))), [200000]);
    assert_eq!(bench.by("admin", changed(|draft| draft.comment = Some("c".into()))), [200002]);
    assert_eq!(bench.by("admin", changed(|draft| draft.revision = Some("old".into()))), [409000]);
    assert_eq!(bench.by("admin", Command::Providers(Op::Update, vec![named("gone")])), [400202]);
    assert_eq!(bench.by("eva", Command::Providers(Op::Delete, vec![named(PROVIDER)])), [401001]);
    assert_eq!(bench.by("admin", Command::Providers(Op::Delete, vec![named(PROVIDER)])), [200000]);
    assert_eq!(bench.by("admin", create(provider())), [200000]);
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn rights_follow_the_bindings_of_the_moment() {
    let mut bench = Bench::with_provider();
    let outcome = bench.sso("s", &claims_of("1", "ann", &["dev"]));
    assert_eq!(outcome.code, Code::ExecuteSuccess, "{outcome:?}");
    let holder = bench.catalog.access.holder(&token_of("s"), bench.catalog.clock()).expect("signed in");
    assert_eq!((&*holder.name, &holder.person), ("acme:ann", &key("1").person()));
    assert_eq!(holder.grants, Grants::new([grant(Role::Editor, "prod", "*")]));
    let namespace =
        |name: &str| Command::Namespaces(Op::Create, vec![NamespaceDraft { name: name.into(), ..Default::default() }]);
    assert_eq!(bench.by("s", namespace("prod")), [200000]);
    assert_eq!(bench.by("s", namespace("test")), [401001]);
    // Other bindings: other rights, with that entry.
    let bindings = vec![binding("d*", Role::Editor, "test")];
    assert_eq!(bench.by("admin", changed(|draft| draft.bindings = Some(bindings))), [200000]);
    assert_eq!(bench.by("s", namespace("test")), [200000]);
    assert_eq!(bench.rights("s"), Some(Grants::new([grant(Role::Editor, "test", "*")])));
    // None at all: nobody, with the reason.
    assert_eq!(bench.by("admin", changed(|draft| draft.bindings = Some(Vec::new()))), [200000]);
    assert_eq!((bench.rights("s"), bench.by("s", namespace("x"))), (None, vec![401004]));
    let why = bench.catalog.access.refusal_of(&Credential::Token(token_of("s")), bench.catalog.clock());
    assert_eq!(why.code, Code::NotAllowedAccess);
    assert_eq!(why.detail, "signed in as acme:ann, but no binding gives it a right");
    // A required claim that is added later is required of sessions too.
    assert_eq!(bench.by("admin", changed(|draft| draft.bindings = provider().bindings)), [200000]);
    assert!(bench.is_in("s"));
    let required = [("tid".to_owned(), "t".to_owned())].into();
    assert_eq!(bench.by("admin", changed(|draft| draft.required_claims = Some(required))), [200000]);
    assert!(!bench.is_in("s"));
}

#[test]
fn nobody_has_a_right_by_default_and_leaves_a_row() {
    let mut bench = Bench::with_provider();
    let before = bench.catalog.access.clone();
    let outcome = bench.sso("s", &claims_of("1", "ann", &["guests"]));
    assert_eq!(outcome.code, Code::NotAllowedAccess);
    assert_eq!(outcome.detail, "signed in as acme:ann, but no binding gives it a right");
    assert_eq!(bench.catalog.access, before, "nothing is stored of nobody");
    let claims = Claims::parse(&claims_of("1", "ann", &[]).to_string()).expect("claims");
    let sign_in = SsoSignIn {
        hash: token_of("s"),
        provider: bench.provider_id(),
        claims,
        digest: "d".into(),
        from: Whence::default(),
    };
    let Command::Authorized(mut asked) = asked("", Command::SsoSignIn(Box::new(sign_in))) else { unreachable!() };
    asked.credential = Credential::Login;
    let applied = bench.apply(Command::Authorized(asked));
    let events: Vec<_> = applied.audit.iter().flat_map(|row| row.events()).collect();
    let [event] = &*events else { panic!("{events:?}") };
    assert_eq!((&*event.action, &*event.kind, event.code), ("login", "identity", 401001));
    assert_eq!((&*event.before, &*event.after), ("sub 1", ""));
}

#[test]
fn rights_by_hand_add_to_bindings_and_are_enough() {
    let mut bench = Bench::with_provider();
    let by_hand = |grants: &[Grant]| UserDraft {
        grants: Some(Grants::new(grants.to_vec())),
        identity: Some(identity("1")),
        ..UserDraft::default()
    };
    let reader = grant(Role::Reader, "test", "*");
    let create = Command::Users(Op::Create, vec![by_hand(std::slice::from_ref(&reader))]);
    assert_eq!(bench.by("admin", create.clone()), [200000]);
    assert_eq!(bench.by("admin", create), [400201]);
    let with_password = UserDraft { password_hash: Some(PasswordHash("h".into())), ..by_hand(&[]) };
    assert_eq!(bench.by("admin", Command::Users(Op::Update, vec![with_password])), [400103]);
    let of_none =
        UserDraft { identity: Some(IdentityRequest { provider: "none".into(), sub: "1".into() }), ..by_hand(&[]) };
    assert_eq!(bench.by("admin", Command::Users(Op::Create, vec![of_none])), [400202]);
    assert_eq!(bench.sso("s", &claims_of("1", "ann", &[])).code, Code::ExecuteSuccess);
    assert_eq!(bench.rights("s"), Some(Grants::new([reader.clone()])));
    assert_eq!(bench.sso("t", &claims_of("1", "ann", &["dev"])).code, Code::ExecuteSuccess);
    assert_eq!(bench.rights("t").map(|grants| grants.iter().count()), Some(2));
    assert_eq!(bench.sso("u", &claims_of("2", "bob", &[])).code, Code::NotAllowedAccess, "not of another sub");
    // The account is no local user: neither by password, nor by certificate, nor as the last administrator.
    let name = identity("1").account();
    assert_eq!(bench.catalog.access.user_named(&name), None);
    assert_eq!(bench.catalog.access.holder_named(&name), None);
    let by_password = Command::SignIn {
        hash: token_of("p"),
        user_id: key("1").person(),
        password: PasswordHash::default(),
        from: Default::default(),
    };
    assert_eq!(bench.codes(by_password), [401001]);
    let all = by_hand(&[Grant::of(Role::Admin)]);
    assert_eq!(bench.by("admin", Command::Users(Op::Update, vec![all])), [200000]);
    let admin = UserDraft { name: "admin".into(), ..UserDraft::default() };
    assert_eq!(bench.by("s", Command::Users(Op::Delete, vec![admin])), [403002], "the local administrator stays");
    // A disabled person is out with that entry.
    let disabled = UserDraft { disabled: Some(true), grants: None, ..by_hand(&[]) };
    assert_eq!(bench.by("admin", Command::Users(Op::Update, vec![disabled])), [200000]);
    assert!(!bench.is_in("s") && !bench.is_in("t"));
    assert_eq!(bench.sso("v", &claims_of("1", "ann", &["ops"])).code, Code::TokenNotExisted);
}

#[test]
fn a_name_belongs_to_its_first_sub() {
    let mut bench = Bench::with_provider();
    assert_eq!(bench.sso("a", &claims_of("1", "ann", &["dev"])).code, Code::ExecuteSuccess);
    let refused = bench.sso("b", &claims_of("2", "ann", &["dev"]));
    assert_eq!(refused.code, Code::NotAllowedAccess);
    assert!(refused.detail.contains("acme:ann belongs to another"), "{}", refused.detail);
    // A renamed person keeps its earlier name.
    assert_eq!(bench.sso("c", &claims_of("1", "anna", &["dev"])).code, Code::ExecuteSuccess);
    for name in ["ann", "anna"] {
        assert_eq!(bench.sso("b", &claims_of("2", name, &["dev"])).code, Code::NotAllowedAccess, "{name}");
        assert_eq!(bench.catalog.access.person_named(&format!("acme:{name}")), key("1").person());
    }
    assert_eq!(bench.sso("d", &claims_of("1", "ann", &["dev"])).code, Code::ExecuteSuccess, "and may return to it");
    let kept = bench.catalog.access.sso().identity(&key("1")).expect("kept").clone();
    assert_eq!((&*kept.username, &*kept.earlier), ("ann", &["anna".to_owned()][..]));
    // Only so many names.
    for number in 2..limits::IDENTITY_NAMES_MAX {
        let renamed = claims_of("1", &format!("n{number}"), &["dev"]);
        assert_eq!(bench.sso("e", &renamed).code, Code::ExecuteSuccess, "{number}");
    }
    assert_eq!(bench.sso("e", &claims_of("1", "more", &["dev"])).code, Code::TooMany);
    // An administrator frees them all; sessions of the person end.
    let free = |tokens| Command::FreeIdentities { items: vec![identity("1")], tokens };
    assert_eq!(bench.by("a", free(false)), [401001]);
    assert_eq!(bench.by("admin", free(false)), [200000]);
    assert!(["a", "c", "d", "e"].iter().all(|session| !bench.is_in(session)));
    assert_eq!(bench.sso("b", &claims_of("2", "ann", &["dev"])).code, Code::ExecuteSuccess);
    assert_eq!(bench.by("admin", free(false)), [200000], "one that is not there is success");
}

#[test]
fn service_tokens_belong_to_the_person_and_end_with_it_on_demand() {
    let mut bench = Bench::with_provider();
    assert_eq!(bench.sso("s", &claims_of("1", "ann", &["ops"])).code, Code::ExecuteSuccess);
    let token = |name: &str| ServiceTokenDraft {
        name: name.into(),
        hash: token_of(name),
        grants: Grants::all(Role::Reader),
        ..ServiceTokenDraft::default()
    };
    assert_eq!(bench.by("s", Command::ServiceTokens(Op::Create, vec![token("ci"), token("cd")])), [200000, 200000]);
    assert_eq!(bench.by("admin", Command::ServiceTokens(Op::Create, vec![token("other")])), [200000]);
    let holder = bench.catalog.access.holder(&token_of("ci"), bench.catalog.clock()).expect("a token");
    assert_eq!(holder.person, key("1").person());
    let free = |tokens| asked("admin", Command::FreeIdentities { items: vec![identity("1")], tokens });
    for (tokens, is_left) in [(false, true), (true, false)] {
        bench.sso("again", &claims_of("1", "ann", &["ops"]));
        let applied = bench.apply(free(tokens));
        let Entity::Identity(freed) = &applied.outcomes[0].entity else { panic!("{applied:?}") };
        assert_eq!((&*freed.name, &*freed.tokens), ("acme:ann", &["cd".to_owned(), "ci".to_owned()][..]));
        assert_eq!(freed.ended, tokens);
        assert_eq!(bench.catalog.access.service_token("ci").is_some(), is_left);
    }
    assert!(bench.catalog.access.service_token("other").is_some());
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn each_id_token_is_taken_once_and_wrong_ones_never() {
    let mut bench = Bench::with_provider();
    let good = claims_of("1", "ann", &["dev"]);
    assert_eq!(bench.sso_by("a", &good, "one").code, Code::ExecuteSuccess);
    assert_eq!(bench.sso_by("b", &good, "one").code, Code::TokenNotExisted);
    assert!(!bench.is_in("b"));
    // It is forgotten once it would be refused because of its age.
    bench.wait(limits::TAKEN_TOKEN_MS / 1000 + 60);
    assert_eq!(bench.sso_by("c", &good, "two").code, Code::ExecuteSuccess);
    let taken = bench.rows.keys().filter(|key| key[0] == Table::TakenToken as u8).count();
    assert_eq!(taken, 1);
    let with = |field: &str, value: Value| {
        let mut claims = good.clone();
        claims[field] = value;
        claims
    };
    let bad = [
        with("iss", json!("https://evil.org")),
        with("iss", Value::Null),
        with("sub", json!("")),
        with("sub", json!(7)),
        with("sub", json!("a\u{0}b")),
        with("sub", json!("s".repeat(256))),
        with("preferred_username", json!("a\nb")),
        with("_claim_names", json!({ "groups": "src1" })),
    ];
    for claims in bad {
        assert_eq!(bench.sso("x", &claims).code, Code::TokenNotExisted, "{claims}");
    }
    let of_programs = changed(|draft| {
        (draft.bearer, draft.audiences) = (Some(true), Some(vec!["api".into()]));
        draft.client_id = Some(String::new());
    });
    assert_eq!(bench.by("admin", of_programs), [200000]);
    let refused = bench.sso("x", &good);
    assert_eq!(
        (refused.code, &*refused.detail),
        (Code::InvalidParameter, "provider acme has no client_id: people do not sign in by it")
    );
}

#[test]
fn sessions_end_with_their_time_their_provider_and_their_logout() {
    let mut bench = Bench::with_provider();
    let with_sid = |sub: &str, name: &str, sid: &str| {
        let mut claims = claims_of(sub, name, &["dev"]);
        claims["sid"] = json!(sid);
        claims
    };
    // A shorter session of the provider counts for those that have begun.
    bench.sso("s", &with_sid("1", "ann", "x"));
    let hash = token_of("s");
    let began = bench.catalog.access.login(&hash).expect("kept").ctime;
    assert_eq!(bench.catalog.access.end_of(&hash), Some(began.plus_ms(28_800_000)));
    assert_eq!(bench.by("admin", changed(|draft| draft.session_s = Some(300))), [200000]);
    assert_eq!(bench.catalog.access.end_of(&hash), Some(began.plus_ms(300_000)));
    bench.wait(301);
    assert!(!bench.is_in("s"));
    assert_eq!(bench.by("admin", changed(|draft| draft.session_s = Some(28_800))), [200000]);
    assert!(bench.is_in("s"), "the token itself lasts");
    // Back-channel logout, by session and by person.
    for (session, claims) in [
        ("a", with_sid("1", "ann", "x")),
        ("b", with_sid("1", "ann", "y")),
        ("c", with_sid("2", "bob", "x")),
        ("d", with_sid("2", "bob", "z")),
    ] {
        assert_eq!(bench.sso(session, &claims).code, Code::ExecuteSuccess);
    }
    let there = |bench: &Bench| ["a", "b", "c", "d"].map(|session| bench.is_in(session));
    assert_eq!(bench.log_out_by(Some("y"), Some("2"), "j0"), 200000, "not the session of another");
    assert_eq!(there(&bench), [true, true, true, true]);
    assert_eq!(bench.log_out_by(Some("x"), Some("2"), "j1"), 200000);
    assert_eq!(there(&bench), [true, true, false, true]);
    assert_eq!(bench.log_out_by(Some("y"), None, "j2"), 200000);
    assert_eq!(there(&bench), [true, false, false, true]);
    assert_eq!(bench.log_out_by(None, Some("2"), "j2"), 401004, "each is taken once");
    assert_eq!(bench.log_out_by(None, None, "j3"), 401004);
    assert_eq!(there(&bench), [true, false, false, true]);
    assert_eq!(bench.log_out_by(None, Some("2"), "j4"), 200000);
    assert_eq!(there(&bench), [true, false, false, false]);
    // One's own session, those of others with manage.
    bench.sso("e", &with_sid("2", "bob", ""));
    let id = |session: &str| token_of(session).id().to_owned();
    assert_eq!(bench.by("e", Command::EndSessions(vec![id("a")])), [401001]);
    assert_eq!(bench.by("e", Command::EndSessions(vec![id("e")])), [200000]);
    assert_eq!((bench.is_in("a"), bench.is_in("e")), (true, false));
    // Disabled: out for good, also once it is enabled again.
    assert_eq!(bench.by("admin", changed(|draft| draft.disabled = Some(true))), [200000]);
    assert!(!bench.is_in("a"));
    assert_eq!(bench.sso("f", &with_sid("1", "ann", "x")).code, Code::TokenNotExisted);
    assert_eq!(bench.by("admin", changed(|draft| draft.disabled = Some(false))), [200000]);
    assert!(!bench.is_in("a"));
    // Deleted: nothing of its people is left, and another one under its name is another one.
    assert_eq!(bench.sso("g", &with_sid("1", "ann", "x")).code, Code::ExecuteSuccess);
    let by_hand = UserDraft { identity: Some(identity("1")), ..UserDraft::default() };
    assert_eq!(bench.by("admin", Command::Users(Op::Create, vec![by_hand])), [200000]);
    let old = bench.provider_id();
    assert_eq!(bench.by("admin", Command::Providers(Op::Delete, vec![named(PROVIDER)])), [200000]);
    assert!(!bench.is_in("g"));
    let sso = bench.catalog.access.sso();
    assert_eq!((sso.provider_count(), sso.identity_count(), bench.catalog.access.user_count()), (0, 0, 1));
    assert_eq!(bench.by("admin", Command::Providers(Op::Create, vec![provider()])), [200000]);
    assert_ne!(bench.provider_id(), old);
    assert_eq!(bench.reloaded(), bench.catalog);
}
