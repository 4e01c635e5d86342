//! Names of things that do not exist, for the answers about them. Apply refuses such an item by a code alone, because
//! some of its refusals are stored; the name is added here. It is the name that the caller gave, so a thing that the
//! caller may not see has the same answer as one that does not exist.

use crate::catalog::{Command, Op, Outcome};
use crate::model::access::UserDraft;
use crate::model::code::{Code, placed};
use crate::model::config_file::ConfigReleaseDraft;
use crate::model::rule::Family;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::sso::IdentityRequest;

/// Details that apply gives to things that do not exist.
const GENERAL: [&str; 5] = ["", "no such rule", "no such config file", "no such release", "no such request"];
const CODES: [Code; 3] = [Code::NotFoundResource, Code::NotFoundInstance, Code::NotFoundServiceAlias];

/// Returns the name of the thing of each item; empty for a command that creates or deletes things.
pub(super) fn named_things(command: &Command) -> Vec<String> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let alone = |kind: &'static str| move |name: &str| placed(kind, "", name);
    match command {
        Command::Namespaces(Op::Update, items) => {
            items.iter().map(|item| &*item.name).map(alone("namespace")).collect()
        }
        Command::ConfigTemplates(Op::Update, items) => {
            items.iter().map(|item| &*item.name).map(alone("configtemplate")).collect()
        }
        Command::Users(Op::Update, items) => {
            let name =
                |item: &UserDraft| item.identity.as_ref().map_or_else(|| item.name.clone(), IdentityRequest::account);
            items.iter().map(|item| placed("user", "", &name(item))).collect()
        }
        Command::Providers(Op::Update, items) => items.iter().map(|item| &*item.name).map(alone("provider")).collect(),
        Command::ChangePassword { name, .. } => vec![placed("user", "", name)],
        Command::ChangeTokens(items) => items.iter().map(|item| &*item.name).map(alone("token")).collect(),
        Command::Webhooks(Op::Update, items) => items.iter().map(|item| &*item.name).map(alone("webhook")).collect(),
        Command::Policies(Op::Update, items) => items.iter().map(|item| &*item.name).map(alone("policy")).collect(),
        Command::Contracts(Op::Update, items) => items.iter().map(|item| &*item.name).map(alone("contract")).collect(),
        Command::Requests(_, items) => items.iter().map(|item| &*item.id).map(alone("request")).collect(),
        Command::AccessKeys(Op::Update, items) => {
            items.iter().map(|item| placed("accesskey", "", &format!("{}/{}", item.app_id, item.name))).collect()
        }
        Command::Services(Op::Update, items) => {
            items.iter().map(|item| placed("service", &text(&item.namespace), &text(&item.name))).collect()
        }
        Command::Aliases(Op::Update, items) => {
            items.iter().map(|item| placed("alias", item.alias_namespace(), &text(&item.alias))).collect()
        }
        Command::Instances(Op::Update, items) => items
            .iter()
            .map(|item| match (&item.host, item.port) {
                (Some(host), Some(port)) => {
                    let (namespace, service) = item.service_name();
                    format!("instance {host}:{} of {}", port.0, placed("service", namespace, service))
                }
                _ => format!("instance {}", item.instance_id()),
            })
            .collect(),
        Command::InstancesIsolateHost(items) => items
            .iter()
            .map(|item| {
                let (namespace, service) = item.service_name();
                format!("instance on {} of {}", text(&item.host), placed("service", namespace, service))
            })
            .collect(),
        Command::ConfigGroups(Op::Update, items) => {
            items.iter().map(|item| placed("configgroup", &item.namespace, &item.name)).collect()
        }
        Command::ConfigFiles(Op::Update, items) => items.iter().map(|item| item.key().placed()).collect(),
        Command::ConfigPublish(items) => items.iter().map(|item| item.key().placed()).collect(),
        Command::ConfigRollback(items) | Command::ConfigStopGray(items) | Command::ConfigReleases(_, items) => {
            items.iter().map(file_release).collect()
        }
        Command::Rules(Op::Update, items) => items
            .iter()
            .map(|item| {
                rule(item.body.family(), &text(&item.head.namespace), &text(&item.head.name), &text(&item.head.id))
            })
            .collect(),
        Command::PublishRules(family, items) => items.iter().map(|item| released_rule(*family, item)).collect(),
        Command::RuleReleases(family, _, items) => items
            .iter()
            .map(|item| {
                let of = released_rule(*family, item);
                match &item.release_name {
                    Some(name) => format!("release {name} of {of}"),
                    None => format!("release {}", text(&item.id)),
                }
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn file_release(item: &ConfigReleaseDraft) -> String {
    let of = item.key().placed();
    match &item.name {
        Some(name) => format!("release {name} of {of}"),
        None => format!("release {} of {of}", item.id.unwrap_or_default()),
    }
}

fn released_rule(family: Family, item: &RuleReleaseDraft) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let id = item.rule_id.as_ref().or(item.id.as_ref()).cloned().unwrap_or_default();
    rule(family, &text(&item.namespace), &text(&item.rule_name), &id)
}

/// Returns the name of a rule, or its id if the caller gave no name.
pub(super) fn rule(family: Family, namespace: &str, name: &str, id: &str) -> String {
    let word = family.word();
    match (name, namespace) {
        ("", "") => format!("{word} with the id {id}"),
        ("", _) => format!("{word} with the id {id} in {namespace}"),
        _ => placed(word, namespace, name),
    }
}

/// Returns the name of the service to which the alias of each item refers; empty for other commands.
pub(super) fn named_services(command: &Command) -> Vec<String> {
    let Command::Aliases(Op::Create | Op::Update, items) = command else { return Vec::new() };
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    items.iter().map(|item| placed("service", &text(&item.namespace), &text(&item.service))).collect()
}

/// Adds the names to the outcomes of services that do not exist.
pub(super) fn name_missing_services(outcomes: &mut [Outcome], services: &[String]) {
    for (outcome, service) in outcomes.iter_mut().zip(services) {
        if outcome.code == Code::NotFoundService && outcome.detail.is_empty() {
            outcome.detail = format!("there is no {service}");
        }
    }
}

/// Adds the names to the outcomes of things that do not exist.
pub(super) fn name_missing(outcomes: &mut [Outcome], things: &[String]) {
    for (outcome, thing) in outcomes.iter_mut().zip(things) {
        if CODES.contains(&outcome.code) && GENERAL.contains(&outcome.detail.as_str()) {
            outcome.detail = format!("there is no {thing}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::alias::AliasDraft;
    use crate::model::code::Refusal;
    use crate::model::config_file::ConfigFileDraft;
    use crate::model::instance::InstanceDraft;
    use crate::model::release::ReleaseOp;
    use crate::model::wire::Uint32;

    #[test]
    fn things_are_named_as_the_caller_did() {
        let some = |text: &str| Some(text.to_owned());
        let of_rule = |name: Option<String>, release: Option<String>| RuleReleaseDraft {
            rule_name: name,
            rule_id: some("i"),
            namespace: some("n"),
            release_name: release,
            ..RuleReleaseDraft::default()
        };
        let file = ConfigReleaseDraft {
            namespace: "n".into(),
            group: "g".into(),
            file_name: "f".into(),
            name: some("v1"),
            ..ConfigReleaseDraft::default()
        };
        let draft = ConfigFileDraft {
            namespace: "n".into(),
            group: "g".into(),
            name: "f".into(),
            ..ConfigFileDraft::default()
        };
        let instance = InstanceDraft {
            namespace: some("n"),
            service: some("s"),
            host: some("h"),
            port: Some(Uint32(80)),
            ..InstanceDraft::default()
        };
        let family = Family::Routing;
        for (command, thing) in [
            (Command::PublishRules(family, vec![of_rule(some("a"), None)]), "routing/a in n"),
            (Command::PublishRules(family, vec![of_rule(None, None)]), "routing with the id i in n"),
            (
                Command::RuleReleases(family, ReleaseOp::Rollback, vec![of_rule(some("a"), some("v1"))]),
                "release v1 of routing/a in n",
            ),
            (Command::ConfigRollback(vec![file]), "release v1 of configfile/g/f in n"),
            (Command::ConfigFiles(Op::Update, vec![draft]), "configfile/g/f in n"),
            (Command::Instances(Op::Update, vec![instance]), "instance h:80 of service/s in n"),
            (Command::ChangePassword { name: "u".into(), password_hash: Default::default(), replaces: None }, "user/u"),
        ] {
            assert_eq!(named_things(&command), [thing]);
        }
        assert_eq!(named_things(&Command::ConfigFiles(Op::Delete, vec![ConfigFileDraft::default()])), [""; 0]);
    }

    #[test]
    fn the_missing_service_of_an_alias_is_named() {
        let some = |text: &str| Some(text.to_owned());
        let alias = AliasDraft { service: some("s"), namespace: some("n"), ..AliasDraft::default() };
        let services = named_services(&Command::Aliases(Op::Create, vec![alias]));
        let mut outcomes = [Code::NotFoundService.into()];
        name_missing_services(&mut outcomes, &services);
        assert_eq!(outcomes[0].info(), "not found service: there is no service/s in n");
    }

    #[test]
    fn only_refusals_without_a_reason_are_named() {
        let own = Refusal::new(Code::NotFoundResource, "there is no earlier normal release to go back to");
        let mut outcomes: Vec<Outcome> = vec![
            Outcome::default(),
            Code::NotFoundResource.into(),
            Refusal::new(Code::NotFoundResource, "no such rule").into(),
            own.clone().into(),
            Code::DataConflict.into(),
        ];
        name_missing(&mut outcomes, &["a", "b", "c", "d", "e"].map(str::to_owned));
        let details: Vec<_> = outcomes.iter().map(|outcome| outcome.detail.as_str()).collect();
        assert_eq!(details, ["", "there is no b", "there is no c", &own.detail, ""]);
    }
}
