//! Limits and revisions of users, tokens, keys, webhooks and settings.

use super::access_keys::access_key;
use super::trust::{token_of, user};
use super::*;
use crate::model::access::UserDraft;
use crate::model::access_key::{AccessKeyDraft, SealedSecret};
use crate::model::config_template::ConfigTemplateDraft;
use crate::model::grant::{Grant, Role};
use crate::model::service_token::{Rotation, ServiceTokenChange, ServiceTokenDraft};
use crate::model::settings::SettingsChange;
use crate::model::webhook::WebhookDraft;

/// Command that creates things of these names.
type Creating = dyn Fn(Vec<String>) -> Command;

fn token(name: &str) -> ServiceTokenDraft {
    ServiceTokenDraft { name: name.into(), hash: token_of(name), ..ServiceTokenDraft::default() }
}

fn change(name: &str) -> ServiceTokenChange {
    ServiceTokenChange { name: name.into(), ..ServiceTokenChange::default() }
}

fn hook(name: &str) -> WebhookDraft {
    let (url, secret) = (Some("https://h/".into()), Some(SealedSecret("c0ffee".into())));
    WebhookDraft { name: name.into(), url, secret, ..WebhookDraft::default() }
}

fn secret() -> Option<SealedSecret> {
    Some(SealedSecret("c0ffee".into()))
}

/// Creates as many of each kind as the limit allows, batch by batch, and returns the code of one more.
#[test]
fn one_more_than_there_may_be_is_refused_alike() {
    {
        let mut bench = Bench::trusting();
        let mut fill = |most: usize, command: &Creating| {
            let names: Vec<_> = (0..most).map(|number| format!("n{number}")).collect();
            for part in names.chunks(limits::BATCH_ITEMS_MAX) {
                bench.apply(command(part.to_vec()));
            }
            let refused = bench.apply(command(vec!["more".into()])).outcomes.remove(0);
            (refused.code.number(), refused.detail)
        };
        let of_each: [(usize, &Creating); 5] = [
            (limits::ACCOUNTS_MAX, &|names| {
                Command::Users(Op::Create, names.iter().map(|name| user(name, &[])).collect())
            }),
            (limits::ACCOUNTS_MAX, &|names| {
                Command::ServiceTokens(Op::Create, names.iter().map(|name| token(name)).collect())
            }),
            (limits::ACCESS_KEYS_PER_APP_MAX, &|names| {
                let key = |name: &String| AccessKeyDraft { secret: secret(), ..access_key("app", name) };
                Command::AccessKeys(Op::Create, names.iter().map(key).collect())
            }),
            (limits::WEBHOOKS_MAX, &|names| {
                Command::Webhooks(Op::Create, names.iter().map(|name| hook(name)).collect())
            }),
            (limits::CONFIG_TEMPLATES_MAX, &|names| {
                let template =
                    |name: &String| ConfigTemplateDraft { name: name.clone(), ..ConfigTemplateDraft::default() };
                Command::ConfigTemplates(Op::Create, names.iter().map(template).collect())
            }),
        ];
        for (most, command) in of_each {
            let (code, why) = fill(most, command);
            assert_eq!(code, 507_002, "{why}");
            assert!(why.contains(&most.to_string()), "{why}");
        }
    }
}

#[test]
fn a_stale_revision_is_refused() {
    let comment = |name: &str| UserDraft { name: name.into(), comment: Some("c".into()), ..UserDraft::default() };
    let mut bench = Bench::trusting();
    bench.codes(Command::Users(Op::Create, vec![user("eva", &[])]));
    bench.codes(Command::ServiceTokens(Op::Create, vec![token("ci")]));
    let revisions = |bench: &Bench| {
        let access = &bench.catalog.access;
        let user = access.user_named("eva").expect("a user").revision.clone();
        (user, access.service_token("ci").expect("a token").revision.clone(), bench.catalog.settings.revision.clone())
    };
    bench.codes(Command::Settings(SettingsChange { releases_kept: Some(7), ..SettingsChange::default() }));
    let stale = |name: &str| UserDraft { revision: Some("x".into()), ..comment(name) };
    assert_eq!(bench.by("admin", Command::Users(Op::Update, vec![stale("eva")])), [409_000]);
    assert_eq!(bench.by("admin", Command::Users(Op::Update, vec![comment("eva")])), [200_000]);
    let change = ServiceTokenChange { comment: Some("c".into()), ..change("ci") };
    assert_eq!(bench.by("admin", Command::ChangeTokens(vec![change])), [200_000]);
    let settings = SettingsChange { releases_kept: Some(8), ..SettingsChange::default() };
    assert_eq!(bench.by("admin", Command::Settings(settings)), [200_000]);
    let (user, token, settings) = revisions(&bench);
    assert!([&user, &token, &settings].iter().all(|revision| revision.len() == 32), "{user} {token} {settings}");
    let gone = UserDraft { name: "eva".into(), revision: Some("x".into()), ..UserDraft::default() };
    assert_eq!(bench.by("admin", Command::Users(Op::Delete, vec![gone.clone()])), [409_000]);
    let gone = UserDraft { revision: Some(user), ..gone };
    assert_eq!(bench.by("admin", Command::Users(Op::Delete, vec![gone])), [200_000]);
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn a_stale_delete_is_refused() {
    let mut bench = Bench::trusting();
    bench.codes(Command::Services(Op::Create, vec![service("prod", "s")]));
    let stale = ServiceDraft { revision: Some("x".into()), ..service("prod", "s") };
    assert_eq!(bench.codes(Command::Services(Op::Delete, vec![stale])), [409_000]);
}

#[test]
fn a_rotated_token_lets_in_by_both_secrets_and_then_by_one() {
    let mut bench = Bench::trusting();
    bench.codes(Command::ServiceTokens(Op::Create, vec![token("ci")]));
    let rotate = |hash: &str, overlap_s| {
        let rotation = Some(Rotation { hash: token_of(hash), overlap_s });
        Command::ChangeTokens(vec![ServiceTokenChange { rotation, ..change("ci") }])
    };
    let lets_in = |bench: &Bench, hash: &str, after_ms: u64| {
        bench.catalog.access.holder(&token_of(hash), bench.catalog.clock().plus_ms(after_ms)).is_some()
    };
    assert_eq!(bench.by("admin", rotate("second", 60)), [200_000]);
    assert!(lets_in(&bench, "ci", 0) && lets_in(&bench, "second", 0));
    assert!(lets_in(&bench, "ci", 59_999) && !lets_in(&bench, "ci", 60_000) && lets_in(&bench, "second", 60_000));
    assert_eq!(bench.reloaded(), bench.catalog);
    assert_eq!(bench.by("admin", rotate("third", 0)), [200_000]);
    assert!(!lets_in(&bench, "ci", 0) && !lets_in(&bench, "second", 0) && lets_in(&bench, "third", 0));
    let disabled = ServiceTokenChange { disabled: Some(true), ..change("ci") };
    assert_eq!(bench.by("admin", Command::ChangeTokens(vec![disabled])), [200_000]);
    assert!(!lets_in(&bench, "third", 0));
    assert_eq!(bench.reloaded(), bench.catalog);
    assert_eq!(bench.by("admin", rotate("ci", 60)), [200_000]);
    assert_eq!(bench.by("admin", Command::ServiceTokens(Op::Delete, vec![token("ci")])), [200_000]);
    assert_eq!(bench.catalog.access.end_of(&token_of("third")), None, "nothing of it is left");
}

#[test]
fn a_session_ends_by_its_id_for_whom_it_is() {
    let mut bench = Bench::trusting();
    bench.add("eva", &[Grant { namespace: "prod".into(), ..Grant::of(Role::Reader) }]);
    bench.add("bob", &[]);
    let id = |name: &str| token_of(name).id().to_owned();
    let end = |name: &str| Command::EndSessions(vec![id(name)]);
    assert_eq!(bench.by("eva", end("bob")), [401_001]);
    assert_eq!(bench.by("eva", Command::EndSessions(vec!["none".into()])), [200_000]);
    assert_eq!(bench.by("admin", end("bob")), [200_000]);
    assert_eq!(bench.by("eva", end("eva")), [200_000]);
    assert_eq!(bench.by("eva", end("eva")), [401_004]);
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn what_is_kept_of_the_trail_is_for_who_manages_everything() {
    let change = || SettingsChange { audit_kept_days: Some(1), ..SettingsChange::default() };
    let mut bench = Bench::trusting();
    bench.add("op", &[Grant::of(Role::Operator)]);
    assert_eq!(bench.by("op", Command::Settings(change())), [401_001]);
    let other = SettingsChange { releases_kept: Some(3), ..SettingsChange::default() };
    assert_eq!(bench.by("op", Command::Settings(other)), [200_000]);
}
