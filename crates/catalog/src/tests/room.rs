//! Commands that are refused in a shortage.

use super::*;
use crate::format::level::Level;
use crate::format::pack;

/// Checks the pinned commands by the names of their variants: a new kind of command needs a row here.
#[test]
fn what_adds_is_known_of_every_command() {
    let adds = |name: &str| {
        Some(match name {
            "Bootstrap" | "Announce" | "Forget" | "Raise" => false,
            "SignIn" | "SignOut" | "SsoSignIn" | "SsoLogout" | "FreeIdentities" => false,
            "ConfigPublish" | "ConfigCreateAndPublish" | "PublishRules" => true,
            "ConfigRollback" | "ConfigStopGray" | "ConfigDeleteReleases" => false,
            "InstancesDeleteHost" | "InstancesIsolateHost" | "InstanceHealth" => false,
            "Settings" | "PruneReleases" | "RemoveDeadInstances" => false,
            "Users" | "Providers" | "ServiceTokens" | "AccessKeys" => true,
            "Webhooks" | "ConfigTemplates" | "Policies" | "Contracts" => true,
            "ChangePassword" | "ChangeTokens" | "EndSessions" | "Note" | "WebhooksTold" | "ExpireRequests" => false,
            "Rollouts" | "ClientsRefused" | "Time" | "XdsSeen" => false,
            // These depend on their operation, or on the command of a caller.
            "ConfigReleases" | "RuleReleases" | "Requests" | "PublishDue" | "Authorized" => return None,
            "Namespaces" | "Services" | "ConfigGroups" | "ConfigFiles" | "Aliases" | "Rules" | "Instances" => true,
            other => panic!("{other} has no row here"),
        })
    };
    let mut seen = 0;
    for line in include_str!("golden_commands.txt").lines() {
        let command: Command = pack::from_bytes(&hex::decode(line).expect("hex")).expect("readable");
        let text = format!("{command:?}");
        let name = text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        let deletes = text.contains("(Delete,");
        if let Some(adds) = adds(name) {
            assert_eq!(command.adds(), adds && !deletes, "{text}");
        }
        seen += 1;
    }
    assert!(seen > 20, "{seen} pinned commands");
    assert!(!Command::Raise { level: Level(2) }.adds());
}

#[test]
fn deletes_never_add_and_the_other_operations_do() {
    for (op, adds) in [(Op::Create, true), (Op::Update, true), (Op::Delete, false)] {
        for command in [
            Command::Namespaces(op, Vec::new()),
            Command::Services(op, Vec::new()),
            Command::ConfigGroups(op, Vec::new()),
            Command::ConfigFiles(op, Vec::new()),
            Command::Aliases(op, Vec::new()),
            Command::Rules(op, Vec::new()),
            Command::Instances(op, Vec::new()),
        ] {
            assert_eq!(command.adds(), adds, "{command:?}");
        }
    }
}
