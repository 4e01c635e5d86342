//! Reports of clients on what they were sent: the release was applied, or could not be applied for a reason.
//!
//! A report is stored with the client's entry and removed with it. A client may report a release in force that this
//! node did not send, because another node did or because this one restarted. Such a report creates an entry as if the
//! release had been sent here, at the expense of the client's origin. The reasons stored for one entry have at most
//! [`limits::APPLIED_MESSAGE_BYTES_MAX`] bytes; the newest are retained. They count towards the bytes of the origin.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::entry::{DeliveredVersion, Subscriber, Topic};
use super::kept::{kept, pairs};
use super::{Applied, Client, Shard, Source, Subscribers};
use crate::catalog::client_refusals::ClientRefusal;
use crate::catalog::history::Thing;
use crate::model::config_file::ConfigKey;
use crate::model::config_lookup::Released;
use crate::model::limits;
use crate::model::rule::Family;
use crate::model::rule::release::RuleRelease;
use crate::model::text::first_bytes;
use crate::model::time::Timestamp;
use crate::origin::Origin;

/// Returns the entry of a present client.
fn there(shard: &mut Shard, topic: u64, who: u64) -> Option<&mut Subscriber> {
    let known = shard.topics.get_mut(&topic)?.get_mut(&who)?;
    known.is_there(Instant::now()).then_some(known)
}

/// Report of a client; its reason is truncated when it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    pub applied: Applied,
    pub message: &'a str,
    pub at: Timestamp,
}

/// Stored report.
pub(super) struct Report {
    /// Namespace of a file's release, or id of a rule.
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
    /// Removes reports on versions that the client no longer has.
    pub(super) fn forget_reports(&mut self) {
        let given = &self.given;
        self.reports.retain(|report| given.is_of(&report.thing, report.version));
        self.reports.shrink_to_fit();
    }

    /// Stores a report, in place of an earlier one on the same thing.
    fn take(&mut self, report: Report) {
        self.reports.retain(|known| known.thing != report.thing);
        self.reports.reserve_exact(1);
        self.reports.push(report);
        let mut room = limits::APPLIED_MESSAGE_BYTES_MAX;
        for report in self.reports.iter_mut().rev() {
            if report.message.len() > room {
                report.message = first_bytes(&report.message, room).into();
            }
            room -= report.message.len();
        }
    }
}

/// Report on the release of a file.
#[derive(Clone, Copy)]
pub struct FileReport<'a> {
    pub group: &'a str,
    /// Name as the client spells it.
    pub file: &'a str,
    /// Namespaces visible to the client, in the order of its lookup.
    pub namespaces: &'a [String],
    pub labels: &'a [(String, String)],
    pub release_key: &'a str,
    /// The release with this key, if it is in force.
    pub in_force: Option<&'a Released>,
    pub word: Word<'a>,
}

/// Report on the release of a rule.
#[derive(Clone, Copy)]
pub struct RuleWord<'a> {
    pub family: Family,
    /// Ids of the rules that may be meant, with the version if the report names one.
    pub named: &'a [(String, Option<u64>)],
    pub labels: &'a [(String, String)],
    /// Release to record if this node sent the client none of these; only set if it is in force.
    pub in_force: Option<&'a Arc<RuleRelease>>,
    pub word: Word<'a>,
}

impl Subscribers {
    /// Records a client's report on the release of a file with this key. The report counts if this node sent the client
    /// that release in a visible namespace, or if the release is in force.
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
            // Reports usually name no labels. The labels of the client's last pull still apply.
            let labels = labels.as_deref().filter(|_| report.labels.is_empty()).unwrap_or(report.labels);
            self.note_file(Source::Reported, client, labels, namespaces, (file, released), || word.at);
            keep(&mut self.shard(who).lock());
        }
    }

    /// Records a client's report on a release of a rule, or on whichever release the client was sent. It counts for
    /// every visible service for which this node sent the client that release. If there is none and the release is in
    /// force, it counts for the rule alone.
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
                    (Topic::ReportedRule { family }, kept(pairs(report.labels)), given)
                },
            );
            keep(&mut self.shard(who).lock());
        }
    }

    /// Stores a report on a version of a thing, at the expense of `origin`.
    fn keep(&self, entry: &mut Subscriber, origin: Origin, (thing, version): (Box<str>, u64), word: Word<'_>) {
        let message = match word.applied {
            Applied::Refused => first_bytes(word.message, limits::APPLIED_MESSAGE_BYTES_MAX).into(),
            Applied::Yes => Box::default(),
        };
        self.queue_refusal(entry, &thing, version, word);
        let may_grow = self.pass(entry, origin);
        let before = entry.bytes;
        entry.take(Report { thing, version, applied: word.applied, message, at: word.at });
        let grown = entry.size().saturating_sub(before);
        if grown > 0 && may_grow && self.bytes.take(entry.origin, grown).is_ok() {
            entry.bytes = before + grown;
            return;
        }
        if grown > 0 {
            // The origin's share is used up: the report is dropped, the version that was sent remains.
            entry.reports.pop();
        }
        entry.bytes = entry.size().min(before);
        self.bytes.give_back(entry.origin, before - entry.bytes);
    }

    fn queue_refusal(&self, entry: &Subscriber, thing: &str, version: u64, word: Word<'_>) {
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
        let message = first_bytes(word.message, limits::APPLIED_MESSAGE_BYTES_MAX).to_owned();
        let client = [&*entry.address, &*entry.agent, ""];
        self.refusals.note(client, ClientRefusal { thing, version, address, agent, message, others: 0 });
    }

    /// Returns the number of present clients that reported that they could not apply a release which they still have.
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

    /// Returns the number of clients that refuse a release, by a report or on a stream.
    pub fn refusing(&self) -> usize {
        self.refusers() + self.streams.refusing()
    }
}
