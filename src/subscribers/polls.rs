//! Polls for changes of files, by which the register knows that a client is still there.
//!
//! Some clients name their address in every request, some in none, and agollo names it in its pulls alone. Its polls
//! are known by the address of their connection: the register remembers which client pulled through it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use tokio::time::Instant;

use super::{Client, FORGET_AFTER, Shard, Subscribers};
use crate::origin::Origin;

/// Clients that name another address in their pulls than that of their connection, by topic and by the hash of what
/// their polls show: the address of the connection, and the user agent.
pub(super) type ByConnection = HashMap<(u64, u64), Pullers>; // bound: clients

/// The clients that pulled through a connection's address.
pub(super) struct Pullers {
    /// Hash of the only one; `None` if there are several, whose polls cannot be told apart.
    only: Option<u64>,
    /// Time of the last pull, or of the last poll of the only one.
    heard: Instant,
    /// Origin that pays for this entry.
    origin: Origin,
}

impl Pullers {
    fn is_there(&self, now: Instant) -> bool {
        now - self.heard < FORGET_AFTER
    }
}

impl Subscribers {
    /// Records that a client waits for changes of a file. Returns false if the register does not know what it was sent.
    pub fn polled(&self, client: Client<'_>, group: &str, file: &str) -> bool {
        let (topic, who) = (self.topic_of_file(group, file), self.who(client));
        if self.hear(topic, who, client) {
            return true;
        }
        if client.is_named {
            return false;
        }
        let only = {
            let shard = self.shard(who).lock();
            let pullers = shard.by_connection.get(&(topic, who)).filter(|pullers| pullers.is_there(Instant::now()));
            let Some(pullers) = pullers else { return false };
            pullers.only
        };
        // Each of several is forgotten some time after its last pull, as one that only pulls.
        let Some(only) = only else { return true };
        let is_heard = self.hear(topic, only, client);
        if is_heard && let Some(pullers) = self.shard(who).lock().by_connection.get_mut(&(topic, who)) {
            pullers.heard = Instant::now();
        }
        is_heard
    }

    /// Records a contact of a client that was sent the file. Returns false if it is not known.
    fn hear(&self, topic: u64, who: u64, client: Client<'_>) -> bool {
        let mut shard = self.shard(who).lock();
        let known = shard.topics.get_mut(&topic).and_then(|clients| clients.get_mut(&who));
        let Some(entry) = known.filter(|entry| entry.is_there(Instant::now())) else { return false };
        (entry.heard, entry.stays) = (Instant::now(), client.stays(entry.stays));
        self.pass(entry, client.origin);
        true
    }

    /// Records that a client pulled through a connection of another address than it names. An entry that was made from
    /// its polls alone is removed, so that it counts once.
    pub(super) fn name_connection(&self, topic: u64, connection: IpAddr, client: Client<'_>) {
        let (who, now) = (self.who(client), Instant::now());
        let seen = self.who_at(&connection.to_string(), client.agent);
        let mut shard = self.shard(seen).lock();
        self.drop_assumed(&mut shard, topic, seen);
        match shard.by_connection.entry((topic, seen)) {
            Entry::Occupied(mut known) => {
                let pullers = known.get_mut();
                let is_alone = pullers.only == Some(who) || !pullers.is_there(now);
                (pullers.only, pullers.heard) = (is_alone.then_some(who), now);
            }
            Entry::Vacant(free) if self.connections.take(client.origin, 1).is_ok() => {
                free.insert(Pullers { only: Some(who), heard: now, origin: client.origin });
            }
            Entry::Vacant(_) => {}
        }
    }

    fn drop_assumed(&self, shard: &mut Shard, topic: u64, seen: u64) {
        let Some(clients) = shard.topics.get_mut(&topic) else { return };
        if let Entry::Occupied(known) = clients.entry(seen)
            && known.get().is_assumed
        {
            let entry = known.remove();
            self.places.give_back(entry.origin, 1);
            self.bytes.give_back(entry.origin, entry.bytes);
        }
    }

    pub(super) fn sweep_connections(&self, shard: &mut Shard, now: Instant) {
        shard.by_connection.retain(|_, pullers| {
            let is_there = pullers.is_there(now);
            if !is_there {
                self.connections.give_back(pullers.origin, 1);
            }
            is_there
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{GRACE, SWEEP_EVERY};
    use super::*;
    use crate::catalog::history::Thing;
    use crate::catalog::testing::Bench;
    use crate::model::config_file::ConfigKey;
    use crate::model::config_lookup::Released;
    use crate::model::time::Timestamp;

    const HOLD: Duration = Duration::from_secs(55);
    /// Address of the connection of all clients.
    const BALANCER: [u8; 4] = [192, 0, 2, 7];

    fn client(named: Option<&str>, hold: Duration) -> Client<'_> {
        let origin = Origin::of(BALANCER.into());
        let address = named.unwrap_or("192.0.2.7");
        Client {
            address,
            agent: "a client",
            origin,
            hold,
            connection: Some(BALANCER.into()),
            is_named: named.is_some(),
            is_polaris: false,
        }
    }

    fn pull(subscribers: &Subscribers, client: Client<'_>, released: &Released) {
        subscribers.pulled(client, &[], &["default".to_owned()], "application", released, || Timestamp(1));
    }

    fn poll(subscribers: &Subscribers, named: Option<&str>) -> bool {
        subscribers.polled(client(named, HOLD), "app", "application")
    }

    fn addresses(subscribers: &Subscribers, bench: &Bench) -> Vec<String> {
        let thing = Thing::File(ConfigKey::new("default", "app", "application"));
        let mut all: Vec<_> = subscribers.of(&bench.catalog, &thing).into_iter().map(|one| one.address).collect();
        all.sort();
        all
    }

    /// A client that names its address in pulls alone is there as long as it polls.
    #[tokio::test(start_paused = true)]
    async fn a_poll_is_that_of_the_only_client_that_pulled_through_its_connection() {
        let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
        let released = bench.publish_content("application", "a=1");
        assert!(!poll(&subscribers, None), "nothing is known");
        // As a node does that has just started.
        pull(&subscribers, client(None, HOLD), &released);
        assert_eq!(addresses(&subscribers, &bench), ["192.0.2.7"]);
        pull(&subscribers, client(Some("10.0.0.1"), Duration::ZERO), &released);
        assert_eq!(addresses(&subscribers, &bench), ["10.0.0.1"], "it counts once");
        for _ in 0..FORGET_AFTER.as_secs() / HOLD.as_secs() * 2 {
            assert!(poll(&subscribers, None));
            tokio::time::advance(HOLD).await;
        }
        assert_eq!(addresses(&subscribers, &bench), ["10.0.0.1"]);
        tokio::time::advance(GRACE).await;
        assert!(!poll(&subscribers, None), "it was gone, and may have another release");
        tokio::time::advance(FORGET_AFTER + SWEEP_EVERY).await;
        pull(&subscribers, client(Some("192.0.2.7"), Duration::ZERO), &released);
        assert_eq!(addresses(&subscribers, &bench), ["192.0.2.7"]);
        assert_eq!((subscribers.len(), subscribers.connections.taken()), (1, 0), "what is over is dropped");
    }

    /// Polls of several clients behind one address cannot be told apart: each is there some time after its last pull.
    #[tokio::test(start_paused = true)]
    async fn of_several_each_is_forgotten_after_its_last_pull() {
        let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
        let released = bench.publish_content("application", "a=1");
        pull(&subscribers, client(Some("10.0.0.1"), Duration::ZERO), &released);
        tokio::time::advance(GRACE).await;
        pull(&subscribers, client(Some("10.0.0.2"), Duration::ZERO), &released);
        assert!(poll(&subscribers, None), "it is one of them");
        tokio::time::advance(FORGET_AFTER - GRACE).await;
        assert!(poll(&subscribers, None));
        assert_eq!(addresses(&subscribers, &bench), ["10.0.0.2"]);
        tokio::time::advance(GRACE).await;
        assert!(!poll(&subscribers, None), "a poll makes an entry of its own again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pull_confirms_what_was_inferred_and_names_nobody_else() {
        let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
        let released = bench.publish_content("application", "a=1");
        pull(&subscribers, client(None, HOLD), &released);
        pull(&subscribers, client(None, Duration::ZERO), &released);
        pull(&subscribers, client(Some("10.0.0.1"), Duration::ZERO), &released);
        assert_eq!(addresses(&subscribers, &bench), ["10.0.0.1", "192.0.2.7"], "two clients of one machine");
        pull(&subscribers, client(Some("192.0.2.7"), HOLD), &released);
        assert!(
            poll(&subscribers, None) && poll(&subscribers, Some("192.0.2.7")) && !poll(&subscribers, Some("10.0.0.2"))
        );
    }
}
