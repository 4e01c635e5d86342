//! Access keys: changes, limits, the order of a list, and golden bytes.

use std::sync::Arc;

use super::*;
use crate::catalog::access_keys::AccessKeyFilter;
use crate::format::pack;
use crate::model::access_key::{AccessKeyDraft, AccessMode, SealedSecret};
use crate::model::signature::SigningKey;

pub(super) fn access_key(app_id: &str, name: &str) -> AccessKeyDraft {
    AccessKeyDraft { app_id: app_id.into(), name: name.into(), ..AccessKeyDraft::default() }
}

fn sealed(app_id: &str, name: &str, secret: &str) -> AccessKeyDraft {
    AccessKeyDraft { secret: Some(SealedSecret(secret.into())), ..access_key(app_id, name) }
}

fn in_mode(mode: AccessMode, draft: AccessKeyDraft) -> AccessKeyDraft {
    AccessKeyDraft { mode: Some(mode), ..draft }
}

#[test]
fn access_keys_by_the_rules() {
    let mut bench = Bench::founded();
    let enforced = in_mode(AccessMode::Enforce, access_key("app", "one"));
    let commented = AccessKeyDraft { comment: Some("c".into()), ..access_key("app", "one") };
    let rows = [
        (
            Op::Create,
            vec![sealed("app", "one", "s1"), sealed("app", "one", "s2"), sealed("app", "two", "s2")],
            vec![200000, 400201, 200000],
        ),
        (Op::Create, vec![sealed("other", "one", "s3"), access_key("app", "three")], vec![200000, 400103]),
        (
            Op::Update,
            vec![enforced.clone(), enforced.clone(), access_key("app", "none"), enforced],
            vec![200000, 200002, 400202, 200002],
        ),
        (Op::Update, vec![commented.clone(), commented, sealed("app", "one", "s4")], vec![200000, 200002, 200000]),
        (Op::Delete, vec![access_key("app", "two"), access_key("app", "two"), access_key("x", "y")], vec![200000; 3]),
    ];
    for (op, items, expected) in rows {
        let shown = format!("{op:?} {items:?}");
        assert_eq!(bench.codes(Command::AccessKeys(op, items)), expected, "{shown}");
        assert_eq!(bench.reloaded(), bench.catalog, "{shown}");
    }
    let keys = &bench.catalog.access_keys;
    assert_eq!((keys.len(), keys.has_any_of("app"), keys.has_any_of("none")), (2, true, false));
    let key = keys.of_app("app").next().expect("one is left").key.clone();
    assert_eq!((key.mode, key.comment.as_str(), &key.secret), (AccessMode::Enforce, "c", &SealedSecret("s4".into())));
    assert!(key.modified.time > key.created.time && key.modified.by == "tester");
    assert_eq!(keys.of_app("other").next().expect("made").key.mode, AccessMode::Off, "unless the create says more");
}

#[test]
fn an_app_has_few_keys() {
    let mut bench = Bench::founded();
    let drafts = |app_id: &str| {
        let names = (0..=limits::ACCESS_KEYS_PER_APP_MAX).map(|number| format!("k{number}"));
        names.map(|name| sealed(app_id, &name, "s")).collect::<Vec<_>>()
    };
    let codes = [vec![200000; limits::ACCESS_KEYS_PER_APP_MAX], vec![507002]].concat();
    assert_eq!(bench.codes(Command::AccessKeys(Op::Create, drafts("app"))), codes);
    assert_eq!(bench.codes(Command::AccessKeys(Op::Create, drafts("other"))), codes, "each app on its own");
    bench.codes(Command::AccessKeys(Op::Delete, vec![access_key("app", "k0")]));
    assert_eq!(bench.codes(Command::AccessKeys(Op::Create, vec![sealed("app", "k9", "s")])), [200000]);
}

#[test]
fn there_is_a_limit_on_all_keys() {
    let mut bench = Bench::founded();
    let per_app = limits::ACCESS_KEYS_PER_APP_MAX;
    for app in 0..limits::ACCESS_KEYS_MAX / per_app {
        let drafts = (0..per_app).map(|key| sealed(&format!("app{app}"), &format!("k{key}"), "s")).collect();
        assert_eq!(bench.codes(Command::AccessKeys(Op::Create, drafts)), vec![200000; per_app]);
    }
    let more = || Command::AccessKeys(Op::Create, vec![sealed("more", "k", "s")]);
    assert_eq!(bench.codes(more()), [507002]);
    bench.codes(Command::AccessKeys(Op::Delete, vec![access_key("app0", "k0")]));
    assert_eq!(bench.codes(more()), [200000]);
}

#[test]
fn keys_are_listed_newest_change_first_and_filtered() {
    let mut bench = Bench::founded();
    for (app_id, name) in [("pay", "a"), ("shop", "a"), ("shop", "b"), ("Shop-2", "a")] {
        bench.codes(Command::AccessKeys(Op::Create, vec![sealed(app_id, name, "s")]));
    }
    bench.codes(Command::AccessKeys(Op::Update, vec![in_mode(AccessMode::Observe, access_key("pay", "a"))]));
    let list = |app_id: Option<&str>, name: Option<&str>, page: Page| {
        let (app_id, name) = (app_id.map(NameFilter::parse), name.map(NameFilter::parse));
        let listed = bench.catalog.access_keys.list(&AccessKeyFilter { app_id, name }, &page);
        let named = |key: &Arc<AccessKey>| format!("{} {}", key.app_id, key.name);
        (listed.amount, listed.rows.iter().map(named).collect::<Vec<_>>())
    };
    let all = || Page::new(0, 100);
    let shown = ["pay a", "Shop-2 a", "shop b", "shop a"].map(str::to_owned);
    assert_eq!(list(None, None, all()), (4, shown.to_vec()));
    assert_eq!(list(Some("shop"), None, all()), (2, shown[2..].to_vec()));
    assert_eq!(list(Some("shop*"), Some("a"), Page::new(1, 1)), (2, vec!["shop a".into()]));
    assert_eq!(list(Some("none"), None, all()), (0, vec![]));
}

#[test]
fn what_was_made_of_a_secret_goes_with_its_row() {
    let mut bench = Bench::founded();
    bench.codes(Command::AccessKeys(Op::Create, vec![sealed("app", "one", "s1"), sealed("app", "two", "damaged")]));
    let opened = |bench: &Bench| {
        let mut asked = Vec::new();
        for held in bench.catalog.access_keys.of_app("app") {
            held.signing_key(|key| {
                asked.push(key.secret.0.clone());
                (key.secret.0 != "damaged").then(|| SigningKey::new(key.secret.0.as_bytes()))
            });
        }
        asked
    };
    assert_eq!(opened(&bench), ["s1", "damaged"]);
    assert_eq!(opened(&bench), [""; 0], "once, also of what did not open");
    bench.codes(Command::AccessKeys(Op::Update, vec![sealed("app", "one", "s2")]));
    assert_eq!(opened(&bench), ["s2"]);
    assert_eq!(bench.reloaded(), bench.catalog, "it is no part of the state");
}

/// Golden bytes of the first version.
#[test]
fn golden_bytes_of_access_keys() {
    let draft =
        AccessKeyDraft { comment: Some("c".into()), ..in_mode(AccessMode::Enforce, sealed("app", "one", "c0ffee")) };
    let rows = [
        (
            Command::AccessKeys(Op::Create, vec![draft]),
            "81aa4163636573734b65797392a64372656174659185a66170705f6964a3617070a46e616d65a36f6e65a46d6f6465a7656e666f7\
             26365a7636f6d6d656e74a163a6736563726574a6633066666565",
        ),
        (
            Command::AccessKeys(Op::Update, vec![in_mode(AccessMode::Observe, access_key("app", "one"))]),
            "81aa4163636573734b65797392a65570646174659183a66170705f6964a3617070a46e616d65a36f6e65a46d6f6465a76f6273657\
             27665",
        ),
        (
            Command::AccessKeys(Op::Delete, vec![access_key("app", "one")]),
            "81aa4163636573734b65797392a644656c6574659182a66170705f6964a3617070a46e616d65a36f6e65",
        ),
    ];
    let mut bench = Bench::founded();
    for (at, (command, golden)) in rows.into_iter().enumerate() {
        assert_eq!(command.adds(), at < 2);
        assert_eq!(hex::encode(pack::to_bytes(&command)), golden, "{command:?}");
        let read: Command = pack::from_bytes(&hex::decode(golden).expect("hex")).expect("readable for ever");
        assert_eq!(read, command);
        if at < 2 {
            bench.apply(command);
        }
    }
    let row = bench.rows.get(b"\x14app\0one".as_slice()).map(hex::encode);
    assert_eq!(
        row.as_deref(),
        Some(
            "0188a66170705f6964a3617070a46e616d65a36f6e65a46d6f6465a76f627365727665a6736563726574a66330666665\
             65a7636f6d6d656e74a163a76372656174656482a474696d65ce000f4a10a26279a6746573746572a86d6f6469666965\
             6482a474696d65ce000f4df8a26279a6746573746572a87265766973696f6ed920313832316563323831653361383966\
             6633323165373834313537336565386238"
        )
    );
}
