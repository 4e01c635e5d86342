//! Polls for changes of config files.
//!
//! A client that names an id of another cluster is sent all of its files. An answer that needed no wait and repeats the
//! previous one is delayed ([`super::repeat_limiter`]).

use std::hash::Hash;

use tokio::time::Instant;

use super::admission::Admitted;
use super::catch_up::{Newest, Reached};
use super::config::{ConfigReads, ReadRefusal};
use super::config_source::{ConfigSource, Reader};
use super::hold::{HeldQuery, Hold, ReadResult, jittered};
use super::repeat_limiter::RequestMark;
use crate::model::config_lookup::{ClientLabels, Lookup};
use crate::origin::Origin;
use crate::watch::{Watch, WatchKey};

/// Id of a client that knows no change.
const NOTHING_KNOWN: i64 = -1;

/// A file, and the newest change of it that the client knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedFile {
    /// Name as the client wrote it: several clients recognize an answer only under that name.
    pub name: String,
    pub known_id: i64,
}

/// Files of a group whose changes a client waits for.
pub struct PollRequest {
    pub group: String,
    /// Namespaces in the order of the lookup, the same for every file.
    pub namespaces: Vec<String>,
    pub files: Vec<WatchedFile>,
}

/// A client as its pulls identify it.
pub struct PollingClient<'a> {
    pub reader: Reader<'a>,
    pub address: String,
}

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConfigNews {
    /// Name as the client wrote it.
    pub name: String,
    pub id: u32,
}

/// A held poll.
pub struct ConfigPoll<S: ConfigSource> {
    pub request: PollRequest,
    reads: ConfigReads<S>,
    admitted: Admitted,
    origin: Origin,
    /// Guard of a poll that a token admitted.
    guard: Option<S::Guard>,
    mark: RequestMark,
}

impl<S: ConfigSource> ConfigReads<S> {
    /// Begins a poll of an admitted reader. It is held for up to 5 % less than requested. Polls with equal `identity`
    /// are the same request.
    pub fn poll(
        &self,
        admitted: Admitted,
        mut request: PollRequest,
        mut client: PollingClient<'_>,
        identity: &impl Hash,
    ) -> Result<Hold<ConfigPoll<S>>, ReadRefusal> {
        self.keep_seen(&admitted, &mut request.namespaces, &request.group);
        client.reader = admitted.counted(client.reader);
        let (origin, mark) = (client.reader.origin, self.0.repeats.mark(identity));
        let poll = ConfigPoll { request, reads: self.clone(), admitted, origin, guard: None, mark };
        let hold = Hold::begin(poll, self.metrics(), jittered(client.reader.hold))?;
        hold.query.note(client);
        Ok(hold)
    }
}

impl<S: ConfigSource> ConfigPoll<S> {
    /// Records that the client is connected. A client that learned the newest change from another node, or before this
    /// one started, and polls here now, is taken to have that release, as clients pull at once after a change. A client
    /// whose poll names no address is known by that of its connection until it names another one in a pull.
    fn note(&self, PollingClient { reader, address }: PollingClient<'_>) {
        let source = self.reads.source();
        let mut lookup = self.lookup();
        lookup.client.address = address;
        for file in &self.request.files {
            lookup.file.clone_from(&file.name);
            if source.note_polled(reader, &lookup) {
                continue;
            }
            if source.notification_id(&lookup).map(i64::from) == Some(file.known_id)
                && let Some(released) = source.resolve_by_address(&lookup)
                && (!released.encrypted || self.reads.admit_to_sealed(&self.admitted, &released).is_ok())
            {
                source.note_pulled(reader, &lookup, &released);
            }
        }
    }

    /// Resets ids that no node of this cluster has issued. A client that names one has it from another cluster, and
    /// would wait for years until ours is as high. The ids are left unchanged if no node can decide this.
    pub async fn forget_foreign_ids(&mut self) {
        let source = self.reads.source();
        let newest_known = self.request.files.iter().map(|file| file.known_id).max().unwrap_or(NOTHING_KNOWN);
        let id = u32::try_from(newest_known.max(0)).unwrap_or(u32::MAX);
        let newest = Newest { source, id, release: None };
        let reached = match newest.place() {
            Some(reached) => reached,
            // Boxed to keep the future of ordinary polls small.
            None => Box::pin(newest.reach()).await,
        };
        if reached == Reached::Elsewhere {
            let newest_id = i64::from(source.newest_id());
            let foreign = self.request.files.iter_mut().filter(|file| file.known_id > newest_id);
            let foreign = foreign.map(|file| file.known_id = NOTHING_KNOWN).count();
            self.reads.metrics().foreign_ids.inc_by(foreign as u64);
        }
    }

    /// Refuses a reader that was admitted earlier and would not be admitted now.
    fn check_reader(&self) -> Result<(), ReadRefusal> {
        self.reads.admits_still(&self.admitted, (&self.request.group, &self.request.namespaces))
    }

    /// Returns the bytes of memory that the poll holds while it waits, without its keys.
    fn bytes(&self) -> usize {
        let PollRequest { group, namespaces, files } = &self.request;
        let names = files.iter().map(|file| size_of::<WatchedFile>() + file.name.len());
        let namespaces = namespaces.iter().map(String::len);
        size_of::<Self>() + group.len() + namespaces.sum::<usize>() + names.sum::<usize>()
    }

    /// Returns a lookup to be filled in with one file after the other.
    fn lookup(&self) -> Lookup {
        let (group, namespaces) = (self.request.group.clone(), self.request.namespaces.clone());
        // Gray releases are decided by the pull: a poll has no labels.
        Lookup { group, namespaces, file: String::new(), client: ClientLabels::default() }
    }

    /// Returns the keys of every file in all namespaces, whether or not they exist.
    fn keys(&self) -> Vec<WatchKey> {
        let PollRequest { group, namespaces, files } = &self.request;
        let of_file = |file: &WatchedFile| {
            let key = |namespace: &String| WatchKey::config(namespace, group, &file.name);
            namespaces.iter().map(key).collect::<Vec<_>>()
        };
        files.iter().flat_map(of_file).collect()
    }

    /// Returns the files that have a newer change than the client knows, and those for which it names an id that this
    /// cluster issued for another file: such an id is from another cluster.
    fn news(&self) -> Vec<ConfigNews> {
        let source = self.reads.source();
        // Read before the ids of the files, which then include every id issued so far.
        let newest_id = i64::from(source.newest_id());
        let mut lookup = self.lookup();
        let mut news = Vec::new();
        for file in &self.request.files {
            lookup.file.clone_from(&file.name);
            let Some(id) = source.notification_id(&lookup) else { continue };
            let is_foreign = i64::from(id) < file.known_id && file.known_id <= newest_id;
            if i64::from(id) > file.known_id || is_foreign {
                news.push(ConfigNews { name: file.name.clone(), id });
            }
            self.reads.metrics().foreign_ids.inc_by(is_foreign.into());
        }
        news
    }
}

impl<S: ConfigSource> HeldQuery for ConfigPoll<S> {
    type Answer = Vec<ConfigNews>;
    type Refusal = ReadRefusal;

    fn watch(&mut self) -> Result<Watch, ReadRefusal> {
        let mut keys = self.keys();
        if let Admitted::Named { credential, .. } = &self.admitted {
            let (key, guard) = self.reads.source().guard(credential);
            keys.push(key);
            self.guard = Some(guard);
        }
        Ok(self.reads.source().hub().watch(self.origin, keys, self.bytes())?)
    }

    async fn read(&mut self, _: &mut Watch, is_woken: bool) -> Result<ReadResult<Vec<ConfigNews>>, ReadRefusal> {
        let news = self.news();
        if news.is_empty() {
            // The wake-up may be the end of its token.
            if self.guard.is_some() {
                self.check_reader()?;
            }
            return Ok(ReadResult::Unchanged);
        }
        let repeats = &self.reads.0.repeats;
        // A change during the delay makes another answer, which is sent at once.
        if let Some(delay) = repeats.delay(self.mark, &news).filter(|_| !is_woken) {
            return Ok(ReadResult::NotBefore(Instant::now() + delay));
        }
        self.check_reader()?;
        repeats.given(self.mark, &news);
        Ok(ReadResult::News(news))
    }
}
