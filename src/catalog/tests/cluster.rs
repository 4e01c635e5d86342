//! Logins and nodes.

use super::*;

#[test]
fn tokens_live_until_they_expire_or_are_revoked() {
    let mut bench = Bench::default();
    let admin = Founder::administrator("u1", "h", Timestamp(0));
    bench.codes(Command::Bootstrap { cluster_id: "c".into(), admin: admin.clone(), level: Level::FIRST });
    assert_eq!(
        bench.codes(Command::Bootstrap { cluster_id: "d".into(), admin, level: Level::FIRST }),
        [200002],
        "the first one counts"
    );
    let hash = TokenHash("t1".into());
    let sign_in = |hash: &TokenHash, user: &str| Command::SignIn {
        hash: hash.clone(),
        user_id: user.into(),
        password: PasswordHash::default(),
        from: Default::default(),
    };
    assert_eq!(bench.codes(sign_in(&hash, "nobody")), [401001]);
    assert_eq!(bench.codes(sign_in(&hash, "u1")), [200000]);
    let issued = bench.ctx(bench.index).time;
    let holder = |bench: &Bench, now: Timestamp| bench.catalog.access.holder(&hash, now).map(|user| user.name);
    assert_eq!(holder(&bench, issued), Some("admin".into()));
    assert_eq!(holder(&bench, issued.plus_ms(limits::TOKEN_LIFETIME_MS)), None, "expired");
    assert_eq!(bench.codes(Command::SignOut { hash: hash.clone() }), [200000]);
    assert_eq!(holder(&bench, issued), None, "revoked");
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn a_node_id_is_bound_to_its_data_directory() {
    let mut bench = Bench::default();
    let node = |instance: &str, api: &str| NodeRecord::new(3, instance.into(), api.into(), "c:1".into());
    assert_eq!(bench.codes(Command::Announce(node("i1", "a:1"))), [200000]);
    assert_eq!(bench.codes(Command::Announce(node("i1", "a:1"))), [200002]);
    assert_eq!(bench.codes(Command::Announce(node("i1", "b:1"))), [200000], "a new address");
    assert_eq!(bench.codes(Command::Announce(node("i2", "b:1"))), [409000], "another directory");
    assert_eq!(bench.codes(Command::Forget { node_id: 3 }), [200000]);
    assert_eq!(bench.codes(Command::Announce(node("i1", "b:1"))), [409000], "the id is spent");
}
