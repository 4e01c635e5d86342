//! Bearer tokens beside sessions, and what local users may still do.

use super::*;
use crate::model::webhook::{HookEvent, WebhookDraft};

#[test]
fn a_bearer_is_judged_anew_each_time() {
    let mut bench = Bench::with_provider();
    let claims = claims_of("repo:1", "acme/shop", &["dev"]);
    let bearer = bench.bearer(&claims, "acme/shop");
    assert_eq!(bench.bearer_code(&bearer), 401004, "the provider takes none");
    let on = changed(|draft| (draft.bearer, draft.audiences) = (Some(true), Some(vec!["api".into()])));
    assert_eq!(bench.by("admin", on), [200000]);
    assert_eq!(bench.bearer_code(&bearer), 0);
    let holder = bench.catalog.access.holder_of(&Credential::Bearer(Box::new(bearer.clone())), bench.catalog.clock());
    let holder = holder.expect("a holder");
    assert_eq!((&*holder.name, holder.person), ("acme:acme/shop", key("repo:1").person()));
    assert_eq!(bench.catalog.access.sso().identity_count(), 0, "a program takes no name");
    let wrong = [
        Bearer { provider: "none".into(), ..bearer.clone() },
        Bearer { issuer: "https://evil".into(), ..bearer.clone() },
        Bearer { sub: "2".into(), ..bearer.clone() },
        Bearer { username: "admin".into(), ..bearer.clone() },
        Bearer { expires: bench.catalog.clock(), ..bearer.clone() },
        bench.bearer(
            &json!({ "iss": ISSUER, "sub": "1", "aud": "others", "preferred_username": "x", "groups": "dev" }),
            "x",
        ),
        bench.bearer(&json!({ "iss": ISSUER, "sub": "1", "preferred_username": "x", "groups": "dev" }), "x"),
    ];
    for bearer in wrong {
        assert_eq!(bench.bearer_code(&bearer), 401004, "{bearer:?}");
    }
    let guest = bench.bearer(&claims_of("3", "guest", &[]), "guest");
    assert_eq!(bench.bearer_code(&guest), 401001);
    // The name of a person that signed in is taken.
    assert_eq!(bench.sso("s", &claims_of("9", "acme/shop", &["dev"])).code, Code::ExecuteSuccess);
    assert_eq!(bench.bearer_code(&bearer), 401001);
    assert_eq!(bench.by("admin", Command::FreeIdentities { items: vec![identity("9")], tokens: false }), [200000]);
    assert_eq!(bench.bearer_code(&bearer), 0);
    let change: [fn(&mut ProviderDraft); 4] = [
        |draft| draft.audiences = Some(vec!["else".into()]),
        |draft| draft.bearer = Some(false),
        |draft| draft.disabled = Some(true),
        |draft| draft.username_claim = Some("sub".into()),
    ];
    for (number, change) in change.into_iter().enumerate() {
        let mut other = bench.clone();
        assert_eq!(other.by("admin", changed(change)), [200000]);
        assert_eq!(other.bearer_code(&bearer), 401004, "change {number}");
    }
    // Its command is judged by apply.
    let Command::Authorized(mut asked) = asked("", Command::Services(Op::Create, vec![service("prod", "s")])) else {
        unreachable!()
    };
    asked.credential = Credential::Bearer(Box::new(bearer));
    assert_eq!(bench.codes(Command::Authorized(asked.clone())), [200000]);
    assert_eq!(bench.by("admin", changed(|draft| draft.bindings = Some(Vec::new()))), [200000]);
    assert_eq!(bench.codes(Command::Authorized(asked)), [401004]);
}

#[test]
fn passwords_may_be_for_administrators_alone() {
    let mut bench = Bench::trusting();
    bench.add("eva", &[grant(Role::Admin, "prod", "*")]);
    bench.add("root", &[Grant::of(Role::Admin)]);
    let sign_in = |bench: &Bench, name: &str| Command::SignIn {
        hash: token_of("new"),
        user_id: bench.catalog.access.user_named(name).expect("a user").id.clone(),
        password: PasswordHash("h".into()),
        from: Default::default(),
    };
    let set = |word| Command::Settings(SettingsChange { password_login: Some(word), ..SettingsChange::default() });
    bench.add("ops", &[Grant::of(Role::Operator)]);
    assert_eq!(bench.by("ops", set(1)), [401001], "it is a matter of access");
    assert_eq!(bench.by("admin", set(1)), [200000]);
    for (name, code) in [("eva", 401001), ("root", 200000), ("admin", 200000)] {
        let command = sign_in(&bench, name);
        assert_eq!(bench.codes(command), [code], "{name}");
    }
    assert!(bench.is_in("eva"), "logins from before last");
    assert_eq!(bench.by("admin", set(0)), [200000]);
    let command = sign_in(&bench, "eva");
    assert_eq!(bench.codes(command), [200000]);
}

#[test]
fn each_login_of_a_local_administrator_is_an_event() {
    let mut bench = Bench::with_provider();
    bench.add("eva", &[grant(Role::Admin, "prod", "*")]);
    let hook = WebhookDraft {
        name: "h".into(),
        url: Some("https://h".into()),
        secret: Some(crate::model::access_key::SealedSecret("s".into())),
        events: Some(vec![HookEvent::LocalAdminLogin]),
        ..WebhookDraft::default()
    };
    assert_eq!(bench.by("admin", Command::Webhooks(Op::Create, vec![hook])), [200000]);
    bench.log_in("eva");
    bench.sso("s", &claims_of("1", "ann", &["ops"]));
    assert_eq!(bench.catalog.webhooks.pending("h"), 0, "neither a user nor a person of a provider");
    bench.log_in("admin");
    assert_eq!(bench.catalog.webhooks.pending("h"), 1);
}

#[test]
fn providers_are_limited() {
    let mut bench = Bench::trusting();
    for number in 0..=limits::PROVIDERS_MAX {
        let issuer = Some(format!("https://{number}"));
        let draft = ProviderDraft { name: format!("p{number}"), issuer, ..provider() };
        let code = if number < limits::PROVIDERS_MAX { 200000 } else { 507002 };
        assert_eq!(bench.by("admin", Command::Providers(Op::Create, vec![draft])), [code], "{number}");
    }
}

#[test]
fn sessions_of_a_person_are_limited() {
    let mut bench = Bench::with_provider();
    for number in 0..limits::SSO_SESSIONS_PER_PERSON_MAX + 2 {
        bench.sso(&format!("s{number}"), &claims_of("1", "ann", &["dev"]));
    }
    assert_eq!(bench.catalog.access.sessions_of(&key("1").person()).len(), limits::SSO_SESSIONS_PER_PERSON_MAX);
    assert!(!bench.is_in("s0") && !bench.is_in("s1") && bench.is_in("s2"));
}
