//! The applied state of a node, as reads of config clients need it. [`LocalView`](super::LocalView) is the
//! implementation of a running node.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::Credential;
use crate::model::code::{Code, Refusal};
use crate::model::config_lookup::{Lookup, Released, Unreadable};
use crate::model::grant::ReadScope;
use crate::model::signature::AppKeys;
use crate::model::time::Timestamp;
use crate::origin::Origin;
use crate::subscribers::Word;
use crate::watch::{Hub, WatchKey};

/// The applied state that config clients may read.
pub trait ConfigSource: Clone + Send + Sync + 'static {
    /// Guard of a held poll that a credential admitted.
    type Guard: Send + Sync + 'static;

    /// Returns a key that wakes when the credential ends or its rights change, and the guard to be held meanwhile.
    fn guard(&self, credential: &Credential) -> (WatchKey, Self::Guard);

    /// Returns the newest notification id applied here.
    fn newest_id(&self) -> u32;

    /// Resolves one lookup now; gray releases are selected by its client.
    ///
    /// In each namespace of the chain: the file name as given, then with `.properties` added or removed, then both
    /// ignoring case, if that match is unique.
    fn resolve(&self, lookup: &Lookup) -> Option<Arc<Released>>;

    /// Returns the newest id of everything that the lookup's chain can see, deletions included; `None` if nothing ever
    /// existed. Files are distinguished by their canonical names only.
    fn notification_id(&self, lookup: &Lookup) -> Option<u32>;

    /// Returns the highest version ever given to a release of this file on this node, 0 if none.
    fn highest_version(&self, namespace: &str, group: &str, file: &str) -> u64;

    /// Returns the hub in which a change wakes [`WatchKey::config`], once the three reads above return it.
    fn hub(&self) -> &Hub;

    /// Waits until `is_reached` accepts the newest id; it may read other state as well. Returns false after `limit`.
    fn wait_applied(
        &self,
        limit: Duration,
        is_reached: impl Fn(u32) -> bool + Send + Sync,
    ) -> impl Future<Output = bool> + Send;

    /// Waits until this node has applied everything that any node had applied before the call; a later change named by
    /// a client was made by another cluster. Returns false if this cannot be decided within the limit.
    fn await_horizon(&self, limit: Duration) -> impl Future<Output = bool> + Send;

    /// Reports whether this node had applied everything that any node had a moment ago.
    fn was_at_horizon_lately(&self) -> bool;

    /// Returns the members that serve clients now, including this node.
    fn live_members(&self) -> Vec<LiveMember>;

    /// Returns what the holder of the credential may read, if the credential may be used from the address; `None` if it
    /// is not trusted.
    fn sight_of(&self, credential: &Credential, address: Option<IpAddr>) -> Option<Sight>;

    /// Returns the credential of a bearer token of a provider, which may have to be asked for its keys.
    fn bearer(&self, _token: &str) -> impl Future<Output = Result<Credential, Refusal>> + Send {
        std::future::ready(Err(Code::TokenNotExisted.into()))
    }

    /// Reports whether the holder of the credential may read an encrypted file, as a client or as an editor.
    fn may_have_sealed(&self, credential: &Credential, address: Option<IpAddr>, namespace: &str, group: &str) -> bool;

    /// Returns the text of a released file, decrypted if necessary.
    fn text(&self, released: &Released) -> Result<Arc<str>, Unreadable>;

    /// Returns the enabled access keys of an app; `None` if there are none.
    fn access_keys(&self, app_id: &str, namespace: Option<&str>) -> Option<AppKeys>;

    /// Returns the time of the cluster.
    fn now(&self) -> Timestamp;

    /// Records that a reader of an app was refused. Called at most once a minute for each pair.
    fn note_refused(&self, app_id: &str, address: Option<IpAddr>);

    /// Resolves a lookup for a client of which only the address is known; `None` if another of its labels decides.
    fn resolve_by_address(&self, lookup: &Lookup) -> Option<Arc<Released>> {
        self.resolve(lookup)
    }

    /// Records that a client was sent a released file, or has it already.
    fn note_pulled(&self, _reader: Reader<'_>, _lookup: &Lookup, _released: &Released) {}

    /// Records that a client waits for changes of a file. Returns false if this node does not know which release it
    /// has.
    fn note_polled(&self, _reader: Reader<'_>, _lookup: &Lookup) -> bool {
        true
    }

    /// Returns the release of the file with this key, if it is in force.
    fn named_in_force(&self, _lookup: &Lookup, _release_key: &str) -> Option<Arc<Released>> {
        None
    }

    /// Records a client's report on the release with this key; `in_force` is that release, if clients see it.
    fn note_applied(
        &self,
        _reader: Reader<'_>,
        _lookup: &Lookup,
        (_release_key, _in_force): (&str, Option<&Released>),
        _word: Word<'_>,
    ) {
    }

    /// Reports whether this node may get traffic.
    fn is_ready(&self) -> impl Future<Output = bool> + Send;

    /// Returns the reason why this node must not serve anything; `None` if it may.
    fn out_of_service(&self) -> Option<String> {
        None
    }
}

/// Rights of the holder of a credential, for reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Sight {
    /// The user, by whom limits count what the holder has under way.
    pub origin: Origin,
    pub read_scope: ReadScope,
}

/// A client and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader<'a> {
    /// `User-Agent`, as sent.
    pub agent: &'a str,
    pub origin: Origin,
    /// Time for which its poll is held; zero for a pull.
    pub hold: Duration,
    /// Address of its connection, if known.
    pub connection: Option<IpAddr>,
    /// True if the request names the client's address.
    pub is_named: bool,
    /// True for an SDK of Polaris.
    pub is_polaris: bool,
}

/// A member of the cluster that serves config clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveMember {
    pub node_id: u64,
    /// `host:port` of its config API, or a URL.
    pub compat: String,
}
