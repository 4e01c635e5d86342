//! Clients' own words on what they were given: that they have applied a release, or why they could not.
//!
//! A word is kept with what the client was given, and goes with it. What one client has said takes
//! [`limits::APPLIED_MESSAGE_BYTES_MAX`] of texts at most, of which the newest stay, and counts towards the share of
//! its origin.

use std::collections::HashSet;

use tokio::time::Instant;

use super::entry::{GivenRelease, Subscriber, Wants};
use super::kept::cut;
use super::{Applied, Client, Subscribers};
use crate::catalog::client_refusals::ClientRefusal;
use crate::catalog::history::Thing;
use crate::model::config_file::ConfigKey;
use crate::model::limits;
use crate::model::rule::Family;
use crate::model::time::Timestamp;

/// Word of a client at a time, its reason cut where it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    pub applied: Applied,
    pub message: &'a str,
    pub at: Timestamp,
}

/// Word that is kept.
pub(super) struct Report {
    /// Namespace of a file's release, id of a rule.
    thing: Box<str>,
    version: u64,
    pub(super) applied: Applied,
    pub(super) message: Box<str>,
    pub(super) at: Timestamp,
}

impl Report {
    pub(super) fn is_of(&self, thing: &str, version: u64) -> bool {
        *self.thing == *thing && self.version == version
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Report>() + self.thing.len() + self.message.len()
    }
}

impl Subscriber {
    /// Forgets words on what it does not have any more.
    pub(super) fn forget_reports(&mut self) {
        let given = &self.given;
        self.reports.retain(|report| given.is_of(&report.thing, report.version));
        self.reports.shrink_to_fit();
    }

    /// Takes a word in the place of an earlier one on the same.
    fn take(&mut self, report: Report) {
        self.reports.retain(|known| known.thing != report.thing);
        self.reports.reserve_exact(1);
        self.reports.push(report);
        let mut room = limits::APPLIED_MESSAGE_BYTES_MAX;
        for report in self.reports.iter_mut().rev() {
            if report.message.len() > room {
                report.message = cut(&report.message, room).into();
            }
            room -= report.message.len();
        }
    }
}

impl Subscribers {
    /// A client says what came of the release of a file that has this key. It counts only if it was given that one
    /// here,
    /// and in one of these namespaces.
    pub fn applied_file(
        &self,
        client: Client<'_>,
        (group, file): (&str, &str),
        namespaces: &[String],
        release_key: &str,
        word: Word<'_>,
    ) {
        let (topic, key, who) = (self.topic_of_file(group, file), self.mark_of_key(release_key), self.who(client));
        let mut shard = self.shard(who).lock();
        let known = shard.topics.get_mut(&topic).and_then(|clients| clients.get_mut(&who));
        let Some(entry) = known.filter(|entry| entry.is_there(Instant::now())) else { return };
        if let GivenRelease::File { namespace, version, key: given } = &entry.given
            && *given == key
            && namespaces.iter().any(|seen| **seen == **namespace)
        {
            let (thing, version) = (namespace.clone(), *version);
            self.keep(entry, thing, version, word);
        }
    }

    /// A client says what came of a release of a rule, or of the one that it was given. It counts for each service of
    /// which it was given that one here, as far as it sees the service.
    pub fn applied_rule(
        &self,
        client: Client<'_>,
        (family, id, version): (Family, &str, Option<u64>),
        sees: impl Fn(&str, &str) -> bool,
        word: Word<'_>,
    ) {
        let (who, now) = (self.who(client), Instant::now());
        let mut shard = self.shard(who).lock();
        for entry in shard.topics.values_mut().filter_map(|clients| clients.get_mut(&who)) {
            let Wants::Rules { family: wanted, namespace, service } = &entry.wants else { continue };
            let GivenRelease::Rules(given) = &entry.given else { continue };
            let found = given.iter().find(|(known, _)| **known == *id).map(|(_, version)| *version);
            if *wanted == family
                && entry.is_there(now)
                && sees(namespace, service)
                && let Some(given) = found.filter(|given| version.is_none_or(|version| version == *given))
            {
                self.keep(entry, id.into(), given, word);
            }
        }
    }

    fn keep(&self, entry: &mut Subscriber, thing: Box<str>, version: u64, word: Word<'_>) {
        let message = match word.applied {
            Applied::Refused => cut(word.message, limits::APPLIED_MESSAGE_BYTES_MAX).into(),
            Applied::Yes => Box::default(),
        };
        self.tell_refusal(entry, &thing, version, word);
        let before = entry.bytes;
        entry.take(Report { thing, version, applied: word.applied, message, at: word.at });
        let grown = entry.size().saturating_sub(before);
        if grown > 0 && self.bytes.take(entry.origin, grown).is_ok() {
            entry.bytes = before + grown;
            return;
        }
        if grown > 0 {
            // Its share is used up: the word is lost, and what it was given is kept.
            entry.reports.pop();
        }
        entry.bytes = entry.size().min(before);
        self.bytes.give_back(entry.origin, before - entry.bytes);
    }

    fn tell_refusal(&self, entry: &Subscriber, thing: &str, version: u64, word: Word<'_>) {
        if word.applied != Applied::Refused {
            return;
        }
        let thing = match &entry.wants {
            Wants::File { group, file, .. } => Thing::File(ConfigKey::new(thing, &**group, &**file)),
            Wants::Rules { family, .. } => Thing::Rule(*family, thing.to_owned()),
            Wants::Instances { .. } => return,
        };
        let (address, agent) = (entry.address.to_string(), entry.agent.to_string());
        let message = cut(word.message, limits::APPLIED_MESSAGE_BYTES_MAX).to_owned();
        let client = [&*entry.address, &*entry.agent, ""];
        self.refusals.note(client, ClientRefusal { thing, version, address, agent, message, others: 0 });
    }

    /// Number of clients that are there and said of something that they have that they could not apply it.
    pub(super) fn refusers(&self) -> usize {
        let now = Instant::now();
        let mut all = 0;
        for shard in &self.shards {
            let shard = shard.lock();
            let clients = shard.topics.values().flatten();
            let refuses = |entry: &Subscriber| entry.reports.iter().any(|report| report.applied == Applied::Refused);
            let refusing = clients.filter(|(_, entry)| refuses(entry) && entry.is_there(now));
            all += refusing.map(|(who, _)| *who).collect::<HashSet<_>>().len();
        }
        all
    }

    /// Number of clients that refuse something, whichever way they came by it.
    pub fn refusing(&self) -> usize {
        self.refusers() + self.streams.refusing()
    }
}
