//! Dispatch of commands: per command, the authorization of its items and the book that it changes.

use super::authorization::{self, AuthCheck, Principal};
use super::change::{Applied, ChangeSet, Outcome};
use super::command::{AuthorizedCommand, Command, Op};
use super::ctx::{Apply, Ctx};
use super::scope::AuthTarget;
use crate::catalog::audit::AuditRow;
use crate::catalog::nodes::Cluster;
use crate::catalog::{Catalog, namespaces};
use crate::model::access::{Founder, User};
use crate::model::access_key::AccessKey;
use crate::model::alias::ServiceAlias;
use crate::model::approval::GatedAction;
use crate::model::code::Code;
use crate::model::config_file::{ConfigFile, ConfigGroup};
use crate::model::config_template::ConfigTemplate;
use crate::model::contract::Contract;
use crate::model::grant::Verb;
use crate::model::instance::Instance;
use crate::model::namespace::Namespace;
use crate::model::policy::Policy;
use crate::model::release::ReleaseOp;
use crate::model::rule::Rule;
use crate::model::service::Service;
use crate::model::sso::Provider;
use crate::model::webhook::Webhook;

impl Catalog {
    /// Applies one command. A request id that was applied before changes nothing: its reply was sent then.
    pub fn apply(&mut self, ctx: &Ctx, command: Command) -> Applied {
        let mut changes = ChangeSet::default();
        let (ctx, before) = (self.dated(ctx), self.requests.clock());
        if !self.requests.remember(&ctx, &mut changes) {
            return Applied { duplicate: true, ..Applied::default() };
        }
        let ctx = &self.judged(ctx, before, &mut changes);
        let mut apply = Apply { catalog: self, ctx, changes: &mut changes };
        let outcomes = match command {
            Command::Authorized(asked) => apply.dispatch_asked(*asked),
            command => apply.dispatch_own(command),
        };
        apply.queue_webhook_events();
        self.trail.prune(ctx.sure(), &self.settings, &mut changes);
        changes.into_applied(outcomes)
    }
}

impl Apply<'_> {
    /// Applies a caller's command, authorized by the caller's rights now.
    fn dispatch_asked(&mut self, mut asked: AuthorizedCommand) -> Vec<Outcome> {
        let principal = self.catalog.principal(&asked.credential, self.ctx);
        let (mut head, self_registration) =
            (AuditRow::of_asked(self.ctx, &principal, &mut asked), asked.self_registration);
        let outcomes = match principal.author() {
            Some(author) => {
                let ctx = self.ctx.with_author(author.clone());
                let outcomes = self.under(&ctx).dispatch(&principal, self_registration, asked.command);
                self.ctx.draw_after(&ctx);
                outcomes
            }
            None => self.dispatch(&principal, self_registration, asked.command),
        };
        // The entry may have set the clock.
        head.written = self.catalog.requests.clock();
        self.write_down(head, self_registration);
        outcomes
    }

    /// Applies a command of the cluster itself.
    fn dispatch_own(&mut self, command: Command) -> Vec<Outcome> {
        let is_of_instances = matches!(command, Command::InstanceHealth(_) | Command::RemoveDeadInstances(_));
        let head = AuditRow::of_entry(self.ctx, command.action(false));
        let outcomes = self.dispatch(&Principal::Cluster, false, command);
        self.write_down(head, is_of_instances);
        outcomes
    }

    /// Applies a command to its items; each row has the operation, the required rights, and the target of an item.
    #[rustfmt::skip] // one row a command
    fn dispatch(&mut self, principal: &Principal, self_registration: bool, command: Command) -> Vec<Outcome> {
        let verbs = command.verbs(self_registration);
        if command.is_own() && !matches!(principal, Principal::Cluster) {
            return vec![Code::NotAllowedAccess.into()];
        }
        let check = |op| AuthCheck { principal, verbs, missing: authorization::missing(op) };
        let check_of_instance = |op| AuthCheck {
            missing: if op == Op::Update { Code::NotFoundInstance.into() } else { authorization::missing(op) },
            ..check(op)
        };
        let check_of_alias = |op| AuthCheck {
            missing: if op == Op::Update { Code::NotFoundServiceAlias.into() } else { authorization::missing(op) },
            ..check(op)
        };
        let check_of_release = |op| AuthCheck { missing: authorization::missing_release(op), ..check(Op::Update) };
        match command {
            Command::Namespaces(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_namespace(op, item),
                |apply, item| apply.write::<Namespace>(op, &item)),
            Command::Services(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_service(op, item),
                |apply, item| apply.write::<Service>(op, &item)),
            Command::Aliases(op, items) => self.each_judged(&check_of_alias(op), items,
                |catalog, item| catalog.target_of_alias(op, item),
                |apply, item| apply.write::<ServiceAlias>(op, &item)),
            Command::Rules(Op::Delete, items) => self.each_act(&check(Op::Delete),
                items.into_iter().map(|item| GatedAction::DeleteRule(Box::new(item)))),
            Command::Rules(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_rule(op, item),
                |apply, item| apply.write::<Rule>(op, &item)),
            Command::PublishRules(family, items) => self.each_act(&check(Op::Update),
                self.catalog.named_for(principal, family, items).into_iter()
                    .map(|item| GatedAction::PublishRule(family, item))),
            Command::RuleReleases(family, op, items) => self.each_act(&check_of_release(op),
                self.catalog.named_for(principal, family, items).into_iter()
                    .map(|item| GatedAction::RuleRelease(family, op, item))),
            Command::ConfigGroups(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_group(op, item),
                |apply, item| apply.write::<ConfigGroup>(op, &item)),
            Command::ConfigFiles(Op::Delete, items) => self.each_act(&check(Op::Delete),
                items.into_iter().map(|item| GatedAction::DeleteFile(Box::new(item)))),
            Command::ConfigFiles(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_file(op, item),
                |apply, item| apply.write::<ConfigFile>(op, &item)),
            Command::ConfigPublish(items) => self.each_act(&check(Op::Update),
                items.into_iter().map(GatedAction::PublishFile)),
            Command::ConfigCreateAndPublish(items) => self.each_act(&check(Op::Update),
                items.into_iter().map(|item| GatedAction::WriteAndPublishFile(Box::new(item)))),
            // Commands of earlier logs, from before a single command replaced them.
            Command::ConfigRollback(items) => self.dispatch(principal, false,
                Command::ConfigReleases(ReleaseOp::Rollback, items)),
            Command::ConfigDeleteReleases(items) => self.dispatch(principal, false,
                Command::ConfigReleases(ReleaseOp::Delete, items)),
            Command::ConfigStopGray(items) => self.dispatch(principal, false,
                Command::ConfigReleases(ReleaseOp::StopGray, items)),
            Command::ConfigReleases(op, items) => self.each_act(&check_of_release(op),
                items.into_iter().map(|item| GatedAction::FileRelease(op, item))),
            Command::ConfigTemplates(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_template(item),
                |apply, item| apply.write::<ConfigTemplate>(op, &item)),
            Command::Instances(op, items) => self.each_judged(&check_of_instance(op), items,
                |catalog, item| catalog.target_of_instance(op, item),
                |apply, item| apply.write::<Instance>(op, &item)),
            Command::InstancesDeleteHost(items) => self.each_judged(&check_of_instance(Op::Delete), items,
                |catalog, item| catalog.target_of_host(item),
                |apply, item| apply.delete_instances_of_host(&item)),
            Command::InstancesIsolateHost(items) => self.each_judged(&check_of_instance(Op::Update), items,
                |catalog, item| catalog.target_of_host(item),
                |apply, item| apply.isolate_instances_of_host(&item)),
            Command::Users(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_account(item),
                |apply, item| apply.write::<User>(op, &item)),
            Command::ServiceTokens(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_token(&item.name),
                |apply, item| apply.write_service_token(principal, op, item)),
            Command::ChangeTokens(items) => self.each_judged(&check(Op::Update), items,
                |catalog, item| catalog.target_of_token(&item.name),
                |apply, item| apply.change_service_token(principal, &item)),
            Command::EndSessions(ids) => self.each_judged(&check(Op::Delete), ids,
                |catalog, id| catalog.target_of_session(id),
                |apply, id| apply.end_session(principal, &id)),
            Command::AccessKeys(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_access_key(item),
                |apply, item| apply.write::<AccessKey>(op, &item)),
            Command::Webhooks(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_webhook(item),
                |apply, item| apply.write::<Webhook>(op, &item)),
            Command::WebhooksTold(items) => each(items, |item| self.note_told(&item)),
            Command::ChangePassword { name, password_hash, replaces } => {
                // Changing one's own password requires only the old one.
                let is_own =
                    replaces.is_some() && matches!(principal, Principal::Holder(holder) if holder.name == name);
                let verbs: &[Verb] = if is_own { &[] } else { &[Verb::Manage] };
                self.each_judged(&AuthCheck { verbs, ..check(Op::Update) }, vec![password_hash],
                    |catalog, _| catalog.target_of_user(&name),
                    |apply, hash| apply.change_password(&name, hash, replaces.as_ref()))
            }
            Command::Settings(change) => {
                let is_of_judgement = change.is_of_judgement();
                let verbs = if is_of_judgement { &[Verb::Operate, Verb::Manage] } else { verbs };
                self.each_judged(&AuthCheck { verbs, ..check(Op::Update) }, vec![change],
                    |catalog, _| catalog.target_of_settings(),
                    |apply, change| apply.change_settings(&change))
            }
            Command::SignIn { hash, user_id, password, from } => {
                let outcome = self.sign_in(hash, user_id, &password, from);
                self.changes.did(AuthTarget::of_cluster("user", &self.ctx.by), &outcome);
                vec![outcome]
            }
            // The holder of a token may always end it.
            Command::SignOut { hash } => {
                let outcome = self.sign_out(&hash);
                self.changes.did(AuthTarget::of_cluster("user", &self.ctx.by), &outcome);
                vec![outcome]
            }
            Command::Providers(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_provider(&item.name),
                |apply, item| apply.write::<Provider>(op, &item)),
            Command::FreeIdentities { items, tokens } => self.each_judged(&check(Op::Delete), items,
                |catalog, item| catalog.target_of_identity(item),
                |apply, item| apply.free_identity(&item, tokens)),
            Command::SsoSignIn(asked) => vec![self.sso_sign_in(*asked)],
            Command::SsoLogout(asked) => vec![self.sso_logout(&asked)],
            Command::Bootstrap { cluster_id, admin, level } => {
                let cluster = Cluster { cluster_id, founded: self.ctx.time, level };
                vec![self.bootstrap(cluster, admin)]
            }
            Command::Raise { level } => vec![self.catalog.nodes.raise(level, self.changes)],
            Command::Announce(node) => vec![self.catalog.nodes.announce(node, self.changes)],
            Command::Forget { node_id } => vec![self.catalog.nodes.forget(node_id, self.changes)],
            Command::InstanceHealth(items) => each(items, |item| {
                let target = self.catalog.target_of_reported_instance(&item.id);
                let outcome = self.change_health(&item);
                target.into_iter().for_each(|target| self.changes.did(target, &outcome));
                outcome
            }),
            Command::RemoveDeadInstances(items) => each(items, |item| {
                let target = self.catalog.target_of_reported_instance(&item.id);
                let outcome = self.remove_dead_instance(&item);
                target.into_iter().for_each(|target| self.changes.did(target, &outcome));
                outcome
            }),
            Command::PublishDue(items) => each(items, |item| {
                let target = self.catalog.target_of_thing(&item.thing);
                let outcome = self.publish_due(&item);
                self.changes.did(target, &outcome);
                outcome
            }),
            Command::Rollouts(items) => each(items, |item| {
                let target = self.catalog.target_of_thing(&item.thing);
                let outcome = self.move_rollout(&item);
                self.changes.did(target, &outcome);
                outcome
            }),
            Command::Policies(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_policy(&item.name),
                |apply, item| apply.write::<Policy>(op, &item)),
            Command::Contracts(op, items) => self.each_judged(&check(op), items,
                |catalog, item| catalog.target_of_contract(op, item),
                |apply, item| apply.write::<Contract>(op, &item)),
            // The policies of a request determine who may decide on it.
            Command::Requests(op, items) => self.each_judged(&AuthCheck { verbs: &[], ..check(Op::Update) }, items,
                |catalog, item| catalog.target_of_request_named(&item.id),
                |apply, item| apply.change_request(principal, op, &item)),
            Command::ExpireRequests => vec![self.expire_requests()],
            Command::ClientsRefused(items) => each(items, |item| self.emit_client_refusal(&item)),
            Command::XdsSeen(items) => each(items, |item| self.mark_xds(&item)),
            #[cfg(feature = "next-level")]
            Command::NextLevel(row) => vec![self.put_next_level(row)],
            Command::Note(notes) => vec![self.note(notes)],
            Command::Time(change) => self.each_judged(&check(Op::Update), vec![change],
                |_, change| Catalog::target_of_time(change),
                |apply, change| apply.change_time(change)),
            Command::PruneReleases(overfull) => vec![self.prune(&overfull)],
            Command::Authorized(_) => vec![Code::BadRequest.into()],
        }
    }

    /// Carries out each action that its caller has the right to and that no policy blocks.
    fn each_act(&mut self, check: &AuthCheck<'_>, acts: impl Iterator<Item = GatedAction>) -> Vec<Outcome> {
        self.each_judged(
            check,
            acts.collect(),
            |catalog, act| catalog.target_of_act(act),
            |apply, act| apply.do_act(check.principal, act),
        )
    }

    /// Founds the cluster. A second attempt changes nothing.
    fn bootstrap(&mut self, cluster: Cluster, admin: Founder) -> Outcome {
        if self.catalog.nodes.cluster_id().is_some() {
            return Code::NoNeedUpdate.into();
        }
        self.catalog.nodes.found(cluster, self.changes);
        self.catalog.access.put_user(admin.into(), self.changes);
        self.catalog.namespaces.ensure(self.ctx, namespaces::DEFAULT, self.changes);
        Outcome::default()
    }
}

/// Applies the items of a batch one by one, in order; each succeeds or fails on its own.
fn each<T>(items: Vec<T>, apply: impl FnMut(T) -> Outcome) -> Vec<Outcome> {
    items.into_iter().map(apply).collect()
}
