//! The applied state of a running node, read for config clients.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{ConfigSource, LiveMember, Reader, Sight};
use crate::catalog::access::Holder;
use crate::catalog::audit::AuditNote;
use crate::catalog::authorization::SEEING;
use crate::catalog::{Catalog, Credential};
use crate::controllers::credential_watch::Guard;
use crate::controllers::{Controllers, RateClass};
use crate::model::code::{Code, Refusal};
use crate::model::config_file::ConfigKey;
use crate::model::config_lookup::{Lookup, NamedRelease, Released, Unreadable};
use crate::model::grant::{ReadScope, Verb};
use crate::model::signature::AppKeys;
use crate::model::time::Timestamp;
use crate::operations::credential_here;
use crate::origin::Origin;
use crate::raft::node::Node;
use crate::sso::IdentityProviders;
use crate::subscribers::{Client, FileReport, Word};
use crate::watch::{Hub, WatchKey};

/// Reader of one node's state.
#[derive(Clone)]
pub struct LocalView {
    node: Node,
    controllers: Arc<Controllers>,
    providers: Arc<IdentityProviders>,
    /// Time for which a node without a leader still trusts tokens.
    token_trust: Duration,
}

impl LocalView {
    pub fn new(
        node: Node,
        controllers: Arc<Controllers>,
        providers: Arc<IdentityProviders>,
        token_trust: Duration,
    ) -> Self {
        LocalView { node, controllers, providers, token_trust }
    }
}

impl ConfigSource for LocalView {
    type Guard = Guard;

    fn guard(&self, credential: &Credential) -> (WatchKey, Guard) {
        let guard = self.controllers.credentials.guard(self.node.state(), credential);
        (guard.key(), guard)
    }

    fn newest_id(&self) -> u32 {
        self.node.state().applied().notification_id
    }

    fn resolve(&self, lookup: &Lookup) -> Option<Arc<Released>> {
        find(&self.node.state().catalog(), lookup)
    }

    fn notification_id(&self, lookup: &Lookup) -> Option<u32> {
        let catalog = self.node.state().catalog();
        let id = |namespace: &String| catalog.configs.notification_id(namespace, &lookup.group, &lookup.file);
        lookup.namespaces.iter().filter_map(id).max()
    }

    fn highest_version(&self, namespace: &str, group: &str, file: &str) -> u64 {
        self.node.state().catalog().configs.highest_version(&ConfigKey::new(namespace, group, file))
    }

    fn hub(&self) -> &Hub {
        self.node.state().hub()
    }

    async fn wait_applied(&self, limit: Duration, is_reached: impl Fn(u32) -> bool + Send + Sync) -> bool {
        self.node.state().wait_applied(limit, |applied| is_reached(applied.notification_id)).await
    }

    async fn await_horizon(&self, limit: Duration) -> bool {
        self.node.await_horizon(limit).await
    }

    fn was_at_horizon_lately(&self) -> bool {
        self.node.was_at_horizon_lately()
    }

    fn live_members(&self) -> Vec<LiveMember> {
        let status = self.node.cluster_status();
        let serves = |id| !self.node.is_odd(id);
        let reached = status.members.into_iter().filter(|member| member.reachable && !member.compat.is_empty());
        let live = reached.filter(|member| serves(member.id));
        live.map(|member| LiveMember { node_id: member.id, compat: member.compat }).collect()
    }

    fn sight_of(&self, credential: &Credential, address: Option<IpAddr>) -> Option<Sight> {
        if !self.node.trusts_tokens(self.token_trust) {
            return None;
        }
        let holder = self.node.state().access().holder_of(credential, self.node.sure_now())?;
        let sight =
            || Sight { origin: Origin::of_user(&holder.name), read_scope: ReadScope::new(&holder.grants, SEEING) };
        holder.is_for(address).then(sight)
    }

    async fn bearer(&self, token: &str) -> Result<Credential, Refusal> {
        credential_here(&self.providers, self.node.state(), token).await
    }

    fn may_have_sealed(&self, credential: &Credential, address: Option<IpAddr>, namespace: &str, group: &str) -> bool {
        let holder = self.node.state().catalog().access.holder_of(credential, self.node.sure_now());
        let may = |holder: &Holder| {
            [Verb::Discover, Verb::Edit].iter().any(|verb| holder.grants.may(*verb, namespace, group))
        };
        holder.is_some_and(|holder| holder.is_for(address) && may(&holder))
    }

    fn text(&self, released: &Released) -> Result<Arc<str>, Unreadable> {
        let content = self.node.whole(&released.content).ok().flatten().ok_or(Unreadable::Absent)?;
        if released.encrypted {
            return self.controllers.keyring.open_released(released, &content).ok_or(Unreadable::Sealed);
        }
        content.text().cloned().ok_or(Unreadable::Absent)
    }

    fn access_keys(&self, app_id: &str, namespace: Option<&str>) -> Option<AppKeys> {
        self.controllers.keyring.of_app(&self.node.state().catalog(), app_id, namespace)
    }

    fn now(&self) -> Timestamp {
        self.node.now()
    }

    fn note_refused(&self, app_id: &str, address: Option<IpAddr>) {
        let note = AuditNote { address, ..AuditNote::refused("app", app_id, Code::NotAllowedAccess) };
        self.controllers.audit_buffer.note(&self.node, RateClass::Client, note);
    }

    fn resolve_by_address(&self, lookup: &Lookup) -> Option<Arc<Released>> {
        let catalog = self.node.state().catalog();
        let asks = |namespace: &String| catalog.configs.asks_labels(namespace, &lookup.group, &lookup.file);
        if lookup.namespaces.iter().any(asks) { None } else { find(&catalog, lookup) }
    }

    fn note_pulled(&self, reader: Reader<'_>, lookup: &Lookup, released: &Released) {
        let Lookup { client, namespaces, file, .. } = lookup;
        let now = || self.node.now();
        self.controllers.subscribers.pulled(client_of(reader, lookup), &client.labels, namespaces, file, released, now);
    }

    fn note_polled(&self, reader: Reader<'_>, lookup: &Lookup) -> bool {
        self.controllers.subscribers.polled(client_of(reader, lookup), &lookup.group, &lookup.file)
    }

    fn named_in_force(&self, lookup: &Lookup, release_key: &str) -> Option<Arc<Released>> {
        let NamedRelease { namespace, file, version } = lookup.named_release(release_key)?;
        let catalog = self.node.state().catalog();
        let found = catalog.configs.in_force(&ConfigKey::new(namespace, &*lookup.group, file), version);
        found.filter(|released| released.release_key == release_key).cloned()
    }

    fn note_applied(
        &self,
        reader: Reader<'_>,
        lookup: &Lookup,
        (release_key, in_force): (&str, Option<&Released>),
        word: Word<'_>,
    ) {
        let Lookup { group, file, namespaces, client } = lookup;
        let labels = &client.labels;
        let report = FileReport { group, file, namespaces, labels, release_key, in_force, word };
        self.controllers.subscribers.applied_file(client_of(reader, lookup), report);
    }

    async fn is_ready(&self) -> bool {
        self.node.is_ready().await
    }

    fn out_of_service(&self) -> Option<String> {
        self.node.out_of_service().map(str::to_owned)
    }
}

fn find(catalog: &Catalog, lookup: &Lookup) -> Option<Arc<Released>> {
    let Lookup { namespaces, group, file, client } = lookup;
    namespaces.iter().find_map(|namespace| catalog.configs.find(namespace, group, file, client)).cloned()
}

fn client_of<'a>(reader: Reader<'a>, lookup: &'a Lookup) -> Client<'a> {
    let Reader { agent, origin, hold, connection, is_named, is_polaris } = reader;
    Client { address: &lookup.client.address, agent, origin, hold, connection, is_named, is_polaris }
}
