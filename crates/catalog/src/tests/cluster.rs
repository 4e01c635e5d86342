//! Logins and nodes.

use super::*;
use crate::format::level::LevelRange;
use crate::format::pack;

/// Announcements of levels 2 and 8.
const GOLDEN_BEFORE: &str = "81a8416e6e6f756e636587a76e6f64655f696401a8696e7374616e6365a169a3617069a\
                           3613a31a6636f6d706174a363\
    3a31a772656d6f766564c2a776657273696f6ea5312e302e30a66c6576656c7382a36d696e01a36d617807";
const GOLDEN_TOLD: &str = "81a8416e6e6f756e636588a76e6f64655f696401a8696e7374616e6365a169a3617069a36\
                           13a31a6636f6d706174a363\
    3a31a772656d6f766564c2a776657273696f6ea5312e302e30a66c6576656c7382a36d696e01a36d617807a467727063\
    a3673a31";

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

#[test]
fn golden_bytes_of_a_record_without_an_address_for_grpc() {
    let bytes = |command: &Command| hex::encode(pack::to_bytes(command));
    let mut node = NodeRecord::new(1, "i".into(), "a:1".into(), "c:1".into());
    node.version = "1.0.0".into();
    node.levels = LevelRange { min: Level(1), max: Level(7) };
    let before = Command::Announce(node.clone());
    assert_eq!(bytes(&before), GOLDEN_BEFORE);
    node.grpc = "g:1".into();
    let told = Command::Announce(node);
    assert_eq!(bytes(&told), GOLDEN_TOLD);
    for command in [before, told] {
        let read: Command = pack::from_bytes(&pack::to_bytes(&command)).expect("readable");
        assert_eq!(read, command);
        let mut bench = Bench::default();
        assert_eq!(bench.codes(command), [200000]);
        assert_eq!(bench.reloaded(), bench.catalog);
    }
}
