//! Golden bytes of level 1: commands, words and rows that every later version has to read.
//!
//! Until the first release is published, `THUBAN_WRITE_GOLDEN=1 scripts/cargo test --lib golden` writes changed bytes;
//! the new digest goes into `crate::format::level::DIGESTS`.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::instances::instance;
use super::rules::{gray, of_rule, rule_for};
use super::*;
use crate::format::pack;
use crate::model::instance::{CheckType, HealthCheckDraft, HeartbeatDraft, Location};
use crate::model::release::ReleaseOp;
use crate::model::rule::Family;
use crate::model::sso::{Bearer, Claims};
use crate::model::wire::Uint32;

/// Returns an instance with every field set.
fn whole_instance() -> InstanceDraft {
    let text = |text: &str| Some(text.to_owned());
    InstanceDraft {
        id: text("i"),
        vpc_id: text("v"),
        protocol: text("grpc"),
        version: text("1"),
        priority: Some(Uint32(2)),
        weight: Some(Uint32(3)),
        enable_health_check: Some(true),
        health_check: Some(HealthCheckDraft {
            kind: Some(CheckType::Heartbeat),
            heartbeat: Some(HeartbeatDraft { ttl: Some(Uint32(4)) }),
        }),
        healthy: Some(true),
        isolate: Some(false),
        location: Some(Location { region: "r".into(), zone: "z".into(), campus: "c".into() }),
        metadata: Some(BTreeMap::from([("k".into(), "v".into())])),
        logic_set: text("l"),
        revision: text("x"),
        ..instance("n", "s", "h", 80)
    }
}

/// Compares a text with a golden file of `src/tests`, or writes that file.
pub(super) fn assert_golden(file: &str, written: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests").join(file);
    if std::env::var_os("THUBAN_WRITE_GOLDEN").is_some() {
        fs::write(&path, written).expect("the golden file can be written");
    }
    let golden = fs::read_to_string(&path).expect("a golden file");
    assert_eq!(written, golden, "{file}: see the top of this file");
}

/// Writes one row of each table as a seed of the fuzz target `rows`: the number of the table, and the value.
pub(super) fn write_seeds(rows: BTreeMap<&str, Edit>) {
    if std::env::var_os("THUBAN_WRITE_GOLDEN").is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/rows");
    for (label, edit) in rows {
        let seed = [&edit.key[..1], &edit.value.expect("a value")].concat();
        fs::write(folder.join(label), seed).expect("the seed can be written");
    }
}

/// Digest of all golden bytes: whole text files, and hex strings in other files.
#[test]
fn the_digest_of_the_level_is_that_of_its_golden_bytes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut hash = Sha256::new();
    for file in ["golden_commands.txt", "golden_rows.txt", "golden_webhooks.txt", "golden_words.txt"] {
        hash.update(read(&format!("crates/catalog/src/tests/{file}")));
    }
    for file in
        ["src/format/codec.rs", "src/peer/handshake/golden.rs", "src/peer/messages/golden.rs", "src/raft/proposal.rs"]
    {
        let text: String = read(file).split("\\\n").map(str::trim_start).collect();
        let is_bytes = |word: &&str| word.len() >= 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(is_bytes).for_each(|word| hash.update(word));
    }
    assert_eq!(Level::FIRST.digest(), &hex::encode(hash.finalize())[..16]);
}

/// Golden bytes of one command of each kind, as in the log.
#[test]
fn golden_bytes_of_every_command() {
    let id = |text: &str| Some(text.to_owned());
    let admin = Founder::administrator("u", "h", Timestamp(1));
    let group = ConfigGroupDraft { namespace: "n".into(), name: "g".into(), comment: id("c"), ..Default::default() };
    let file = ConfigFileDraft {
        namespace: "n".into(),
        group: "g".into(),
        name: "f".into(),
        content: id("x"),
        format: id("text"),
        ..Default::default()
    };
    let release = ConfigReleaseDraft {
        id: Some(7),
        name: id("r"),
        namespace: "n".into(),
        group: "g".into(),
        file_name: "f".into(),
        ..Default::default()
    };
    let publish = ConfigPublish { file: file.clone(), release: release.clone(), md5: id("m") };
    let namespace = NamespaceDraft { name: "n".into(), owners: id("o"), ..Default::default() };
    let commands = [
        Command::Bootstrap { cluster_id: "c".into(), admin, level: Level::FIRST },
        Command::Announce(NodeRecord::new(1, "i".into(), "a:1".into(), "c:1".into())),
        Command::Forget { node_id: 3 },
        Command::SignIn {
            hash: TokenHash("t".into()),
            user_id: "u".into(),
            password: PasswordHash::default(),
            from: Default::default(),
        },
        Command::SignOut { hash: TokenHash("t".into()) },
        Command::Namespaces(Op::Create, vec![namespace]),
        Command::Services(Op::Update, vec![ServiceDraft { ports: id("80"), ..service("n", "s") }]),
        Command::ConfigGroups(Op::Delete, vec![group]),
        Command::ConfigFiles(Op::Create, vec![file]),
        Command::ConfigPublish(vec![release.clone()]),
        Command::ConfigCreateAndPublish(vec![publish]),
        Command::ConfigRollback(vec![release.clone()]),
        Command::ConfigDeleteReleases(vec![release.clone()]),
        Command::Aliases(Op::Create, vec![AliasDraft { kind: Some(AliasType::Cl5Sid), ..alias("o", "s") }]),
        Command::Rules(Op::Create, Family::ALL.iter().map(|family| rule_for(*family, "r", "s")).collect()),
        Command::PublishRules(Family::RateLimit, vec![gray("r", "g", "one,two")]),
        Command::ConfigStopGray(vec![ConfigReleaseDraft {
            beta_labels: gray("r", "g", "one").client_labels,
            ..release
        }]),
        Command::RuleReleases(Family::Routing, ReleaseOp::StopGray, vec![of_rule("r", "g")]),
        Command::Instances(Op::Create, vec![whole_instance()]),
        Command::InstancesDeleteHost(vec![InstanceDraft { port: None, ..instance("n", "s", "h", 0) }]),
        Command::InstancesIsolateHost(vec![InstanceDraft { isolate: Some(true), ..instance("n", "s", "h", 80) }]),
        Command::InstanceHealth(vec![InstanceHealth { id: "i".into(), healthy: false, ..InstanceHealth::default() }]),
    ];
    let bearer = Bearer {
        provider: "p".into(),
        issuer: "https://i".into(),
        sub: "1".into(),
        username: "u".into(),
        claims: Claims::parse(r#"{"sub":"1","groups":["g"]}"#).expect("claims"),
        expires: Timestamp(1),
        id: "b".into(),
    };
    let by_bearer = Command::Authorized(Box::new(AuthorizedCommand {
        credential: Credential::Bearer(Box::new(bearer)),
        address: None,
        request: "r".into(),
        self_registration: false,
        mutes_refusals: false,
        command: Command::SignOut { hash: TokenHash("t".into()) },
    }));
    let commands: Vec<Command> = commands.into_iter().chain([by_bearer]).chain(super::words::commands()).collect();
    let lines = commands.iter().map(|command| hex::encode(pack::to_bytes(command)) + "\n");
    assert_golden("golden_commands.txt", &lines.collect::<String>());
    for command in commands {
        let read: Command = pack::from_bytes(&pack::to_bytes(&command)).expect("readable");
        assert_eq!(read, command);
    }
}
