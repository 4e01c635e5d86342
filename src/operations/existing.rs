//! Names of things that prevent a change, for the answers about them: a thing of the same name or id, or things that a
//! deletion would leave without their namespace, service or group. Apply refuses such an item by a code, because some
//! of its refusals are stored; the name is added here. The answer has the thing itself in any case, so its name reveals
//! no more.

use super::missing::rule;
use crate::catalog::{Command, Entity, Op, Outcome};
use crate::model::alias::AliasDraft;
use crate::model::code::{Code, placed};
use crate::model::rule::RuleDraft;
use crate::model::service::ServiceDraft;

/// Things that may prevent the items of a command.
pub(super) struct Obstacles {
    /// One for each item; empty for a command whose outcomes always have the existing thing.
    asked: Vec<AskedThing>,
    is_deletion: bool,
}

/// Names for the item of a command.
#[derive(Default)]
struct AskedThing {
    /// Thing of the item; empty if the outcome always has the existing thing.
    name: String,
    /// Thing of another kind that has the same name; empty if there is no such kind.
    namesake: String,
}

fn alone(name: String) -> AskedThing {
    AskedThing { name, ..AskedThing::default() }
}

fn text(field: Option<&String>) -> &str {
    field.map_or("", String::as_str)
}

impl Obstacles {
    pub(super) fn of(command: &Command) -> Self {
        let asked = match command {
            Command::Namespaces(_, items) => {
                items.iter().map(|item| alone(placed("namespace", "", &item.name))).collect()
            }
            Command::Services(_, items) => items.iter().map(service).collect(),
            Command::Aliases(Op::Create, items) => items.iter().map(alias).collect(),
            Command::Instances(Op::Create, items) => items
                .iter()
                .map(|item| format!("instance {} of another service", item.instance_id()))
                .map(|namesake| AskedThing { namesake, ..AskedThing::default() })
                .collect(),
            Command::ConfigGroups(_, items) => {
                items.iter().map(|item| alone(placed("configgroup", &item.namespace, &item.name))).collect()
            }
            Command::Rules(_, items) => items.iter().map(of_rule).collect(),
            _ => Vec::new(),
        };
        let is_deletion = matches!(
            command,
            Command::Namespaces(Op::Delete, _)
                | Command::Services(Op::Delete, _)
                | Command::ConfigGroups(Op::Delete, _)
        );
        Obstacles { asked, is_deletion }
    }

    /// Adds the names to the outcomes that existing things prevented.
    pub(super) fn name_existing(&self, outcomes: &mut [Outcome]) {
        let none = AskedThing::default();
        for (index, outcome) in outcomes.iter_mut().enumerate() {
            let contents = match outcome.code {
                Code::NamespaceExistedServices => Some("services"),
                Code::NamespaceExistedConfigGroups => Some("config groups"),
                Code::NamespaceExistedGovernanceRules => Some("rules"),
                Code::ServiceExistedInstances => Some("instances"),
                Code::ServiceExistedAlias => Some("aliases"),
                Code::ExistedResource => self.is_deletion.then_some("config files"),
                _ => continue,
            };
            let AskedThing { name, namesake } = self.asked.get(index).unwrap_or(&none);
            let found = name_of(&outcome.entity).unwrap_or_default();
            outcome.detail = match contents {
                Some(contents) if !name.is_empty() => format!("{name} still has {contents}"),
                None if found.is_empty() && !namesake.is_empty() => format!("{namesake} exists already"),
                None if !found.is_empty() && !name.is_empty() && found != *name => {
                    format!("{found} has this id already")
                }
                None if !found.is_empty() => format!("{found} exists already"),
                _ => continue,
            };
        }
    }
}

fn service(item: &ServiceDraft) -> AskedThing {
    let (namespace, name) = (text(item.namespace.as_ref()), text(item.name.as_ref()));
    match item.given_id() {
        Some(id) if name.is_empty() => alone(format!("service with the id {id}")),
        _ => AskedThing { name: placed("service", namespace, name), namesake: placed("alias", namespace, name) },
    }
}

fn alias(item: &AliasDraft) -> AskedThing {
    let (namespace, name) = (item.alias_namespace(), text(item.alias.as_ref()));
    let id = item.given_id().map(|id| format!(", or an alias with the id {id},")).unwrap_or_default();
    let namesake = format!("{}{id}", placed("service", namespace, name));
    AskedThing { name: placed("alias", namespace, name), namesake }
}

fn of_rule(item: &RuleDraft) -> AskedThing {
    let head = &item.head;
    let part = |field: &Option<String>| field.clone().unwrap_or_default();
    alone(rule(item.body.family(), &part(&head.namespace), &part(&head.name), &part(&head.id)))
}

/// Returns the name of the thing that an outcome has.
fn name_of(entity: &Entity) -> Option<String> {
    Some(match entity {
        Entity::Namespace(one) => placed("namespace", "", &one.name),
        Entity::Service(one) => placed("service", &one.namespace, &one.name),
        Entity::Alias(one) => placed("alias", &one.alias_namespace, &one.alias),
        Entity::Rule(one) => rule(one.family(), &one.namespace, &one.name, &one.id),
        Entity::RuleRelease(one) => {
            let of = &one.rule;
            format!("release {} of {}", one.name, rule(of.family(), &of.namespace, &of.name, &of.id))
        }
        Entity::ConfigGroup(one) => placed("configgroup", &one.namespace, &one.name),
        Entity::ConfigFile(one) => one.key.placed(),
        Entity::ConfigRelease(one) => format!("release {} of {}", one.name, one.key.placed()),
        Entity::ConfigTemplate(one) => placed("configtemplate", "", &one.name),
        Entity::User(one) => placed("user", "", &one.name),
        Entity::ServiceToken(one) => placed("token", "", &one.name),
        Entity::AccessKey(one) => placed("accesskey", "", &format!("{}/{}", one.app_id, one.name)),
        Entity::Webhook(one) => placed("webhook", "", &one.name),
        Entity::Policy(one) => placed("policy", "", &one.name),
        Entity::Contract(one) => placed("contract", "", &one.name),
        Entity::Provider(one) => placed("provider", "", &one.name),
        Entity::Identity(one) => placed("identity", "", &one.name),
        Entity::Instance(_) | Entity::Request(_) | Entity::PolicyBlock(_) | Entity::Broken(_) | Entity::None => {
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::code::Refusal;
    use crate::model::config_file::ConfigGroupDraft;
    use crate::model::instance::InstanceDraft;
    use crate::model::namespace::NamespaceDraft;
    use crate::model::service::Service;

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn detail_of(command: &Command, outcome: Outcome) -> String {
        let mut outcomes = [Outcome::default(), outcome];
        Obstacles::of(command).name_existing(&mut outcomes);
        assert_eq!(outcomes[0], Outcome::default());
        outcomes[1].detail.clone()
    }

    #[test]
    fn a_name_is_taken_by_a_thing_of_its_kind_or_of_another() {
        let draft = |id: Option<&str>| ServiceDraft {
            namespace: some("n"),
            name: some("a"),
            id: id.map(str::to_owned),
            ..ServiceDraft::default()
        };
        let services = |id| Command::Services(Op::Create, vec![draft(None), draft(id)]);
        let found = |name: &str| {
            let service = Service { namespace: "n".into(), name: name.into(), ..Service::default() };
            Outcome::existed(Entity::Service(Arc::new(service)))
        };
        assert_eq!(detail_of(&services(None), found("a")), "service/a in n exists already");
        assert_eq!(detail_of(&services(Some("i")), found("b")), "service/b in n has this id already");
        let by_alias = Refusal::new(Code::ExistedResource, "an alias has this name");
        assert_eq!(detail_of(&services(None), by_alias.into()), "alias/a in n exists already");

        let draft = |id: Option<&str>| AliasDraft {
            alias_namespace: some("n"),
            alias: some("a"),
            id: id.map(str::to_owned),
            ..AliasDraft::default()
        };
        for (id, expected) in [
            (None, "service/a in n exists already"),
            (Some("i"), "service/a in n, or an alias with the id i, exists already"),
        ] {
            let command = Command::Aliases(Op::Create, vec![draft(None), draft(id)]);
            assert_eq!(detail_of(&command, Code::ExistedResource.into()), expected);
        }

        let instance = InstanceDraft { id: some("i"), ..InstanceDraft::default() };
        let command = Command::Instances(Op::Create, vec![instance.clone(), instance]);
        let refused = Refusal::new(Code::ExistedResource, "an instance of another service has this id");
        assert_eq!(detail_of(&command, refused.into()), "instance i of another service exists already");
    }

    #[test]
    fn a_deletion_names_what_is_not_empty() {
        let namespace = |name: &str| NamespaceDraft { name: name.into(), ..NamespaceDraft::default() };
        let command = Command::Namespaces(Op::Delete, vec![namespace("a"), namespace("b")]);
        for (code, contents) in [
            (Code::NamespaceExistedServices, "services"),
            (Code::NamespaceExistedConfigGroups, "config groups"),
            (Code::NamespaceExistedGovernanceRules, "rules"),
        ] {
            assert_eq!(detail_of(&command, code.into()), format!("namespace/b still has {contents}"));
        }
        let service = |id: &str| ServiceDraft { id: some(id), ..ServiceDraft::default() };
        let command = Command::Services(Op::Delete, vec![service("i"), service("j")]);
        let expected = "service with the id j still has instances";
        assert_eq!(detail_of(&command, Code::ServiceExistedInstances.into()), expected);
        let group =
            |name: &str| ConfigGroupDraft { namespace: "n".into(), name: name.into(), ..ConfigGroupDraft::default() };
        let command = Command::ConfigGroups(Op::Delete, vec![group("g"), group("h")]);
        let refused = Refusal::new(Code::ExistedResource, "the group still has config files");
        assert_eq!(detail_of(&command, refused.into()), "configgroup/h in n still has config files");
    }
}
