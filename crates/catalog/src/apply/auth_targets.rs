//! Authorization targets by kind of item: the thing that an item names by id or name, and the scope that it is put in.
//! They use the same look-ups as the change itself, so the thing that is authorized is the thing that is changed.
//!
//! The names of kinds, and the composition of names, are written into the audit trail, whose rows are hashed. Changing
//! them requires a new level (`tests::words`).

use super::command::{Command, Op};
use super::scope::{AuthTarget, ResourceScope};
use crate::catalog::Catalog;
use crate::catalog::audit::AuditNote;
use crate::catalog::history::Thing;
use crate::catalog::time::TimeChange;
use crate::model::access::UserDraft;
use crate::model::access_key::AccessKeyDraft;
use crate::model::alias::AliasDraft;
use crate::model::code::Code;
use crate::model::config_file::{ConfigFileDraft, ConfigGroupDraft, ConfigKey, ConfigPublish, ConfigReleaseDraft};
use crate::model::config_template::ConfigTemplateDraft;
use crate::model::contract::{Contract, ContractDraft};
use crate::model::instance::InstanceDraft;
use crate::model::namespace::NamespaceDraft;
use crate::model::rule::release::{RuleRelease, RuleReleaseDraft};
use crate::model::rule::{Effect, End, Family, Rule, RuleDraft};
use crate::model::service::ServiceDraft;
use crate::model::sso::IdentityRequest;
use crate::model::stamp::Stamp;
use crate::model::webhook::WebhookDraft;
use crate::model::wire::Words;

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

impl Catalog {
    pub(super) fn target_of_namespace(&self, op: Op, draft: &NamespaceDraft) -> AuthTarget {
        let (target, place) =
            (AuthTarget::new("namespace", &draft.name, &draft.name), ResourceScope::Namespace(draft.name.clone()));
        match self.namespaces.get(&draft.name) {
            Some(namespace) if op != Op::Create => target.at(place, &namespace.revision),
            _ if op == Op::Create => target.to(place),
            _ => target,
        }
    }

    pub(super) fn target_of_service(&self, op: Op, draft: &ServiceDraft) -> AuthTarget {
        let (namespace, name) = (text(&draft.namespace), text(&draft.name));
        if op == Op::Create {
            return AuthTarget::new("service", namespace, name).to(ResourceScope::thing(namespace, name));
        }
        match self.services.named_by(draft) {
            Some(service) => AuthTarget::new("service", &service.namespace, &service.name)
                .at(ResourceScope::thing(&service.namespace, &service.name), &service.revision),
            None => AuthTarget::new("service", namespace, name),
        }
    }

    /// Returns the target of an alias. Creating one requires rights to both the service and the alias name.
    pub(super) fn target_of_alias(&self, op: Op, draft: &AliasDraft) -> AuthTarget {
        let mut target = AuthTarget::new("alias", draft.alias_namespace(), text(&draft.alias));
        if op == Op::Create {
            target = target.to(ResourceScope::thing(draft.alias_namespace(), text(&draft.alias)));
        } else if let Some(alias) = self.aliases.named_by(draft) {
            target = AuthTarget::new("alias", &alias.alias_namespace, &alias.alias)
                .at(ResourceScope::thing(&alias.namespace, &alias.service), &alias.revision);
        }
        match &draft.service {
            Some(service) if op != Op::Delete => target.to(ResourceScope::thing(text(&draft.namespace), service)),
            _ => target,
        }
    }

    pub(super) fn target_of_instance(&self, op: Op, draft: &InstanceDraft) -> AuthTarget {
        let (namespace, service) = draft.service_name();
        let id = draft.instance_id();
        if op == Op::Create {
            return AuthTarget::new("instance", namespace, id).to(ResourceScope::thing(namespace, service));
        }
        match self.instances.get(&id).filter(|instance| draft.names(instance)) {
            Some(instance) => AuthTarget::new("instance", &instance.namespace, id)
                .at(ResourceScope::thing(&instance.namespace, &instance.service), &instance.revision),
            None => AuthTarget::new("instance", namespace, id),
        }
    }

    /// Returns the target of an instance with a health report, if the trail records instances: there may be very many
    /// at once.
    pub(super) fn target_of_reported_instance(&self, id: &str) -> Option<AuthTarget> {
        self.tells_of_instances().then(|| match self.instances.get(id) {
            Some(instance) => AuthTarget::new("instance", &instance.namespace, id)
                .at(ResourceScope::thing(&instance.namespace, &instance.service), &instance.revision),
            None => AuthTarget::new("instance", "", id),
        })
    }

    pub(super) fn target_of_host(&self, draft: &InstanceDraft) -> AuthTarget {
        let (namespace, service) = draft.service_name();
        let name = format!("{service} on {}", text(&draft.host));
        AuthTarget::new("instance", namespace, name).at(ResourceScope::thing(namespace, service), "")
    }

    pub(super) fn target_of_group(&self, op: Op, draft: &ConfigGroupDraft) -> AuthTarget {
        let (namespace, name) = (&draft.namespace, &draft.name);
        let (target, place) = (AuthTarget::new("configgroup", namespace, name), ResourceScope::thing(namespace, name));
        match self.configs.group(namespace, name) {
            _ if op == Op::Create => target.to(place),
            Some(group) => target.at(place, &group.revision),
            None => target,
        }
    }

    pub(super) fn target_of_file(&self, op: Op, draft: &ConfigFileDraft) -> AuthTarget {
        let key = draft.key();
        let (target, place) = (target_at_key(&key), ResourceScope::thing(&key.namespace, &key.group));
        match self.configs.file(&key) {
            _ if op == Op::Create => target.to(place),
            Some(file) => {
                let is_removed = op == Op::Delete && self.has_in_force_or_planned(&key);
                AuthTarget { removed_effects: is_removed.then(Vec::new), ..target.at(place, &file.revision) }
            }
            None => target,
        }
    }

    /// Reports whether clients see a release of a file, or will see a planned one.
    fn has_in_force_or_planned(&self, key: &ConfigKey) -> bool {
        self.configs.releases_of(key).any(|release| release.state().is_in_force_or_planned())
    }

    pub(super) fn target_of_template(&self, draft: &ConfigTemplateDraft) -> AuthTarget {
        let target = AuthTarget::of_cluster("configtemplate", &draft.name);
        let revision = self.templates.get(&draft.name).map(|template| template.revision.clone());
        AuthTarget { revision: revision.unwrap_or_default(), ..target }
    }

    /// Returns the target of a write with publication, which requires both verbs.
    pub(super) fn target_of_publication(&self, publish: &ConfigPublish) -> AuthTarget {
        let key = publish.file.key();
        let before = self.version_in_force(&key);
        AuthTarget { revision: before, ..target_at_key(&key).to(ResourceScope::thing(&key.namespace, &key.group)) }
    }

    /// Returns the target of a release: its file, whether or not a release of that name exists.
    pub(super) fn target_of_config_release(&self, draft: &ConfigReleaseDraft) -> AuthTarget {
        let key = draft.key();
        let is_there = self.configs.file(&key).is_some() || !self.configs.versions_of(&key).is_empty();
        let (target, place) = (target_at_key(&key), ResourceScope::thing(&key.namespace, &key.group));
        if is_there { target.at(place, self.version_in_force(&key)) } else { target }
    }

    /// Returns the target of a planned release.
    pub(super) fn target_of_thing(&self, thing: &Thing) -> AuthTarget {
        match thing {
            Thing::File(key) => {
                target_at_key(key).at(ResourceScope::thing(&key.namespace, &key.group), self.version_in_force(key))
            }
            Thing::Rule(family, id) => match self.rules.of(*family).get(id) {
                Some(rule) => self.target_at_rule(rule),
                None => AuthTarget::new(family.word(), "", id),
            },
        }
    }

    pub(super) fn target_of_user(&self, name: &str) -> AuthTarget {
        let revision = self.access.user_named(name).map(|user| user.revision.clone());
        AuthTarget::of_cluster("user", name).at(ResourceScope::Cluster, revision.unwrap_or_default())
    }

    /// Returns the target of a local user, or of a person of a provider.
    pub(super) fn target_of_account(&self, draft: &UserDraft) -> AuthTarget {
        let Some(identity) = &draft.identity else { return self.target_of_user(&draft.name) };
        let revision = self.access.user_of(identity).map(|user| user.revision.clone());
        let name = identity.account();
        AuthTarget::of_cluster("user", name).at(ResourceScope::Cluster, revision.unwrap_or_default())
    }

    pub(super) fn target_of_token(&self, name: &str) -> AuthTarget {
        let revision = self.access.service_token(name).map(|token| token.revision.clone());
        AuthTarget::of_cluster("token", name).at(ResourceScope::Cluster, revision.unwrap_or_default())
    }

    pub(super) fn target_of_access_key(&self, draft: &AccessKeyDraft) -> AuthTarget {
        let revision = self.access_keys.get(&draft.app_id, &draft.name).map(|key| key.revision.clone());
        let name = format!("{}/{}", draft.app_id, draft.name);
        AuthTarget::of_cluster("accesskey", name).at(ResourceScope::Cluster, revision.unwrap_or_default())
    }

    /// Returns the target of a login, named by its user.
    pub(super) fn target_of_session(&self, id: &str) -> AuthTarget {
        let name = self.access.session(id).map(|(_, name)| name);
        AuthTarget::of_cluster("session", name.unwrap_or_default())
    }

    /// Returns the target of a webhook. Webhooks belong to the cluster.
    pub(super) fn target_of_webhook(&self, draft: &WebhookDraft) -> AuthTarget {
        let before = self.webhooks.get(&draft.name).map(|hook| hook.revision.clone()).unwrap_or_default();
        AuthTarget::of_cluster("webhook", &draft.name).at(ResourceScope::Cluster, before)
    }

    /// Returns the target of an identity provider. Providers belong to the cluster.
    pub(super) fn target_of_provider(&self, name: &str) -> AuthTarget {
        let revision = self.access.sso().provider(name).map(|provider| provider.revision.clone());
        AuthTarget::of_cluster("provider", name).at(ResourceScope::Cluster, revision.unwrap_or_default())
    }

    /// Returns the target of a person of a provider, named as it signs in, with its `sub`.
    pub(super) fn target_of_identity(&self, identity: &IdentityRequest) -> AuthTarget {
        let sso = self.access.sso();
        let there = sso.key_of(identity).and_then(|key| sso.identity(&key));
        let name = there.map(|there| sso.name_of(&there.provider, &there.username));
        AuthTarget::of_cluster("identity", name.unwrap_or_default()).with_revision(format!("sub {}", identity.sub))
    }

    pub(super) fn target_of_policy(&self, name: &str) -> AuthTarget {
        let revision = self.policies.get(name).map(|policy| policy.revision.clone());
        AuthTarget::of_cluster("policy", name).at(ResourceScope::Cluster, revision.unwrap_or_default())
    }

    /// Returns the target of a contract: all scopes that it covers, before and after the change.
    pub(super) fn target_of_contract(&self, op: Op, draft: &ContractDraft) -> AuthTarget {
        let target = AuthTarget::new("contract", "", &draft.name);
        let made = |mut contract: Contract| {
            draft.lay_over(&mut contract);
            ResourceScope::of_contract(&contract)
        };
        match self.contracts.get(&draft.name) {
            _ if op == Op::Create => AuthTarget { destinations: made(Contract::new(&draft.name)), ..target },
            None => target,
            Some(there) => {
                let mut places = ResourceScope::of_contract(there).into_iter();
                let existing = places.next().unwrap_or(ResourceScope::Cluster);
                let becomes = if op == Op::Update { made(Contract::clone(there)) } else { Vec::new() };
                AuthTarget { destinations: places.chain(becomes).collect(), ..target.at(existing, &there.revision) }
            }
        }
    }

    /// Returns the target of a request: the scope of the thing that it is about.
    pub(super) fn target_of_request_named(&self, id: &str) -> AuthTarget {
        match self.approvals.get(id) {
            Some(request) => AuthTarget::new("request", &request.namespace, id)
                .at(ResourceScope::thing(&request.namespace, request.scope_name()), request.state.word()),
            None => AuthTarget::new("request", "", id),
        }
    }

    pub(super) fn target_of_settings(&self) -> AuthTarget {
        AuthTarget::of_cluster("settings", "").at(ResourceScope::Cluster, &self.settings.revision)
    }

    pub(super) fn target_of_time(change: &TimeChange) -> AuthTarget {
        AuthTarget::of_cluster("time", change.word())
    }

    /// Builds the audit note of a batch that was refused as a whole; it names the target of the first item.
    pub fn note_of_refused(&self, command: &Command, self_registration: bool) -> AuditNote {
        let target = self.target_of_first(command).unwrap_or_default();
        let note = AuditNote::of(command.action(self_registration), target.kind, &target.name, Code::NotAllowedAccess);
        AuditNote { namespace: target.namespace, ..note }
    }

    fn target_of_first(&self, command: &Command) -> Option<AuthTarget> {
        Some(match command {
            Command::Namespaces(op, items) => self.target_of_namespace(*op, items.first()?),
            Command::Services(op, items) => self.target_of_service(*op, items.first()?),
            Command::Aliases(op, items) => self.target_of_alias(*op, items.first()?),
            Command::Rules(op, items) => self.target_of_rule(*op, items.first()?),
            Command::PublishRules(family, items) => self.target_of_rule_publication(*family, items.first()?),
            Command::RuleReleases(family, _, items) => self.target_of_rule_release(*family, items.first()?),
            Command::ConfigGroups(op, items) => self.target_of_group(*op, items.first()?),
            Command::ConfigFiles(op, items) => self.target_of_file(*op, items.first()?),
            Command::ConfigTemplates(_, items) => self.target_of_template(items.first()?),
            Command::ConfigCreateAndPublish(items) => self.target_of_publication(items.first()?),
            Command::ConfigPublish(items)
            | Command::ConfigRollback(items)
            | Command::ConfigDeleteReleases(items)
            | Command::ConfigStopGray(items)
            | Command::ConfigReleases(_, items) => self.target_of_config_release(items.first()?),
            Command::Instances(op, items) => self.target_of_instance(*op, items.first()?),
            Command::InstancesDeleteHost(items) | Command::InstancesIsolateHost(items) => {
                self.target_of_host(items.first()?)
            }
            Command::Users(_, items) => self.target_of_account(items.first()?),
            Command::ServiceTokens(_, items) => self.target_of_token(&items.first()?.name),
            Command::ChangeTokens(items) => self.target_of_token(&items.first()?.name),
            Command::AccessKeys(_, items) => self.target_of_access_key(items.first()?),
            Command::Webhooks(_, items) => self.target_of_webhook(items.first()?),
            Command::Providers(_, items) => self.target_of_provider(&items.first()?.name),
            Command::FreeIdentities { items, .. } => self.target_of_identity(items.first()?),
            Command::Policies(_, items) => self.target_of_policy(&items.first()?.name),
            Command::Contracts(op, items) => self.target_of_contract(*op, items.first()?),
            Command::Requests(_, items) => self.target_of_request_named(&items.first()?.id),
            Command::Settings(_) => self.target_of_settings(),
            Command::Time(change) => Catalog::target_of_time(change),
            _ => return None,
        })
    }

    fn version_in_force(&self, key: &ConfigKey) -> String {
        self.configs.active_release(key).map(|release| release.version.to_string()).unwrap_or_default()
    }

    pub(super) fn target_of_rule(&self, op: Op, draft: &RuleDraft) -> AuthTarget {
        let (head, kind) = (&draft.head, draft.body.family().word());
        let (namespace, name) = (text(&head.namespace), text(&head.name));
        if op == Op::Create {
            let rule = draft.rule(String::new(), String::new(), Stamp::default()).ok();
            let target = AuthTarget::new(kind, namespace, name).to(ResourceScope::thing(namespace, name));
            return AuthTarget { effects: self.effects(rule.as_ref()), ..target };
        }
        let Some(rule) = self.rule_named_by(op, draft) else { return AuthTarget::new(kind, namespace, name) };
        let target = self.visible_by(AuthTarget::new(kind, &rule.namespace, &rule.name), &rule);
        let target = target.at(ResourceScope::of_rule(&rule), &rule.revision);
        if op == Op::Delete {
            return AuthTarget { removed_effects: self.taken_with(&rule), ..target };
        }
        let mut changed = Rule::clone(&rule);
        let laid_over = draft.lay_over(&mut changed).is_ok().then_some(&changed);
        let namespace = head.namespace.as_deref().unwrap_or(&rule.namespace);
        let target = target.to(ResourceScope::thing(namespace, head.name.as_deref().unwrap_or(&rule.name)));
        AuthTarget { effects: self.effects(laid_over), ..target }
    }

    pub(super) fn target_of_rule_publication(&self, family: Family, draft: &RuleReleaseDraft) -> AuthTarget {
        match self.rule_to_publish(family, draft) {
            Ok(rule) => AuthTarget {
                effects: self.effects([&*rule].into_iter().chain(self.rule_in_force(&rule))),
                ..self.target_at_rule(&rule)
            },
            Err(_) => AuthTarget::new(family.word(), text(&draft.namespace), text(&draft.rule_name)),
        }
    }

    /// Returns the target of a rule's release, with the effects of the release and of those in force or brought back.
    pub(super) fn target_of_rule_release(&self, family: Family, draft: &RuleReleaseDraft) -> AuthTarget {
        match self.release_named_by(family, draft) {
            Ok(Some(release)) => {
                let earlier = draft.to_previous.unwrap_or_default().then(|| self.earlier_normal(&*release)).flatten();
                let earlier = earlier.as_ref().map(|release| &*release.rule);
                let judged = [&*release.rule].into_iter().chain(self.rule_in_force(&release.rule)).chain(earlier);
                AuthTarget { effects: self.effects(judged), ..self.target_at_rule(self.rule_of(&release)) }
            }
            Ok(None) | Err(_) => AuthTarget::new(family.word(), text(&draft.namespace), text(&draft.rule_name)),
        }
    }

    fn target_at_rule(&self, rule: &Rule) -> AuthTarget {
        let normal = self.rules.of(rule.family()).active().normal(&rule.id);
        let version = normal.map(|release| release.version.to_string()).unwrap_or_default();
        let target = self.visible_by(AuthTarget::new(rule.family().word(), &rule.namespace, &rule.name), rule);
        target.at(ResourceScope::of_rule(rule), version)
    }

    /// Returns the rule in its normal release in force.
    pub(super) fn rule_in_force(&self, rule: &Rule) -> Option<&Rule> {
        self.rules.of(rule.family()).active().normal(&rule.id).map(|release| &*release.rule)
    }

    /// Returns the services that rules act on; empty if the cluster authorizes rules by their names only.
    pub(crate) fn effects<'a>(&self, rules: impl IntoIterator<Item = &'a Rule>) -> Vec<Effect> {
        if !self.settings.judges_ends() {
            return Vec::new();
        }
        rules.into_iter().map(|rule| self.effect_of(rule)).collect()
    }

    /// Returns the services that a rule acts on, with the targets of aliases.
    pub fn effect_of(&self, rule: &Rule) -> Effect {
        rule.effect().behind(|end| {
            let alias = self.aliases.get(&end.namespace, &end.service)?;
            Some(End { namespace: alias.namespace.clone(), service: alias.service.clone() })
        })
    }

    fn visible_by(&self, target: AuthTarget, rule: &Rule) -> AuthTarget {
        AuthTarget { visible_by: Some(rule.effect()), ..target }
    }

    /// Returns the effects that clients lose with a rule: those of its releases in force or planned.
    fn taken_with(&self, rule: &Rule) -> Option<Vec<Effect>> {
        let releases = self.rules.of(rule.family()).releases_of(&rule.id);
        let taken: Vec<_> = releases.filter(|release| release.state().is_in_force_or_planned()).collect();
        (!taken.is_empty()).then(|| self.effects(taken.into_iter().map(|release| &*release.rule)))
    }

    /// Returns the rule of a release: its present state, or the released copy if it was deleted.
    pub(super) fn rule_of<'a>(&'a self, release: &'a RuleRelease) -> &'a Rule {
        self.rules.of(release.rule.family()).get(&release.rule.id).unwrap_or(&release.rule)
    }
}

fn target_at_key(key: &ConfigKey) -> AuthTarget {
    AuthTarget::new("configfile", &key.namespace, format!("{}/{}", key.group, key.file))
}
