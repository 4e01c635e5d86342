//! Bytes that every later version has to read.

use super::instances::instance;
use super::rules::{gray, of_rule, rule_for};
use super::*;
use crate::format::pack;
use crate::model::instance::{CheckType, HealthCheckDraft, HeartbeatDraft, Location};
use crate::model::release::ReleaseOp;
use crate::model::rule::Family;
use crate::model::wire::Uint32;

/// An instance with every field given.
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

/// One command of each kind in the bytes in which the first release wrote it to its log.
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
    let first = Family::ALL.iter().filter(|family| family.since() == Level::FIRST);
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
        Command::Rules(Op::Create, first.map(|family| rule_for(*family, "r", "s")).collect()),
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
    let written: Vec<String> = commands.iter().map(|command| hex::encode(pack::to_bytes(command))).collect();
    let golden: Vec<&str> = include_str!("golden_commands.txt").lines().collect();
    assert_eq!(written, golden);
    for (command, line) in commands.iter().zip(golden) {
        let read: Command = pack::from_bytes(&hex::decode(line).expect("hex")).expect("readable for ever");
        assert_eq!(read, *command);
    }
}
