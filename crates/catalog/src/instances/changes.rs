//! Instances: changes.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::catalog::change::{Change, Entity, Outcome};
use crate::catalog::command::{DeadInstance, InstanceHealth, Op};
use crate::catalog::ctx::Apply;
use crate::catalog::page::{ListKey, place_of};
use crate::catalog::resource::{StoredResource, resource};
use crate::model::code::{Code, Refusal};
use crate::model::instance::{Instance, InstanceDraft};
use crate::model::is_stale;

impl Catalog {
    /// Returns the seconds without a heartbeat after which this instance is removed; `None` if it never is.
    pub fn removes_after(&self, instance: &Instance) -> Option<u64> {
        let of_service = || self.services.get(&instance.namespace, &instance.service);
        let said = instance.dead_removed_after_s.said();
        let said = said.or_else(|| of_service()?.dead_instances_removed_after_s.said());
        Some(said.unwrap_or(self.settings.dead_instances_removed_after_s)).filter(|after| *after > 0)
    }

    fn instances_of_host(&self, draft: &InstanceDraft) -> Vec<Arc<Instance>> {
        let (namespace, service) = draft.service_name();
        let on_host = |instance: &&Arc<Instance>| draft.host.as_ref() == Some(&instance.host);
        self.instances.all_of(namespace, service).filter(on_host).cloned().collect()
    }
}

impl Apply<'_> {
    /// Deletes all instances of a service on a host. Succeeds if there are none.
    pub(crate) fn delete_instances_of_host(&mut self, draft: &InstanceDraft) -> Outcome {
        for instance in self.catalog.instances_of_host(draft) {
            self.remove_instance(&instance);
        }
        Outcome::default()
    }

    pub(crate) fn isolate_instances_of_host(&mut self, draft: &InstanceDraft) -> Outcome {
        let isolate = draft.isolate.unwrap_or_default();
        let on_host = self.catalog.instances_of_host(draft);
        if on_host.is_empty() {
            return Code::NotFoundInstance.into();
        }
        let changing: Vec<_> = on_host.into_iter().filter(|instance| instance.isolate != isolate).collect();
        if changing.is_empty() {
            return Code::NoNeedUpdate.into();
        }
        for old in changing {
            self.put_instance(Instance { isolate, ..Instance::clone(&old) });
        }
        Outcome::default()
    }

    /// Applies a health change found by the leader. It is ignored if the instance was deregistered, if its check was
    /// turned off, or if it was registered or updated since, which starts a new window.
    pub(crate) fn change_health(&mut self, found: &InstanceHealth) -> Outcome {
        let Some(old) = self.catalog.instances.get(&found.id).cloned() else { return Code::NotFoundInstance.into() };
        let has_changed = !found.revision.is_empty() && found.revision != old.revision;
        if has_changed || old.heartbeat_ttl.is_none() || old.healthy == found.healthy {
            return Code::NoNeedUpdate.into();
        }
        self.put_instance(Instance { healthy: found.healthy, ..Instance::clone(&old) });
        Outcome::default()
    }

    /// Removes a dead instance. One that has changed since the leader found it may be alive, and stays.
    pub(crate) fn remove_dead_instance(&mut self, found: &DeadInstance) -> Outcome {
        let Some(old) = self.catalog.instances.get(&found.id).cloned() else { return Outcome::default() };
        if old.revision != found.revision || old.healthy || old.heartbeat_ttl.is_none() {
            return Code::NoNeedUpdate.into();
        }
        self.remove_instance(&old);
        Outcome::default()
    }

    /// Stores a changed instance under a new revision.
    fn put_instance(&mut self, mut instance: Instance) -> Arc<Instance> {
        instance.stamp(self.ctx);
        self.keep_instance(instance)
    }

    fn keep_instance(&mut self, instance: Instance) -> Arc<Instance> {
        self.changes.changed(change_of(&instance));
        let was_healthy = self.catalog.instances.get(&instance.id).map(|old| old.healthy);
        let instance = self.catalog.instances.insert(instance, self.changes);
        if was_healthy.is_some_and(|was_healthy| was_healthy != instance.healthy) {
            self.emit_health(&instance);
        }
        instance
    }

    fn remove_instance(&mut self, instance: &Instance) {
        self.changes.changed(change_of(instance));
        self.catalog.instances.remove(instance, self.changes);
    }
}

impl StoredResource for Instance {
    resource!(InstanceDraft => Entity::Instance, mtime);
    const MISSING: Code = Code::NotFoundInstance;

    fn order(&self) -> ListKey<'_> {
        place_of([&self.id])
    }

    /// Returns `None` for a create: a registration replaces an existing instance.
    fn find(catalog: &Catalog, op: Op, draft: &InstanceDraft) -> Option<Arc<Instance>> {
        let named = catalog.instances.get(&draft.instance_id()).filter(|instance| draft.names(instance));
        named.filter(|_| op != Op::Create).cloned()
    }

    /// Registers an instance, replacing an existing one. Repeating the same registration changes nothing. The isolate
    /// flag is set by operators, so a registration keeps it.
    fn create(apply: &mut Apply<'_>, draft: &InstanceDraft) -> Result<Instance, Outcome> {
        let mut instance = draft.registered();
        if let Some(old) = apply.catalog.instances.get(&instance.id).cloned() {
            if (&old.namespace, &old.service) != (&instance.namespace, &instance.service) {
                return Err(Refusal::new(Code::ExistedResource, "an instance of another service has this id").into());
            }
            if is_stale(&draft.revision, &old.revision) {
                return Err(Outcome::stale(Entity::Instance(old)));
            }
            instance = Instance {
                isolate: old.isolate,
                ctime: old.ctime,
                mtime: old.mtime,
                revision: old.revision.clone(),
                ..instance
            };
            if instance == *old {
                return Err(Outcome::done(Entity::Instance(old)));
            }
        } else {
            instance.ctime = apply.ctx.time;
        }
        apply.ensure_service(&instance.namespace, &instance.service)?;
        instance.stamp(apply.ctx);
        Ok(instance)
    }

    fn put(apply: &mut Apply<'_>, instance: Instance) -> Arc<Instance> {
        apply.keep_instance(instance)
    }

    fn delete(apply: &mut Apply<'_>, old: &Arc<Instance>) -> Result<(), Outcome> {
        apply.remove_instance(old);
        Ok(())
    }
}

fn change_of(instance: &Instance) -> Change {
    Change::Instances { namespace: instance.namespace.clone(), service: instance.service.clone() }
}
