//! Words and letters that become part of rows, and so of the hash by which members are compared. They are pinned,
//! because two binaries of one level must write the same; a node that writes another word is excluded from the cluster
//! for good. A change here is a change of the level's golden bytes, see `golden`.

use sha2::{Digest, Sha256};

use super::access_keys::access_key;
use super::house::{House, Kind, kinds};
use super::instances::instance;
use super::rules::{of_rule, rule};
use super::trust::asked_by;
use super::*;
use crate::catalog::audit::AuditNote;
use crate::catalog::history::Thing;
use crate::catalog::releases::{Due, RolloutChange, RolloutTransition};
use crate::catalog::retention::Overfull;
use crate::catalog::time::TimeChange;
use crate::format::pack;
use crate::model::access::UserDraft;
use crate::model::approval::{RequestDraft, RequestOp};
use crate::model::config_file::canonical_file;
use crate::model::config_template::ConfigTemplateDraft;
use crate::model::contract::ContractDraft;
use crate::model::policy::PolicyDraft;
use crate::model::release::{Action, ReleaseOp, ReleaseType, publishable};
use crate::model::rule::Family;
use crate::model::service_token::{Rotation, ServiceTokenChange, ServiceTokenDraft};
use crate::model::sso::{Claims, IdentityRequest, ProviderDraft};
use crate::model::webhook::{WebhookDraft, WebhookTold};

/// Reasons why a planned release could not be published: in its row, its history, and its event.
const FAILED: [&str; 2] = [
    "a gray release is active: promote it, or stop it, before publishing for all",
    "a gray release needs a client label or client_percent",
];
/// Reason why a further gray release is refused.
pub(super) const TOO_MANY_GRAYS: &str = "at most 16 active gray releases of it: promote one, or stop one";

#[test]
fn sentences_that_reach_rows() {
    let refused = [(ReleaseType::Normal, true), (ReleaseType::Gray, false)]
        .map(|(kind, is_gray_active)| publishable(kind, true, is_gray_active).expect_err("refused").detail);
    assert_eq!(refused, FAILED, "a refusal of publishing was worded anew: see the top of this file");
    for kind in kinds() {
        let house = House::with_all_states(kind);
        let history = &house.bench.catalog.history;
        let told: Vec<_> = history.of(&house.thing()).filter(|event| event.action == Action::Failed).collect();
        assert_eq!(told.iter().map(|event| event.comment.as_str()).collect::<Vec<_>>(), [FAILED[0]]);
        let rows: Vec<String> =
            house.bench.rows.values().map(|row| String::from_utf8_lossy(row).into_owned()).collect();
        let sentences = rows.iter().filter(|row| row.contains(FAILED[0])).count();
        assert_eq!(sentences, 2, "{kind:?}: the release and its history");
    }
}

/// Returns a command of each kind for one thing that does not exist.
pub(super) fn commands() -> Vec<Command> {
    let name = || "x".to_owned();
    let namespace = || NamespaceDraft { name: name(), ..NamespaceDraft::default() };
    let group = || ConfigGroupDraft { namespace: "prod".into(), name: name(), ..ConfigGroupDraft::default() };
    let template = || ConfigTemplateDraft { name: name(), ..ConfigTemplateDraft::default() };
    let user = || UserDraft { name: name(), ..UserDraft::default() };
    let hash = || TokenHash("t".into());
    let token = |grants| ServiceTokenDraft { name: name(), hash: hash(), grants, ..ServiceTokenDraft::default() };
    let change = |rotation| ServiceTokenChange { name: name(), rotation, ..ServiceTokenChange::default() };
    let webhook = || WebhookDraft { name: name(), ..WebhookDraft::default() };
    let on_host = || vec![instance("prod", "s", "h", 80)];
    let releases = || vec![release("x", "r")];
    let due = |thing| Due { thing, release_name: "r".into(), at: Timestamp(1) };
    let password_hash = PasswordHash("h".into());
    let provider = || ProviderDraft {
        issuer: Some("https://x".into()),
        client_id: Some("c".into()),
        ..ProviderDraft { name: name(), ..ProviderDraft::default() }
    };
    let identity = || IdentityRequest { provider: name(), sub: "1".into() };
    let mut commands = Vec::new();
    for op in [Op::Create, Op::Update, Op::Delete] {
        commands.extend([
            Command::Namespaces(op, vec![namespace()]),
            Command::Services(op, vec![service("prod", "x")]),
            Command::Aliases(op, vec![alias("x", "s")]),
            Command::ConfigGroups(op, vec![group()]),
            Command::ConfigFiles(op, vec![file("x", "c")]),
            Command::ConfigTemplates(op, vec![template()]),
            Command::Users(op, vec![user()]),
            Command::ServiceTokens(op, vec![token(Default::default())]),
            Command::AccessKeys(op, vec![access_key("app", "x")]),
            Command::Webhooks(op, vec![webhook()]),
            Command::Instances(op, on_host()),
            Command::Policies(op, vec![PolicyDraft { name: name(), ..PolicyDraft::default() }]),
            Command::Contracts(op, vec![ContractDraft { name: name(), ..ContractDraft::default() }]),
            Command::Providers(op, vec![provider()]),
            Command::Users(op, vec![UserDraft { identity: Some(identity()), ..UserDraft::default() }]),
        ]);
        commands.extend(Family::ALL.iter().map(|family| Command::Rules(op, vec![rule(*family, "x")])));
    }
    for op in RequestOp::ALL {
        commands.push(Command::Requests(op, vec![RequestDraft { id: name(), ..RequestDraft::default() }]));
    }
    use ReleaseOp::{Delete, Promote, Rollback, Rollout, Signal, StopGray, Withdraw};
    for op in [Rollback, StopGray, Delete, Promote, Withdraw, Rollout, Signal] {
        let of_rules = |family: &Family| Command::RuleReleases(*family, op, vec![of_rule("x", "r")]);
        commands.extend(Family::ALL.iter().map(of_rules));
        commands.push(Command::ConfigReleases(op, releases()));
    }
    commands.extend(Family::ALL.iter().map(|family| Command::PublishRules(*family, vec![of_rule("x", "r")])));
    commands.extend([
        Command::ConfigPublish(releases()),
        Command::ConfigCreateAndPublish(vec![ConfigPublish {
            file: file("y", "c"),
            release: release("y", "r"),
            md5: None,
        }]),
        Command::ConfigRollback(releases()),
        Command::ConfigDeleteReleases(releases()),
        Command::ConfigStopGray(releases()),
        Command::InstancesDeleteHost(on_host()),
        Command::InstancesIsolateHost(on_host()),
        Command::ChangePassword { name: name(), password_hash, replaces: None },
        Command::Settings(SettingsChange { releases_kept: Some(7), ..SettingsChange::default() }),
        Command::SignIn {
            hash: hash(),
            user_id: "none".into(),
            password: PasswordHash::default(),
            from: Default::default(),
        },
        Command::SignOut { hash: hash() },
        Command::SsoSignIn(Box::new(SsoSignIn {
            hash: hash(),
            provider: "none".into(),
            claims: Claims::parse(r#"{"sub":"1"}"#).expect("claims"),
            digest: "d".into(),
            from: Default::default(),
        })),
        Command::SsoLogout(SsoLogout {
            provider: "none".into(),
            sid: Some("s".into()),
            sub: None,
            jti: "j".into(),
            expires: Timestamp(1),
        }),
        Command::FreeIdentities { items: vec![identity()], tokens: true },
        Command::ChangeTokens(vec![change(None)]),
        Command::ChangeTokens(vec![change(Some(Rotation { hash: hash(), overlap_s: 1 }))]),
        Command::EndSessions(vec!["x".into()]),
        Command::Instances(Op::Create, vec![InstanceDraft { id: Some("i".into()), ..instance("prod", "s", "h", 81) }]),
        Command::InstanceHealth(vec![InstanceHealth { id: "i".into(), ..InstanceHealth::default() }]),
        Command::RemoveDeadInstances(vec![DeadInstance { id: "i".into(), revision: String::new() }]),
        Command::PublishDue(vec![due(Thing::File(ConfigKey::new("prod", "g", "f")))]),
        Command::ClientsRefused(Vec::new()),
        Command::XdsSeen(vec!["x".into()]),
        Command::Rollouts(vec![RolloutTransition {
            thing: Thing::File(ConfigKey::new("prod", "g", "f")),
            release_name: "r".into(),
            release_id: "7".into(),
            rule_revision: String::new(),
            version: 1,
            step: 1,
            change: RolloutChange::Advance,
        }]),
        Command::PublishDue(Family::ALL.iter().map(|family| due(Thing::Rule(*family, "x".into()))).collect()),
        Command::PruneReleases(Overfull::default()),
        Command::WebhooksTold(vec![WebhookTold::default()]),
        Command::Note(vec![AuditNote::default()]),
        Command::Announce(NodeRecord::new(1, "i".into(), "a:1".into(), "c:1".into())),
        Command::Forget { node_id: 9 },
        Command::Bootstrap {
            cluster_id: "c".into(),
            admin: Founder::administrator("u", "h", Timestamp(1)),
            level: Level::FIRST,
        },
        Command::Raise { level: Level(2) },
        Command::Time(TimeChange::Tick),
        Command::Time(TimeChange::Confirm { doubt: 0 }),
    ]);
    commands
}

/// Words that an entry of each command leaves in the trail, as a caller's and as an instance's own.
#[test]
fn words_of_the_audit_trail() {
    let mut bench = Bench::trusting();
    let settings = SettingsChange { audit_instances: Some(1), ..SettingsChange::default() };
    assert_eq!(bench.by("admin", Command::Settings(settings)), [200000]);
    let (mut written, mut rows) = (Vec::new(), BTreeMap::new());
    for command in commands() {
        let text = format!("{command:?}");
        let name: String = text.chars().take_while(|letter| letter.is_ascii_alphanumeric()).collect();
        for itself in [false, true] {
            if itself && !matches!(command, Command::Instances(..)) {
                continue;
            }
            let is_own = command.is_own();
            let asked = if is_own { command.clone() } else { asked_by("admin", itself, command.clone()) };
            let applied = bench.apply(asked);
            for edit in applied.edits.iter().filter(|edit| edit.value.is_some()) {
                let table = Table::of_key(&edit.key).expect("a table");
                rows.entry(table.label()).or_insert_with(|| edit.clone());
            }
            let events = applied.audit.iter().flat_map(|row| row.events());
            let words: Vec<_> = events
                .map(|event| format!("{} {} {:?} {:?}", event.action, event.kind, event.namespace, event.name))
                .collect();
            let line = format!("{name} {}: {}", command.action(itself), words.join(", "));
            written.push(line.trim_end().to_owned());
        }
    }
    let written = written.join("\n") + "\n";
    super::golden::assert_golden("golden_words.txt", &written);
    super::golden::write_seeds(rows);
}

/// Rows of releases in every state, with their histories.
#[test]
fn rows_of_every_state_of_a_release() {
    let rows_of = |kind: Kind| {
        let mut hash = Sha256::new();
        for (key, value) in House::with_all_states(kind).bench.rows {
            pack::to_bytes(&(key, value)).iter().for_each(|byte| hash.update([*byte]));
        }
        hex::encode(&hash.finalize()[..8])
    };
    super::golden::assert_golden("golden_rows.txt", &kinds().map(|kind| rows_of(kind) + "\n").collect::<String>());
}

/// The name under which clients find a file is part of a row key, in lower case by the Unicode tables of the standard
/// library. Another version of the tables would write other keys.
#[test]
fn the_lower_case_of_every_letter() {
    let mut hash = Sha256::new();
    for letter in '\0'..=char::MAX {
        // A sigma at the end of a word has its own form, and the tables define what a word is.
        for name in [format!("{letter}"), format!("{letter}Σ"), format!("AΣ{letter}"), format!("AΣ{letter}A")] {
            hash.update(canonical_file(&name));
            hash.update([0]);
        }
    }
    let digest = hex::encode(&hash.finalize()[..16]);
    assert_eq!(digest, GOLDEN_LOWER_CASE, "letters became others: pin the table as it was, or bring a level");
}

const GOLDEN_LOWER_CASE: &str = "e8234903ea0914e5f67ceef4c48f9f37";
