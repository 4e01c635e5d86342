//! Dispatch of commands: per command, the authorization of its items and the book that it changes.

use super::authorization::{self, AuthCheck, Principal};
use super::change::{Applied, ChangeSet, Outcome};
use super::command::{AuthorizedCommand, Command, Op};
use super::ctx::Ctx;
use super::resource::Apply;
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
        let outcomes = match command {
            Command::Authorized(asked) => self.dispatch_asked(ctx, *asked, &mut changes),
            command => self.dispatch_own(ctx, command, &mut changes),
        };
        self.tell_webhooks(ctx, &mut changes);
        self.trail.prune(ctx.sure(), &self.settings, &mut changes);
        changes.into_applied(outcomes)
    }

    /// Applies a caller's command, authorized by the caller's rights now.
    fn dispatch_asked(&mut self, ctx: &Ctx, mut asked: AuthorizedCommand, changes: &mut ChangeSet) -> Vec<Outcome> {
        let principal = self.principal(&asked.credential, ctx);
        let (mut head, self_registration) = (AuditRow::of_asked(ctx, &principal, &mut asked), asked.self_registration);
        let outcomes = self.dispatch(ctx, &principal, self_registration, asked.command, changes);
        // The entry may have set the clock.
        head.written = self.requests.clock();
        self.write_down(head, self_registration, changes);
        outcomes
    }

    /// Applies a command of the cluster itself.
    fn dispatch_own(&mut self, ctx: &Ctx, command: Command, changes: &mut ChangeSet) -> Vec<Outcome> {
        let is_of_instances = matches!(command, Command::InstanceHealth(_) | Command::RemoveDeadInstances(_));
        let head = AuditRow::of_entry(ctx, command.action(false));
        let outcomes = self.dispatch(ctx, &Principal::Cluster, false, command, changes);
        self.write_down(head, is_of_instances, changes);
        outcomes
    }

    /// Applies a command to its items; each row has the operation, the required rights, and the target of an item.
    #[rustfmt::skip] // one row a command
    fn dispatch(
        &mut self,
        ctx: &Ctx,
        principal: &Principal,
        self_registration: bool,
        command: Command,
        changes: &mut ChangeSet,
    ) -> Vec<Outcome> {
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
            Command::Namespaces(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_namespace(op, item),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<Namespace>(op, &item)),
            Command::Services(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_service(op, item),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<Service>(op, &item)),
            Command::Aliases(op, items) => self.each_judged(&check_of_alias(op), items, changes,
                |catalog, item| catalog.target_of_alias(op, item),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<ServiceAlias>(op, &item)),
            Command::Rules(Op::Delete, items) => self.each_act(ctx, &check(Op::Delete), changes,
                items.into_iter().map(|item| GatedAction::DeleteRule(Box::new(item)))),
            Command::Rules(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_rule(op, item),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<Rule>(op, &item)),
            Command::PublishRules(family, items) => self.each_act(ctx, &check(Op::Update), changes,
                self.named_for(principal, family, items).into_iter()
                    .map(|item| GatedAction::PublishRule(family, item))),
            Command::RuleReleases(family, op, items) => self.each_act(ctx, &check_of_release(op), changes,
                self.named_for(principal, family, items).into_iter()
                    .map(|item| GatedAction::RuleRelease(family, op, item))),
            Command::ConfigGroups(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_group(op, item),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<ConfigGroup>(op, &item)),
            Command::ConfigFiles(Op::Delete, items) => self.each_act(ctx, &check(Op::Delete), changes,
                items.into_iter().map(|item| GatedAction::DeleteFile(Box::new(item)))),
            Command::ConfigFiles(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_file(op, item),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<ConfigFile>(op, &item)),
            Command::ConfigPublish(items) => self.each_act(ctx, &check(Op::Update), changes,
                items.into_iter().map(GatedAction::PublishFile)),
            Command::ConfigCreateAndPublish(items) => self.each_act(ctx, &check(Op::Update), changes,
                items.into_iter().map(|item| GatedAction::WriteAndPublishFile(Box::new(item)))),
            // Commands of earlier logs, from before a single command replaced them.
            Command::ConfigRollback(items) => self.dispatch(ctx, principal, false,
                Command::ConfigReleases(ReleaseOp::Rollback, items), changes),
            Command::ConfigDeleteReleases(items) => self.dispatch(ctx, principal, false,
                Command::ConfigReleases(ReleaseOp::Delete, items), changes),
            Command::ConfigStopGray(items) => self.dispatch(ctx, principal, false,
                Command::ConfigReleases(ReleaseOp::StopGray, items), changes),
            Command::ConfigReleases(op, items) => self.each_act(ctx, &check_of_release(op), changes,
                items.into_iter().map(|item| GatedAction::FileRelease(op, item))),
            Command::ConfigTemplates(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_template(item),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<ConfigTemplate>(op, &item)),
            Command::Instances(op, items) => self.each_judged(&check_of_instance(op), items, changes,
                |catalog, item| catalog.target_of_instance(op, item),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<Instance>(op, &item)),
            Command::InstancesDeleteHost(items) => self.each_judged(&check_of_instance(Op::Delete), items, changes,
                |catalog, item| catalog.target_of_host(item),
                |catalog, item, changes| catalog.delete_instances_of_host(&item, changes)),
            Command::InstancesIsolateHost(items) => self.each_judged(&check_of_instance(Op::Update), items, changes,
                |catalog, item| catalog.target_of_host(item),
                |catalog, item, changes| catalog.isolate_instances_of_host(ctx, &item, changes)),
            Command::Users(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_user(&item.name),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<User>(op, &item)),
            Command::ServiceTokens(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_token(&item.name),
                |catalog, item, changes| catalog.write_service_token(ctx, principal, op, item, changes)),
            Command::ChangeTokens(items) => self.each_judged(&check(Op::Update), items, changes,
                |catalog, item| catalog.target_of_token(&item.name),
                |catalog, item, changes| catalog.change_service_token(ctx, principal, &item, changes)),
            Command::EndSessions(ids) => self.each_judged(&check(Op::Delete), ids, changes,
                |catalog, id| catalog.target_of_session(id),
                |catalog, id, changes| catalog.end_session(principal, &id, changes)),
            Command::AccessKeys(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_access_key(item),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<AccessKey>(op, &item)),
            Command::Webhooks(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_webhook(item),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<Webhook>(op, &item)),
            Command::WebhooksTold(items) => each(items, |item| self.note_told(ctx, &item, changes)),
            Command::ChangePassword { name, password_hash, replaces } => {
                // Changing one's own password requires only the old one.
                let is_own =
                    replaces.is_some() && matches!(principal, Principal::Holder(holder) if holder.name == name);
                let verbs: &[Verb] = if is_own { &[] } else { &[Verb::Manage] };
                self.each_judged(&AuthCheck { verbs, ..check(Op::Update) }, vec![password_hash], changes,
                    |catalog, _| catalog.target_of_user(&name),
                    |catalog, hash, changes| catalog.change_password(ctx, &name, hash, replaces.as_ref(), changes))
            }
            Command::Settings(change) => {
                let is_of_judgement = change.is_of_judgement();
                let verbs = if is_of_judgement { &[Verb::Operate, Verb::Manage] } else { verbs };
                self.each_judged(&AuthCheck { verbs, ..check(Op::Update) }, vec![change], changes,
                    |catalog, _| catalog.target_of_settings(),
                    |catalog, change, changes| catalog.change_settings(ctx, &change, changes))
            }
            Command::SignIn { hash, user_id, password, from } => {
                let outcome = self.access.sign_in(ctx, hash, user_id, &password, from, changes);
                changes.did(AuthTarget::of_cluster("user", &ctx.by), &outcome);
                vec![outcome]
            }
            // The holder of a token may always end it.
            Command::SignOut { hash } => {
                let outcome = self.access.sign_out(&hash, changes);
                changes.did(AuthTarget::of_cluster("user", &ctx.by), &outcome);
                vec![outcome]
            }
            Command::Bootstrap { cluster_id, admin, level } => {
                let cluster = Cluster { cluster_id, founded: ctx.time, level };
                vec![self.bootstrap(ctx, cluster, admin, changes)]
            }
            Command::Raise { level } => vec![self.nodes.raise(level, changes)],
            Command::Announce(node) => vec![self.nodes.announce(node, changes)],
            Command::Forget { node_id } => vec![self.nodes.forget(node_id, changes)],
            Command::InstanceHealth(items) => each(items, |item| {
                let target = self.target_of_reported_instance(&item.id);
                let outcome = self.change_health(ctx, &item, changes);
                target.into_iter().for_each(|target| changes.did(target, &outcome));
                outcome
            }),
            Command::RemoveDeadInstances(items) => each(items, |item| {
                let target = self.target_of_reported_instance(&item.id);
                let outcome = self.remove_dead_instance(&item, changes);
                target.into_iter().for_each(|target| changes.did(target, &outcome));
                outcome
            }),
            Command::PublishDue(items) => each(items, |item| {
                let target = self.target_of_thing(&item.thing);
                let outcome = self.publish_due(ctx, &item, changes);
                changes.did(target, &outcome);
                outcome
            }),
            Command::Rollouts(items) => each(items, |item| {
                let target = self.target_of_thing(&item.thing);
                let outcome = self.move_rollout(ctx, &item, changes);
                changes.did(target, &outcome);
                outcome
            }),
            Command::Policies(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_policy(&item.name),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<Policy>(op, &item)),
            Command::Contracts(op, items) => self.each_judged(&check(op), items, changes,
                |catalog, item| catalog.target_of_contract(op, item),
                |catalog, item, changes| Apply { catalog, ctx, changes }.write::<Contract>(op, &item)),
            // The policies of a request determine who may decide on it.
            Command::Requests(op, items) => self.each_judged(
                &AuthCheck { verbs: &[], ..check(Op::Update) }, items, changes,
                |catalog, item| catalog.target_of_request_named(&item.id),
                |catalog, item, changes| catalog.change_request(ctx, principal, op, &item, changes)),
            Command::ExpireRequests => vec![self.expire_requests(ctx, changes)],
            Command::ClientsRefused(items) => each(items, |item| self.tell_of_refusal(ctx, &item, changes)),
            Command::XdsSeen(items) => each(items, |item| self.mark_xds(ctx, &item, changes)),
            #[cfg(feature = "next-level")]
            Command::NextLevel(row) => vec![self.put_next_level(row, changes)],
            Command::Note(notes) => vec![self.note(ctx, notes, changes)],
            Command::Time(change) => self.each_judged(&check(Op::Update), vec![change], changes,
                |_, change| Catalog::target_of_time(change),
                |catalog, change, changes| catalog.change_time(ctx, change, changes)),
            Command::PruneReleases(overfull) => vec![self.prune(&overfull, changes)],
            Command::Authorized(_) => vec![Code::BadRequest.into()],
        }
    }

    /// Carries out each action that its caller has the right to and that no policy blocks.
    fn each_act(
        &mut self,
        ctx: &Ctx,
        check: &AuthCheck<'_>,
        changes: &mut ChangeSet,
        acts: impl Iterator<Item = GatedAction>,
    ) -> Vec<Outcome> {
        self.each_judged(
            check,
            acts.collect(),
            changes,
            |catalog, act| catalog.target_of_act(act),
            |catalog, act, changes| catalog.do_act(ctx, check.principal, act, changes),
        )
    }

    /// Founds the cluster. A second attempt changes nothing.
    fn bootstrap(&mut self, ctx: &Ctx, cluster: Cluster, admin: Founder, changes: &mut ChangeSet) -> Outcome {
        if self.nodes.cluster_id().is_some() {
            return Code::NoNeedUpdate.into();
        }
        self.nodes.found(cluster, changes);
        self.access.put_user(admin.into(), changes);
        self.namespaces.ensure(ctx, namespaces::DEFAULT, changes);
        Outcome::default()
    }
}

/// Applies the items of a batch one by one, in order; each succeeds or fails on its own.
fn each<T>(items: Vec<T>, apply: impl FnMut(T) -> Outcome) -> Vec<Outcome> {
    items.into_iter().map(apply).collect()
}
