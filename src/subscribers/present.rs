//! All present clients of this node, each with every release that it has.
//!
//! Other queries begin with a release and return its clients; this one begins with the clients.

use std::collections::{BTreeMap, HashMap, HashSet};

use tokio::time::Instant;

use super::client_list::{ClientSearch, HeldRelease, PresentClient, PresentClients, Protocol};
use super::entry::{DeliveredVersion, Subscriber, Topic};
use super::holders::client_mark;
use super::reports::Report;
use super::{Applied, HoldState, Subscribers, streaming};
use crate::catalog::Catalog;
use crate::catalog::history::Thing;
use crate::model::config_file::ConfigKey;
use crate::model::limits;
use crate::model::rule::Family;

impl Subscribers {
    /// Returns the present clients that match, at most [`limits::CLIENTS_TOLD_MAX`].
    ///
    /// Most clients have one topic and no stream. Those are first only counted, by their state, and rows are made for
    /// the clients that are returned.
    pub(super) fn present(&self, catalog: &Catalog, search: &ClientSearch) -> PresentClients {
        let search = ClientSearch { text: search.text.to_lowercase(), ..search.clone() };
        let mut found = MergedClients::default();
        streaming::present(&self.streams, catalog, &mut |client| found.take(client));
        let mut topics: HashMap<u64, bool> =
            found.by_identity.keys().map(|who| (client_mark(texts(who)), true)).collect();
        self.each_there(None, |entry, _| {
            topics.entry(entry.marks[0]).and_modify(|has_more| *has_more = true).or_insert(false);
        });
        let has_more = |entry: &Subscriber| topics.get(&entry.marks[0]).is_none_or(|has_more| *has_more);
        let mut tally = [0; HoldState::ALL.len()];
        let mut alone = Vec::new();
        self.each_there(None, |entry, now| {
            if has_more(entry) {
                return found.take(present(entry, catalog, now));
            }
            let (state, is_wanted) = judged(entry, catalog, &search);
            if is_wanted {
                tally[state as usize] += 1;
                alone.push((state, entry.marks[0]));
            }
        });
        let mut clients: Vec<_> =
            found.by_identity.into_values().filter(|client| search.wants(client, catalog)).collect();
        clients.iter().for_each(|client| tally[client.state() as usize] += 1);
        let amount = tally.iter().sum();
        if alone.len() > limits::CLIENTS_TOLD_MAX {
            alone.select_nth_unstable(limits::CLIENTS_TOLD_MAX);
            alone.truncate(limits::CLIENTS_TOLD_MAX);
        }
        let alone: HashSet<u64> = alone.into_iter().map(|(_, mark)| mark).collect();
        self.each_there(None, |entry, now| {
            if alone.contains(&entry.marks[0]) && !has_more(entry) {
                clients.push(present(entry, catalog, now));
            }
        });
        clients.sort_by_cached_key(|client| (client.state(), client.identity().map(str::to_owned)));
        clients.truncate(limits::CLIENTS_TOLD_MAX);
        PresentClients { amount, tally, clients }
    }
}

/// Clients with several topics or streams, merged by identity.
#[derive(Default)]
struct MergedClients {
    by_identity: HashMap<[String; 3], PresentClient>, // bound: clients
}

impl MergedClients {
    fn take(&mut self, client: PresentClient) {
        let identity = client.identity().map(str::to_owned);
        match self.by_identity.get_mut(&identity) {
            Some(known) => known.merge(client),
            None => drop(self.by_identity.insert(identity, client)),
        }
    }
}

fn texts(who: &[String; 3]) -> [&str; 3] {
    who.each_ref().map(String::as_str)
}

/// A file or rule that a client has or should have.
enum HeldThing<'a> {
    File { namespace: &'a str, group: &'a str, file: &'a str },
    Rule(Family, &'a str),
}

impl HeldThing<'_> {
    /// Returns the namespace of a file, or the id of a rule, by which reports name it.
    fn reported(&self) -> &str {
        match self {
            HeldThing::File { namespace, .. } => namespace,
            HeldThing::Rule(_, id) => id,
        }
    }

    fn namespace<'a>(&'a self, catalog: &'a Catalog) -> Option<&'a str> {
        match self {
            HeldThing::File { namespace, .. } => Some(namespace),
            HeldThing::Rule(family, id) => catalog.rules.of(*family).get(id).map(|rule| rule.namespace.as_str()),
        }
    }

    fn to_thing(&self) -> Thing {
        match self {
            HeldThing::File { namespace, group, file } => Thing::File(ConfigKey::new(*namespace, *group, *file)),
            HeldThing::Rule(family, id) => Thing::Rule(*family, (*id).to_owned()),
        }
    }
}

/// Calls `see` with each release of an entry: its subject, the version that the client has, or 0, and whether the
/// client has the release that it should have.
fn each_release(entry: &Subscriber, catalog: &Catalog, mut see: impl FnMut(&HeldThing<'_>, u64, bool)) {
    match (&entry.wants, &entry.given) {
        (Topic::File { group, file, namespaces }, DeliveredVersion::File { namespace, file: given, version, .. }) => {
            let has = HeldThing::File { namespace, group, file: given };
            if entry.is_reported {
                let key = ConfigKey::new(&**namespace, &**group, &**given);
                return see(&has, *version, catalog.configs.in_force(&key, *version).is_some());
            }
            match entry.due_file(catalog, namespaces, group, file) {
                Some(due) if *due.namespace == **namespace && *due.file == **given => {
                    see(&has, *version, due.version == *version);
                }
                Some(due) => see(&HeldThing::File { namespace: &due.namespace, group, file: &due.file }, 0, false),
                None if *version > 0 => see(&has, *version, false),
                None => {}
            }
        }
        (Topic::Rules { family, namespace, service }, DeliveredVersion::Rules(given)) => {
            let label = |key: &str| entry.label(key);
            let due = catalog.rules.of(*family).active().of_service(namespace, service, label);
            let mut versions: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
            for (id, version) in given.iter() {
                versions.entry(id).or_default().0 = *version;
            }
            for release in due.iter().filter(|release| release.rule.enable) {
                versions.entry(&release.rule.id).or_default().1 = release.version;
            }
            for (id, (has, due)) in versions {
                see(&HeldThing::Rule(*family, id), has, has == due);
            }
        }
        (Topic::ReportedRule { family }, DeliveredVersion::Rules(given)) => {
            let active = catalog.rules.of(*family).active();
            for (id, version) in given.iter() {
                let is_current = active.releases_of(id).any(|release| release.version == *version);
                see(&HeldThing::Rule(*family, id), *version, is_current);
            }
        }
        _ => {}
    }
}

/// Returns the client's report on a version of a thing, if any, and the state that follows.
fn held<'a>(
    entry: &'a Subscriber,
    thing: &HeldThing<'_>,
    version: u64,
    is_current: bool,
) -> (Option<&'a Report>, HoldState) {
    let report = entry.reports.iter().find(|report| report.is_of(thing.reported(), version));
    (report, HoldState::of(report.map(|report| report.applied), is_current))
}

fn protocol(entry: &Subscriber) -> Protocol {
    match entry.given {
        _ if entry.is_polaris => Protocol::Polaris,
        DeliveredVersion::File { .. } => Protocol::Apollo,
        _ => Protocol::Discover,
    }
}

/// Returns the state of a client that has this topic only, and whether it is wanted.
fn judged(entry: &Subscriber, catalog: &Catalog, search: &ClientSearch) -> (HoldState, bool) {
    let mut worst = None;
    let mut is_there = search.namespace.is_none();
    each_release(entry, catalog, |subject, version, is_current| {
        let (_, state) = held(entry, subject, version, is_current);
        worst = worst.into_iter().chain([state]).min();
        is_there = is_there || subject.namespace(catalog) == search.namespace.as_deref();
    });
    let state = worst.unwrap_or(HoldState::Held);
    let is_wanted = is_there
        && search.protocol.is_none_or(|wanted| wanted == protocol(entry))
        && search.state.is_none_or(|wanted| wanted == state)
        && search.finds([&*entry.address, &*entry.agent], &entry.labels);
    (state, is_wanted)
}

/// Returns a client as far as one of its topics says.
fn present(entry: &Subscriber, catalog: &Catalog, now: Instant) -> PresentClient {
    let heard_ms_ago = u64::try_from((now - entry.heard).as_millis()).unwrap_or(u64::MAX);
    let mut releases = Vec::new();
    each_release(entry, catalog, |subject, version, is_current| {
        let (report, state) = held(entry, subject, version, is_current);
        let reason = report.filter(|report| report.applied == Applied::Refused);
        let message = reason.map(|report| report.message.to_string()).unwrap_or_default();
        let confirmed_ms_ago = entry.confirmed_ms_ago(now);
        releases.push(HeldRelease { thing: subject.to_thing(), version, state, message, confirmed_ms_ago });
    });
    releases.sort_by(|one, other| one.thing.cmp(&other.thing));
    PresentClient {
        address: entry.address.to_string(),
        agent: entry.agent.to_string(),
        node_id: String::new(),
        labels: entry.labels.to_vec(),
        protocols: vec![protocol(entry)],
        heard_ms_ago,
        releases,
        lists: u64::from(matches!(entry.wants, Topic::Instances { .. })),
        unsettled: None,
        message: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::catalog::testing::Bench;
    use crate::model::rule::Family;
    use crate::model::time::Timestamp;
    use crate::origin::Origin;
    use crate::subscribers::client_list::merged;
    use crate::subscribers::{Client, FileReport, Word};

    const HOLD: Duration = Duration::from_secs(55);

    fn client(address: &str) -> Client<'_> {
        let origin = Origin::of([192, 0, 2, 1].into());
        Client { address, agent: "a client", origin, hold: HOLD, connection: None, is_named: true, is_polaris: false }
    }

    fn rows(found: &PresentClients) -> Vec<(&str, HoldState, Vec<u64>)> {
        let row = |client: &PresentClient| client.releases.iter().map(|held| held.version).collect();
        found.clients.iter().map(|client| (client.address.as_str(), client.state(), row(client))).collect()
    }

    fn searched(text: &str) -> ClientSearch {
        ClientSearch { text: text.to_owned(), ..ClientSearch::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_the_labels_of_its_last_request() {
        let (subscribers, bench) = (Subscribers::default(), Bench::founded());
        for zone in ["a", "b"] {
            let (who, labels) = (client("10.0.0.1"), BTreeMap::from([("zone".to_owned(), zone.to_owned())]));
            subscribers.discovered(who, &labels, Family::RateLimit, ("a", "s"), &[], || Timestamp(1));
            subscribers.listed(who, &labels, ("a", "s"), ("r", 1), || Timestamp(1));
            let present = subscribers.present(&bench.catalog, &searched(""));
            let of_clients: Vec<_> = present.clients.iter().map(|client| client.labels.clone()).collect();
            assert_eq!(of_clients, [labels.into_iter().collect::<Vec<_>>()], "it is served what it had");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_client_comes_once_with_all_its_releases_and_the_worst_first() {
        let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
        let namespaces = ["default".to_owned()];
        let labels = [("zone".to_owned(), "Berlin".to_owned())];
        let pull = |address: &str, file: &str, labels: &[(String, String)], released: &_| {
            subscribers.pulled(client(address), labels, &namespaces, file, released, || Timestamp(1));
        };
        let old = bench.publish_content("one", "a=1");
        pull("10.0.0.3", "one", &[], &old);
        let one = bench.publish_content("one", "a=2");
        let two = bench.publish_content("two", "b=1");
        for address in ["10.0.0.1", "10.0.0.2"] {
            pull(address, "one", &labels, &one);
            pull(address, "two", &labels, &two);
        }
        let word = Word { applied: Applied::Refused, message: "no such key", at: Timestamp(2) };
        let report = FileReport {
            group: "app",
            file: "two",
            namespaces: &namespaces,
            labels: &[],
            release_key: &two.release_key,
            in_force: Some(&two),
            word,
        };
        subscribers.applied_file(client("10.0.0.2"), report);
        let all = subscribers.present(&bench.catalog, &ClientSearch::default());
        let expected = [
            ("10.0.0.2", HoldState::Refused, vec![1, 2]),
            ("10.0.0.3", HoldState::Behind, vec![1]),
            ("10.0.0.1", HoldState::Held, vec![1, 2]),
        ];
        let sorted = |mut rows: Vec<(_, _, Vec<u64>)>| {
            rows.iter_mut().for_each(|row: &mut (&str, HoldState, Vec<u64>)| row.2.sort_unstable());
            rows
        };
        assert_eq!((all.amount, sorted(rows(&all))), (3, expected.to_vec()));
        let refused = all.clients[0].releases.iter().find(|held| held.state == HoldState::Refused);
        assert_eq!(refused.map(|held| held.message.as_str()), Some("no such key"));
        // Any part of an address or label is enough, in any case.
        for (text, amount) in [("zone=berlin", 2), ("BERLIN", 2), (".0.3", 1), ("a client", 3), ("nowhere", 0)] {
            assert_eq!(subscribers.present(&bench.catalog, &searched(text)).amount, amount, "{text}");
        }
        let of = |search: ClientSearch| subscribers.present(&bench.catalog, &search).amount;
        assert_eq!(of(ClientSearch { state: Some(HoldState::Behind), ..ClientSearch::default() }), 1);
        assert_eq!(of(ClientSearch { namespace: Some("default".to_owned()), ..ClientSearch::default() }), 3);
        assert_eq!(of(ClientSearch { namespace: Some("other".to_owned()), ..ClientSearch::default() }), 0);
        assert_eq!(of(ClientSearch { protocol: Some(Protocol::Xds), ..ClientSearch::default() }), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_two_nodes_know_counts_where_it_pulled_last() {
        let mut bench = Bench::founded();
        let (before, after) = (Subscribers::default(), Subscribers::default());
        let namespaces = ["default".to_owned()];
        let old = bench.publish_content("one", "a=1");
        before.pulled(client("10.0.0.1"), &[], &namespaces, "one", &old, || Timestamp(1));
        let new = bench.publish_content("one", "a=2");
        tokio::time::advance(Duration::from_secs(1)).await;
        after.pulled(client("10.0.0.1"), &[], &namespaces, "one", &new, || Timestamp(2));
        // Its polls go on at the first node.
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(before.polled(client("10.0.0.1"), "app", "one"));
        let answers = [&before, &after].map(|node| node.present(&bench.catalog, &ClientSearch::default()));
        for answers in [answers.clone(), [answers[1].clone(), answers[0].clone()]] {
            let all = merged(answers);
            assert_eq!((all.amount, rows(&all)), (1, vec![("10.0.0.1", HoldState::Held, vec![2])]));
            assert_eq!(all.tally, [0, 0, 1, 0]);
        }
    }
}
