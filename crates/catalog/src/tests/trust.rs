//! Permissions: users, tokens, and the authorization of every kind of write.

use super::rules::{of_rule, rule_for};
use super::*;
use crate::model::access::UserDraft;
use crate::model::grant::{Grant, Grants, Role};
use crate::model::release::ReleaseOp;
use crate::model::rule::Family;
use crate::model::service_token::ServiceTokenDraft;

pub(super) fn grant(role: Role, namespace: &str, name: &str) -> Grant {
    Grant { role, namespace: namespace.into(), name: name.into() }
}

pub(super) fn token_of(name: &str) -> TokenHash {
    TokenHash(format!("token of {name}"))
}

pub(super) fn asked(by: &str, command: Command) -> Command {
    asked_by(by, false, command)
}

pub(super) fn asked_by(by: &str, itself: bool, command: Command) -> Command {
    let credential = Credential::Token(token_of(by));
    Command::Authorized(Box::new(AuthorizedCommand {
        credential,
        address: None,
        request: String::new(),
        self_registration: itself,
        mutes_refusals: false,
        command,
    }))
}

pub(super) fn user(name: &str, grants: &[Grant]) -> UserDraft {
    UserDraft {
        name: name.into(),
        password_hash: Some(PasswordHash("h".into())),
        grants: Some(Grants::new(grants.to_vec())),
        ..UserDraft::default()
    }
}

impl Bench {
    /// Returns a cluster with its administrator logged in.
    pub(super) fn trusting() -> Bench {
        let mut bench = Bench::founded();
        bench.log_in("admin");
        bench
    }

    pub(super) fn log_in(&mut self, name: &str) {
        let user_id = self.catalog.access.user_named(name).expect("a user").id.clone();
        let sign_in = Command::SignIn {
            hash: token_of(name),
            user_id,
            password: PasswordHash("h".into()),
            from: Default::default(),
        };
        assert_eq!(self.codes(sign_in), [200000]);
    }

    pub(super) fn add(&mut self, name: &str, grants: &[Grant]) {
        assert_eq!(self.codes(asked("admin", Command::Users(Op::Create, vec![user(name, grants)]))), [200000]);
        self.log_in(name);
    }

    pub(super) fn by(&mut self, name: &str, command: Command) -> Vec<u32> {
        self.codes(asked(name, command))
    }
}

#[test]
fn users_come_change_and_go_and_an_administrator_stays() {
    let mut bench = Bench::trusting();
    bench.add("eva", &[grant(Role::Editor, "prod", "*")]);
    let change = |draft: UserDraft| Command::Users(Op::Update, vec![draft]);
    let named = |name: &str| UserDraft { name: name.into(), ..UserDraft::default() };
    assert_eq!(bench.by("eva", Command::Users(Op::Create, vec![user("x", &[])])), [401001]);
    assert_eq!(bench.by("admin", Command::Users(Op::Create, vec![user("eva", &[])])), [400201]);
    assert_eq!(bench.by("admin", change(named("nobody"))), [400202]);
    assert_eq!(bench.by("admin", change(named("eva"))), [200002]);
    for stripped in [
        UserDraft { disabled: Some(true), ..named("admin") },
        UserDraft { grants: Some(Grants::default()), ..named("admin") },
        UserDraft { grants: Some(Grants::new([grant(Role::Admin, "prod", "*")])), ..named("admin") },
    ] {
        assert_eq!(bench.by("admin", change(stripped)), [403002]);
    }
    assert_eq!(bench.by("admin", Command::Users(Op::Delete, vec![named("admin")])), [403002]);
    bench.add("second", &[Grant::of(Role::Admin)]);
    assert_eq!(bench.by("second", Command::Users(Op::Delete, vec![named("admin"), named("admin")])), [200000, 200000]);
    assert_eq!(bench.by("admin", Command::Services(Op::Create, vec![service("prod", "s")])), [401004], "deleted");
    assert_eq!(bench.by("second", Command::Users(Op::Delete, vec![named("second")])), [403002]);
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn who_is_disabled_or_has_another_password_is_out() {
    let mut bench = Bench::trusting();
    let write = || Command::Services(Op::Update, vec![service("prod", "s")]);
    let set = |draft: UserDraft| Command::Users(Op::Update, vec![UserDraft { name: "eva".into(), ..draft }]);
    bench.add("eva", &[grant(Role::Editor, "prod", "*")]);
    assert_eq!(bench.by("eva", write()), [400202]);
    assert_eq!(bench.by("admin", set(UserDraft { disabled: Some(true), ..UserDraft::default() })), [200000]);
    assert_eq!(bench.by("eva", write()), [401004]);
    let user_id = bench.catalog.access.user_named("eva").expect("kept").id.clone();
    let sign_in = |password: &str| Command::SignIn {
        hash: token_of("eva"),
        user_id: user_id.clone(),
        password: PasswordHash(password.into()),
        from: Default::default(),
    };
    assert_eq!(bench.codes(sign_in("h")), [401001], "disabled");
    assert_eq!(bench.by("admin", set(UserDraft { disabled: Some(false), ..UserDraft::default() })), [200000]);
    bench.log_in("eva");
    let own = |replaces: &str| Command::ChangePassword {
        name: "eva".into(),
        password_hash: PasswordHash("new".into()),
        replaces: Some(PasswordHash(replaces.into())),
    };
    assert_eq!(bench.by("eva", own("other")), [409000]);
    assert_eq!(bench.by("eva", own("h")), [200000]);
    assert_eq!(bench.by("eva", write()), [401004], "a new password ends what the old one began");
    assert_eq!(bench.codes(sign_in("h")), [401001], "checked by a node that was behind");
    assert_eq!(bench.codes(sign_in("new")), [200000]);
    let reset = |name: &str| Command::ChangePassword {
        name: name.into(),
        password_hash: PasswordHash("reset".into()),
        replaces: None,
    };
    assert_eq!(bench.by("eva", reset("admin")), [401001]);
    assert_eq!(bench.by("eva", reset("eva")), [401001], "without the old one");
    assert_eq!(bench.by("admin", reset("eva")), [200000]);
}

#[test]
fn a_service_token_is_what_it_was_made_for() {
    let mut bench = Bench::trusting();
    let draft = |name: &str, expires_in_s| ServiceTokenDraft {
        name: name.into(),
        hash: token_of(name),
        grants: Grants::new([grant(Role::Client, "prod", "pay*")]),
        expires_in_s,
        ..ServiceTokenDraft::default()
    };
    let make = |expires| Command::ServiceTokens(Op::Create, vec![draft("ci", expires)]);
    assert_eq!(bench.by("admin", make(1_000)), [200000]);
    assert_eq!(bench.by("admin", make(0)), [400201]);
    let register = |name: &str| {
        let command = Command::Instances(Op::Create, vec![super::instances::instance("prod", name, "h", 80)]);
        let credential = Credential::Token(token_of("ci"));
        Command::Authorized(Box::new(AuthorizedCommand {
            credential,
            address: None,
            request: String::new(),
            self_registration: true,
            mutes_refusals: false,
            command,
        }))
    };
    assert_eq!(bench.codes(register("payments")), [200000]);
    assert_eq!(bench.codes(register("orders")), [401001]);
    assert_eq!(bench.by("ci", Command::Services(Op::Create, vec![service("prod", "payments2")])), [401001]);
    let held = bench.catalog.access.holder(&token_of("ci"), bench.catalog.clock()).expect("live");
    assert_eq!(held.name, "token:ci");
    let later = bench.catalog.clock().plus_ms(1_000_000);
    assert_eq!(bench.catalog.access.holder(&token_of("ci"), later), None, "over");
    assert_eq!(bench.by("admin", Command::ServiceTokens(Op::Delete, vec![draft("ci", 0); 2])), [200000, 200000]);
    assert_eq!(bench.codes(register("payments")), [401004]);
    assert_eq!(bench.reloaded(), bench.catalog);
}

/// Every kind of write on one thing in `prod` and one in `test`, by callers with rights in `prod` only, or on one name
/// only: done, refused if visible, and reported as missing if not.
#[test]
fn every_write_is_judged_item_by_item() {
    let mut bench = Bench::trusting();
    // Rules are authorized by their names only; `rights` tests their effects.
    let by_name = SettingsChange { rule_scope: Some(1), ..SettingsChange::default() };
    assert_eq!(bench.by("admin", Command::Settings(by_name)), [200000]);
    let both = ["prod", "test"];
    for namespace in both {
        let service = |name: &str| service(namespace, name);
        bench.by("admin", Command::Services(Op::Create, vec![service("pay"), service("other")]));
        bench.by("admin", Command::Rules(Op::Create, vec![rule_in(namespace)]));
        let file = ConfigFileDraft { namespace: namespace.into(), ..file("f.txt", "x") };
        bench.by("admin", Command::ConfigFiles(Op::Create, vec![file]));
        let instance = super::instances::instance(namespace, "pay", "h", 80);
        bench.by("admin", Command::Instances(Op::Create, vec![instance]));
        let alias = AliasDraft {
            alias_namespace: Some(namespace.into()),
            alias: Some("al".into()),
            namespace: Some(namespace.into()),
            service: Some("pay".into()),
            ..AliasDraft::default()
        };
        assert_eq!(bench.by("admin", Command::Aliases(Op::Create, vec![alias])), [200000]);
    }
    let in_prod = |role| [grant(role, "prod", "*")];
    bench.add("editor", &in_prod(Role::Editor));
    bench.add("releaser", &in_prod(Role::Releaser));
    bench.add("reader", &[Grant::of(Role::Reader)]);
    bench.add("nobody", &[]);
    let commented = |namespace: &str| ServiceDraft { comment: Some("c".into()), ..service(namespace, "pay") };
    let release_of = |namespace: &str| {
        let draft = of_rule("r", "");
        crate::model::rule::release::RuleReleaseDraft { namespace: Some(namespace.into()), ..draft }
    };
    let config = |namespace: &str| ConfigReleaseDraft { namespace: namespace.into(), ..release("f.txt", "") };
    let instance = |namespace: &str| InstanceDraft {
        weight: Some(crate::model::wire::Uint32(7)),
        ..super::instances::instance(namespace, "pay", "h", 80)
    };
    let aliases = |namespace: &str| AliasDraft {
        alias_namespace: Some(namespace.into()),
        alias: Some("al".into()),
        comment: Some("c".into()),
        ..AliasDraft::default()
    };
    let group = |namespace: &str| ConfigGroupDraft {
        namespace: namespace.into(),
        name: "shop".into(),
        comment: Some("c".into()),
        ..Default::default()
    };
    let space =
        |namespace: &str| NamespaceDraft { comment: Some("c".into()), name: namespace.into(), ..Default::default() };
    let text = |namespace: &str| ConfigFileDraft { namespace: namespace.into(), ..file("f.txt", "y") };
    let at = |make: &dyn Fn(&str) -> Command| both.map(make);
    let updates: Vec<(&str, [Command; 2])> = vec![
        ("namespace", at(&|at| Command::Namespaces(Op::Update, vec![space(at)]))),
        ("service", at(&|at| Command::Services(Op::Update, vec![commented(at)]))),
        ("alias", at(&|at| Command::Aliases(Op::Update, vec![aliases(at)]))),
        ("instance", at(&|at| Command::Instances(Op::Update, vec![instance(at)]))),
        ("rule", at(&|at| Command::Rules(Op::Update, vec![changed(at)]))),
        ("group", at(&|at| Command::ConfigGroups(Op::Update, vec![group(at)]))),
        ("file", at(&|at| Command::ConfigFiles(Op::Update, vec![text(at)]))),
    ];
    for (kind, [prod, test]) in updates {
        let missing = match kind {
            "alias" => 400304,
            "instance" => 400303,
            _ => 400202,
        };
        for (who, expected) in [("nobody", [missing; 2]), ("reader", [401001; 2]), ("releaser", [401001, missing])] {
            let codes = [bench.by(who, prod.clone())[0], bench.by(who, test.clone())[0]];
            assert_eq!(codes, expected, "{kind} by {who}");
        }
        assert_eq!(bench.by("editor", prod), [200000], "{kind}");
        assert_eq!(bench.by("editor", test), [missing], "{kind}");
    }
    let releases: Vec<(&str, [Command; 2])> = vec![
        ("rule", at(&|at| Command::PublishRules(Family::RateLimit, vec![release_of(at)]))),
        ("file", at(&|at| Command::ConfigPublish(vec![config(at)]))),
    ];
    for (kind, [prod, test]) in releases {
        for (who, expected) in [("nobody", [400202; 2]), ("reader", [401001; 2]), ("editor", [401001, 400202])] {
            let codes = [bench.by(who, prod.clone())[0], bench.by(who, test.clone())[0]];
            assert_eq!(codes, expected, "{kind} by {who}");
        }
        assert_eq!(bench.by("releaser", prod), [200000], "{kind}");
        assert_eq!(bench.by("releaser", test), [400202], "{kind}");
    }
    // Creation requires rights on the target scope; the deletion of an invisible thing succeeds like that of a missing
    // one.
    let create = |namespace: &str| Command::Services(Op::Create, vec![service(namespace, "new")]);
    assert_eq!([bench.by("editor", create("prod"))[0], bench.by("editor", create("test"))[0]], [200000, 401001]);
    let both_at_once = Command::Services(Op::Delete, vec![service("prod", "other"), service("test", "other")]);
    assert_eq!(bench.by("editor", both_at_once), [200000, 200000]);
    assert!(
        bench.catalog.services.get("prod", "other").is_none() && bench.catalog.services.get("test", "other").is_some()
    );
    // A write with publication requires both verbs.
    let item = ConfigPublish { file: text("prod"), release: config("prod"), md5: None };
    let publish = Command::ConfigCreateAndPublish(vec![item]);
    assert_eq!([bench.by("editor", publish.clone())[0], bench.by("releaser", publish.clone())[0]], [401001; 2]);
    bench.add("both", &[grant(Role::Editor, "prod", "shop"), grant(Role::Releaser, "prod", "sh*")]);
    assert_eq!(bench.by("both", publish), [200000]);
    // A stop of what is not a gray release, and a rollback, are authorized as well.
    let stop = |at: &str| {
        Command::RuleReleases(
            Family::RateLimit,
            ReleaseOp::StopGray,
            vec![crate::model::rule::release::RuleReleaseDraft { release_name: Some("v1".into()), ..release_of(at) }],
        )
    };
    assert_eq!([bench.by("editor", stop("prod"))[0], bench.by("releaser", stop("prod"))[0]], [401001, 400000]);
    assert_eq!(bench.by("releaser", stop("test")), [400202]);
    assert_eq!(bench.reloaded(), bench.catalog);
}

fn rule_in(namespace: &str) -> crate::model::rule::RuleDraft {
    let mut rule = rule_for(Family::RateLimit, "r", "pay");
    rule.head.namespace = Some(namespace.into());
    rule
}

fn changed(namespace: &str) -> crate::model::rule::RuleDraft {
    let mut rule = rule_in(namespace);
    rule.head.description = Some("d".into());
    rule
}

/// Authorization covers the present and the future scope of a thing, named by id, by a move or by an alias.
#[test]
fn nothing_gets_around_the_judgement() {
    let mut bench = Bench::trusting();
    // Rules are authorized by their names only; `rights` tests their effects.
    let by_name = SettingsChange { rule_scope: Some(1), ..SettingsChange::default() };
    assert_eq!(bench.by("admin", Command::Settings(by_name)), [200000]);
    bench.by("admin", Command::Services(Op::Create, vec![service("prod", "pay"), service("test", "pay")]));
    bench.by("admin", Command::Rules(Op::Create, vec![rule_in("prod"), rule_in("test")]));
    bench.add("eva", &[grant(Role::Editor, "prod", "*"), grant(Role::Releaser, "prod", "*")]);
    let id = bench.catalog.services.get("test", "pay").expect("there").id.clone();
    let by_id = ServiceDraft { id: Some(id.clone()), comment: Some("c".into()), ..ServiceDraft::default() };
    assert_eq!(bench.by("eva", Command::Services(Op::Update, vec![by_id.clone()])), [400202]);
    assert_eq!(bench.by("eva", Command::Services(Op::Delete, vec![by_id])), [200000]);
    assert!(bench.catalog.services.get("test", "pay").is_some(), "nothing was deleted");
    let taken = ServiceDraft { id: Some(id), ..service("prod", "new") };
    let applied = bench.apply(asked("eva", Command::Services(Op::Create, vec![taken])));
    assert_eq!(applied.outcomes[0].code.number(), 400201);
    assert_eq!(applied.outcomes[0].entity, Entity::None, "what has the id is not shown");
    // A rule is moved out of the caller's scope, or into it.
    let book = |bench: &Bench| bench.catalog.rules.of(Family::RateLimit).clone();
    let of = |bench: &Bench, at: &str| book(bench).named(at, "r").expect("there").id.clone();
    let moved = |id: String, to: &str| {
        let mut rule = rule_in(to);
        (rule.head.id, rule.head.name) = (Some(id), Some("moved".into()));
        Command::Rules(Op::Update, vec![rule])
    };
    let (own, foreign) = (of(&bench, "prod"), of(&bench, "test"));
    assert_eq!(bench.by("eva", moved(own.clone(), "test")), [401001]);
    assert_eq!(bench.by("eva", moved(foreign, "prod")), [400202]);
    assert_eq!(bench.by("eva", moved(own, "prod")), [200000]);
    // An alias opens its service to callers with rights on the alias name.
    let alias = |at: &str, of: &str| {
        let text = |text: &str| Some(text.to_owned());
        let draft = AliasDraft {
            alias_namespace: text(at),
            alias: text("al"),
            namespace: text(of),
            service: text("pay"),
            ..AliasDraft::default()
        };
        Command::Aliases(Op::Create, vec![draft])
    };
    assert_eq!(bench.by("eva", alias("prod", "test")), [401001]);
    assert_eq!(bench.by("eva", alias("test", "prod")), [401001]);
    assert_eq!(bench.by("eva", alias("prod", "prod")), [200000]);
    // A rule named without a namespace is the visible one of that name.
    bench.by("admin", Command::Rules(Op::Create, vec![rule_in("third")]));
    let named = |name: &str| Command::PublishRules(Family::RateLimit, vec![of_rule(name, "")]);
    assert_eq!(bench.by("eva", named("moved")), [200000]);
    assert_eq!(bench.by("eva", named("r")), [400202]);
    assert_eq!(bench.by("admin", named("r")), [400103], "two rules have the name");
    // No caller may propose commands of the cluster itself.
    let own = Command::Forget { node_id: 1 };
    assert_eq!(bench.by("admin", own.clone()), [401001]);
    assert_eq!(bench.by("admin", asked("admin", own)), [400000]);
    assert_eq!(bench.reloaded(), bench.catalog);
}

/// Programs use service tokens; the logins of one user are limited, and the oldest is removed.
#[test]
fn a_login_beyond_the_bound_retires_the_oldest() {
    let mut bench = Bench::trusting();
    bench.add("eva", &[grant(Role::Reader, "*", "*")]);
    let user_id = bench.catalog.access.user_named("eva").expect("a user").id.clone();
    let login = |number: usize| {
        let (hash, password) = (token_of(&format!("eva {number}")), PasswordHash("h".into()));
        Command::SignIn { hash, user_id: user_id.clone(), password, from: Default::default() }
    };
    let lives =
        |bench: &Bench, name: &str| bench.catalog.access.holder(&token_of(name), bench.catalog.clock()).is_some();
    for number in 1..limits::TOKENS_PER_USER_MAX {
        assert_eq!(bench.codes(login(number)), [200000]);
    }
    assert!(lives(&bench, "eva") && lives(&bench, "eva 1"));
    assert_eq!(bench.codes(login(0)), [200000]);
    assert!(!lives(&bench, "eva") && lives(&bench, "eva 1") && lives(&bench, "admin"));
    assert_eq!(bench.reloaded(), bench.catalog);
}
