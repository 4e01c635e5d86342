//! State that a node has applied, as reads of config clients need it.
//!
//! [`LocalView`](super::LocalView) answers for a running node.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::Credential;
use crate::model::config_lookup::{Lookup, Released, Unreadable};
use crate::model::grant::ReadScope;
use crate::model::signature::AppKeys;
use crate::model::time::Timestamp;
use crate::origin::Origin;
use crate::subscribers::Word;
use crate::watch::{Hub, WatchKey};

/// The state that this node has applied, as config clients may read it.
pub trait ConfigSource: Clone + Send + Sync + 'static {
    /// Guard that a poll keeps while it is held, if a credential let it in.
    type Guard: Send + Sync + 'static;

    /// For a poll that is to be held: the key wakes when the credential has ended, or its holder may read other things.
    fn guard(&self, credential: &Credential) -> (WatchKey, Self::Guard);

    /// Newest notification id applied here.
    fn newest_id(&self) -> u32;

    /// Resolves one lookup now, gray releases judged by its client.
    ///
    /// Per namespace of the chain: the file name as given; then with `.properties` added or taken
    /// off; then both ignoring case, if that is unique.
    fn resolve(&self, lookup: &Lookup) -> Option<Arc<Released>>;

    /// Newest id over everything that the lookup's chain can see, deletions included; `None` if
    /// nothing was ever there. Files are told apart by their canonical name only.
    fn notification_id(&self, lookup: &Lookup) -> Option<u32>;

    /// Highest version ever given to a release of this file on this node, 0 if none.
    fn highest_version(&self, namespace: &str, group: &str, file: &str) -> u64;

    /// Hub in which a change wakes [`WatchKey::config`], after the three reads above show it.
    fn hub(&self) -> &Hub;

    /// Waits until `is_reached` holds of the newest id, and of whatever else it reads but that; false if `limit` passes
    /// first.
    fn wait_applied(
        &self,
        limit: Duration,
        is_reached: impl Fn(u32) -> bool + Send + Sync,
    ) -> impl Future<Output = bool> + Send;

    /// Waits until this node has applied everything that any node had before the call: what a client
    /// names beyond that was given out by another cluster. False if that cannot be said within the limit.
    fn await_horizon(&self, limit: Duration) -> impl Future<Output = bool> + Send;

    /// True if this node had applied everything that any node had a moment ago.
    fn was_at_horizon_lately(&self) -> bool;

    /// The members that serve clients now, this node among them.
    fn live_members(&self) -> Vec<LiveMember>;

    /// Scope of what the holder of the credential may read, where it may be used from the address; `None` for one that
    /// is not believed.
    fn sight_of(&self, credential: &Credential, address: Option<IpAddr>) -> Option<Sight>;

    /// True if the holder of the credential may have the text of an encrypted file: a client, or who may edit it.
    fn may_have_sealed(&self, credential: &Credential, address: Option<IpAddr>, namespace: &str, group: &str) -> bool;

    /// Text of a released file, be it kept encrypted or not.
    fn text(&self, released: &Released) -> Result<Arc<str>, Unreadable>;

    /// The access keys of an app that are on; `None` where there are none.
    fn access_keys(&self, app_id: &str, namespace: Option<&str>) -> Option<AppKeys>;

    /// Time in the cluster.
    fn now(&self) -> Timestamp;

    /// Writes down that a reader was refused, and of which app. Asked once a minute for each of them.
    fn note_refused(&self, app_id: &str, address: Option<IpAddr>);

    /// Release for a client of which only the address is known; `None` where another of its labels decides.
    fn resolve_by_address(&self, lookup: &Lookup) -> Option<Arc<Released>> {
        self.resolve(lookup)
    }

    /// A client was given a released file, or has it already.
    fn note_pulled(&self, _reader: Reader<'_>, _lookup: &Lookup, _released: &Released) {}

    /// A client waits for changes of a file. False for one of which this node does not know what it has.
    fn note_polled(&self, _reader: Reader<'_>, _lookup: &Lookup) -> bool {
        true
    }

    /// The release of the file that has this key, if clients may see it.
    fn named_in_force(&self, _lookup: &Lookup, _release_key: &str) -> Option<Arc<Released>> {
        None
    }

    /// A client says what came of the release of a file that has this key; `in_force` is that one, if clients see it.
    fn note_applied(
        &self,
        _reader: Reader<'_>,
        _lookup: &Lookup,
        (_release_key, _in_force): (&str, Option<&Released>),
        _word: Word<'_>,
    ) {
    }

    /// True if this node may get traffic.
    fn is_ready(&self) -> impl Future<Output = bool> + Send;

    /// Reason why nothing of this node may be served; `None` if it may be served.
    fn out_of_service(&self) -> Option<String> {
        None
    }
}

/// Holder of a credential, as a door for reading sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sight {
    /// The user, by which limits count what the holder has under way.
    pub origin: Origin,
    pub read_scope: ReadScope,
}

/// A client and the address that it asks from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader<'a> {
    /// `User-Agent`, as sent.
    pub agent: &'a str,
    pub origin: Origin,
    /// Time for which its poll is held; zero for a pull.
    pub hold: Duration,
}

/// A member of the cluster that serves config clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveMember {
    pub node_id: u64,
    /// `host:port` of its config surface, or a URL.
    pub compat: String,
}
