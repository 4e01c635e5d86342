//! Clients' own words on what they were given: that they have applied a release, or why they could not.
//!
//! A word is kept with what the client was given, and goes with it. A word on a release in force that this node did not
//! give the client, as another one did or this one before it began, is kept as if it had been given here: it takes a
//! place and bytes of the share of its origin like a pull, for as long. What one client has said takes
//! [`limits::APPLIED_MESSAGE_BYTES_MAX`] of texts at most, of which the newest stay, and counts towards the share of
//! its origin.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::entry::{DeliveredVersion, Subscriber, Topic};
use super::kept::{cut, kept};
use super::{Applied, Client, Shard, Source, Subscribers};
use crate::catalog::client_refusals::ClientRefusal;
use crate::catalog::history::Thing;
use crate::model::config_file::ConfigKey;
use crate::model::config_lookup::Released;
use crate::model::limits;
use crate::model::rule::Family;
use crate::model::rule::release::RuleRelease;
use crate::model::time::Timestamp;
use crate::origin::Origin;

/// Entry of a client that is there.
fn there(shard: &mut Shard, topic: u64, who: u64) -> Option<&mut Subscriber> {
    let known = shard.topics.get_mut(&topic)?.get_mut(&who)?;
    known.is_there(Instant::now()).then_some(known)
}

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

/// Word on the release of a file.
#[derive(Clone, Copy)]
pub struct FileReport<'a> {
    pub group: &'a str,
    /// As the client asks for it.
    pub file: &'a str,
    /// Those that the client sees, in the order of its lookup.
    pub namespaces: &'a [String],
    pub labels: &'a [(String, String)],
    pub release_key: &'a str,
    /// The release of that key, if it is in force.
    pub in_force: Option<&'a Released>,
    pub word: Word<'a>,
}

/// Word on the release of a rule.
#[derive(Clone, Copy)]
pub struct RuleWord<'a> {
    pub family: Family,
    /// Ids of the rules that may be meant, and the version where one is named.
    pub named: &'a [(String, Option<u64>)],
    pub labels: &'a [(String, String)],
    /// The release that is meant where this node gave the client none of these, if it is in force.
    pub in_force: Option<&'a Arc<RuleRelease>>,
    pub word: Word<'a>,
}

impl Subscribers {
    /// A client says what came of the release of a file that has this key. It counts if it was given that one here, in
    /// a namespace that it sees, or if that one is in force.
    pub fn applied_file(&self, client: Client<'_>, report: FileReport<'_>) {
        let FileReport { group, file, namespaces, release_key, word, .. } = report;
        let (topic, key, who) = (self.topic_of_file(group, file), self.mark_of_key(release_key), self.who(client));
        let keep = |shard: &mut Shard| {
            let entry = there(shard, topic, who)?;
            let DeliveredVersion::File { namespace, version, key: given, .. } = &entry.given else { return None };
            let is_meant = *given == key && namespaces.iter().any(|seen| **seen == **namespace);
            let (thing, version) = is_meant.then(|| (namespace.clone(), *version))?;
            self.keep(entry, client.origin, (thing, version), word);
            Some(())
        };
        let labels = {
            let mut shard = self.shard(who).lock();
            if keep(&mut shard).is_some() {
                return;
            }
            there(&mut shard, topic, who).map(|entry| entry.labels.clone())
        };
        if let Some(released) = report.in_force {
            // A report names no labels, as a rule: those that the client pulled with are still its own.
            let labels = labels.as_deref().filter(|_| report.labels.is_empty()).unwrap_or(report.labels);
            self.note_file(Source::Reported, client, labels, namespaces, (file, released), || word.at);
            keep(&mut self.shard(who).lock());
        }
    }

    /// A client says what came of a release of a rule, or of the one that it was given. It counts for each service of
    /// which it was given that one here, as far as it sees the service; if there is none, and the release is in force,
    /// for the rule.
    pub fn applied_rule(&self, client: Client<'_>, report: RuleWord<'_>, sees: impl Fn(&str, &str) -> bool) {
        let RuleWord { family, named, word, .. } = report;
        let who = self.who(client);
        let meant = |given: &[(Box<str>, u64)]| -> Vec<(Box<str>, u64)> {
            let is_named = |id: &str, version| {
                named.iter().any(|(known, wanted)| *known == *id && wanted.is_none_or(|wanted| wanted == version))
            };
            given.iter().filter(|(id, version)| is_named(id, *version)).cloned().collect()
        };
        let keep = |shard: &mut Shard| {
            let (now, mut is_kept) = (Instant::now(), false);
            for entry in shard.topics.values_mut().filter_map(|clients| clients.get_mut(&who)) {
                let is_meant = match &entry.wants {
                    Topic::Rules { family: wanted, namespace, service } => {
                        *wanted == family && sees(namespace, service)
                    }
                    Topic::ReportedRule { family: wanted } => *wanted == family,
                    Topic::File { .. } | Topic::Instances { .. } => false,
                };
                let DeliveredVersion::Rules(given) = &entry.given else { continue };
                if is_meant && entry.is_there(now) {
                    for (id, version) in meant(given) {
                        is_kept = true;
                        self.keep(entry, client.origin, (id, version), word);
                    }
                }
            }
            is_kept
        };
        if keep(&mut self.shard(who).lock()) {
            return;
        }
        if let Some(release) = report.in_force {
            let releases = [release.clone()];
            let topic = self.topic_of_reported(family, &release.rule.id);
            let has_them =
                |given: &DeliveredVersion| matches!(given, DeliveredVersion::Rules(it) if it.is_of(&releases));
            let is_known = |entry: &mut Subscriber| has_them(&entry.given);
            self.note(
                Source::Reported,
                topic,
                client,
                is_known,
                || word.at,
                || {
                    let given = DeliveredVersion::Rules(self.rule_sets.of(&releases));
                    (Topic::ReportedRule { family }, kept(report.labels), given)
                },
            );
            keep(&mut self.shard(who).lock());
        }
    }

    /// Keeps a word on a thing and its version, for which the origin of who says it pays.
    fn keep(&self, entry: &mut Subscriber, origin: Origin, (thing, version): (Box<str>, u64), word: Word<'_>) {
        let message = match word.applied {
            Applied::Refused => cut(word.message, limits::APPLIED_MESSAGE_BYTES_MAX).into(),
            Applied::Yes => Box::default(),
        };
        self.tell_refusal(entry, &thing, version, word);
        let may_grow = self.pass(entry, origin);
        let before = entry.bytes;
        entry.take(Report { thing, version, applied: word.applied, message, at: word.at });
        let grown = entry.size().saturating_sub(before);
        if grown > 0 && may_grow && self.bytes.take(entry.origin, grown).is_ok() {
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
        let thing = match (&entry.wants, &entry.given) {
            (Topic::File { group, .. }, DeliveredVersion::File { file, .. }) => {
                Thing::File(ConfigKey::new(thing, &**group, &**file))
            }
            (Topic::Rules { family, .. } | Topic::ReportedRule { family }, _) => Thing::Rule(*family, thing.to_owned()),
            _ => return,
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
